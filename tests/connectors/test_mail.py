"""Alerts by mail, at an SMTP server in this process: what is sent, encrypted how, refused why."""

import email
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from hypothesis import given
from hypothesis import strategies as st

from newnormal.engine.store import Store
from newnormal.io.sinks.alerts import AlertRefusedError, SinkDownError
from newnormal.io.sinks.mail import MailSink
from newnormal.service.config import SinkConfig
from newnormal.service.connectors import make_sink
from newnormal.service.sinks import Sinks
from newnormal.testing import check_alert_sink
from tests.connectors.alerting import FIRED, LINK, RESOLVED, alert_of
from tests.connectors.programs import free_port
from tests.errors import raised
from tests.waiting import until

NOW = 1_800_000_000  # 2027-01-15T08:00:00Z


class Post:
    """Takes mails, and answers as it is told: `rcpt` by recipient, `data` to all."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.rcpt: dict[str, str] = {}
        self.sender = self.data = "250 OK"
        self.encrypted: list[bool] = []
        self.users: list[str] = []

    async def handle_MAIL(  # noqa: N802 - as aiosmtpd calls it
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.sender.startswith("250"):
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return self.sender

    async def handle_RCPT(  # noqa: N802 - as aiosmtpd calls it
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        answer = self.rcpt.get(address, "250 OK")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if self.data.startswith("250"):
            self.envelopes.append(envelope)
            assert server.transport is not None
            self.encrypted.append(server.transport.get_extra_info("ssl_object") is not None)
        return self.data

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        good = data.login == b"kim" and data.password == b"swordfish"
        if good:
            self.users.append("kim")
        return AuthResult(success=good, handled=False)

    @property
    def mails(self) -> list[EmailMessage]:
        return [email.message_from_bytes(_content(each), policy=default) for each in self.envelopes]


def _content(envelope: Envelope) -> bytes:
    assert isinstance(envelope.content, bytes)
    return envelope.content


def text_of(mail: EmailMessage, kind: str = "plain") -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


@contextmanager
def serving(post: Post, port: int | None = None, **options: Any) -> Iterator[int]:
    """Give the port of a server."""
    controller = Controller(post, hostname="127.0.0.1", port=port or free_port(), **options)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


@pytest.fixture
def post() -> Post:
    return Post()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


def sink_for(port: int, **options: Any) -> MailSink:
    given = {
        "host": "127.0.0.1",
        "port": port,
        "security": "none",
        "from": "newnormal <nn@example.org>",
        "to": ["kim@example.org", "plant@example.org"],
        **options,
    }
    return MailSink("mail", given, clock=lambda: NOW)


def test_a_mail_says_what_happened_in_text_and_html(post: Post) -> None:
    with serving(post) as port:
        sink_for(port).send(alert_of(FIRED))
    [envelope], [mail] = post.envelopes, post.mails
    assert envelope.mail_from == "nn@example.org"
    assert envelope.rcpt_tos == ["kim@example.org", "plant@example.org"]
    assert mail["From"] == "newnormal <nn@example.org>"
    assert mail["To"] == "kim@example.org, plant@example.org"
    assert mail["Subject"] == "[firing] press-1: temperature 90.5, expected 60 to 75"
    assert mail["Date"] == "Fri, 15 Jan 2027 08:00:00 -0000"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["X-Newnormal-Key"] == "alarm-12-1-3:fired"
    plain, page = text_of(mail), text_of(mail, "html")
    assert plain == (
        "press-1: temperature 90.5, expected 60 to 75; high\n"
        "\n"
        "temperature  90.5, expected 70.2 (60 to 75)\n"
        "kind         alarm, open\n"
        "stream       press-1\n"
        "since        2027-01-15 07:57:00 UTC\n"
        "\n"
        f"{LINK}\n"
    )
    assert "<td>90.5, expected 70.2 (60 to 75)</td>" in page
    assert f'<a href="{LINK}">' in page


def test_a_mail_that_resolves_answers_the_one_that_fired_and_repeats_are_one(post: Post) -> None:
    with serving(post) as port:
        for body in (FIRED, FIRED, RESOLVED):
            sink_for(port).send(alert_of(body))
        other = {**FIRED, "stream": "oven", "streams": ["oven"]}  # of another service
        sink_for(port).send(alert_of(other))
    fired, again, resolved, another = post.mails
    assert fired["Message-ID"] == again["Message-ID"]
    assert resolved["In-Reply-To"] == resolved["References"] == fired["Message-ID"]
    assert len({each["Message-ID"] for each in (fired, resolved, another)}) == 3
    assert fired["In-Reply-To"] is None
    assert fired["Message-ID"].endswith("@example.org>")
    assert resolved["Subject"] == "[resolved] press-1: temperature 93, expected 60 to 75"
    assert "until        2027-01-15 08:00:00 UTC" in text_of(resolved)


names = st.text(min_size=1, max_size=60) | st.sampled_from(
    ["a\r\nBcc: evil@example.org", "\n.\r\n", "température", "x" * 500, "\udc80", "=?utf-8?q?x?="]
)


@given(stream=names, channel=names, sentence=st.text(max_size=500))
def test_names_cannot_add_headers_or_recipients(stream: str, channel: str, sentence: str) -> None:
    sink = sink_for(25)
    body = {
        **FIRED,
        "stream": stream,
        "streams": [stream],
        "sentence": sentence,
        "evidence": [{"channel": channel, "observed": 1.0, "expected": 2.0}],
        "link": None,
    }
    mail = sink._message(alert_of(body))
    sent = email.message_from_bytes(bytes(mail), policy=default)
    assert sent.keys() == [
        *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "X-Newnormal-Key"),
        *("MIME-Version", "Content-Type"),
    ]
    assert sent["To"] == "kim@example.org, plant@example.org"
    assert sent["Subject"].startswith("[firing] ")
    assert len(mail["Subject"]) <= 200
    assert max(map(len, bytes(mail).split(b"\r\n"))) < 998


def test_a_page_shows_names_as_they_are() -> None:
    body = {**FIRED, "stream": "<script>", "streams": ["<script>"], "link": 'x"><script>'}
    page = text_of(sink_for(25)._message(alert_of(body)), "html")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.filterwarnings("ignore:Requiring AUTH")  # it does not see that all is encrypted
def test_starttls_tls_and_a_password(post: Post, tls: ssl.SSLContext, ca_file: str) -> None:
    login = {"user": "kim", "password": "swordfish", "ca_file": ca_file}
    auth: dict[str, Any] = {"authenticator": post.authenticate, "auth_required": True}
    with serving(post, tls_context=tls, require_starttls=True, **auth) as port:
        sink = sink_for(port, security="starttls", **login)
        sink.send(alert_of(FIRED))
        assert sink.check() == (
            f"127.0.0.1:{port} takes mail, encrypted with TLSv1.3, logged in as kim"
        )
    with serving(post, ssl_context=tls, auth_require_tls=False, **auth) as port:
        sink = sink_for(port, security="tls", **login)
        sink.send(alert_of(RESOLVED))
        assert sink.check().startswith(f"127.0.0.1:{port} takes mail, encrypted with")
    assert post.encrypted == [True, True]
    assert post.users == ["kim"] * 4
    assert len(post.mails) == 2


def test_starttls_is_the_default_and_a_server_without_it_gets_nothing(post: Post) -> None:
    given = {"host": "127.0.0.1", "from": "a@example.org", "to": "b@example.org"}
    with serving(post) as port:
        sink = MailSink("mail", {**given, "port": port})
        with pytest.raises(SinkDownError, match="expected a server with STARTTLS") as caught:
            sink.send(alert_of(FIRED))
        assert 'security = "tls" encrypts from the beginning' in str(caught.value.hint)
        assert sink_for(port).check() == f"127.0.0.1:{port} takes mail, not encrypted"
    assert post.mails == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_certificate_that_is_not_trusted_gets_nothing(
    post: Post, tls: ssl.SSLContext, security: str, capfd: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"ssl_context": tls} if security == "tls" else {"tls_context": tls}
    with serving(post, **options) as port:
        with pytest.raises(SinkDownError, match="expected a certificate that is trusted") as caught:
            sink_for(port, security=security).send(alert_of(FIRED))
        assert caught.value.hint == "ca_file names certificates to trust instead of the system's"
    assert post.mails == []
    capfd.readouterr()


def test_other_certificates_get_nothing(post: Post, authority: trustme.CA, ca_file: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("mail.example.org").configure_cert(context)
    with (
        serving(post, tls_context=context) as port,
        pytest.raises(SinkDownError, match="IP address mismatch"),
    ):
        sink_for(port, security="starttls", ca_file=ca_file).send(alert_of(FIRED))
    assert post.mails == []


def test_tls_at_a_port_for_starttls_is_told(post: Post) -> None:
    with (
        serving(post) as port,
        pytest.raises(SinkDownError, match="expected an encrypted connection") as caught,
    ):
        sink_for(port, security="tls").send(alert_of(FIRED))
    assert "is for port 465" in str(caught.value.hint)


def test_wrong_passwords_are_not_shown(post: Post, tls: ssl.SSLContext, ca_file: str) -> None:
    with serving(
        post, tls_context=tls, authenticator=post.authenticate, auth_required=True
    ) as port:
        sink = sink_for(
            port, security="starttls", ca_file=ca_file, user="kim", password="wrong-horse"
        )
        for call in (sink.check, lambda: sink.send(alert_of(FIRED))):
            error = raised(SinkDownError, call)
            assert error.message == (
                f"127.0.0.1:{port}: expected user and password to be taken, "
                "found 535 5.7.8 Authentication credentials invalid"
            )
            assert error.hint == "check user and password"
        without = sink_for(port, security="starttls", ca_file=ca_file)
        with pytest.raises(SinkDownError, match=r"found 530 5\.7\.0 Authentication required"):
            without.send(alert_of(FIRED))
    assert post.mails == []


def test_what_the_server_echoes_of_a_password_is_not_shown(post: Post) -> None:
    sink = sink_for(25, user="kim", password="swordfish")
    said = sink._answer_text(535, b"bad swordfish AGtpbQBzd29yZGZpc2g= c3dvcmRmaXNo\r\nagain")
    assert said == "535 bad … … … again"


def test_a_server_that_takes_no_password_is_told(post: Post) -> None:
    with (
        serving(post) as port,
        pytest.raises(SinkDownError, match="expected a server that takes a password"),
    ):
        sink_for(port, user="kim", password="swordfish").send(alert_of(FIRED))


def test_if_some_recipients_are_refused_the_others_get_the_mail_and_it_is_told(post: Post) -> None:
    post.rcpt["kim@example.org"] = "550 5.1.1 no such user"
    with serving(post) as port:
        sink = sink_for(port)
        sink.send(alert_of(FIRED))
        assert [each.rcpt_tos for each in post.envelopes] == [["plant@example.org"]]
        assert sink.notice() == (
            f"127.0.0.1:{port}: 1 of 2 recipients refused: kim@example.org: 550 5.1.1 no such user"
        )
        post.rcpt.clear()
        sink.send(alert_of(FIRED))
        assert sink.notice() == ""


def test_if_all_recipients_are_refused_the_alert_is(post: Post) -> None:
    post.rcpt = {f"{name}@example.org": f"550 no {name}" for name in ("kim", "plant")}
    with serving(post) as port:
        error = raised(AlertRefusedError, lambda: sink_for(port).send(alert_of(FIRED)))
        assert error.message == (
            f"127.0.0.1:{port}: expected recipients to be taken, "
            "found kim@example.org: 550 no kim; plant@example.org: 550 no plant"
        )
        assert error.hint == "check the option to"
        post.rcpt["kim@example.org"] = "450 try again later"
        with pytest.raises(SinkDownError, match="450 try again later"):
            sink_for(port).send(alert_of(FIRED))


@pytest.mark.parametrize(
    ("part", "answer", "kind", "message"),
    [
        ("data", "451 later", SinkDownError, "expected the mail to be taken, found 451 later"),
        ("data", "554 looks like spam", AlertRefusedError, "found 554 looks like spam"),
        ("sender", "451 later", SinkDownError, "expected the sender to be taken, found 451 later"),
        ("sender", "550 not you", SinkDownError, "found 550 not you"),
        ("sender", "552 too large", AlertRefusedError, "found 552 too large"),
        ("data", "421 going down", SinkDownError, "found 421 going down"),
    ],
)
def test_what_is_refused_for_now_waits_and_what_is_refused_for_good_waits_alone(
    post: Post, part: str, answer: str, kind: type[Exception], message: str
) -> None:
    setattr(post, part, answer)
    with serving(post) as port, pytest.raises(kind) as caught:
        sink_for(port).send(alert_of(FIRED))
    assert message in str(caught.value)
    assert ("check the option from" in str(caught.value)) == (answer == "550 not you")


@pytest.mark.parametrize(
    ("answer", "message", "check"),
    [
        (b"554 no mail here\r\n", "expected a mail server that is ready, found 554", False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", r"127\.0\.0\.1:\d+: expected a mail server", True),
        (b"", r"expected a mail server, found .*timed out", False),
    ],
)
def test_what_is_no_mail_server_or_not_ready_or_says_nothing_is_told(
    answer: bytes, message: str, check: bool
) -> None:
    with answering(answer) as port:
        sink = sink_for(port) if answer else sink_for(port, timeout="200ms")
        with pytest.raises(SinkDownError, match=message):
            sink.check() if check else sink.send(alert_of(FIRED))


@given(st.binary(max_size=200))
def test_whatever_a_server_says_is_an_error_that_the_service_knows(answer: bytes) -> None:
    with answering(answer, end=True) as port, pytest.raises(SinkDownError):
        sink_for(port, timeout="5s").send(alert_of(FIRED))


@contextmanager
def answering(text: bytes, *, end: bool = False) -> Iterator[int]:
    """Give the port of a server that says one thing, whatever is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        released = threading.Event()

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(text)
                if not end:
                    released.wait(30)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            released.set()
            thread.join(30)


