"""Checking, copying and restoring all that a service keeps."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from newnormal.engine.applying import Applier
from newnormal.engine.checkpoints import save_checkpoint
from newnormal.engine.log.entries import pack
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.store import backup as copying
from newnormal.engine.store.backup import backup, restore
from newnormal.engine.store.checking import check
from newnormal.errors import StateError
from newnormal.fleet.folder.lock import FolderLock
from tests.service.killing import assert_same, contents, opened
from tests.service.stories import Story


def go_on(story: Story, applier: Applier, log: SqliteLog, records: int) -> None:
    for _ in range(records):
        entries = story.record(applier)
        applier.apply(log.append(pack(entries)), entries)
        applier.store.commit()


@contextmanager
def running(folder: Path) -> Iterator[tuple[Applier, SqliteLog]]:
    log = SqliteLog(folder / "log.sqlite", sync=False)
    with closing(log), opened(folder, log) as applier:
        yield applier, log


def kept(folder: Path) -> Any:
    with running(folder) as (applier, _):
        return contents(applier)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a service that was killed some records after its last checkpoint."""
    folder = tmp_path_factory.mktemp("service") / "data"
    folder.mkdir()
    story = Story(5)
    with running(folder) as (applier, log):
        go_on(story, applier, log, 50)
        save_checkpoint(applier)
        go_on(story, applier, log, 20)
        log.trim(10)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    backup(original, tmp_path / "data")
    return tmp_path / "data"


def test_nothing_is_wrong_with_a_service_that_was_killed(original: Path) -> None:
    report = check(original)
    assert report.problems == []
    assert report.records == 60
    assert report.streams
    assert report.samples
    assert report.models
    assert str(report).endswith("no problem found")


def test_a_restored_copy_goes_on_where_the_original_was(original: Path, tmp_path: Path) -> None:
    assert backup(original, tmp_path / "copy").folder == tmp_path / "copy"
    assert restore(tmp_path / "data", tmp_path / "copy").ok
    assert_same(kept(tmp_path / "data"), kept(original))
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [
        "fleet",
        "log.sqlite",
        "models",
        "store.sqlite",
    ]


def test_a_copy_of_a_service_that_runs_has_all_that_was_logged_before(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    story = Story(6)
    with running(folder) as (applier, log):
        go_on(story, applier, log, 30)
        save_checkpoint(applier)
        go_on(story, applier, log, 10)
        before = contents(applier)
        assert check(folder).ok
        backup(folder, tmp_path / "copy")
        go_on(story, applier, log, 10)
        save_checkpoint(applier)
    assert_same(kept(tmp_path / "copy"), before)


def test_a_checkpoint_meanwhile_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    story = Story(7)
    with running(folder) as (applier, log):
        go_on(story, applier, log, 20)
        save_checkpoint(applier)
        copy_database, copied = copying._copy_database, list[str]()

        def slow(source: Path, target: Path) -> None:
            if not copied:  # between the fleet and the store, the service goes on
                for _ in range(2):
                    go_on(story, applier, log, 3)
                    log.trim(save_checkpoint(applier))
            copied.append(source.name)
            copy_database(source, target)

        monkeypatch.setattr(copying, "_copy_database", slow)
        assert backup(folder, tmp_path / "copy").ok
        assert copied == ["store.sqlite", "log.sqlite"] * 2
        before = contents(applier)
    assert_same(kept(tmp_path / "copy"), before)


def changed(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as database:
        assert database.execute(statement).rowcount
    database.close()


def spoil_store(folder: Path, statement: str) -> None:
    changed(folder / "store.sqlite", statement)


def spoil_log(folder: Path, statement: str) -> None:
    changed(folder / "log.sqlite", statement)


def spoil_file(folder: Path, pattern: str) -> None:
    path = sorted(folder.glob(pattern))[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2 // 4096 * 4096] ^= 255  # of a database the head of a page
    path.write_bytes(content)


def remove_file(folder: Path, pattern: str) -> None:
    for path in folder.glob(pattern):
        path.unlink()


@pytest.mark.parametrize(
    ("spoil", "what", "found"),
    [
        (spoil_store, "UPDATE blocks SET data = x'00' WHERE level = 0", "block 0 of level 0 of"),
        (spoil_store, "UPDATE blocks SET count = 3 WHERE level = 0", "is not as it is listed"),
        (spoil_store, "DELETE FROM blocks WHERE level = 1", "points of level 1, found"),
        (
            spoil_store,
            "UPDATE blocks SET number = number + 1 WHERE level = 1",
            "samples are kept from 0 on, points of level 1 from sample 2048 on",
        ),
        (spoil_store, "UPDATE checkpoints SET state = x''", "the checkpoint at position 50 is"),
        (spoil_store, "DELETE FROM checkpoints", "service at position 50, where its detectors are"),
        (spoil_store, "UPDATE items SET body = '{'", "of items is damaged"),
        (spoil_store, "INSERT INTO migrations VALUES (99)", "expected version 1 to 1, found 99"),
        (spoil_log, "UPDATE records SET record = x'00' WHERE position = 40", "position 40 is dam"),
        (spoil_log, "DELETE FROM records WHERE position = 40", "records 40 to 40 are missing"),
        (spoil_log, "DELETE FROM records WHERE position > 40", "up to position 69 at least, found"),
        (spoil_file, "models/*.nn", "models"),
        (remove_file, "models/*.nn", "no file"),
        (spoil_file, "fleet/live-*", "fleet"),
        (remove_file, "fleet/manifest*", "fleet"),
        (remove_file, "log.sqlite", "expected a database, found no file"),
        (spoil_file, "store.sqlite", "store.sqlite"),
    ],
)
def test_damage_is_found_and_such_a_copy_is_neither_made_nor_restored(
    folder: Path, tmp_path: Path, spoil: Callable[[Path, str], None], what: str, found: str
) -> None:
    spoil(folder, what)
    report = check(folder)
    assert not report.ok
    assert found in "\n".join(report.problems)
    assert str(report).endswith("restore a backup")
    with pytest.raises(StateError):
        backup(folder, tmp_path / "copy")
    with pytest.raises(StateError, match="cannot be used"):
        restore(tmp_path / "other", folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_copy_replaces_data_only_if_told_and_keeps_them(folder: Path, tmp_path: Path) -> None:
    backup(folder, tmp_path / "copy")
    with pytest.raises(StateError, match="holds the data of a service already") as refused:
        restore(folder, tmp_path / "copy")
    assert refused.value.hint == "--overwrite moves them to a folder in there"
    before = kept(folder)
    for number in (1, 2):
        restore(folder, tmp_path / "copy", overwrite=True)
        assert check(folder / f"before-restore-{number}").ok
    assert_same(kept(folder), before)


def test_nothing_is_restored_under_a_service_that_runs(folder: Path, tmp_path: Path) -> None:
    backup(folder, tmp_path / "copy")
    lock = FolderLock(folder).acquire()
    with pytest.raises(StateError, match="a service is running in") as refused:
        restore(folder, tmp_path / "copy", overwrite=True)
    assert refused.value.hint == "stop it, then restore"
    lock.release()


def test_a_copy_has_a_free_name_and_data_are_of_a_service(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with pytest.raises(StateError, match="is there already"):
        backup(folder, tmp_path / "copy")
    with pytest.raises(StateError, match="expected the folder of a service, found"):
        backup(tmp_path / "copy", tmp_path / "other")
    with pytest.raises(StateError, match="expected the folder of a service, found"):
        check(tmp_path / "nothing")
