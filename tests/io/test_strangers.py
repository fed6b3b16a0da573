"""A source and a sink from outside the package: found by import path, watched with, checked."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Event, InputError, ParameterError, Verdicts
from newnormal.io import Arrival, Sink, Source, find_sink, find_source, name_of
from newnormal.io.sinks.base import SinkOptions
from newnormal.io.sinks.lines import JsonLinesSink
from newnormal.runtime.watch import BadRecordError, Watch, watch_of
from newnormal.testing import MemorySink, MemorySource, check_sink, check_source
from newnormal.types import NO_TIME
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

    def table(input: str) -> Source:  # noqa: A002
        return TableSource("plant", {"input": input})

    check_source(lambda: table(here), other=lambda: table(there))
    check_sink(lambda: TableSink(str(tmp_path / "out.db"), SinkOptions()))


def test_the_built_in_ones_pass_the_checks(tmp_path: Path) -> None:
    check_source(lambda: MemorySource(series(20), times=times(20)))
    for alarms_only in (False, True):
        target = str(tmp_path / "out.jsonl")
        check_sink(lambda: JsonLinesSink(target, SinkOptions(alarms_only)))  # noqa: B023
    check_sink(MemorySink)


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
    "pigeon": "source: expected files, kafka, mqtt, prometheus or package.module:Class, found 'pig",
    "no.such:Thing": "source: expected a module that can be imported, found 'no.such'",
    ":Thing": "source: expected a module that can be imported, found ''",
    f"{__name__}:Missing": f"source: expected a class 'Missing' in {__name__}, found none",
    f"{__name__}:series": "expected a subclass of newnormal.io.Source, found a function, series",
    f"{__name__}:NoTimes": "expected a subclass of newnormal.io.Source, found the class NoTimes",
    f"{__name__}:Half": "expected Half to define next_batch and resume and snapshot, found none",
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


def watched(source: Source, **options: Any) -> Watch:
    return watch_of(detector(), source, MemorySink(), **options)


def test_watch_of_a_source_in_memory_writes_what_run_says(live: np.ndarray[Any, Any]) -> None:
    ours, theirs = detector(), detector()
    sink = MemorySink()
    watch_of(ours, MemorySource(live, times=times(400)), sink, flush=True).run()
    assert sink.lines == theirs.track_alarms().run(live, times=times(400)).json_lines()
    assert sink.flushed > 0


class Changed(MemorySource):
    """A source in memory whose arrivals are changed."""

    def __init__(self, change: Callable[[Arrival], Arrival], count: int = 60) -> None:
        super().__init__(series(count), times=times(count))
        self._change = change

    def next_batch(self, limit: int) -> Sequence[Arrival] | None:
        batch = super().next_batch(limit)
        return None if batch is None else [self._change(arrival) for arrival in batch]


def back(arrival: Arrival) -> Arrival:
    moments = arrival.times.copy()
    if len(moments) > 50:
        moments[50] = moments[10]
    return arrival._replace(times=moments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda each: each._replace(values=each.values[:, :1]), r"shape \(60, 2\), found int64, f"),
        (lambda each: each._replace(values=each.values + np.inf), "expected finite values, found"),
        (lambda each: each._replace(times=np.r_[NO_TIME, each.times[1:]]), "found some without"),
    ],
)
def test_watch_refuses_a_batch_that_is_not_as_promised(change: Any, message: str) -> None:
    with pytest.raises(InputError, match=rf"memory: .*{message}"):
        watched(Changed(change)).run()


def test_watch_refuses_a_batch_beyond_its_size() -> None:
    class Eager(MemorySource):
        def next_batch(self, limit: int) -> Sequence[Arrival] | None:
            return super().next_batch(limit + 1)

    with pytest.raises(InputError, match="expected at most 65536 samples, found 65537"):
        watched(Eager(np.zeros((1 << 17, 2)))).run()


def test_a_strict_watch_stops_before_a_time_that_goes_back() -> None:
    source = Changed(back)
    watch = watched(source, strict=True)
    with pytest.raises(BadRecordError, match="sample 51: expected a time after"):
        watch.run()
    assert watch.judge.fleet[""].counters["seen"] == 50
    assert source.snapshot()["at"] == 50


def test_channels_are_matched_by_their_names_and_the_others_are_told() -> None:
    told: list[str] = []
    sink = MemorySink()
    live = series(60)
    (arrival,) = MemorySource(live, times=times(60)).next_batch(60) or ()
    mixed = arrival._replace(channels=("1", "more"), values=live[:, ::-1])
    watch_of(detector(), MemorySource([mixed]), sink, told.append, flush=True).run()
    assert told == ["column 'more' is no channel: ignored", "channel '0' is no column: missing"]
    assert len(sink.lines) == 60


def test_a_detector_of_one_stream_refuses_samples_of_two() -> None:
    one, two = (Arrival(name, ("0", "1"), np.arange(3), np.ones((3, 2))) for name in ("a", "b"))
    with pytest.raises(InputError, match="expected samples of one stream, found those of 'a' and"):
        watched(MemorySource([one, two])).run()


def test_samples_are_acknowledged_once_they_were_judged_and_notices_are_told() -> None:
    told: list[str] = []

    class Noticing(MemorySource):
        def next_batch(self, limit: int) -> Sequence[Arrival] | None:
            return super().next_batch(50)

        def notice(self) -> str:
            return "one message could not be read"

    source = Noticing(series(120))
    watch_of(detector(), source, MemorySink(), told.append).run()
    assert source.acknowledged == 120
    assert told == ["memory: one message could not be read"]


@pytest.mark.parametrize("key", ["kind", "zone", "order"])
def test_a_snapshot_with_a_reserved_key_is_refused(key: str, live: np.ndarray[Any, Any]) -> None:
    class Keyed(MemorySource):
        def snapshot(self) -> dict[str, Any]:
            return {**super().snapshot(), key: "mine"}

    with pytest.raises(ParameterError, match=f"expected a snapshot without '{key}'"):
        watched(Keyed(live, times=times(400))).run()