def test_mails_that_a_server_missed_are_sent_later_alone(post: Post, tmp_path: Path) -> None:
    """A mail server that is gone, and beside it one that works."""
    port, other = free_port(), Post()
    store = Store(tmp_path / "store.sqlite")
    delivery = Sinks([], store, lambda *_: None)
    options = {
        "host": "127.0.0.1",
        "security": "none",
        "from": "nn@example.org",
        "to": "kim@example.org",
    }
    with serving(other) as works:
        try:
            delivery.start(
                [
                    SinkConfig("gone", "mail", {**options, "port": port}),
                    SinkConfig("works", "mail", {**options, "port": works}),
                ]
            )
            for body in (FIRED, RESOLVED):
                for sink in ("gone", "works"):
                    store.outbox.put(body["key"], sink, body)
            store.commit()
            delivery.wake()
            until(lambda: len(other.envelopes) == 2, "mails at the server that works")
            until(lambda: not delivery.states()["gone"]["ok"], "the other one to be down")
            with serving(post, port):
                until(lambda: store.outbox.counts()["gone"]["waiting"] == 0, "all mails")
        finally:
            delivery.stop()
            store.close()
    assert [each["Subject"].split()[0] for each in post.mails] == ["[firing]", "[resolved]"]


def test_the_sink_passes_its_own_check(post: Post) -> None:
    with serving(post) as port:
        check_alert_sink(
            lambda: sink_for(port),
            received=lambda: [each["X-Newnormal-Key"] for each in post.mails],
            down=lambda: sink_for(free_port()),
        )


@pytest.mark.parametrize(("security", "port"), [("starttls", 587), ("tls", 465), ("none", 25)])
def test_the_port_follows_from_the_security(security: str, port: int) -> None:
    options = {"host": "h", "from": "a@example.org", "to": "b@example.org", "security": security}
    assert MailSink("mail", options)._port == port


def test_the_password_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("swordfish\n")
    options = {
        "host": "mail.example.org",
        "from": "a@example.org",
        "to": ["b@example.org"],
        "user": "kim",
    }
    config = SinkConfig("mail", "mail", {**options, "password_file": str(tmp_path / "password")})
    sink = make_sink(config)
    assert isinstance(sink, MailSink)
    assert sink._password == "swordfish"


def test_a_sink_that_is_closed_while_it_sends_ends(post: Post) -> None:
    with answering(b"220 hello\r\n") as port:
        sink = sink_for(port, timeout="1m")
        errors: list[Exception] = []

        def send() -> None:
            try:
                sink.send(alert_of(FIRED))
            except Exception as error:  # noqa: BLE001 - any will do
                errors.append(error)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        until(lambda: sink._smtp is not None, "a connection")
        sink.close()
        sink.close()
        thread.join(10)
        assert not thread.is_alive()
    assert len(errors) == 1
