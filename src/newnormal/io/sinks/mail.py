"""Alerts by mail, over SMTP."""

import base64
import hashlib
import html
import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Any

from newnormal.errors import ParameterError
from newnormal.io.http import LOOPBACK, trusted
from newnormal.io.sinks.alerts import (
    FIRED,
    RESOLVED,
    Alert,
    AlertRefusedError,
    AlertSink,
    SinkDownError,
)
from newnormal.io.sinks.wording import headline, rows_of, status_word

# How the connection is encrypted, with the port of each.
PORTS = {"starttls": 587, "tls": 465, "none": 25}

_LONGEST_SUBJECT = 200  # characters
_LONGEST_ANSWER = 200  # characters of what a server says
_HIDDEN = "…"
_MOST_PORT = 65_535

# Codes of SMTP.
_DONE = 250
_REFUSED = 500  # and above: the same mail would be refused again
_TOO_LARGE = 552  # the one answer to a sender that is about the mail


class MailSink(AlertSink):
    """Sends each alert as a mail to all recipients.

    Options: `host`; `port`; `from`, an address; `to`, a list of addresses; `security`:
    ``"starttls"``, ``"tls"`` or ``"none"``; `user` and `password`; `timeout` (20s);
    `ca_file`, certificates to trust instead of the system's.

    `clock` returns Unix seconds.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any], *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(name, options)
        where = self.options.where
        self._host: str = self.options.text("host")
        self._security = self.options.choice("security", *PORTS)
        self._port = self.options.integer("port", PORTS[self._security], least=1, most=_MOST_PORT)
        self._from = _address(where, "from", self.options.text("from"))
        self._to = [_address(where, "to", each) for each in self.options.texts("to")]
        self._user: str | None = self.options.text("user", None)
        self._password = self.options.secret("password")
        self._seconds: float = self.options.seconds("timeout", "20s", least="100ms")
        ca_file: str | None = self.options.text("ca_file", None)
        self.options.end()
        self._check_login(where)
        self._trusted = None if self._security == "none" else trusted(where, ca_file)
        self.timeout = 3 * self._seconds
        self._clock = clock
        self._server = f"{self._host}:{self._port}"
        self._refused: dict[str, str] = {}  # what the server said, by recipient
        self._smtp: smtplib.SMTP | None = None

    def _check_login(self, where: str) -> None:
        if (self._user is None) != (self._password is None):
            one = "a user" if self._password is None else "a password"
            raise ParameterError(
                f"{where}: expected user and password, found {one} alone",
                hint="set user, and password_file or password_env",
            )
        for option, text in (("user", self._user), ("password", self._password)):
            if text is not None and not text.isascii():
                raise ParameterError(f"{where}: {option}: expected ASCII, found other characters")
        if self._password and self._security == "none" and self._host not in LOOPBACK:
            raise ParameterError(
                f"{where}: expected an encrypted connection for a password, "
                'found security = "none"',
                hint='set security = "starttls" or "tls"',
            )

    def send(self, alert: Alert) -> None:
        """Send a mail; return once the server has taken it."""
        message = self._message(alert)
        to = [each.addr_spec for each in self._to]
        with self._translated_errors(), self._connected() as smtp:
            refused = smtp.send_message(message, self._from.addr_spec, to)
        self._refused = {each: self._answer_text(*answer) for each, answer in refused.items()}

    def notice(self) -> str:
        """Return which recipients were refused while others got the mail."""
        if not (refused := dict(self._refused)):
            return ""
        reasons = "; ".join(f"{each}: {why}" for each, why in refused.items())
        return f"{self._server}: {len(refused)} of {len(self._to)} recipients refused: {reasons}"

    def check(self) -> str:
        """Connect, encrypt and log in; send nothing."""
        with self._translated_errors(), self._connected() as smtp:
            code, text = smtp.noop()
            if code != _DONE:
                raise smtplib.SMTPResponseException(code, text)
            how = "not encrypted"
            if isinstance(smtp.sock, ssl.SSLSocket):
                how = f"encrypted with {smtp.sock.version()}"
        login = "" if self._user is None else f", logged in as {self._user}"
        return f"{self._server} takes mail, {how}{login}"

    def close(self) -> None:
        """Close the connection."""
        smtp = self._smtp
        connection = None if smtp is None else smtp.sock
        if connection is not None:
            with suppress(OSError):  # it may be closed already
                connection.shutdown(socket.SHUT_RDWR)  # ends what waits for it in another thread

    @contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        """Give a connection that is encrypted and logged in as the options say."""
        name = socket.gethostname()  # without asking a name server
        arguments: dict[str, Any] = {
            "local_hostname": name if "." in name and name.isascii() else "[127.0.0.1]",
            "timeout": self._seconds,
        }
        if self._security == "tls":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                self._host, self._port, context=self._trusted, **arguments
            )
        else:
            smtp = smtplib.SMTP(self._host, self._port, **arguments)
        self._smtp = smtp
        try:
            if self._security == "starttls":
                smtp.starttls(context=self._trusted)
            if self._user is not None and self._password is not None:
                smtp.login(self._user, self._password)
            yield smtp
            with suppress(smtplib.SMTPException, OSError):  # the mail was taken already
                smtp.quit()
        finally:
            self._smtp = None
            smtp.close()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise what went wrong as an error that says what to do."""
        try:
            yield
        except smtplib.SMTPAuthenticationError as error:
            raise SinkDownError(
                self._found("user and password to be taken", error), hint="check user and password"
            ) from None
        except smtplib.SMTPNotSupportedError as error:
            raise self._unsupported(error) from None
        except smtplib.SMTPRecipientsRefused as error:
            raise self._nobody(error) from None
        except smtplib.SMTPSenderRefused as error:
            if error.smtp_code == _TOO_LARGE:
                raise AlertRefusedError(self._found("the mail to be taken", error)) from None
            hint = "check the option from" if error.smtp_code >= _REFUSED else None
            raise SinkDownError(self._found("the sender to be taken", error), hint=hint) from None
        except smtplib.SMTPDataError as error:
            kind = AlertRefusedError if error.smtp_code >= _REFUSED else SinkDownError
            raise kind(self._found("the mail to be taken", error)) from None
        except smtplib.SMTPResponseException as error:
            raise SinkDownError(self._found("a mail server that is ready", error)) from None
        except ssl.SSLCertVerificationError as error:
            raise SinkDownError(
                f"{self._server}: expected a certificate that is trusted, "
                f"found: {error.verify_message}",
                hint="ca_file names certificates to trust instead of the system's",
            ) from None
        except ssl.SSLError as error:
            raise SinkDownError(
                f"{self._server}: expected an encrypted connection, found {error.reason}",
                hint='security = "tls" is for port 465, "starttls" for 587 and 25',
            ) from None
        except (smtplib.SMTPException, OSError) as error:
            raise SinkDownError(
                f"{self._server}: expected a mail server, "
                f"found {type(error).__name__}: {self._safe(str(error))}",
                hint="it is down or cannot be reached; check host, port and security",
            ) from None

    def _unsupported(self, error: smtplib.SMTPNotSupportedError) -> SinkDownError:
        if "STARTTLS" in str(error):
            return SinkDownError(
                f"{self._server}: expected a server with STARTTLS, found one without it",
                hint='security = "tls" encrypts from the beginning; "none" sends mails as they are',
            )
        return SinkDownError(
            f"{self._server}: expected a server that takes a password, found one that takes none",
            hint="leave out user and password, or check port and security",
        )

    def _nobody(self, error: smtplib.SMTPRecipientsRefused) -> SinkDownError | AlertRefusedError:
        """Return the error of a mail whose recipients were all refused."""
        answers = {each: self._answer_text(*answer) for each, answer in error.recipients.items()}
        reasons = "; ".join(f"{each}: {why}" for each, why in answers.items())
        text = f"{self._server}: expected recipients to be taken, found {reasons}"
        if all(code >= _REFUSED for code, _ in error.recipients.values()):
            return AlertRefusedError(text, hint="check the option to")
        return SinkDownError(text)

    def _found(self, expected: str, error: smtplib.SMTPResponseException) -> str:
        answer = self._answer_text(error.smtp_code, error.smtp_error)
        return f"{self._server}: expected {expected}, found {answer}"

    def _answer_text(self, code: int, text: bytes | str) -> str:
        """Return what the server said, in one line and without secrets."""
        decoded = text.decode(errors="replace") if isinstance(text, bytes) else text
        return f"{code} {' '.join(self._safe(decoded).split())[:_LONGEST_ANSWER]}".strip()

    def _safe(self, text: str) -> str:
        if self._password is None:
            return text
        sent = (self._password, f"\0{self._user}\0{self._password}")
        for each in (*(base64.b64encode(each.encode()).decode() for each in sent), self._password):
            text = text.replace(each, _HIDDEN)
        return text

    def _message(self, alert: Alert) -> EmailMessage:
        body = alert.body
        mail = EmailMessage(policy=SMTP)
        mail["From"] = self._from
        mail["To"] = self._to
        mail["Subject"] = _subject(body)
        mail["Date"] = formatdate(self._clock())
        mail["Message-ID"] = self._id(alert, alert.status)
        if alert.status == RESOLVED:  # mail programs show it below the one that fired
            mail["In-Reply-To"] = mail["References"] = self._id(alert, FIRED)
        mail["Auto-Submitted"] = "auto-generated"
        mail["X-Newnormal-Key"] = alert.key
        mail.set_content(_plain(body))
        mail.add_alternative(_html(body), subtype="html")
        return mail

    def _id(self, alert: Alert, status: str) -> str:
        """Return the name of a mail, the same whenever it is sent again.

        Services may have items of the same key, so the stream and the time are part of it.
        """
        body = alert.body
        facts = (self.name, alert.item, body.get("stream"), body["opened"], body.get("link"))
        unique = hashlib.sha256(repr(facts).encode(errors="replace")).hexdigest()[:16]
        return f"<{status}.{unique}@{self._from.domain}>"


