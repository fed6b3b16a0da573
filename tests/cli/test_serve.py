"""`newnormal serve`: what it refuses, what it checks, and how it starts, reloads and stops."""

import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from newnormal.cli import serving as serving_module
from newnormal.cli.serving import listening
from newnormal.engine.store import Store
from newnormal.service.config import ServiceConfig, TokenConfig, hash_token
from tests.cli.conftest import Command
from tests.connectors.programs import Program
from tests.present import present
from tests.processes import python
from tests.service.asgi import Client
from tests.service.plant import plant
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("service_folder")


def test_another_address_needs_a_token(newnormal: Command) -> None:
    assert newnormal("serve", "--host", "0.0.0.0", status=1).stderr == (
        "error: --host 0.0.0.0: expected a token, because other machines can reach this address, "
        "found none\n"
        "hint: newnormal serve token add NAME --role operate --data newnormal-data makes one; "
        "--insecure allows everything to everybody\n"
    )


@pytest.mark.parametrize("how", ["option", "environment", "file", "store", "insecure"])
def test_a_token_from_anywhere_or_insecure_opens_another_address(
    newnormal: Command, how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, taken: int
) -> None:
    options: list[str] = []
    (tmp_path / "token").write_text("a-token\n")
    if how == "option":
        options = ["--token-file", "token"]
    elif how == "environment":
        monkeypatch.setenv("NEWNORMAL_SERVE_TOKEN", "a-token")
    elif how == "file":
        text = f'[[token]]\nname = "me"\nrole = "read"\nhash = "{hash_token("a")}"\n'
        (tmp_path / "service.toml").write_text(text)
        options = ["service.toml"]
    elif how == "store":
        newnormal("serve", "token", "add", "me", "--role", "operate")
    else:
        options = ["--insecure"]
    done = newnormal("serve", *options, "--host", "0.0.0.0", "--port", "0", "--check", status=0)
    assert "a-token" not in done.stdout + done.stderr


def test_a_port_in_use_is_named(newnormal: Command, taken: int) -> None:
    assert newnormal("serve", "--port", taken, status=1).stderr == (
        f"error: 127.0.0.1:{taken}: expected a free port, found one in use\n"
        "hint: another newnormal serve may be running; --port takes another port\n"
    )


def test_an_address_that_is_not_of_this_machine_is_named(newnormal: Command) -> None:
    done = newnormal("serve", "--host", "192.0.2.1", "--insecure", status=1)
    assert "192.0.2.1:8765: expected an address of this machine" in done.stderr


def test_wrong_options_are_named(newnormal: Command) -> None:
    done = newnormal("serve", "--port", "70000", status=1)
    assert done.stderr.startswith("error: --port: expected a whole number of at least 0 and at mo")
    done = newnormal("serve", "--set", "limits")
    assert done.stderr.startswith("error: --set: expected NAME=VALUE, found 'limits'")
    done = newnormal("serve", "none.toml")
    assert "none.toml: expected a configuration, could not read it" in done.stderr


def test_a_sink_of_an_unknown_kind_starts_nothing(newnormal: Command, tmp_path: Path) -> None:
    (tmp_path / "service.toml").write_text('[sinks.chat]\nkind = "pigeon"\n')
    assert "pigeon" in newnormal("serve", "service.toml", "--port", "0", status=1).stderr
    assert not (tmp_path / "newnormal-data").exists()


def test_port_zero_takes_a_free_one() -> None:
    with listening(ServiceConfig(port=0)) as (port, number):
        assert number > 0
        assert port.getsockname() == ("127.0.0.1", number)
        assert port.proto == socket.IPPROTO_TCP  # without it, asyncio delays answers by 40 ms


def test_check_says_what_it_tried_by_line(newnormal: Command, tmp_path: Path, taken: int) -> None:
    text = (
        f'[sinks.chat]\nkind = "webhook"\nurl = "http://127.0.0.1:{taken}/in"\ntimeout = "200ms"\n'
    )
    (tmp_path / "service.toml").write_text(text)
    lines = newnormal("serve", "service.toml", "--port", "0", "--check").stdout.splitlines()
    assert lines[0] == "ok      service.toml"
    assert lines[1] == "ok      host: 127.0.0.1, any free port"
    assert re.fullmatch(r"ok      data: newnormal-data, [\d.]+ [GT]B free", lines[2])
    assert "sink chat: " in lines[3]
    assert not (tmp_path / "newnormal-data").exists()


