"""Spoilt lines and files through every reader: an answer or a sentence, never another error."""

import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import newnormal
from newnormal.errors import NewnormalError
from newnormal.io.sources.lines import LineOptions, line_input
from newnormal.runtime.inputs import WatchInput
from newnormal.tabular import Long, LongLines, Reading, StreamLines, read, read_tables
from tests.fuzz.inputs import spoilt_file, spoilt_line

FILES, LINES = 1_000, 20_000
_PART = 100  # files a test
_LARGEST = 64 << 20  # bytes that reading a small file may take at once


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _drained(source: WatchInput) -> None:
    with closing(source):
        _read_all(source)


def _read_all(source: WatchInput) -> None:
    for _ in range(1_000):
        if source.next_batch(7) is None:
            return
    raise AssertionError("the source does not end")


_GIVEN: list[dict[str, Any]] = [
    {},
    *({"decimal": ","}, {"delimiter": ";"}, {"encoding": "utf-16"}, {"na": "Bad,-"}),
    *({"date_format": "day-first"}, {"date_format": "%d.%m.%Y %H:%M"}, {"tz": "Europe/Berlin"}),
    *({"label": "c"}, {"rates": "a"}, {"time": ("time", "host")}, {"columns": ("a", "b")}),
    *({"rows": "2:9"}, {"from_": "2026-01-01T05:00"}, {"until": "2026-01-01T05:00"}),
    *({"on_duplicate": "mean"}, {"on_duplicate": "error"}),
    *({"lateness": "3min"}, {"resample": "1min"}),
    *({"format": name} for name in ("csv", "jsonl", "prometheus", "influx", "excel", "parquet")),
    {"longest_line": 50},
]


def _all_readers(path: Path, given: dict[str, Any]) -> None:
    """Read a file in every way there is; each may refuse it."""
    reading = Reading.of(given)
    channels = ("a", "b", "c")

    def watched(**naming: Any) -> WatchInput:
        lines = line_input(str(path), LineOptions(channels, reading, **naming))
        streams = dict.fromkeys(("", "a", "b"), channels)
        return WatchInput(
            lines, reading, streams, None, strict=False, keep=False, report=lambda _: None
        )

    ways = (
        lambda: read(path, **given),
        lambda: read(path, channels=("a", "b", "c"), **{"drop": "host", **given}),
        lambda: read_tables(path, by="host", **given),
        lambda: read_tables(path, long=True, **given),
        lambda: newnormal.check(path, **given),
        lambda: _drained(watched()),
        lambda: _drained(watched(by=("host",))),
        lambda: _drained(watched(long=Long())),
    )
    for way in ways:
        with suppress(NewnormalError):
            way()


@pytest.mark.parametrize("part", range(FILES // _PART))
def test_every_reader_takes_or_refuses_a_spoilt_file(part: int, tmp_path: Path) -> None:
    endings = [".csv", ".jsonl", ".txt", ".json", ".csv.gz", ".xlsx", ".parquet", ".log", ""]
    for index in range(part * _PART, (part + 1) * _PART):
        path = tmp_path / f"case{index}{endings[index % len(endings)]}"
        path.write_bytes(spoilt_file(index))
        try:
            _all_readers(path, _GIVEN[index % len(_GIVEN)])
        except Exception as error:  # the case is what is needed to repeat it
            raise AssertionError(f"case {index}, {path.name}: {error!r}") from error
        path.unlink()


def test_memory_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "case.csv"
    for index in range(20):
        path.write_bytes(spoilt_file(index))
        tracemalloc.start()
        try:
            _all_readers(path, {})
            assert tracemalloc.get_traced_memory()[1] < _LARGEST
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("kind", ["streams", "long"])
def test_every_reader_takes_or_refuses_spoilt_lines(kind: str) -> None:
    rng = Random(1)
    lines = StreamLines("host") if kind == "streams" else LongLines("host")
    for _ in range(LINES // 40):
        text = [spoilt_line(rng) for _ in range(20)]
        try:
            lines.parse(text)
        except NewnormalError:
            reading = Reading.of(decimal=rng.choice([None, ","]))
            lines = (
                StreamLines("host", reading=reading)
                if kind == "streams"
                else LongLines("host", reading=reading)
            )
