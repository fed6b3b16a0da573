"""What connections to other systems over HTTP share: the address, who one is, whom to trust."""

import base64
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from newnormal.errors import ParameterError, extra
from newnormal.io.options import Options

if TYPE_CHECKING:
    import ssl

    import httpx

LOOPBACK = ("127.0.0.1", "::1", "localhost")  # which a proxy does not reach
HTTPS_WANTED = "HTTP request to an HTTPS server"  # part of what servers written in Go answer
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")


def address_of(where: str, url: str, *, secrets: str, example: str | None = None) -> SplitResult:
    """Return the parts of an address that can be used.

    `where`: what errors begin with, such as ``"sink chat"``. `url`: the address. `secrets`: what to
    set instead of a password in it. `example`: such an address, as a hint.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise ParameterError(
            f"{where}: url: expected an address that begins with http:// or https://, "
            "found another",
            hint=example,
        )
    if parts.username is not None or parts.password is not None:
        raise ParameterError(
            f"{where}: url: expected an address without a password, found one", hint=secrets
        )
    return parts


def authorization(options: Options) -> str | None:
    """Take the options `user`, `password` and `token`; return the header Authorization, if any.

    >>> authorization(Options("sink a", {"token": "swordfish"}))
    'Bearer swordfish'
    >>> authorization(Options("sink a", {"user": "kim"}))
    Traceback (most recent call last):
    ...
    newnormal.errors.ParameterError: sink a: expected user and password, found a user alone
    hint: set password_file or password_env, too
    """
    user: str | None = options.text("user", None)
    password = options.secret("password")
    token = options.secret("token")
    if (user is None) != (password is None):
        found, other = ("a user", "password_file or password_env"), ("a password", "user")
        what, missing = found if password is None else other
        raise ParameterError(
            f"{options.where}: expected user and password, found {what} alone",
            hint=f"set {missing}, too",
        )
    if user is not None and token is not None:
        raise ParameterError(
            f"{options.where}: expected user and password, or a token, found both",
            hint="leave one out",
        )
    if token is not None:
        if not _is_plain(token):
            raise ParameterError(
                f"{options.where}: token: expected plain text, found other characters"
            )
        return f"Bearer {token}"
    if user is None:
        return None
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def checked_headers(where: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers of the configuration, which must not hold a secret."""
    for name, value in headers.items():
        if name.lower() == "authorization":
            raise ParameterError(
                f"{where}: headers: expected no secret, found Authorization",
                hint="set token_file, or user and password_file",
            )
        if not _HEADER.match(name) or not _is_plain(value):
            raise ParameterError(
                f"{where}: headers: expected names and texts of HTTP headers, found {name!r}",
                hint='such as headers = {X-Scope-OrgID = "plant"}',
            )
    return dict(headers)


def trusted(where: str, ca_file: str | None) -> "ssl.SSLContext":
    """Return what checks certificates: by a file, or by those of the system.

    Raise a ParameterError if there are none in the file.
    """
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ParameterError(
            f"{where}: ca_file: expected a file of certificates at {ca_file}, found {error}"
        ) from error


def http_client(
    where: str,
    host: str | None,
    *,
    timeout: float,
    ca_file: str | None,
    headers: Mapping[str, str],
    authorization: str | None,
) -> "httpx.Client":
    """Return a client for one host; `authorization` is a header, or None."""
    with extra("serve", "httpx"):
        import httpx
    secret = {} if authorization is None else {"Authorization": authorization}
    return httpx.Client(
        timeout=timeout,
        verify=trusted(where, ca_file),
        headers={"User-Agent": "newnormal", **headers, **secret},
        trust_env=host not in LOOPBACK,  # a proxy does not reach this machine
    )


def connection_hint(error: BaseException, who: str) -> str:
    """Return what to do about a connection that was not made."""
    import ssl

    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "set ca_file to the certificate that signed this one, if it is to be trusted"
    if cause is not None:
        return "does it speak HTTPS there? If not, begin the address with http://"
    return f"{who} is down or cannot be reached"


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()
