"""Real programs of others on free ports of 127.0.0.1, which can be killed and started again."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import httpx
import pytest

from newnormal.client import Client
from tests.present import present
from tests.waiting import until

# Debian puts daemons where the PATH of a plain user does not lead.
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))

_TO_NOBODY = "route: {receiver: none}\nreceivers: [{name: none}]\n"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def found(command: str) -> str:
    """Return the path of a program; skip the test, naming it, where it is not installed."""
    path = shutil.which(command, path=_PATH)
    if path is None:
        pytest.skip(f"needs {command}")
    return path


class Program:
    """A program with a folder and a port, both the same after it was started again.

    Derive from it: `command` returns the command line, `is_ready` whether it answers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._cwd: Path | None = folder
        self._environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and return once it answers."""
        self.launch()
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def launch(self) -> None:
        """Start it, and return at once."""
        with (self.folder / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                self.command(),
                stdout=output,
                stderr=output,
                cwd=self._cwd,
                env={**os.environ, **self._environment},
            )

    def wait_until_ready(self, seconds: float = 180.0) -> None:
        until(self._answers, f"{self.command()[0]} to be ready", seconds=seconds)

    def _answers(self) -> bool:
        assert present(self._process).poll() is None, self.output[-3000:]
        with suppress(httpx.HTTPError, OSError):
            return self.is_ready()
        return False

    def kill(self) -> None:
        """End it at once, wherever it is."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        present(self._process).send_signal(number)

    def _end(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(60.0)

    @property
    def output(self) -> str:
        return (self.folder / "output.txt").read_text(errors="replace")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Prometheus(Program):
    """Prometheus with a configuration as people write it; `arguments` are added to its command."""

    def __init__(self, folder: Path, config: str, *arguments: str) -> None:
        super().__init__(folder)
        self._path, self._arguments = found("prometheus"), arguments
        (folder / "prometheus.yml").write_text(config)

    def command(self) -> list[str]:
        return [
            self._path,
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{self.port}",
            *self._arguments,
        ]

    @property
    def pid(self) -> int:
        return present(self._process).pid

    def is_ready(self) -> bool:
        return httpx.get(f"{self.url}/-/ready", timeout=2.0).status_code == 200


class Alertmanager(Program):
    """Alertmanager; without a configuration, alerts are kept and sent to nobody."""

    def __init__(self, folder: Path, config: str = _TO_NOBODY) -> None:
        super().__init__(folder)
        self._path = found("prometheus-alertmanager")
        (folder / "alertmanager.yml").write_text(config)

    def command(self) -> list[str]:
        return [
            self._path,
            "--config.file=alertmanager.yml",
            "--storage.path=data",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
        ]

    def is_ready(self) -> bool:
        return httpx.get(f"{self.url}/-/ready", timeout=2.0).status_code == 200


class Mosquitto(Program):
    """The broker mosquitto; `lines` are added to its configuration."""

    def __init__(self, folder: Path, lines: str = "allow_anonymous true\n") -> None:
        super().__init__(folder)
        self._path = found("mosquitto")
        (folder / "mosquitto.conf").write_text(
            f"listener {self.port} 127.0.0.1\npersistence true\npersistence_location {folder}/\n"
            f"user root\n{lines}"
        )

    def command(self) -> list[str]:
        return [self._path, "-c", "mosquitto.conf"]

    def is_ready(self) -> bool:
        lines = (self.folder / "mosquitto.conf").read_text().splitlines()
        for port in [line.split()[1] for line in lines if line.startswith("listener ")]:
            socket.create_connection(("127.0.0.1", int(port)), 2.0).close()
        return True

    def save(self) -> None:
        """Have it save its sessions; twice, as what it was sent may have waited the first time.

        It loses a signal that comes as a save ends.
        """
        path = self.folder / "mosquitto.db"

        def time() -> int:
            return path.stat().st_mtime_ns if path.exists() else 0

        def is_saved() -> bool:
            if time() > before:
                return True
            self.send_signal(signal.SIGUSR1)
            return False

        for _ in range(2):
            before = time()
            until(is_saved, "a save")


class Newnormal(Program):
    """`newnormal serve` with a configuration as people write it.

    Its tables follow what this adds: port, data, workers and a short time between checkpoints.
    """

    def __init__(
        self, folder: Path, tables: str, environment: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder)
        self._cwd = None
        self._environment = {"PYTHONFAULTHANDLER": "1", **(environment or {})}
        self._config = folder / "service.toml"
        self.configure(tables)

    def configure(self, tables: str) -> None:
        """Write the configuration anew; SIGHUP has the service read it."""
        head = f'port = {self.port}\ndata = "{self.folder}/data"\nworkers = 1\n'
        head += 'checkpoint_every = "1s"\n'
        self._config.write_text(f"{head}{tables}\n")

    def command(self) -> list[str]:
        return [sys.executable, "-m", "newnormal", "serve", str(self._config)]

    def is_ready(self) -> bool:
        return httpx.get(f"{self.url}/readyz", timeout=2.0).status_code == 200

    def check(self) -> subprocess.CompletedProcess[str]:
        """Run `newnormal serve CONFIG --check`."""
        return subprocess.run(
            [*self.command(), "--check"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **self._environment},
        )

    def client(self) -> Client:
        return Client(self.url, timeout=20.0)
