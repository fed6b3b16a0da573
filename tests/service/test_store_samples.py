"""Samples of the store beside a twin that keeps every one of them in a list."""

import sqlite3
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from newnormal.engine.store import Store
from newnormal.engine.store.stream_reader import StreamReader
from newnormal.engine.values import StoredRows, ThinnedSeries
from newnormal.errors import StateError
from tests.service.naive_store import BEGIN, SECOND, NaiveStore, some_rows

ALWAYS = (0, 2**62)
NAMES = ("a", "b", "c", "d")


def assert_same_rows(comp: StoredRows, ref: StoredRows) -> None:
    for name in (each.name for each in fields(StoredRows)):
        if name in ("first", "channels"):
            assert getattr(comp, name) == getattr(ref, name)
        else:
            np.testing.assert_array_equal(getattr(comp, name), getattr(ref, name), name)


def assert_same_series(comp: ThinnedSeries, ref: ThinnedSeries) -> None:
    assert (comp.per, comp.channels) == (ref.per, ref.channels)
    numbers = ("scores", "thresholds", "ratios", "channel_ratios")
    for name in ("times", *numbers, "low", "high", "anomalous"):
        np.testing.assert_array_equal(getattr(comp, name), getattr(ref, name), name)
    for name in ("expected", "least", "most"):  # rounded to 4 bytes on the way
        np.testing.assert_allclose(
            getattr(comp, name), getattr(ref, name), rtol=1e-5, atol=1e-5, err_msg=name
        )


def compare(rng: np.random.Generator, store: Store, naive: NaiveStore) -> None:
    count = len(naive.samples)
    assert store.samples.count(1) == count
    for _ in range(2):
        channels = tuple(rng.permutation(NAMES)[: rng.integers(1, 5)])
        if count:
            first, last = sorted(rng.integers(0, count, 2).tolist())
            assert_same_rows(
                store.samples.rows(1, first, last, channels), naive.rows(first, last, channels)
            )
        first, last = sorted((rng.integers(-50, count + 50, 2)).tolist())
        begin, end = (BEGIN + at * SECOND + int(rng.integers(-1, 2)) for at in (first, last))
        points = int(rng.choice([1, 3, 10, 40, 200]))
        assert_same_series(
            store.samples.series(1, begin, end, points, channels),
            naive.series(begin, end, points, channels),
        )
    assert_same_series(
        store.samples.series(1, *ALWAYS, 60, NAMES), naive.series(*ALWAYS, 60, NAMES)
    )


