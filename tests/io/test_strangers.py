"""A source and a sink from outside the package: found by import path, watched with, checked."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Event, ParameterError, Verdicts
from newnormal.io import Batch, Sink, Source, SourceOptions, find_sink, find_source, name_of
from newnormal.io.registry import kind_of
from newnormal.io.sinks.base import SinkOptions
from newnormal.io.sinks.lines import JsonLinesSink
from newnormal.io.sources.arriving import ArrivingSource
from newnormal.io.sources.file import FileSource
from newnormal.runtime.watch import BadRecordError, watch_of
from newnormal.tabular import Reading
from newnormal.testing import MemorySink, MemorySource, check_sink, check_source
from tests.cli.conftest import Command
from tests.strangers.sink import TableSink
from tests.strangers.source import TableSource

CHANNELS = ("a", "b")


def series(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.sin(np.arange(count)[:, None] / [7, 11]) + rng.normal(0, 0.1, (count, 2))


def times(count: int) -> np.ndarray[Any, Any]:
    minutes = np.arange(count) * np.timedelta64(60, "s")
    return (np.datetime64("2026-01-01T00:00:00") + minutes).astype("datetime64[ns]")


def database(path: Path, values: np.ndarray[Any, Any]) -> str:
    """Write samples to a table, and return what a TableSource takes."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE IF NOT EXISTS samples (time INTEGER, b REAL, a REAL)")
    stamps = times(len(values)).astype(np.int64).tolist()
    rows = [(when, b, a) for when, (a, b) in zip(stamps, values.tolist(), strict=True)]
    (known,) = connection.execute("SELECT count(*) FROM samples").fetchone()
    connection.executemany("INSERT INTO samples VALUES (?, ?, ?)", rows[known:])
    connection.commit()
    connection.close()
    return f"{path}:samples"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("strangers") / "plant.nn"
    import polars as pl

    frame = pl.DataFrame(series(900), schema=list(CHANNELS))
    M2N2(window=6, stride=3, lr=0.05, decay=0.9, epochs=3, accept_after=600).fit(frame).save(path)
    return path


@pytest.fixture
def live() -> np.ndarray[Any, Any]:
    values = series(400, 1)
    values[97::97] += 4
    return values


def test_watch_reads_a_strangers_source_and_writes_to_a_strangers_sink(
    fitted: Path, live: np.ndarray[Any, Any], tmp_path: Path, newnormal: Command
) -> None:
    source, target = database(tmp_path / "in.db", live[:150]), tmp_path / "out.db"
    arguments = (
        *("watch", fitted, source, "--source", "tests.strangers.source:TableSource"),
        *("--sink", "tests.strangers.sink:TableSink", "--output", target),
        *("--state", tmp_path / "plant.state"),
    )
    first = newnormal(*arguments)
    assert first.returncode == 0, first.stderr
    assert f"watching {source}: 2 channels" in first.stderr
    database(tmp_path / "in.db", live)
    assert newnormal(*arguments).stderr.startswith("resuming\n")
    table = tmp_path / "live.csv"
    body = [f"{when},{a!r},{b!r}" for when, (a, b) in zip(times(400), live.tolist(), strict=True)]
    table.write_text("\n".join(["time,a,b", *body]) + "\n")
    expected = newnormal("watch", fitted, table).stdout.splitlines()
    with sqlite3.connect(target) as connection:
        found = connection.execute("SELECT line FROM verdicts ORDER BY sample").fetchall()
        opened = connection.execute("SELECT count(*) FROM events WHERE kind = 'opened'").fetchone()
    connection.close()
    assert [line for (line,) in found] == expected
    assert opened[0] >= 3
    assert json.loads(newnormal("inspect", tmp_path / "plant.state", "--json").stdout)["input"] == (
        "tests.strangers.source:TableSource"
    )
    other = newnormal(*arguments[:2], database(tmp_path / "other.db", live[:9]), *arguments[3:])
    assert "plant.state was saved for another input; reading this one" in other.stderr


def test_the_strangers_pass_the_checks(live: np.ndarray[Any, Any], tmp_path: Path) -> None:
    live[3, 1] = np.nan
    here, there = database(tmp_path / "in.db", live), database(tmp_path / "other.db", live)
    options = SourceOptions(CHANNELS)
    check_source(lambda: TableSource(here, options), other=lambda: TableSource(there, options))
    check_sink(lambda: TableSink(str(tmp_path / "out.db"), SinkOptions()))


