"""What is too old or too much is removed, and nothing that is needed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.engine import database
from newnormal.engine.store import Store
from newnormal.engine.store.checking import FolderReport, _Positions, _store
from newnormal.engine.store.retention import RetentionCounts, apply_retention
from newnormal.engine.values import Comment, EventRow
from newnormal.errors import StateError
from tests.service.naive_store import BEGIN, SECOND, some_rows
from tests.service.test_store_items import item

COUNT = 40_000
END = BEGIN + COUNT * SECOND
ALWAYS = (0, 2**62)


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """Three streams of 40,000 seconds."""
    made = Store(path, clock=lambda: 500)
    rng = np.random.default_rng(0)
    for stream in (1, 2, 3):
        made.samples.add(stream, some_rows(rng, 0, COUNT, ("a",)))
    made.samples.flush()
    made.commit()
    yield made
    made.close()


def assert_whole(path: Path) -> None:
    report = FolderReport(path.parent)
    _store(path, report, _Positions(), set())
    assert report.problems == []


def test_samples_go_when_they_are_too_old_and_coarser_ones_stay(store: Store, path: Path) -> None:
    high = store.samples.series(1, *ALWAYS, 30).high
    removed = apply_retention(store, now=END, age_ns={0: 10_000 * SECOND, 1: 10**18})
    assert removed == RetentionCounts(blocks=3 * 117)
    assert store.samples.first_kept(1) == 117 * 256
    with pytest.raises(StateError, match="found them removed: kept from 29952 on") as found:
        store.samples.rows(1, 29_000, 30_000)
    assert found.value.hint == "retention decides how long samples are kept"
    assert len(store.samples.rows(1, 29_952, COUNT - 1)) == COUNT - 29_952
    assert store.samples.count(1) == COUNT
    # All of the time is still shown; where a part is gone, by points of 8 samples.
    np.testing.assert_array_equal(store.samples.series(1, *ALWAYS, 30).high, high)
    old = store.samples.series(1, BEGIN, BEGIN + 500 * SECOND, 500)
    assert old.per == 8
    assert (old.times[0], len(old.times)) == (BEGIN, 63)
    assert store.samples.series(1, END - 500 * SECOND, END, 500).per == 1
    assert_whole(path)
    assert (
        apply_retention(store, now=END, age_ns={0: 10_000 * SECOND, 1: 10**18}) == RetentionCounts()
    )


def test_after_points_are_gone_the_rest_is_shown_from_there(store: Store, path: Path) -> None:
    apply_retention(store, now=END, age_ns={0: 5_000 * SECOND, 1: 8_000 * SECOND, 3: 10**18})
    for points in (1, 30, 1_000, 100_000):
        series = store.samples.series(1, *ALWAYS, points)
        assert len(series.times) <= 2 * points
        assert np.all(np.diff(series.times) > 0)
        assert series.times[0] == BEGIN
    apply_retention(store, now=END, age_ns={0: 5_000 * SECOND})
    for points in (1, 30, 1_000, 100_000):
        series = store.samples.series(1, *ALWAYS, points)
        assert np.all(np.diff(series.times) > 0)
        assert len(series.times)
    assert_whole(path)
    # The newest block of each level stays, so that the stream goes on.
    store.samples.add(1, some_rows(np.random.default_rng(1), COUNT, 30_000, ("a",)))
    store.samples.flush()
    store.commit()
    assert_whole(path)


def test_the_samples_that_a_stream_needs_stay_however_old(store: Store, path: Path) -> None:
    much = END + 10**18
    apply_retention(store, now=much, age_ns={0: 0}, needed={1: 1_000, 2: 10**9})
    assert COUNT - 1_256 <= store.samples.first_kept(1) <= COUNT - 1_000
    assert store.samples.first_kept(2) == 0
    assert store.samples.first_kept(3) == 0  # it is not known what it needs
    apply_retention(store, now=much, age_ns={0: 0})
    assert store.samples.first_kept(3) == COUNT // 256 * 256
    assert_whole(path)


@pytest.mark.parametrize("kept", [{"age_ns": {0: 0}}, {"age_ns": {}, "size": 0}])
def test_where_samples_are_replaced_the_points_of_those_before_are_still_there(
    store: Store, path: Path, tmp_path: Path, kept: dict[str, Any]
) -> None:
    whole = Store(tmp_path / "whole.sqlite")
    whole.samples.add(1, store.samples.rows(1, 0, COUNT - 1))
    removed = apply_retention(store, now=END + 10**18, needed={1: 20_000, 2: 0, 3: 0}, **kept)
    assert removed.blocks > 300
    # A fit that ended here is taken over: what came since is judged, and stored anew.
    rows = some_rows(np.random.default_rng(1), COUNT - 19_000, 25_000, ("a", "b"))
    for each in (store, whole):
        each.samples.add(1, rows)
        each.samples.flush()
        each.commit()
    assert_whole(path)
    begin = BEGIN + store.samples.first_kept(1) * SECOND
    for points in (1, 30, 100, 1_000):
        # At most the first point begins before what is kept.
        comp, ref = (each.samples.series(1, begin, 2**62, points) for each in (store, whole))
        np.testing.assert_array_equal(comp.high[-40:], ref.high[-40:])
        np.testing.assert_array_equal(comp.times[-40:], ref.times[-40:])
    whole.close()


def test_points_are_kept_with_their_samples_whatever_is_cut(path: Path) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        own = path.with_name(f"{seed}.sqlite")
        store = Store(own)
        for _ in range(15):
            count = store.samples.count(1)
            first = int(rng.integers(store.samples.first_kept(1), count + 1)) if count else 0
            store.samples.add(
                1, some_rows(rng, first, int(rng.choice([1, 300, 5_000, 20_000])), ("a",))
            )
            store.samples.flush()
            store.commit()
            now = BEGIN + int(rng.integers(0, store.samples.count(1))) * SECOND
            age = {0: 0, 1: int(rng.integers(0, 10_000)) * SECOND}
            needed, most = int(rng.integers(0, 10_000)), int(rng.choice([5, 2_000]))
            size = None if rng.random() < 0.5 else store.connection.database.used // 2
            apply_retention(store, now=now, age_ns=age, needed=needed, size=size, most=most)
            assert_whole(own)
        store.close()


def test_without_an_age_samples_are_kept(store: Store) -> None:
    assert apply_retention(store, now=END + 10**18, age_ns={}) == RetentionCounts()
    assert apply_retention(store, now=END + 10**18, age_ns={1: 0}) == RetentionCounts()


def test_what_is_too_much_goes_oldest_first_until_it_fits(store: Store, path: Path) -> None:
    store.commit(sync=True)
    used, size = store.connection.database.used, store.connection.database.used // 2
    calls = 0
    while True:
        removed = apply_retention(store, now=END, age_ns={}, size=size, needed=2_000, most=50)
        calls += 1
        if not removed.more:
            break
    assert calls > 2
    assert size * 0.9 < store.connection.database.used <= size
    assert used > store.connection.database.used
    assert {store.samples.first_kept(stream) // 2_560 for stream in (1, 2, 3)} == {
        store.samples.first_kept(1) // 2_560
    }
    apply_retention(store, now=END, age_ns={}, size=0, needed=2_000)
    assert all(store.samples.first_kept(stream) <= COUNT - 2_000 for stream in (1, 2, 3))
    assert len(store.samples.rows(1, COUNT - 2_000, COUNT - 1)) == 2_000
    assert_whole(path)


def test_the_file_gets_smaller(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_SPARE", 10)
    apply_retention(store, now=END + 10**18, age_ns={0: 0})
    store.close()
    assert path.stat().st_size < 800_000


def test_only_closed_items_events_and_delivered_alerts_go(store: Store) -> None:
    for number in range(1_200):
        old = item(number, opened=1, updated=2, state="closed", ended=2)
        store.items.put(old if number else replace(old, state="pending", ended=None))
        store.events.put(EventRow(number + 1, 0, "opened", number, 1, None, {}))
        store.outbox.put(f"alarm-{number}:fired", "hook", {})
    store.commit()
    store.items.add_comment(Comment("alarm-0", 1, "ann", "stays"))
    store.items.add_comment(Comment("alarm-7", 1, "ann", "goes"))
    for number in range(0, 1_200, 2):
        store.outbox.mark(f"alarm-{number}:fired", "hook", delivered=5, attempts=1, next_try=0)
    removed = apply_retention(store, now=1_100, age_ns={}, items_age_ns=100)
    assert removed == RetentionCounts(0, 1_199, 1_000, 599)
    assert [each.key for each in store.items.page().items] == ["alarm-0"]
    assert [each.text for each in store.items.comments("alarm-0")] == ["stays"]
    assert store.items.comments("alarm-7") == []
    assert len(store.events.read(limit=9_999)) == 200
    assert store.outbox.counts()["hook"]["waiting"] == 600
    assert store.outbox.counts()["hook"]["delivered"] == 1
    assert store.outbox.get("alarm-0:fired", "hook") is not None  # of the item that is open


def test_what_samples_of_years_ago_led_to_is_kept_from_when_it_was_written(tmp_path: Path) -> None:
    now = 1_000
    store = Store(tmp_path / "store.sqlite", clock=lambda: now)
    for number in range(3):
        store.items.put(item(number, opened=1, updated=2, state="closed", ended=2))
        store.events.put(EventRow(number + 1, 0, "closed", 2, 1, f"alarm-{number}", {}))
        store.commit()
        now += 1_000
    # A sample of tomorrow: what it led to goes by that.
    store.items.put(item(9, opened=1, updated=9_000, state="closed", ended=9_000))
    store.commit()
    for at, left in ((1_100, 3), (1_101, 2), (2_101, 1), (3_101, 0)):
        removed = apply_retention(store, now=at, age_ns={}, items_age_ns=100)
        assert removed == RetentionCounts(items=int(left < 3), events=int(left < 3))
        keys = [each.key for each in store.items.page().items]
        assert keys == ["alarm-9", *(f"alarm-{number}" for number in range(3 - left, 3))]
        assert [each.item for each in store.events.read()] == keys[1:]
    store.close()
