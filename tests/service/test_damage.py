"""Damaged databases of the service: nothing is lost in silence, and what was told stays."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from newnormal.engine import checkpoints
from newnormal.engine.alert_bodies import OPENING
from newnormal.engine.applying import Applier
from newnormal.engine.checkpoints import save_checkpoint
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.repairing import repair
from newnormal.engine.running import Engine
from newnormal.engine.store import Store
from newnormal.engine.store.backup import backup
from newnormal.engine.store.checking import check
from newnormal.engine.values import Comment, EventRow, Item
from newnormal.errors import StateError
from newnormal.fleet.folder.lock import FolderLock
from newnormal.service.service import Service
from tests.fuzz.requests import Request
from tests.service.killing import contents, opened
from tests.service.running import Start, arrival, config_of, go_live, number, push, samples
from tests.service.stories import Story
from tests.service.test_engine_recovery import Killed
from tests.service.test_engine_recovery import killed as killed_now
from tests.service.test_faults import _HOST, asked
from tests.service.test_store_backup import changed, go_on


@pytest.fixture
def killed(start: Start, tmp_path: Path) -> Path:
    """The data folder of a service that was killed with samples behind its last checkpoint."""
    with start() as service:
        go_live(service)
        service.checkpoint()
        for first in range(150, 160):
            push(service, arrival(first, samples(first, 1)))
        service.store.items.add_comment(Comment("alarm-1-1-1", 5, "me", "seen"))
        folder = tmp_path / "killed"
        shutil.copytree(tmp_path / "data", folder / "data")
    return folder


def flip(path: Path, at: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def flip_first_frame(data: Path) -> None:
    flip(data / "log.sqlite-wal", 32 + 24 + 100)


def flip_last_frame(data: Path) -> None:
    flip(data / "log.sqlite-wal", _end(data / "log.sqlite-wal") - 50)


def _end(path: Path) -> int:
    """Return where the newest frames of a WAL end: those behind have another salt."""
    content = path.read_bytes()
    at = 32
    while content[at + 8 : at + 16] == content[16:24]:
        at += 24 + 4096
    return at


def cut_wal(data: Path) -> None:
    path = data / "log.sqlite-wal"
    path.write_bytes(path.read_bytes()[: _end(path) - 4096])


def empty_wal(data: Path) -> None:
    (data / "log.sqlite-wal").write_bytes(b"")


def no_wal(data: Path) -> None:
    (data / "log.sqlite-wal").unlink()


def no_log(data: Path) -> None:
    for path in {*data.glob("log.sqlite*")} - {data / "log.sqlite-mark"}:
        path.unlink()


SPOILT = [flip_first_frame, flip_last_frame, cut_wal, empty_wal, no_wal, no_log]


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_log_that_has_lost_its_end_is_refused_and_named(
    killed: Path, spoil: Callable[[Path], None]
) -> None:
    data = killed / "data"
    spoil(data)
    with pytest.raises(
        StateError, match=r"expected the log up to position \d+, found it up to \d+: what was ack"
    ) as refused:
        Service(config_of(killed)).start()
    assert refused.value.hint == (
        "restore a backup; newnormal serve verify --repair goes on without it"
    )
    report = check(data)
    assert any("expected the log up to position" in problem for problem in report.problems)
    with pytest.raises(StateError):
        backup(data, killed / "copy")


def test_what_was_logged_and_not_applied_is_missed_too(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "data" / "log.sqlite")
    assert [log.append(b"x" * 100) for _ in range(3)] == [1, 2, 3]
    shutil.copytree(tmp_path / "data", tmp_path / "killed")
    log.close()
    cut_wal(tmp_path / "killed")
    log = SqliteLog(tmp_path / "killed" / "log.sqlite")
    assert (log.last, log.marked) == (2, 3)
    with (
        pytest.raises(StateError, match="up to position 3, found it up to 2"),
        opened(tmp_path / "killed", log),
    ):
        pass
    log.close()


def test_a_mark_that_is_damaged_or_gone_changes_nothing(killed: Path, start: Start) -> None:
    data = killed / "data"
    flip(data / "log.sqlite-mark", 3)
    (data / "store.sqlite-mark").unlink()
    assert check(data).ok
    service = Service(config_of(killed))
    service.start()
    assert service.store.samples.count(number(service)) == 160
    service.stop()


@pytest.mark.parametrize("spoil", [flip_first_frame, no_log])
def test_after_a_repair_what_is_left_goes_on_and_no_name_is_given_out_twice(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    lost_names, data, folder = set[str](), tmp_path / "data", tmp_path / "killed"
    for seed in range(2):
        log, story = SqliteLog(data / "log.sqlite", sync=False), Story(seed)
        with opened(data, log) as applier:
            go_on(story, applier, log, 40)
            save_checkpoint(applier)
            log.settle()
            reached = log.last
            go_on(story, applier, log, 40)
            shutil.copytree(data, folder)
            before = contents(applier)
        log.close()
        spoil(folder)
        with logged(folder) as log, pytest.raises(StateError), opened(folder, log):
            pass
        (line,) = repair(folder)
        assert f"log.sqlite: lost are the records {reached + 1} to {reached + 40}, with" in line
        assert check(folder).ok and repair(folder) == []
        with logged(folder) as log, opened(folder, log) as applier:
            assert log.last == applier.position == reached + 41
            go_on(story, applier, log, 40)
            after = contents(applier)
        lost_names |= compare_names(before, after, reached)
        shutil.rmtree(data)
        shutil.rmtree(folder)
    assert lost_names


def compare_names(before: Any, after: Any, reached: int) -> set[str]:
    """Check that no name of the lost records was given to something else; return those names."""
    old = {event[5] for event in before["events"] if event[0] <= reached}
    lost = {event[5] for event in before["events"] if event[5]} - old
    later = [event for event in after["events"] if event[0] > reached + 40]
    assert not lost & {event[5] for event in later if event[2] in OPENING}
    assert before["events"] == after["events"][: len(before["events"])]
    assert all(after["alerts"][key] == body for key, body in before["alerts"].items())
    for key in lost:
        assert key not in after["items"] or not Item(**after["items"][key]).open
    known = {stream["id"] for stream in before["streams"].values()}
    new = after["streams"].keys() - before["streams"].keys()
    assert not known & {after["streams"][name]["id"] for name in new}
    return lost


@contextmanager
def logged(folder: Path) -> Iterator[SqliteLog]:
    log = SqliteLog(folder / "log.sqlite")
    try:
        yield log
    finally:
        log.close()


# ---------------------------------------------------------------------- recovery


def test_a_recovery_ends_with_a_checkpoint_and_makes_some_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "1" / "data"
    with logged(data) as log, opened(data, log) as applier:
        go_on(Story(1), applier, log, 12)
    apply, applied, runs = Applier.apply, list[int](), list[list[int]]()

    def dying(self: Applier, position: int, entries: Any) -> Any:
        applied.append(position)
        if applied == [1, 2, 3, 4, 5, 6]:
            raise Killed
        return apply(self, position, entries)

    monkeypatch.setattr(Applier, "apply", dying)
    monkeypatch.setattr(Engine, "start", killed_now)
    monkeypatch.setattr(checkpoints, "_EVERY_S", 0.0)
    for start in (1, 2, 3):
        with pytest.raises(Killed):
            Service(config_of(tmp_path / str(start))).start()
        shutil.copytree(tmp_path / str(start), tmp_path / str(start + 1))  # nothing holds the copy
        runs.append(applied.copy())
        applied.clear()
        monkeypatch.setattr(checkpoints, "_EVERY_S", 1e9)
    assert runs == [[1, 2, 3, 4, 5, 6], [6, 7, 8, 9, 10, 11, 12], []]


# ---------------------------------------------------------------------- rows


def an_item(number: int) -> Item:
    key = f"alarm-1-1-{number}"
    return Item(key, "alarm", 1, 1, number, "open", 1, number, None, 1.5, "a: 5 high", {}, number)


@pytest.fixture
def told(path: Path) -> Path:
    """The path of a store with three of each of what is told."""
    store = Store(path)
    for at in (1, 2, 3):
        store.items.put(an_item(at))
        store.events.put(EventRow(at, 0, "opened", at, 1, f"alarm-1-1-{at}", {"sentence": "5"}))
        store.outbox.put(f"alarm-1-1-{at}:fired", "hook", {"sentence": "5"})
        store.items.add_comment(Comment("alarm-1-1-1", at, "me", f"seen {at}"))
        store.settings.put("space", f"name{at}", at)
    store.commit()
    store.close()
    return path


@pytest.mark.parametrize(
    "column",
    ["state = 'closed'", "sentence = 'a: 7 high'", "body = '{'", "opened = 2", "ratio = 9.5"],
)
def test_a_damaged_item_is_left_out_and_named(told: Path, column: str) -> None:
    changed(told, f"UPDATE items SET {column} WHERE number = 2")
    store = Store(told)
    assert [item.number for item in store.items.page().items] == [3, 1]
    pages = [store.items.page(limit=1)]
    while pages[-1].cursor:
        pages.append(store.items.page(limit=1, cursor=pages[-1].cursor))
    assert [[item.number for item in page.items] for page in pages] == [[3], [], [1]]
    assert store.items.get("alarm-1-1-2") is None and store.items.get("alarm-1-1-3") == an_item(3)
    assert_named(store, "'alarm-1-1-2' of items is damaged")


@pytest.mark.parametrize("column", ["kind = 'x'", "time = 9", "body = '{}'", "item = NULL"])
def test_a_damaged_event_is_left_out_and_named(told: Path, column: str) -> None:
    changed(told, f"UPDATE events SET {column} WHERE position = 2")
    store = Store(told)
    assert [event.position for event in store.events.read(limit=2)] == [1, 3]
    assert [event.position for event in store.events.read(stream=1, after="1-0")] == [3]
    assert_named(store, "'2-0' of events is damaged")


def test_a_text_that_is_none_hides_no_other_row(told: Path) -> None:
    changed(told, "UPDATE items SET sentence = CAST(x'61ff' AS TEXT) WHERE number = 2")
    changed(told, "UPDATE events SET kind = x'61', item = CAST(x'ff' AS TEXT) WHERE position = 2")
    store = Store(told)
    assert len(store.items.page().items) == len(store.events.read()) == 2
    assert len(store.connection.damaged) == 2
    store.close()


def test_a_damaged_alert_is_set_aside_and_others_of_its_item_are_sent(told: Path) -> None:
    changed(told, "UPDATE alerts SET body = '{}', item = 'alarm-1-1-3' WHERE id = 2")
    store = Store(told)
    assert [alert.id for alert in store.outbox.due("hook", 1 << 62, 2)] == [1]
    assert [alert.id for alert in store.outbox.due("hook", 1 << 62, 2)] == [1, 3]
    store.outbox.mark("alarm-1-1-1:fired", "hook", delivered=5, attempts=1, next_try=0)
    assert [alert.delivered for alert in store.outbox.all()] == [5, None]
    assert store.outbox.counts()["hook"]["unsent"] == 1
    assert_named(store, "'alarm-1-1-2:fired-hook' of alerts is damaged")


def test_damaged_comments_and_settings_are_left_out_and_named(told: Path) -> None:
    changed(told, "UPDATE comments SET text = 'scorn 2' WHERE id = 2")
    changed(told, "UPDATE settings SET value = '{' WHERE name = 'name2'")
    store = Store(told)
    assert [comment.text for comment in store.items.comments("alarm-1-1-1")] == ["seen 1", "seen 3"]
    assert store.settings.all("space") == {"name1": 1, "name3": 3}
    assert store.settings.get("space", "name2") is None and not store.settings.are_intact()
    assert_named(store, "'alarm-1-1-1-2' of comments is damaged", "'space-name2' of settings is")


def assert_named(store: Store, *texts: str) -> None:
    """Check that a store names what is damaged, and so does a check, and close it."""
    path = store.connection.database.path
    store.close()
    assert len(store.connection.damaged) == len(texts)
    for text in texts:
        assert any(text in line for line in store.connection.damaged)
        assert any(text in problem for problem in check(path.parent).problems)


def test_pages_go_on_where_rows_are_damaged_and_health_names_them(start: Start) -> None:
    with start() as service:
        go_live(service)
        changed(service.config.data / "store.sqlite", "UPDATE events SET body = '{'")
        for path in (b"/api/v1/events.json", b"/api/v1/items", b"/api/v1/streams", b"/"):
            status, _, body = asked(service, Request("GET", path, b"", [_HOST], [b""]))
            assert status == 200, body
        health = service.health()
        assert health["status"] == "degraded"
        assert "of events is damaged: it is left out" in health["parts"]["store"]["message"]


def test_a_damaged_token_lets_nobody_in(start: Start) -> None:
    with start() as service:
        service.store.settings.put("tokens", "me", {"hash": "x", "role": "read"})
        changed(service.config.data / "store.sqlite", "UPDATE settings SET space = 'tokenr'")
        status, _, body = asked(service, Request("GET", b"/api/v1/streams", b"", [_HOST], [b""]))
        assert status == 503 and b"found damaged settings" in body


def test_comments_that_were_kept_are_missed_where_the_store_has_lost_its_end(
    killed: Path, start: Start
) -> None:
    data = killed / "data"
    (data / "store.sqlite-wal").unlink()
    with pytest.raises(StateError, match=r"expected \d+ synced commits, found \d+: the newest are"):
        Service(config_of(killed)).start()
    assert any("synced commits, found" in problem for problem in check(data).problems)


# ---------------------------------------------------------------------- the start


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def no_header(path: Path) -> None:
    path.write_bytes(b"x" * 16 + path.read_bytes()[16:])


def other_schema(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE", b"CREATE TABLF"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def zeros(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))


@pytest.mark.parametrize("spoil", [a_folder, no_header, other_schema, cut, zeros])
@pytest.mark.parametrize("name", ["log.sqlite", "store.sqlite"])
def test_a_start_on_a_damaged_database_says_what_to_do(
    tmp_path: Path, start: Start, name: str, spoil: Callable[[Path], None]
) -> None:
    with start() as service:
        push(service, arrival(0, samples(0, 100)))
    spoil(service.config.data / name)
    for _ in range(2):  # nothing holds the folder
        with pytest.raises(StateError, match=name) as refused:
            Service(service.config).start()
        assert "restore a backup" in str(refused.value.hint)


def test_garbage_beside_the_databases_is_harmless(killed: Path) -> None:
    for name in ("log", "store"):
        (killed / "data" / f"{name}.sqlite-shm").write_bytes(b"garbage" * 5000)
    service = Service(config_of(killed))
    service.start()
    assert service.store.samples.count(number(service)) == 160
    service.stop()


def test_a_lock_that_is_a_link_is_refused_and_its_target_stays(tmp_path: Path) -> None:
    target, folder = tmp_path / "target", tmp_path / "data"
    target.write_text("mine")
    folder.mkdir()
    (folder / "lock").symlink_to(target)
    with pytest.raises(StateError, match="lock: expected a file, found a link") as refused:
        FolderLock(folder).acquire()
    assert refused.value.hint == "remove the link"
    with pytest.raises(StateError, match="lock: expected a file, found a link"):
        Service(config_of(tmp_path)).start()
    assert target.read_text() == "mine"