def _address(where: str, option: str, text: str) -> Address:
    problem = "another text"
    if not text.isascii():
        problem = "characters that are not ASCII"
    elif text.isprintable():
        try:
            header: Any = SMTP.header_factory("to", text)
            if len(header.addresses) == 1 and header.addresses[0].domain and not header.defects:
                address: Address = header.addresses[0]
                return address
        except (MessageError, ValueError, IndexError):
            pass
    raise ParameterError(
        f"{where}: {option}: expected an address such as plant@example.org, found {problem}"
    )


def _subject(body: Mapping[str, Any]) -> str:
    text = f"[{status_word(body)}] {headline(body).partition('; ')[0]}"
    return text if len(text) <= _LONGEST_SUBJECT else f"{text[: _LONGEST_SUBJECT - 1]}…"


def _plain(body: Mapping[str, Any]) -> str:
    rows = rows_of(body)
    width = max(len(name) for name, _ in rows)
    lines = [headline(body), "", *(f"{name.ljust(width)}  {text}" for name, text in rows)]
    if body.get("link"):
        lines += ["", str(body["link"])]
    return "\n".join(lines) + "\n"


def _html(body: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><td style="padding-right: 1em">{html.escape(name)}</td>'
        f"<td>{html.escape(text)}</td></tr>"
        for name, text in rows_of(body)
    )
    text = f"<p><b>{html.escape(headline(body))}</b></p><table>{rows}</table>"
    if body.get("link"):
        link = html.escape(str(body["link"]))
        text += f'<p><a href="{link}">{link}</a></p>'
    return f"<!DOCTYPE html><html><body>{text}</body></html>"
