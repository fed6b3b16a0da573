"""The store after a kill: what it was at a checkpoint, whatever happened since."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from newnormal.engine.store import Store
from newnormal.engine.store.checking import FolderReport, _Positions, _store
from newnormal.engine.store.retention import apply_retention
from newnormal.engine.values import Item, StoredRows
from newnormal.errors import StateError
from tests.present import present
from tests.service.naive_store import NaiveStore, Sample, some_rows
from tests.service.test_store_samples import NAMES, compare


def checkpoint(store: Store, position: int, state: bytes) -> None:
    store.samples.flush()
    store.save_checkpoint(position, state)
    store.commit(sync=True)


def test_a_store_goes_back_to_either_checkpoint_whatever_was_removed(tmp_path: Path) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        path = tmp_path / f"{seed}.sqlite"
        store, naive = Store(path), NaiveStore()
        kept: list[tuple[int, list[Sample]]] = [(0, [])]  # checkpoints
        for position in range(1, 50):
            step = rng.choice(
                ["add", "replace", "forget", "commit", "checkpoint", "kill"],
                p=[0.35, 0.2, 0.05, 0.1, 0.15, 0.15],
            )
            match step:
                case "add" | "replace":
                    first = len(naive.samples)
                    if step == "replace":
                        first = int(rng.integers(0, first + 1)) * int(rng.integers(0, 2))
                    size = int(rng.choice([1, 100, 257, 900]))
                    channels = tuple(rng.permutation(NAMES)[: rng.integers(1, 3)])
                    rows = some_rows(rng, first, size, channels)
                    store.samples.add(1, rows)
                    naive.add(rows)
                    store.commit()
                case "forget":
                    store.forget(1)
                    naive.samples = []
                case "commit":
                    store.commit()
                case "checkpoint":
                    checkpoint(store, position, b"state")
                    kept = [*kept[-1:], (position, list(naive.samples))]
                case "kill":
                    store.close()
                    store = Store(path)
                    # The fleet's folder may be one behind.
                    kept = kept[: int(rng.integers(1, len(kept) + 1))]
                    at, samples = kept[-1]
                    naive.samples = list(samples)
                    store.return_to(at, {1: len(samples)} if samples else {})
                    if not samples:  # a stream that appears begins so
                        store.samples.truncate(1, 0)
                    if at:
                        assert store.checkpoint() == store.checkpoint(at) == (at, b"state")
            compare(rng, store, naive)
        store.close()


@pytest.mark.parametrize("at", [10, 20])
def test_a_store_goes_back_to_either_checkpoint_after_retention(tmp_path: Path, at: int) -> None:
    def rows(first: int, count: int) -> StoredRows:
        return some_rows(np.random.default_rng(first), first, count, ("a",))

    path = tmp_path / "store.sqlite"
    store = Store(path)
    store.samples.add(1, rows(0, 30_000))
    store.samples.add(2, rows(0, 30_000))
    counts = {}
    for position in (10, 20):
        counts[position] = {stream: store.samples.count(stream) for stream in (1, 2)}
        checkpoint(store, position, b"")
        if position == 10:  # of stream 1, what a fit judged that began long ago is replaced
            store.samples.add(1, rows(20_480, 30_000))
            store.samples.add(2, rows(30_000, 20_480))
    assert apply_retention(store, now=2**62, age_ns={0: 0}, needed=100).blocks > 100
    assert store.samples.first_kept(1) == 20_480 - 256
    assert store.samples.first_kept(2) == 30_000 // 256 * 256
    store.close()
    store = Store(path)
    store.return_to(at, counts[at])
    assert {stream: store.samples.count(stream) for stream in (1, 2)} == counts[at]
    if at == 10:
        assert len(store.samples.rows(1, 20_479, 29_999)) == 9_521
        store.samples.add(1, rows(20_480, 30_000))
        store.samples.add(2, rows(30_000, 20_480))
    checkpoint(store, 30, b"")
    report = FolderReport(tmp_path)
    _store(path, report, _Positions(), set())
    assert report.problems == []
    if at == 20:  # it is the one before now: what was replaced before it is needed no more
        apply_retention(store, now=2**62, age_ns={0: 0}, needed=100)
        assert store.samples.first_kept(1) == (50_480 - 100) // 256 * 256
    store.close()


def item(stream: int) -> Item:
    return Item(f"alarm-{stream}", "alarm", stream, 1, 1, "open", 1, 2, None, 1.5, "a: high", {}, 1)


def test_a_removed_stream_is_hidden_at_once_and_deleted_two_checkpoints_later(path: Path) -> None:
    store = Store(path)
    for stream in (1, 2):
        store.samples.add(stream, some_rows(np.random.default_rng(0), 0, 600, ("a",)))
        store.items.put(item(stream))
    store.samples.flush()
    store.save_checkpoint(10, b"")
    store.commit()
    store.forget(2)
    store.commit()
    for position in (None, 20, 30):
        if position is not None:
            store.save_checkpoint(position, b"")
            store.commit()
        assert store.samples.count(2) == 0
        assert store.items.get("alarm-2") is None
        assert [each.key for each in store.items.page().items] == ["alarm-1"]
        store.close()
        store = Store(path)
        reader = sqlite3.connect(path)
        (blocks,) = reader.execute("SELECT count(*) FROM blocks WHERE stream = 2").fetchone()
        (items,) = reader.execute("SELECT count(*) FROM items WHERE stream = 2").fetchone()
        reader.close()
        assert (blocks > 0, items) == ((False, 0) if position == 30 else (True, 1))
    assert store.samples.count(1) == 600
    store.close()


def test_a_checkpoint_that_counts_on_samples_which_are_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(StateError, match="expected 5 samples of stream 3, found 0"):
        store.return_to(0, {3: 5})


def test_a_store_of_a_newer_version_is_refused(path: Path) -> None:
    Store(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute("INSERT INTO migrations VALUES (2)")
    newer.close()
    with pytest.raises(StateError, match="expected at most version 1, found 2") as refused:
        Store(path)
    assert "a newer newnormal wrote it" in str(refused.value.hint)


def test_two_checkpoints_are_kept_and_later_ones_go_at_replay(store: Store, path: Path) -> None:
    assert store.checkpoint() is None
    for position in (5, 9, 12):
        store.save_checkpoint(position, b"at %d" % position)
        store.commit(sync=True)
    assert store.checkpoints() == [12, 9]
    assert store.checkpoint() == (12, b"at 12")
    assert store.checkpoint(9) == (9, b"at 9")
    assert store.checkpoint(5) is None
    store.save_checkpoint(10, b"at 10")
    store.commit()
    assert store.checkpoints() == [10, 9]
    other = sqlite3.connect(path)
    other.execute("UPDATE checkpoints SET state = x'00' WHERE position = 10")
    other.commit()
    other.close()
    with pytest.raises(StateError, match="the checkpoint at position 10 is damaged"):
        store.checkpoint()


_WRITER = """
import sys
from pathlib import Path
import numpy as np
from newnormal.engine.store import Store
from tests.service.naive_store import some_rows
store = Store(Path(sys.argv[1]))
position = 0
while True:
    position += 1
    for stream in (1, 2):
        count = store.samples.count(stream)
        first = count if position % 7 else count // 2
        rng = np.random.default_rng((stream, position, first))
        store.samples.add(stream, some_rows(rng, first, 150, ("a", "b")))
    if position % 5 == 0:
        store.samples.flush()
        state = f"{position} {store.samples.count(1)} {store.samples.count(2)}"
        store.save_checkpoint(position, state.encode())
        store.commit(sync=True)
        # What counts is on the disk; who reads this line may rely on it.
        print(state, flush=True)
    else:
        store.commit()