def test_check_fails_if_a_connection_fails(newnormal: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    text = (
        f'[sinks.gone]\nkind = "webhook"\nurl = "http://127.0.0.1:{port}/in"\n'
        '[sources.none]\nkind = "nothing"\n'
        f'[sources.down]\nkind = "prometheus"\nquery = "up"\nurl = "http://127.0.0.1:{port}"\n'
    )
    (tmp_path / "service.toml").write_text(text)
    done = newnormal("serve", "service.toml", "--check", status=1)
    assert "failed  sink gone: " in done.stdout
    assert "failed  source none: " in done.stdout
    assert f"failed  source down, query: 127.0.0.1:{port}: expected an answer" in done.stdout


def test_check_names_a_missing_secret_and_shows_none(newnormal: Command, tmp_path: Path) -> None:
    text = '[sinks.chat]\nkind = "webhook"\nurl = "http://127.0.0.1:1/in"\nsecret_file = "none"\n'
    (tmp_path / "service.toml").write_text(text)
    done = newnormal("serve", "service.toml", "--check", status=1)
    assert "sink chat: secret_file: expected a file with a secret" in done.stdout


def test_a_token_is_shown_once_and_its_hash_is_kept(newnormal: Command, tmp_path: Path) -> None:
    done = newnormal("serve", "token", "add", "grafana", "--role", "read")
    token = done.stdout.strip()
    assert token.startswith("nn_")
    assert done.stderr == ("grafana may read; this is the only time that the token is shown\n")
    folder = tmp_path / "newnormal-data"
    assert all(token.encode() not in path.read_bytes() for path in folder.iterdir())
    store = Store(folder / "store.sqlite")
    assert store.settings.all("tokens")["grafana"]["hash"] == hash_token(token)
    store.close()


def test_tokens_are_listed_and_removed(newnormal: Command) -> None:
    newnormal("serve", "token", "add", "b", "--role", "operate", "--data", "kept")
    newnormal("serve", "token", "add", "a", "--data", "kept")
    listed = newnormal("serve", "token", "list", "--data", "kept").stdout.splitlines()
    assert [re.sub(r" \d{4}-\S+Z ", " ", line).split() for line in listed] == [
        ["read", "a"],
        ["operate", "b"],
    ]
    assert newnormal("serve", "token", "remove", "a", "--data", "kept").returncode == 0
    assert "b" in newnormal("serve", "token", "list", "--data", "kept").stdout
    assert newnormal("serve", "token", "remove", "a", "--data", "kept").stderr == (
        "error: expected the name of a token, found a\n"
        "hint: newnormal serve token list has the names\n"
    )


def test_a_name_has_one_token_and_a_role_is_one_of_three(newnormal: Command) -> None:
    newnormal("serve", "token", "add", "a")
    done = newnormal("serve", "token", "add", "a")
    assert "expected a name that has no token yet, found a" in done.stderr
    done = newnormal("serve", "token", "add", "b", "--role", "admin")
    assert 'expected one of "read", "write", "operate", found \'admin\'' in done.stderr


def test_without_tokens_the_list_says_so(newnormal: Command, tmp_path: Path) -> None:
    done = newnormal("serve", "token", "list")
    assert done.stdout == ""
    assert "there are none" in done.stderr
    assert not (tmp_path / "newnormal-data").exists()


# ------------------------------------------------------------------ tokens of a configuration


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    """Return a configuration with a data folder of its own, and a secret that is not here."""
    path = tmp_path / "etc" / "service.toml"
    path.parent.mkdir()
    path.write_text(
        'data = "store"\n[sinks.chat]\nkind = "webhook"\n'
        'url = "http://127.0.0.1:9/"\nsecret = "env:NOT_HERE"\n'
    )
    return path


def names(folder: Path) -> list[str]:
    store = Store(folder / "store.sqlite")
    found = sorted(store.settings.all("tokens"))
    store.close()
    return found


def test_tokens_are_in_the_data_dir(newnormal: Command, configured: Path, tmp_path: Path) -> None:
    file = "etc/service.toml"
    done = newnormal("serve", file, "token", "add", "me", "--role", "operate", status=0)
    assert done.stdout.startswith("nn_")
    assert names(configured.parent / "store") == ["me"]
    assert not (tmp_path / "newnormal-data").exists()
    assert newnormal("serve", file, "token", "list").stdout.startswith("operate")
    assert newnormal("serve", file, "token", "remove", "me").returncode == 0
    assert names(configured.parent / "store") == []


def test_the_folder_of_an_option_or_a_variable_goes_before_that_of_the_file(
    newnormal: Command, configured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newnormal("serve", str(configured), "token", "add", "me", "--data", "given")
    assert names(tmp_path / "given") == ["me"]
    monkeypatch.setenv("NEWNORMAL_SERVE_DATA", "named")
    newnormal("serve", str(configured), "token", "add", "me")
    assert names(tmp_path / "named") == ["me"]
    assert not (configured.parent / "store").exists()


def test_the_configuration_of_the_environment_counts_too(
    newnormal: Command, configured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWNORMAL_SERVE_CONFIG", str(configured))
    newnormal("serve", "token", "add", "me")
    assert names(configured.parent / "store") == ["me"]


def test_tokens_need_a_configuration_that_is_there(newnormal: Command, tmp_path: Path) -> None:
    assert "none.toml" in newnormal("serve", "none.toml", "token", "add", "me", status=1).stderr
    assert not (tmp_path / "newnormal-data").exists()


# ------------------------------------------------------------------ as a program of its own


class Served(Program):
    """`newnormal serve` with options, on a free port that it chooses."""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder)
        self._options = options

    def command(self) -> list[str]:
        return [sys.executable, "-m", "newnormal", "serve", "--port", "0", *self._options]

    def launch(self) -> None:
        (self.folder / "output.txt").unlink(missing_ok=True)
        super().launch()
        address = re.compile(r"newnormal is at http://127.0.0.1:(\d+)\n")
        self.port = int(until(lambda: address.findall(self.output), "the address of the page")[0])

    def is_ready(self) -> bool:
        return self.ask("/readyz").status_code == 200

    def ask(self, path: str, body: object = None, token: str | None = None) -> httpx.Response:
        """Return the answer to a request, which has a body or is a GET."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        method = "GET" if body is None else "POST"
        return httpx.request(method, self.url + path, json=body, headers=headers, timeout=30)

    def post(self, path: str, body: object) -> Any:
        return self.ask(path, body).raise_for_status().json()

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it with a signal, and return its exit code."""
        self._end(number)
        return int(present(self._process).returncode)


@contextmanager
def serving(folder: Path, *options: str, wait: bool = True) -> Iterator[Served]:
    served = Served(folder, *options)
    try:
        (served.start if wait else served.launch)()
        yield served
    finally:
        served.stop()


def samples(count: int) -> list[dict[str, Any]]:
    return [
        {"stream": "press-1", "time": 1_767_225_600 + 60 * i, "values": {"a": i % 7, "b": i % 5}}
        for i in range(count)
    ]


def test_samples_that_were_acknowledged_are_there_after_sigterm(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert served.post("/api/v1/samples", samples(100))["samples"] == 100
        assert served.end() == 0
        assert "stopping\n" in served.output
        assert served.output.endswith("stopped: all that was acknowledged is kept\n")
    with serving(tmp_path) as served:
        assert served.ask("/api/v1/streams").json()["items"][0]["samples"] == 100


def test_an_interrupt_stops_it_as_sigterm_does(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert served.end(signal.SIGINT) == 0


def test_the_first_start_has_its_own_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "empty"))
    with serving(tmp_path, wait=False) as served:
        until(lambda: "compiling for this machine" in served.output, "that it compiles")

        def shown() -> bytes:
            found = served.ask("/").content
            return found if b"compiles for this machine, once: about" in found else b""

        page = until(shown, "a page that says so")
        assert b"This page loads again by itself." in page
        assert b"<progress value=" in page
        assert served.ask("/api/v1/streams").json()["error"] == "newnormal is starting"
        assert served.ask("/healthz").status_code == 200
        assert served.ask("/readyz").status_code == 503
        assert served.end() == 0
        assert "stopping\n" in served.output
    assert not (tmp_path / "newnormal-data").exists()


def test_readyz_says_no_before_the_port_closes(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.send_signal(signal.SIGTERM)
        found = []

        def refused() -> bool:
            with suppress(httpx.TransportError):
                found.append(served.ask("/readyz").status_code)
                return False
            return True

        until(refused, "the port to close")
        assert 503 in found


def test_a_second_service_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path):
        done = python("-m", "newnormal", "serve", "--port", "0", cwd=tmp_path)
    assert done.returncode == 1
    assert "newnormal-data" in done.stderr
    assert "hint: stop the other service, or give another folder with --data" in done.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_sighup_reads_the_file_again(tmp_path: Path) -> None:
    path = tmp_path / "service.toml"
    path.write_text("[limits]\nstreams = 1\n")
    with serving(tmp_path, "service.toml") as served:
        served.post("/api/v1/samples", samples(1))
        more = [{"stream": "press-2", "values": {"a": 1}}]
        assert served.ask("/api/v1/samples", more).is_client_error
        path.write_text("workers = 7\n[limits]\nstreams = 2\n")
        served.send_signal(signal.SIGHUP)
        until(lambda: "reloaded" in served.output, "the configuration")
        assert "reloaded; a restart is needed for workers\n" in served.output
        assert served.post("/api/v1/samples", more)["samples"] == 1
        path.write_text("[limits]\nstreams = 0\n")
        served.send_signal(signal.SIGHUP)
        until(lambda: "the configuration stays as it was" in served.output, "the error")
        assert "service.toml, [limits]: streams: expected a whole number" in served.output
        assert served.ask("/readyz").status_code == 200


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_sighup_at_the_start_or_our_error_ends_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def fail(config: ServiceConfig) -> None:
        raise AttributeError("_delivery")

    config = ServiceConfig()
    service: Any = SimpleNamespace(reload=fail)
    running = serving_module._Running(service, None, config, lambda: config)
    running._reload()
    assert "not reloaded: the service is starting" in capfd.readouterr().err
    running._gate.open = True
    running._reload()
    assert "error: not reloaded: AttributeError: _delivery" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("trusted", "believed"),
    [((), False), (("127.0.0.1",), True), (("10.0.0.0/8",), False), (("127.0.0.0/8",), True)],
)
def test_the_address_of_a_client_is_taken_of_proxies_that_are_named_alone(
    trusted: tuple[str, ...], believed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logins that fail are counted by client."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # uvicorn's own way to say it
    tokens = (TokenConfig("me", "read", hash_token("a")),)
    changes: Any = {"trusted_proxies": trusted, "tokens": tokens}
    with plant(empty=True, **changes) as service, Client(service) as client:
        config = service.config
        running = serving_module._Running(service, client.app, config, lambda: config)
        running._gate.open = True
        running._server.config.load()
        app, client.app = client.app, running._server.config.loaded_app
        client.client, client.app = client.another(), app
        found = [
            client.post(
                "/api/v1/login",
                json={"token": "b"},
                headers={"X-Forwarded-For": f"192.0.2.{number}"},
            ).status_code
            for number in range(15)
        ]
    assert found == [401] * 10 + [401 if believed else 429] * 5


def test_a_trusted_proxy_is_an_address(newnormal: Command, tmp_path: Path) -> None:
    (tmp_path / "service.toml").write_text('trusted_proxies = ["*"]\n')
    done = newnormal("serve", "service.toml", status=1)
    assert done.stderr.startswith(
        "error: service.toml: trusted_proxies: expected a list of addresses and networks, such as "
        '["127.0.0.1", "10.1.0.0/16"], found [\'*\']\nhint: trusted_proxies is reverse proxies'
    )


def test_a_token_that_is_added_while_it_runs_is_needed_from_then_on(
    newnormal: Command, tmp_path: Path
) -> None:
    with serving(tmp_path) as served:
        assert served.ask("/api/v1/streams").status_code == 200
        done = newnormal("serve", "token", "add", "me", "--role", "read", status=0)
        until(lambda: served.ask("/api/v1/streams").status_code == 401, "that a token is needed")
        assert served.ask("/api/v1/streams", token=done.stdout.strip()).status_code == 200
        assert done.stdout.strip() not in served.output


def test_the_demo_has_an_alarm_and_leaves_no_folder(tmp_path: Path) -> None:
    with serving(tmp_path, "--demo") as served:
        assert not (tmp_path / "newnormal-data").exists()

        def alarms() -> list[Any]:
            found = served.ask("/api/v1/items?kind=alarm&limit=500").json()["items"]
            return [each for each in found if each["stream_name"] == "hall-1/press-12"]

        until(alarms, "the alarm", seconds=240)