def test_the_built_in_ones_pass_the_checks(tmp_path: Path) -> None:
    for name in ("one", "two"):
        rows = [f"2026-01-01T00:{i:02},{i},-{i}" for i in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"time,b,a {name}"[:8], *rows]) + "\n")
    options = SourceOptions(CHANNELS)
    check_source(
        lambda: FileSource(str(tmp_path / "one.csv"), options),
        other=lambda: FileSource(str(tmp_path / "two.csv"), options),
    )
    check_source(lambda: MemorySource(series(20), times(20)))
    for alarms_only in (False, True):
        target = str(tmp_path / "out.jsonl")
        check_sink(lambda: JsonLinesSink(target, SinkOptions(alarms_only)))  # noqa: B023
    check_sink(MemorySink)


class Broken(MemorySource):
    """A source with one thing wrong."""

    def __init__(self, fault: str) -> None:
        super().__init__(series(20), times(20), CHANNELS)
        self.fault = fault

    def next_batch(self, limit: int) -> Any:
        more = self.fault == "too many"
        batch = super().next_batch(limit + 5 if more else limit)
        if batch is None:
            return Batch(np.empty((0, 2))) if self.fault == "no end" else None
        values, moments = batch.values, batch.times
        return {
            "a tuple": (values, moments),
            "one channel": Batch(values[:, :1], moments),
            "float32": Batch(values.astype(np.float32), moments),
            "infinite": Batch(values / 0.0, moments),
            "seconds": Batch(values, None if moments is None else moments.astype("datetime64[s]")),
            "backwards": Batch(values, None if moments is None else moments[::-1]),
        }.get(self.fault, batch)

    def snapshot(self) -> Any:
        place = super().snapshot()
        return {
            "a number": place["at"],
            "an array": {"at": np.int64(place["at"])},
            "a tuple of places": {"at": (1, 2)},
            "reserved": {**place, "kind": "mine"},
            "one behind": {"at": max(place["at"] - 1, 0)},
            "an object": {"at": self},
        }.get(self.fault, place)

    def resume(self, snapshot: Mapping[str, Any]) -> Any:
        if self.fault == "None":
            return None
        return super().resume(snapshot)


BROKEN = {
    "too many": "at most limit=1 samples in a batch, found 6",
    "no end": "samples or the end, found 1000 empty batches in a row",
    "a tuple": "a newnormal.io.Batch or None, found tuple",
    "one channel": r"values of shape \(T, 2\), one column a channel, found \(20, 1\)",
    "float32": "values as float64, found float32",
    "infinite": "finite values or NaN, found an infinite one",
    "seconds": r"times as datetime64\[ns\], found datetime64\[s\]",
    "backwards": "times that increase, found one that does not",
    "a number": "snapshot to return a dictionary, found int",
    "an object": "a snapshot of JSON values, found",
    "an array": "a snapshot of JSON values, found",
    "a tuple of places": "a snapshot that JSON gives back unchanged",
    "reserved": "without the reserved keys kind and zone, found",
    "one behind": "exactly the rest when resumed after 1 of 20 samples: 19, found 20",
    "None": "resume to return True or False, found None",
}


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_broken_source_is_told_what_is_wrong(fault: str) -> None:
    with pytest.raises(AssertionError, match=f"expected .*{BROKEN[fault]}"):
        check_source(lambda: Broken(fault))


def test_source_that_resumes_from_another_input_is_told(live: np.ndarray[Any, Any]) -> None:
    with pytest.raises(AssertionError, match="resume to return False for the snapshot of another"):
        check_source(lambda: MemorySource(live), other=lambda: MemorySource(live * 2))


class NoTimes(MemorySink):
    """A sink that takes every sample to have a time."""

    def write_verdicts(self, verdicts: Verdicts) -> None:
        assert verdicts.times is not None, "no times"


class Changing(MemorySink):
    """A sink that changes what it is given."""

    def write_verdicts(self, verdicts: Verdicts) -> None:
        verdicts.scores[:] = 0


class NoEvents(MemorySink):
    """A sink that expects an alarm's time."""

    def write_events(self, events: Sequence[Event]) -> None:
        for event in events:
            str(event.time.astype(np.int64))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (NoTimes, "write_verdicts to take verdicts without times, found AssertionError: no times"),
        (Changing, r"write_verdicts to leave verdicts \(verdicts with times\) as they are"),
        (NoEvents, "write_events to take an event, opened, found AttributeError"),
    ],
)
def test_broken_sink_is_told_what_is_wrong(make: type[Sink], message: str) -> None:
    with pytest.raises(AssertionError, match=f"expected {message}"):
        check_sink(make)


class Half(Source):
    """Not finished."""


