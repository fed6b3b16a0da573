"""The log of the service: what was appended is there, in order, whatever happens."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from newnormal.engine.database import Database
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.errors import StateError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite"


@pytest.fixture
def log(path: Path) -> Iterator[SqliteLog]:
    made = SqliteLog(path)
    yield made
    made.close()


def spoil(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()


def test_records_come_back_in_order_behind_any_position(log: SqliteLog) -> None:
    records = [bytes([at]) * (at * 700) for at in range(20)]
    assert [log.append(record) for record in records] == list(range(1, 21))
    for after in range(21):
        assert list(log.read(after)) == list(enumerate(records, 1))[after:]
    assert list(log.read(30)) == []
    assert log.last == 20
    assert log.size > 20 * 7_000


def test_an_empty_log_has_no_position(log: SqliteLog) -> None:
    assert (log.first, log.last) == (1, 0)
    assert list(log.read(0)) == []


def test_positions_are_not_used_again_after_a_trim(path: Path) -> None:
    log = SqliteLog(path)
    for at in range(1000):
        log.append(b"%d" % at)
    log.trim(990)
    assert (log.first, log.last) == (991, 1000)
    assert [position for position, _ in log.read(990)] == list(range(991, 1001))
    log.trim(5_000)
    assert (log.first, log.last) == (1001, 1000)
    log.close()
    log = SqliteLog(path)
    assert (log.first, log.last) == (1001, 1000)
    assert log.append(b"next") == 1001
    log.trim(10)  # what is trimmed stays so
    assert list(log.read(1000)) == [(1001, b"next")]
    log.close()


def test_records_that_were_trimmed_are_not_skipped_silently(log: SqliteLog) -> None:
    for _ in range(5):
        log.append(b"x")
    log.trim(3)
    with pytest.raises(
        StateError, match=r"from position 2 on, found them trimmed up to 3"
    ) as found:
        list(log.read(1))
    assert found.value.hint == (
        "the checkpoint is older than the log: restore both from one backup"
    )


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE records SET record = x'00' WHERE position = 3", "at position 3 is damaged"),
        ("UPDATE records SET crc = crc + 1 WHERE position = 3", "at position 3 is damaged"),
        ("UPDATE records SET record = 'text' WHERE position = 3", "at position 3 is damaged"),
        ("DELETE FROM records WHERE position = 3", "at position 3 is missing"),
    ],
)
def test_a_damaged_record_is_named_and_those_before_it_are_read(
    log: SqliteLog, path: Path, statement: str, message: str
) -> None:
    for at in range(5):
        log.append(b"%d" % at)
    spoil(path, statement)
    found = log.read(0)
    assert [next(found), next(found)] == [(1, b"0"), (2, b"1")]
    with pytest.raises(StateError, match=message):
        next(found)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("DELETE FROM trimmed", "none"),
        ("UPDATE trimmed SET upto = 'far'", "'far'"),
        ("UPDATE trimmed SET upto = -1", "-1"),
    ],
)
def test_a_log_that_does_not_know_where_it_begins_is_refused(
    log: SqliteLog, path: Path, statement: str, found: str
) -> None:
    log.append(b"one")
    spoil(path, statement)
    with pytest.raises(StateError, match=f"up to which it is trimmed, found {found}"):
        SqliteLog(path)


def test_on_a_full_disk_nothing_is_written_until_there_is_room(log: SqliteLog) -> None:
    log.append(b"before")
    log._database._writer.execute("PRAGMA max_page_count=20").fetchall()
    with pytest.raises(StateError, match="the disk is full") as found:
        log.append(bytes(200_000))
    assert found.value.hint == (
        "make room; nothing is lost, and writing goes on once there is room"
    )
    with pytest.raises(StateError, match="the disk is full"):
        log.append(bytes(200_000))
    assert log.append(b"small") == 2
    log._database._writer.execute("PRAGMA max_page_count=100000").fetchall()
    assert log.append(bytes(200_000)) == 3
    assert [len(record) for _, record in log.read(0)] == [6, 5, 200_000]


def test_readers_in_other_threads_read_while_it_is_written_and_trimmed(log: SqliteLog) -> None:
    problems: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            start = log.first + 50  # trimmed up to 40 behind the newest
            try:
                for position, record in log.read(start):
                    if record != b"%d" % position:
                        problems.append(f"{position}: {record!r}")
            except StateError as error:
                problems.append(str(error))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for position in range(1, 400):
        assert log.append(b"%d" % position) == position
        log.trim(position - 200)
    done.set()
    for thread in threads:
        thread.join()
    # A reader that was overtaken by a trim is told so; others find every record.
    assert [each for each in problems if "trimmed" not in each] == []


def test_only_its_owner_can_read_it(log: SqliteLog, path: Path) -> None:
    log.append(b"secret")
    for each in path.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


def test_what_is_no_log_is_refused(path: Path) -> None:
    path.write_text("not a database, but long enough to look at" * 100)
    with pytest.raises(StateError, match="expected a database of newnormal, found damage"):
        SqliteLog(path)
    with pytest.raises(StateError, match="cannot write"):
        SqliteLog(path / "below")


def test_after_it_was_closed_nothing_is_read(path: Path) -> None:
    log = SqliteLog(path)
    log.append(b"x")
    log.close()
    with pytest.raises(StateError, match="to be open, found it closed"):
        list(log.read(0))


_WRITER = """
import sys
from pathlib import Path
from newnormal.engine.log.sqlite_log import SqliteLog
log = SqliteLog(Path(sys.argv[1]))
while True:
    position = log.append(b"%d" % (log.last + 1) * 500)
    print(position, flush=True)
    if position % 40 == 0:
        log.trim(position - 60)
"""


def test_after_a_kill_every_record_that_was_acknowledged_is_there(path: Path) -> None:
    acknowledged = 0
    for run in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(17 + run * 10):
                acknowledged = int(writer.stdout.readline())
            os.kill(writer.pid, signal.SIGKILL)
            acknowledged = max([acknowledged, *map(int, writer.stdout.read().split())])
        log = SqliteLog(path)
        assert log.last >= acknowledged
        for position, record in log.read(log.first - 1):
            assert record == b"%d" % position * 500
        log.close()


OLD = (("CREATE TABLE things (name TEXT)", "INSERT INTO things VALUES ('one')"),)
NEW = (*OLD, ("ALTER TABLE things ADD COLUMN size INTEGER DEFAULT 7",))


def test_an_older_version_is_brought_up_to_date_and_a_newer_one_refused(path: Path) -> None:
    Database(path, OLD, synchronous="NORMAL").close()
    for _ in range(2):
        database = Database(path, NEW, synchronous="NORMAL")
        with database.reading() as reader:
            assert reader.execute("SELECT * FROM things").fetchall() == [("one", 7)]
        database.close()
    with pytest.raises(StateError, match="expected at most version 1, found 2") as found:
        Database(path, OLD, synchronous="NORMAL")
    assert found.value.hint == ("a newer newnormal wrote it: use that, or restore an older backup")


def test_a_migration_that_fails_leaves_the_older_version(path: Path) -> None:
    Database(path, OLD, synchronous="NORMAL").close()
    with pytest.raises(StateError, match="no such table: absent"):
        Database(path, (*NEW[:1], (*NEW[1], "DROP TABLE absent")), synchronous="NORMAL")
    database = Database(path, NEW, synchronous="NORMAL")
    with database.reading() as reader:
        assert reader.execute("SELECT * FROM things").fetchall() == [("one", 7)]
    database.close()
