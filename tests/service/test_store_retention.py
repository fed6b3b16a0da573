"""What is too old or too much is removed, and nothing that is needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.errors import StateError
from newnormal.service import database
from newnormal.service.database import Database
from newnormal.service.store import Store
from newnormal.service.store.checking import Report, _Positions, _store
from newnormal.service.store.retention import Removed
from newnormal.service.store.schema import MIGRATIONS
from newnormal.service.values import Comment, EventRow
from tests.service.naive_store import BEGIN, SECOND, some_rows
from tests.service.test_store_items import item
from tests.service.test_store_samples import assert_same_series

COUNT = 40_000
END = BEGIN + COUNT * SECOND
ALWAYS = (0, 2**62)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """Three streams of 40,000 seconds."""
    made = Store(path, clock=lambda: 500)
    rng = np.random.default_rng(0)
    for stream in (1, 2, 3):
        made.add(stream, some_rows(rng, 0, COUNT, ("a",)))
    made.flush_tails()
    made.commit()
    yield made
    made.close()


def checked(path: Path) -> Report:
    report = Report(path.parent)
    _store(path, report, _Positions(), set())
    return report


def assert_whole(path: Path) -> None:
    report = checked(path)
    assert report.problems == report.notes == []


def test_samples_go_when_they_are_too_old_and_coarser_ones_stay(store: Store, path: Path) -> None:
    high = store.series(1, *ALWAYS, 30).high
    removed = store.apply_retention(now=END, age_ns={0: 10_000 * SECOND, 1: 10**18})
    assert removed == Removed(blocks=3 * 117)
    assert store.first_kept(1) == 117 * 256
    with pytest.raises(StateError, match="found them removed: kept from 29952 on") as found:
        store.rows(1, 29_000, 30_000)
    assert found.value.hint == "retention decides how long samples are kept"
    assert len(store.rows(1, 29_952, COUNT - 1)) == COUNT - 29_952
    assert store.count(1) == COUNT
    # All of the time is still shown; where a part is gone, by points of 8 samples.
    np.testing.assert_array_equal(store.series(1, *ALWAYS, 30).high, high)
    old = store.series(1, BEGIN, BEGIN + 500 * SECOND, 500)
    assert old.per == 8
    assert (old.times[0], len(old.times)) == (BEGIN, 63)
    assert store.series(1, END - 500 * SECOND, END, 500).per == 1
    assert_whole(path)
    assert store.apply_retention(now=END, age_ns={0: 10_000 * SECOND, 1: 10**18}) == Removed()


def test_after_points_are_gone_too_the_rest_is_shown_from_where_there_is_any(
    store: Store, path: Path
) -> None:
    store.apply_retention(now=END, age_ns={0: 5_000 * SECOND, 1: 8_000 * SECOND, 3: 10**18})
    for points in (1, 30, 1_000, 100_000):
        series = store.series(1, *ALWAYS, points)
        assert len(series.times) <= 2 * points
        assert np.all(np.diff(series.times) > 0)
        assert series.times[0] == BEGIN
    store.apply_retention(now=END, age_ns={0: 5_000 * SECOND})
    for points in (1, 30, 1_000, 100_000):
        series = store.series(1, *ALWAYS, points)
        assert np.all(np.diff(series.times) > 0)
        assert len(series.times)
    assert_whole(path)
    # The newest block of each level stays, so that the stream goes on.
    store.add(1, some_rows(np.random.default_rng(1), COUNT, 30_000, ("a",)))
    store.flush_tails()
    store.commit()
    assert_whole(path)


def test_the_samples_that_a_stream_needs_stay_however_old(store: Store, path: Path) -> None:
    much = END + 10**18
    store.apply_retention(now=much, age_ns={0: 0}, needed={1: 1_000, 2: 10**9})
    assert COUNT - 1_256 <= store.first_kept(1) <= COUNT - 1_000
    assert store.first_kept(2) == 0
    assert store.first_kept(3) == 0  # it is not known what it needs
    store.apply_retention(now=much, age_ns={0: 0})
    assert store.first_kept(3) == COUNT // 256 * 256
    assert_whole(path)


@pytest.mark.parametrize("kept", [{"age_ns": {0: 0}}, {"age_ns": {}, "size": 0}])
def test_where_samples_are_replaced_the_points_of_those_before_are_still_there(
    store: Store, path: Path, tmp_path: Path, kept: dict[str, Any]
) -> None:
    whole = Store(tmp_path / "whole.sqlite")
    whole.add(1, store.rows(1, 0, COUNT - 1))
    removed = store.apply_retention(now=END + 10**18, needed={1: 20_000, 2: 0, 3: 0}, **kept)
    assert removed.blocks > 300
    # A fit that ended here is taken over: what came since is judged, and stored anew.
    rows = some_rows(np.random.default_rng(1), COUNT - 19_000, 25_000, ("a", "b"))
    for each in (store, whole):
        each.add(1, rows)
        each.flush_tails()
        each.commit()
    assert_whole(path)
    begin = BEGIN + store.first_kept(1) * SECOND
    for points in (1, 30, 100, 1_000):
        # At most the first point begins before what is kept.
        comp, ref = (each.series(1, begin, 2**62, points) for each in (store, whole))
        np.testing.assert_array_equal(comp.high[-40:], ref.high[-40:])
        np.testing.assert_array_equal(comp.times[-40:], ref.times[-40:])
    whole.close()


def test_points_are_kept_with_their_samples_whatever_is_cut(path: Path) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        own = path.with_name(f"{seed}.sqlite")
        store = Store(own)
        for _ in range(15):
            count = store.count(1)
            first = int(rng.integers(store.first_kept(1), count + 1)) if count else 0
            store.add(1, some_rows(rng, first, int(rng.choice([1, 300, 5_000, 20_000])), ("a",)))
            store.flush_tails()
            store.commit()
            now = BEGIN + int(rng.integers(0, store.count(1))) * SECOND
            age = {0: 0, 1: int(rng.integers(0, 10_000)) * SECOND}
            needed, most = int(rng.integers(0, 10_000)), int(rng.choice([5, 2_000]))
            size = None if rng.random() < 0.5 else store._database.used // 2
            store.apply_retention(now=now, age_ns=age, needed=needed, size=size, most=most)
            assert_whole(own)
        store.close()


def remove_points(path: Path) -> None:
    """Keep the newest block of points alone, as earlier versions did."""
    with sqlite3.connect(path) as database:
        database.execute(
            "DELETE FROM blocks WHERE level > 0 AND number < (SELECT max(number) FROM blocks AS b"
            " WHERE b.stream = blocks.stream AND b.level = blocks.level)"
        )
    database.close()


def blocks_of_points(store: Store) -> list[tuple[Any, ...]]:
    with store._database.reading() as reader:
        return reader.execute(
            "SELECT level, number, count, begin, end, data FROM blocks"
            " WHERE stream = 1 AND level > 0 ORDER BY level, number"
        ).fetchall()


def test_points_that_an_earlier_version_removed_are_made_again(
    store: Store, path: Path, tmp_path: Path
) -> None:
    whole = Store(tmp_path / "whole.sqlite")
    whole.add(1, store.rows(1, 0, COUNT - 1))
    remove_points(path)
    report = checked(path)
    assert report.ok
    assert len(report.notes) == 6  # of two levels of three streams
    assert (
        "stream 1: samples are kept from 0 on, points of level 1 from sample 38912 on: those "
        "between are made again when they are needed"
    ) in str(report)
    rows = some_rows(np.random.default_rng(1), 30_000, 9_000, ("a", "b"))
    for each in (store, whole):
        each.add(1, rows)
        each.flush_tails()
        each.commit()
    report = checked(path)
    assert report.problems == []
    assert len(report.notes) == 6
    for points in (1, 30, 100, 1_000):
        comp, ref = (
            each.series(1, BEGIN + 30_000 * SECOND, 2**62, points) for each in (store, whole)
        )
        assert_same_series(comp, ref)
    own, others = blocks_of_points(store), blocks_of_points(whole)
    assert [row[:2] for row in own] == [
        *((1, number) for number in range(14, 19)),
        *((2, number) for number in range(1, 3)),
        (3, 0),
    ]
    assert set(own) <= set(others)
    whole.close()


def test_points_whose_samples_are_gone_too_have_missing_values(store: Store, path: Path) -> None:
    store.apply_retention(now=END + 10**18, age_ns={0: 0}, needed={1: 6_000, 2: 6_000, 3: 0})
    remove_points(path)
    first = store.first_kept(1)
    assert first == 33_792  # half of the samples of a block of points
    rng = np.random.default_rng(1)
    # Some of the samples of that block are there, or none.
    for stream, count in ((1, 34_000), (2, first + 5)):
        store.add(stream, some_rows(rng, count, 4_000, ("a",)))
    store.flush_tails()
    store.commit()
    assert checked(path).problems == []
    for stream in (1, 2):
        for points in (1, 30, 100, 400, 10_000):
            series = store.series(stream, *ALWAYS, points)
            assert np.all(np.diff(series.times) > 0)
            assert len(series.times)
        made = store._find(stream, 1, 16)
        assert made is not None
        assert len(made) == 256
        assert np.isnan(made["high"][:128]).all()
        assert not np.isnan(made["high"][128:]).any()
        assert made["times"][128] == BEGIN + first * SECOND


def test_without_an_age_samples_are_kept(store: Store) -> None:
    assert store.apply_retention(now=END + 10**18, age_ns={}) == Removed()
    assert store.apply_retention(now=END + 10**18, age_ns={1: 0}) == Removed()


def test_what_is_too_much_goes_oldest_first_in_pieces_until_it_fits(
    store: Store, path: Path
) -> None:
    store.commit(sync=True)
    used, size = store._database.used, store._database.used // 2
    calls = 0
    while True:
        removed = store.apply_retention(now=END, age_ns={}, size=size, needed=2_000, most=50)
        calls += 1
        if not removed.more:
            break
    assert calls > 2
    assert size * 0.9 < store._database.used <= size
    assert used > store._database.used
    assert {store.first_kept(stream) // 2_560 for stream in (1, 2, 3)} == {
        store.first_kept(1) // 2_560
    }
    store.apply_retention(now=END, age_ns={}, size=0, needed=2_000)
    assert all(store.first_kept(stream) <= COUNT - 2_000 for stream in (1, 2, 3))
    assert len(store.rows(1, COUNT - 2_000, COUNT - 1)) == 2_000
    assert_whole(path)


def test_the_file_gets_smaller(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_SPARE", 10)
    store.apply_retention(now=END + 10**18, age_ns={0: 0})
    store.close()
    assert path.stat().st_size < 800_000


def test_only_closed_items_events_and_delivered_alerts_go(store: Store) -> None:
    for number in range(1_200):
        old = item(number, opened=1, updated=2, state="closed", ended=2)
        store.put_item(old if number else replace(old, state="pending", ended=None))
        store.put_event(EventRow(number + 1, 0, "opened", number, 1, None, {}))
        store.put_alert(f"alarm-{number}:fired", "hook", {})
    store.commit()
    store.comment(Comment("alarm-0", 1, "ann", "stays"))
    store.comment(Comment("alarm-7", 1, "ann", "goes"))
    for number in range(0, 1_200, 2):
        store.mark_alert(f"alarm-{number}:fired", "hook", delivered=5, attempts=1, next_try=0)
    removed = store.apply_retention(now=1_100, age_ns={}, items_age_ns=100)
    assert removed == Removed(0, 1_199, 1_000, 599)
    assert [each.key for each in store.items().items] == ["alarm-0"]
    assert [each.text for each in store.comments("alarm-0")] == ["stays"]
    assert store.comments("alarm-7") == []
    assert len(store.events(limit=9_999)) == 200
    assert store.alert_counts()["hook"]["waiting"] == 600
    assert store.alert_counts()["hook"]["delivered"] == 1
    assert store.alert("alarm-0:fired", "hook") is not None  # of the item that is open


def test_what_samples_of_years_ago_led_to_is_kept_from_when_it_was_written(tmp_path: Path) -> None:
    now = 1_000
    store = Store(tmp_path / "store.sqlite", clock=lambda: now)
    for number in range(3):
        store.put_item(item(number, opened=1, updated=2, state="closed", ended=2))
        store.put_event(EventRow(number + 1, 0, "closed", 2, 1, f"alarm-{number}", {}))
        store.commit()
        now += 1_000
    # A sample of tomorrow: what it led to goes by that.
    store.put_item(item(9, opened=1, updated=9_000, state="closed", ended=9_000))
    store.commit()
    for at, left in ((1_100, 3), (1_101, 2), (2_101, 1), (3_101, 0)):
        removed = store.apply_retention(now=at, age_ns={}, items_age_ns=100)
        assert removed == Removed(items=int(left < 3), events=int(left < 3))
        keys = [each.key for each in store.items().items]
        assert keys == ["alarm-9", *(f"alarm-{number}" for number in range(3 - left, 3))]
        assert [each.item for each in store.events()] == keys[1:]
    store.close()


def test_a_store_of_the_version_before_is_read_and_its_items_are_as_old_as_their_samples(
    path: Path,
) -> None:
    before = Database(path, MIGRATIONS[:1], synchronous="NORMAL")
    with before.transaction() as writer:
        for number, updated in ((1, 2), (2, 1_000)):
            writer.execute(
                "INSERT INTO items VALUES"
                " (?, 'alarm', 1, 1, ?, 'closed', 0, 1, ?, ?, 1.5, 'a: high', ?, 5)",
                (f"alarm-{number}", number, updated, updated, '{"n":1}'),
            )
            writer.execute(
                "INSERT INTO events VALUES (?, 0, 'closed', ?, 1, 'alarm-1', '{}')",
                (number, updated),
            )
    before.close()
    store = Store(path, clock=lambda: 1_000)
    closed = item(2, opened=1, updated=1_000, state="closed", ended=1_000)
    assert store.item("alarm-2") == closed
    assert len(store.events()) == 2
    removed = store.apply_retention(now=1_050, age_ns={}, items_age_ns=100)
    assert removed == Removed(items=1, events=1)
    assert store.items().items == (closed,)
    store.close()


def test_rejected_channels_of_the_version_before_are_not_open(path: Path) -> None:
    before = Database(path, MIGRATIONS[:1], synchronous="NORMAL")
    with before.transaction() as writer:
        for number, kind in ((1, "channels"), (2, "change")):
            writer.execute(
                "INSERT INTO items VALUES (?, ?, 1, 1, ?, 'rejected', 1, 1, 2, ?, 0, 'c', '{}', 5)",
                (f"{kind}-1-1-1", kind, number, 2 if kind == "channels" else None),
            )
    before.close()
    store = Store(path)
    assert [each.key for each in store.items(open_only=True).items] == ["change-1-1-1"]
    store.close()