REFUSED = {
    "kafka": "source: expected file, pipe or package.module:Class, found 'kafka'",
    "no.such:Thing": "source: expected a module that can be imported, found 'no.such'",
    ":Thing": "source: expected a module that can be imported, found ''",
    f"{__name__}:Missing": f"source: expected a class 'Missing' in {__name__}, found none",
    f"{__name__}:series": "expected a subclass of newnormal.io.Source, found a function, series",
    f"{__name__}:NoTimes": "expected a subclass of newnormal.io.Source, found the class NoTimes",
    f"{__name__}:Half": "source: expected Half to define next_batch and snapshot, found none",
}


@pytest.mark.parametrize("name", REFUSED)
def test_name_that_is_no_source_is_refused_with_what_was_found(name: str) -> None:
    with pytest.raises(ParameterError) as error:
        find_source(name)
    assert REFUSED[name] in str(error.value)
    assert error.value.hint


def test_entry_points_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    def installed(group: str) -> list[EntryPoint]:
        path = {
            "newnormal.sources": "tests.strangers.source:TableSource",
            "newnormal.sinks": "tests.strangers.sink:TableSink",
        }[group]
        return [EntryPoint("table", path, group)]

    monkeypatch.setattr("newnormal.io.registry.entry_points", installed)
    assert find_source("table").__name__ == "TableSource"
    assert find_sink("table").__name__ == "TableSink"
    assert name_of(find_source("table")) == "tests.strangers.source:TableSource"


def detector() -> M2N2:
    return M2N2(window=6, stride=3, lr=0.05, decay=0.9, epochs=1).fit(series(600))


def test_watch_of_a_source_in_memory_writes_what_run_says(live: np.ndarray[Any, Any]) -> None:
    ours, theirs = detector(), detector()
    sink = MemorySink()
    watch_of(ours, MemorySource(live, times(400)), sink, flush=True).run()
    assert sink.lines == theirs.track_alarms().run(live, times=times(400)).json_lines()
    assert sink.flushed > 0


@pytest.mark.parametrize("fault", ["one channel", "infinite"])
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_watch_refuses_a_batch_that_does_not_fit(fault: str) -> None:
    with pytest.raises(ValueError, match=r"memory: Broken\.next_batch: expected"):
        watch_of(detector(), Broken(fault), MemorySink()).run()


def test_a_batch_of_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Batch.values: expected an array .*, found a list"):
        Batch([[1.0, 2.0]])  # type: ignore[arg-type]


def test_watch_refuses_a_batch_beyond_its_size() -> None:
    class Eager(MemorySource):
        def next_batch(self, limit: int) -> Batch | None:
            return super().next_batch(limit + 1)

    values = np.zeros((1 << 17, 2))
    with pytest.raises(ValueError, match="expected at most 65536 samples, found 65537"):
        watch_of(detector(), Eager(values), MemorySink()).run()


def test_a_strict_watch_stops_before_a_time_that_goes_back(live: np.ndarray[Any, Any]) -> None:
    class Back(MemorySource):
        def next_batch(self, limit: int) -> Batch | None:
            batch = super().next_batch(limit)
            if batch is not None and batch.times is not None and len(batch) > 60:
                batch.times[50] = batch.times[10]
            return batch

    sink = MemorySink()
    watch = watch_of(detector(), Back(live, times(400)), sink, strict=True)
    with pytest.raises(BadRecordError, match="sample 50: expected a time after"):
        watch.run()
    assert watch.judge.fleet[""].counters["seen"] == 50


@pytest.mark.parametrize(
    "more", [{}, {"lateness": "3min"}, {"on_duplicate": "mean"}, {"rates": ("a",)}]
)
def test_a_source_that_is_put_in_order_passes_checks(tmp_path: Path, more: dict[str, Any]) -> None:
    live = series(60, 1)
    here, there = database(tmp_path / "in.db", live), database(tmp_path / "other.db", live)
    options = SourceOptions(CHANNELS, Reading.of(more))

    def source(path: str) -> Source:
        return ArrivingSource(TableSource(path, options))

    check_source(lambda: source(here), other=lambda: source(there))
    assert kind_of(source(here)) == "tests.strangers.source:TableSource"


@pytest.mark.parametrize("key", ["kind", "zone"])
def test_a_snapshot_with_a_reserved_key_is_refused(key: str, live: np.ndarray[Any, Any]) -> None:
    class Keyed(MemorySource):
        def snapshot(self) -> dict[str, Any]:
            return {**super().snapshot(), key: "mine"}

    watching = watch_of(detector(), Keyed(live, times(400)), MemorySink())
    with pytest.raises(ParameterError, match=f"expected a snapshot without '{key}'"):
        watching.run()