@pytest.mark.parametrize("seed", range(3))
def test_samples_and_thinned_ones_equal_the_twins_after_every_step(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    store, naive = Store(path), NaiveStore()
    checkpoint = 0
    channels: tuple[str, ...] = ("a", "b")
    for _ in range(30):
        step = rng.choice(["add", "replace", "commit", "checkpoint", "kill"], p=[0.6, *[0.1] * 4])
        match step:
            case "add" | "replace":
                if rng.random() < 0.3:
                    channels = tuple(rng.permutation(NAMES)[: rng.integers(1, 5)])
                first = len(naive.samples)
                if step == "replace":  # not what a checkpoint counts on
                    first = int(rng.integers(checkpoint, first + 1))
                size = int(rng.choice([1, 5, 100, 257, 700, 2500]))
                rows = some_rows(rng, first, size, channels, live=bool(rng.random() < 0.8))
                store.samples.add(1, rows)
                naive.add(rows)
            case "commit":
                store.commit()
            case "checkpoint":
                store.samples.flush()
                store.commit(sync=True)
                checkpoint = len(naive.samples)
            case "kill":
                store.close()
                store = Store(path)
                assert store.samples.count(1) >= checkpoint
                store.samples.truncate(1, checkpoint)
                del naive.samples[checkpoint:]
                if rng.random() < 0.5:
                    store.commit()
        compare(rng, store, naive)
    store.close()


def test_killed_twice_after_one_checkpoint_the_store_has_what_it_counts(path: Path) -> None:
    rng = np.random.default_rng(0)
    store, naive = Store(path), NaiveStore()
    rows = some_rows(rng, 0, 3000, ("a",))
    store.samples.add(1, rows)
    naive.add(rows)
    store.samples.flush()
    store.commit(sync=True)
    for _ in range(3):
        store.samples.add(1, some_rows(rng, 3000, 6000, ("a", "b")))
        store.commit()
        store.close()
        store = Store(path)
        assert store.samples.count(1) > 8000
        store.samples.truncate(1, 3000)
        store.commit()
        store.close()
        store = Store(path)
        assert store.samples.count(1) == 3000
        compare(rng, store, naive)
    store.close()


def test_the_same_log_applied_again_leaves_the_same_blocks(path: Path) -> None:
    def blocks() -> list[tuple[object, ...]]:
        reader = sqlite3.connect(path)
        found = reader.execute("SELECT * FROM blocks ORDER BY stream, level, number").fetchall()
        reader.close()
        return found

    rng = np.random.default_rng(3)
    batches = [some_rows(rng, at, 500, ("a", "b")) for at in range(0, 5000, 500)]
    store = Store(path)
    for rows in batches:
        store.samples.add(1, rows)
    store.samples.flush()
    store.commit()
    once = blocks()
    for rows in batches[4:]:
        store.samples.add(1, rows)
        store.commit()
    store.samples.flush()
    store.commit()
    assert blocks() == once
    store.close()


def test_streams_do_not_touch_each_other(store: Store) -> None:
    rng = np.random.default_rng(1)
    twins = {stream: NaiveStore() for stream in range(1, 4)}
    for _ in range(40):
        stream = int(rng.integers(1, 4))
        rows = some_rows(rng, len(twins[stream].samples), int(rng.integers(1, 400)), ("a",))
        store.samples.add(stream, rows)
        twins[stream].add(rows)
    store.commit()
    store.forget(2)
    assert store.samples.count(2) == 0
    assert len(store.samples.series(2, *ALWAYS, 10).times) == 0
    for stream in (1, 3):
        last = len(twins[stream].samples) - 1
        assert_same_rows(
            store.samples.rows(stream, 0, last, ("a",)), twins[stream].rows(0, last, ("a",))
        )
    store.commit()
    assert store.samples.count(2) == 0
    store.samples.add(2, some_rows(rng, 0, 10, ("z",)))
    assert store.samples.rows(2, 0, 9).channels == ("z",)


def test_a_stream_that_is_not_there_has_nothing(store: Store) -> None:
    assert store.samples.count(7) == store.samples.first_kept(7) == 0
    series = store.samples.series(7, *ALWAYS, 100)
    assert (series.per, series.channels, len(series.times)) == (1, (), 0)
    assert len(store.samples.rows(7, 0, -1)) == 0
    with pytest.raises(StateError, match="expected samples 0 to 5 of stream 7, found 0"):
        store.samples.rows(7, 0, 5)


def test_samples_that_leave_a_gap_are_an_error(store: Store) -> None:
    rng = np.random.default_rng(0)
    store.samples.add(1, some_rows(rng, 0, 10, ("a",)))
    with pytest.raises(StateError, match="expected 11 samples of stream 1, found 10"):
        store.samples.add(1, some_rows(rng, 11, 5, ("a",)))
    with pytest.raises(StateError, match="expected 300 samples of stream 1, found 10"):
        store.samples.truncate(1, 300)
    assert store.samples.count(1) == 10


def test_channels_are_all_that_there_are_in_the_order_in_which_they_came(store: Store) -> None:
    rng = np.random.default_rng(0)
    store.samples.add(1, some_rows(rng, 0, 300, ("b", "a")))
    store.samples.add(1, some_rows(rng, 300, 300, ("a", "c")))
    store.samples.add(1, some_rows(rng, 600, 300, ("a",)))
    assert store.samples.rows(1, 0, 899).channels == ("b", "a", "c")
    assert store.samples.series(1, *ALWAYS, 10).channels == ("b", "a", "c")
    assert store.samples.rows(1, 0, 200).channels == ("b", "a")


def test_a_score_too_large_for_four_bytes_is_infinite(store: Store) -> None:
    rows = StoredRows.of_samples(0, ("a",), np.array([BEGIN]), np.array([[1e300]]))
    store.samples.add(1, replace(rows, scores=np.array([1e300]), thresholds=np.array([1.0])))
    found = store.samples.rows(1, 0, 0)
    assert found.values[0, 0] == 1e300
    assert found.scores[0] == np.inf
    assert store.samples.series(1, *ALWAYS, 10).scores[0] == np.inf


def test_a_damaged_block_is_named(store: Store, path: Path) -> None:
    store.samples.add(1, some_rows(np.random.default_rng(0), 0, 1000, ("a",)))
    store.commit()
    other = sqlite3.connect(path)
    other.execute("UPDATE blocks SET data = zeroblob(length(data)) WHERE level = 0 AND number = 1")
    other.commit()
    other.close()
    with pytest.raises(StateError, match="block 1 of level 0 of stream 1 is damaged"):
        store.samples.rows(1, 0, 999)
    assert len(store.samples.rows(1, 512, 999)) == 488


def test_replaced_samples_are_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    store.samples.add(1, some_rows(rng, 0, 2_000, ("a",)))
    store.commit()
    replaced = some_rows(rng, 0, 1_500, ("a",))
    enter = StreamReader.__enter__

    def late(reader: StreamReader) -> StreamReader:  # memory was looked at, the database not yet
        if store.samples.count(1) == 2_000:
            store.samples.add(1, replaced)
            store.commit()
        return enter(reader)

    monkeypatch.setattr(StreamReader, "__enter__", late)
    found = store.samples.series(1, *ALWAYS, 10_000)
    np.testing.assert_array_equal(found.low, replaced.values)


def test_a_database_whose_pages_are_damaged_is_a_state_error(store: Store, path: Path) -> None:
    store.samples.add(1, some_rows(np.random.default_rng(0), 0, 100_000, ("a",)))
    store.commit()
    store.close()
    content = bytearray(path.read_bytes())
    content[len(content) // 4 : len(content) // 2] = bytes(len(content) // 2 - len(content) // 4)
    path.write_bytes(content)
    spoilt = Store(path)
    with pytest.raises(StateError, match="damage"):
        spoilt.samples.rows(1, 0, 99_000)
    with pytest.raises(StateError, match="damage"):
        spoilt.samples.series(1, *ALWAYS, 50_000)
    spoilt.close()


def test_a_spike_is_seen_at_every_level(store: Store) -> None:
    count = 20_000
    times = BEGIN + np.arange(count, dtype=np.int64) * SECOND
    values = np.zeros((count, 1))
    values[7_777] = 100.0
    store.samples.add(1, StoredRows.of_samples(0, ("a",), times, values))
    for points in (1, 10, 100, 1000, 50_000):
        series = store.samples.series(1, *ALWAYS, points)
        assert np.nanmax(series.high) == 100.0
        assert np.nanmin(series.low) == 0.0
        if points < count:
            assert points <= len(series.times) <= 2 * points
