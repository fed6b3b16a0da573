"""`newnormal serve --check` finds what would keep the service from starting."""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from newnormal.cli import serving
from newnormal.fleet.folder import lock
from newnormal.fleet.folder.lock import FolderLock, process_using
from newnormal.testing import MemorySource
from tests.cli.conftest import Command


class Half(MemorySource):
    """A source of which a part gives nothing."""

    def __init__(self, name: str, options: Any) -> None:
        super().__init__([], name, options)

    def check(self) -> str:
        return "3 series; warning: load gives none"


pytestmark = pytest.mark.usefixtures("service_folder")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[None]:
    """A service that runs in the data folder, as far as others see it."""
    folder = tmp_path / "newnormal-data"
    folder.mkdir()
    lock = FolderLock(folder).acquire()
    yield
    lock.release()


@pytest.mark.parametrize(
    ("free", "says"),
    [
        (0, "failed  data: expected at least 50 MB free in {}, found 0 MB"),
        (49_999_999, "failed  data: expected at least 50,000,000 B free in {}, found 49,999,999 B"),
        (50_000_000, "ok      data: newnormal-data, 50 MB free"),
        (999_000_000, "ok      data: newnormal-data, 999 MB free"),
        (1_500_000_000, "ok      data: newnormal-data, 1.5 GB free"),
    ],
)
def test_a_disk_that_is_nearly_full_fails(
    newnormal: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, says: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    done = newnormal("serve", "--port", "0", "--check")
    assert done.stdout.splitlines()[2] == says.format(tmp_path)
    assert done.returncode == (1 if free < 50_000_000 else 0)


def test_a_port_that_another_program_has_fails(newnormal: Command, taken: int) -> None:
    done = newnormal("serve", "--port", taken, "--check", status=1)
    assert f"failed  host: 127.0.0.1:{taken}: expected a free port, found one in use" in done.stdout


def test_a_free_port_is_not_kept(newnormal: Command, taken: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        free = other.getsockname()[1]
    done = newnormal("serve", "--port", free, "--check")
    assert done.stdout.splitlines()[1] == f"ok      host: 127.0.0.1, port {free}"
    socket.create_server(("127.0.0.1", free)).close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.usefixtures("running")
def test_the_port_and_folder_of_a_running_service_are_fine(newnormal: Command, taken: int) -> None:
    done = newnormal("serve", "--port", taken, "--check", status=0)
    _, host, data = done.stdout.splitlines()
    own = f"process {os.getpid()}"
    assert host == (
        f"ok      host: 127.0.0.1, port {taken}, in use by the service of newnormal-data, {own}"
    )
    assert data.endswith(f"B free; in use by a service that runs, {own}")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.usefixtures("running")
def test_another_programs_port_fails_although_a_service_uses_the_folder(
    newnormal: Command, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "process_using", lambda folder: os.getppid())
    assert newnormal("serve", "--port", taken, "--check").returncode == 1


@pytest.mark.usefixtures("running")
def test_where_the_system_does_not_tell_who_has_a_port_it_is_a_perhaps(
    newnormal: Command, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_listens", lambda process, port: None)
    done = newnormal("serve", "--port", taken, "--check")
    assert f"port {taken}, in use perhaps by the service of newnormal-data, proc" in done.stdout


def test_what_gives_nothing_is_a_warning(newnormal: Command, tmp_path: Path) -> None:
    (tmp_path / "service.toml").write_text(f'[sources.hosts]\nkind = "{__name__}:Half"\n')
    done = newnormal("serve", "service.toml", "--port", "0", "--check", status=0)
    assert done.stdout.splitlines()[3] == (
        "warning source hosts: 3 series; warning: load gives none"
    )


def test_who_uses_a_folder_is_known_while_it_does(tmp_path: Path) -> None:
    assert process_using(tmp_path) is None
    lock = FolderLock(tmp_path).acquire()
    assert process_using(tmp_path) == os.getpid()
    lock.release()
    assert process_using(tmp_path) is None
