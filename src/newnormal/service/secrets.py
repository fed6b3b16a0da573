"""Secrets: read from files and the environment alone, and never shown; tokens and their hashes."""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from newnormal.errors import ParameterError

_MOST = 65_536  # bytes of a secret's file
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


class Secret:
    """Text that neither logs nor errors show; `reveal` gives it.

    >>> secret = Secret("swordfish")
    >>> secret, f"{secret}", secret.reveal()
    (Secret(***), '***', 'swordfish')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(
            self._text.encode(), other.reveal().encode()
        )

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> Any:
        raise TypeError("a secret is not saved")


def read_secret(
    options: Mapping[str, Any], name: str, *, where: str, environ: Mapping[str, str] | None = None
) -> Secret | None:
    """Return the secret that options point to, or None where they have none.

    Parameters
    ----------
    options
        Of a sink or a source. ``{name}_file`` is the path of a file with the secret,
        ``{name}_env`` the name of an environment variable.
    name
        Such as ``"secret"`` or ``"password"``.
    where
        What errors begin with, such as ``"[sinks.chat]"``.
    """
    if name in options:
        raise ParameterError(
            f"{where} {name}: expected no secret in the configuration, found one",
            hint=f"put it into a file and set {name}_file, or into a variable and set {name}_env",
        )
    file, variable = options.get(f"{name}_file"), options.get(f"{name}_env")
    if file is not None and variable is not None:
        raise ParameterError(
            f"{where}: expected {name}_file or {name}_env, found both", hint="leave one out"
        )
    if file is not None:
        return read_secret_file(Path(str(file)), f"{where} {name}_file")
    if variable is None:
        return None
    text = (os.environ if environ is None else environ).get(str(variable), "").strip()
    if not text:
        raise ParameterError(
            f"{where} {name}_env: expected a secret in the environment variable {variable}, "
            "found none",
            hint=f"set {variable} for the service, or use {name}_file",
        )
    return Secret(text)


def read_secret_file(path: Path, where: str) -> Secret:
    """Return the first line of a file, without the space around it."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST).decode("utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ParameterError(
            f"{where}: expected a file with a secret at {path}, could not read it: {why}",
            hint="the file must exist and the service's user must be allowed to read it",
        ) from None
    if not text:
        raise ParameterError(
            f"{where}: expected a secret in {path}, found an empty file",
            hint="write the secret into it, on a line of its own",
        )
    return Secret(text.splitlines()[0].strip())


def new_token() -> str:
    """Return a new token: 256 bits that nobody can guess."""
    return f"nn_{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """Return what is stored of a token.

    A token is 256 random bits, so that a plain hash cannot be searched; a password would need a
    slow one.

    >>> hash_token("nn_example")[:20]
    'sha256:7fb845f462872'
    """
    return f"sha256:{hashlib.sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"


def is_token_hash(text: str) -> bool:
    """Whether text is what `hash_token` gives."""
    return _HASH.fullmatch(text) is not None


def token_matches(token: str, hashed: str) -> bool:
    """Whether a hash is that of a token, in a time that does not depend on either.

    >>> token_matches("nn_example", hash_token("nn_example")), token_matches("", hash_token("a"))
    (True, False)
    """
    return hmac.compare_digest(hash_token(token).encode(), hashed.encode())