"""


def test_a_writer_killed_in_the_middle_leaves_its_last_checkpoint_whole(tmp_path: Path) -> None:
    for run in range(3):
        path = tmp_path / f"{run}.sqlite"
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            lines = [present(writer.stdout).readline() for _ in range(4 + 3 * run)]
            os.kill(writer.pid, signal.SIGKILL)
        store = Store(path)
        found = present(store.checkpoint())
        position, one, two = map(int, found[1].split())
        assert position >= int(lines[-1].split()[0])
        store.return_to(position, {1: one, 2: two})
        assert (store.samples.count(1), store.samples.count(2)) == (one, two)
        # The same steps without a kill, up to there.
        whole = Store(tmp_path / f"whole-{run}.sqlite")
        for at in range(1, position + 1):
            for stream in (1, 2):
                count = whole.samples.count(stream)
                first = count if at % 7 else count // 2
                rng = np.random.default_rng((stream, at, first))
                whole.samples.add(stream, some_rows(rng, first, 150, ("a", "b")))
        for stream, count in ((1, one), (2, two)):
            comp, ref = (each.samples.rows(stream, 0, count - 1) for each in (store, whole))
            np.testing.assert_array_equal(comp.values, ref.values)
            np.testing.assert_array_equal(comp.times, ref.times)
            for points in (1, 20, 300):
                comps, refs = (
                    each.samples.series(stream, 0, 2**62, points) for each in (store, whole)
                )
                np.testing.assert_array_equal(comps.low, refs.low)
                np.testing.assert_array_equal(comps.scores, refs.scores)
        store.close()
        whole.close()
