"""One line at a time gives what many at a time give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from newnormal.tabular import Reading
from newnormal.tabular.parsing.decimals import NumberReader
from newnormal.tabular.parsing.lines import LineParser

HEAD = ["time,load,heat", *(f"2026-01-01T00:00:{at:02}Z,{at}.5,2" for at in range(20))]
LINES = [
    "2026-01-01T00:01:00Z,1.5,2",
    "2026-01-01T00:01:01.25Z,1e3,-2.",
    "2026-01-01 00:01:02,+1,2",
    "2026-01-01T00:01:03+02:00,1,2",
    "2026-01-01T00:01,1,2",
    "2026-01-01,1,2",
    "2026-02-30T00:00:00Z,1,2",
    "2026-01-01T24:00:00Z,1,2",
    "2026-01-01T00:01:60Z,1,2",
    "1677-01-01T00:01:00Z,1,2",
    "1967-01-01T00:01:00.000001Z,1,2",
    "2026-01-01T00:01:04.1234567Z,1,2",
    "2026-01-01T00:01:05Z, 1 ,2\r\n",
    "2026-01-01T00:01:06Z,1_000,2",
    "2026-01-01T00:01:07Z,inf,2",
    "2026-01-01T00:01:08Z,nan,NA",
    "2026-01-01T00:01:09Z,,2",
    "2026-01-01T00:01:10Z,high,2",
    '2026-01-01T00:01:11Z,"1",2',
    "2026-01-01T00:01:12Z,1",
    "2026-01-01T00:01:13Z,1,2,3",
    "",
    "  ",
    "2026-01-01T00:01:14Z,1e999,2",
    "2026-01-01T00:01:15Z,\u0661,2",
    "2026-01-01T00:01:16Z,-999,2",
    "1767225677,1,2",
    "time,heat,load",
    "2026-01-01T00:01:18Z,1,2",
    "time,heat",
    "2026-01-01T00:01:19Z,7.25",
]


def _read(lines: list[str], size: int, **options: Any) -> tuple[Any, ...]:
    notes: list[str] = []
    parser = LineParser(Reading.of(options), channels=("load", "heat"), report=notes.append)
    values: list[list[float]] = []
    times: list[Any] = []
    errors: list[tuple[int, str]] = []
    places: list[int] = []
    zones: list[str | None] = []
    parser.parse_many(HEAD)
    for start in range(0, len(lines), size):
        found = parser.parse_many(lines[start : start + size])
        values += found.values.tolist()
        if len(found.values):
            times += [None] if found.times is None else found.times.astype(str).tolist()
        places += (start + found.rows).tolist()
        errors += [(start + row, error.message) for row, _, error in found.errors]
        zones.append(parser.zone)
    counts = parser.profile.lines, parser.profile.bad_lines, parser.profile.first_bad
    return str(values), times, places, errors, sorted(notes), counts, zones[-1]


@pytest.mark.parametrize(
    "options", [{}, {"na": "-999"}, {"tz": "Europe/Berlin"}, {"decimal": "."}, {"time": "time"}]
)
def test_one_line_at_a_time_gives_what_all_at_once_give(options: dict[str, Any]) -> None:
    assert _read(LINES, 1, **options) == _read(LINES, len(LINES), **options)


def test_a_plain_line_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = LineParser(channels=("load", "heat"))
    parser.parse_many(HEAD)

    def refuse(*arguments: Any) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(parser, "_parsed", refuse)
    found = parser.parse_many(["2026-01-01T00:01:00Z,1.5,2"])
    assert found.values.tolist() == [[1.5, 2.0]]
    assert parser.profile.lines == 21


def test_a_number_can_be_a_word_for_missing() -> None:
    numbers = NumberReader(".", ["-999", "Bad"])
    for cells in (["1", "-999", "-999.0"], ["1", "-999", "Bad"], [1, -999, -999.0]):
        values, bad = numbers.read(cells)
        np.testing.assert_array_equal(values, [1.0, np.nan, np.nan])
        assert bad == []
    assert numbers.is_missing("-999.0")
    assert numbers.is_missing(-999)
    assert not numbers.is_missing("999")
