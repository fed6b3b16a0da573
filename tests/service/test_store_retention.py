"""What is too old or too much is removed, and nothing that is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from newnormal.errors import StateError
from newnormal.service import database
from newnormal.service.store import Store
from newnormal.service.store.checking import Report, _Positions, _store
from newnormal.service.store.retention import Removed
from newnormal.service.values import Comment, EventRow
from tests.service.naive_store import BEGIN, SECOND, some_rows
from tests.service.test_store_items import item

COUNT = 40_000
END = BEGIN + COUNT * SECOND
ALWAYS = (0, 2**62)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """Three streams of 40,000 seconds."""
    made = Store(path, clock=lambda: 1_000)
    rng = np.random.default_rng(0)
    for stream in (1, 2, 3):
        made.add(stream, some_rows(rng, 0, COUNT, ("a",)))
    made.flush_tails()
    made.commit()
    yield made
    made.close()


def assert_whole(path: Path) -> None:
    report = Report(path.parent)
    _store(path, report, _Positions(), set())
    assert report.problems == []


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
