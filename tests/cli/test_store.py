"""`newnormal serve verify`, `backup` and `restore`."""

import sqlite3
from pathlib import Path

import pytest

from newnormal.engine.log.entries import Removed, pack
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.store import Store
from tests.cli.conftest import Command


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of a service that has done nothing but to remove a stream that was not there."""
    folder = tmp_path / "data"
    log, store = SqliteLog(folder / "log.sqlite"), Store(folder / "store.sqlite")
    log.append(pack([Removed(1)]))
    log.close()
    store.close()
    return folder


def test_a_folder_is_checked_and_restored(newnormal: Command, data: Path, tmp_path: Path) -> None:
    facts = "0 streams, 0 samples, 1 records of the log, 0 models\nno problem found\n"
    assert newnormal("serve", "verify", data).stdout == f"{data}: {facts}"
    copy, other = tmp_path / "copy", tmp_path / "other"
    assert newnormal("serve", "backup", data, copy).stdout == f"{copy}: {facts}"
    assert newnormal("serve", "restore", other, copy).stdout == f"{other}: {facts}"
    refused = newnormal("serve", "restore", other, copy)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"error: {other} holds the data of a service already\n"
        "hint: --overwrite moves them to a folder in there\n"
    )
    assert newnormal("serve", "restore", other, copy, "--overwrite").returncode == 0
    assert (other / "before-restore-1" / "log.sqlite").is_file()


def test_damage_is_listed_and_the_command_fails(newnormal: Command, data: Path) -> None:
    with sqlite3.connect(data / "log.sqlite") as database:
        database.execute("UPDATE records SET record = x'00'")
    database.close()
    assert newnormal("serve", "verify", data, status=1).stdout.splitlines()[1:] == [
        f"{data / 'log.sqlite'}: the record at position 1 is damaged",
        "restore a backup",
    ]


def test_another_folder_is_refused(newnormal: Command, tmp_path: Path) -> None:
    assert newnormal("serve", "verify", tmp_path, status=1).stderr == (
        "error: expected the folder of a service, found neither store.sqlite nor log.sqlite in"
        f" {tmp_path}\nhint: give the folder that `newnormal serve` keeps its data in\n"
    )
