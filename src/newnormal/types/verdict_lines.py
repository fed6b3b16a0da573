"""Verdicts as lines of JSON: columns are turned into Python values once, then gaps are filled."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from newnormal.types.arrays import Bools, Floats, Floats32, Ints, Times
from newnormal.types.zones import zoned_texts


class VerdictColumns(NamedTuple):
    """The columns of verdicts, of one stream or of several; None as in `Verdicts`."""

    samples: Ints
    times: Times | None
    scores: Floats
    thresholds: Floats
    anomalous: Bools
    expected: Floats | None
    shares: Floats32 | None
    ratios: Floats | None = None
    p_values: Floats | None = None
    alarms: Ints | None = None
    distances: Floats | None = None
    changes: Ints | None = None
    lows: Floats | None = None
    highs: Floats | None = None
    channel_ratios: Floats32 | None = None


class LineHead(NamedTuple):
    """What the lines of one stream have in common."""

    channels: tuple[str, ...]  # the names of its channels
    start: str = "{"  # the text before the sample's number
    zone: str | None = None  # the zone of its times; None: as they are

    @classmethod
    def of_stream(cls, name: str, channels: tuple[str, ...], zone: str | None = None) -> "LineHead":
        """Return the head of a stream that has a name: the first entry of each of its lines."""
        return cls(channels, f'{{"stream": {json.dumps(name, ensure_ascii=False)}, ', zone)


def verdict_lines(
    columns: VerdictColumns, heads: Sequence[LineHead], owners: Sequence[int] | None = None
) -> list[str]:
    """Return a line a verdict, in the documented form.

    `columns`: the verdicts. `heads`: the streams. `owners`: the position in `heads` of each
    verdict's stream; None: all are of the first.
    """
    rows = len(columns.scores)
    scored = ~np.isnan(columns.scores)
    gaps, expected = _expected(columns.expected, rows)
    shares: list[list[float]] = [[]] * rows
    shared = np.zeros(rows, np.bool_)
    has_shares = columns.shares is not None
    if columns.shares is not None:
        shared = scored & np.isfinite(columns.shares).all(axis=1)
        shares = columns.shares.tolist()
        for row in np.flatnonzero(~shared).tolist():
            shares[row] = []
    return [
        start + _template(channels, gap, has_shares, is_shared) % (*row, *values, *parts) + end
        for (channels, start, _), row, gap, values, is_shared, parts, end in zip(
            repeat(heads[0], rows) if owners is None else map(heads.__getitem__, owners),
            _rows(columns, _times(columns.times, rows, heads, owners)),
            gaps,
            expected,
            shared.tolist(),
            shares,
            _ends(columns, rows),
            strict=True,
        )
    ]


def _rows(columns: VerdictColumns, times: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Give what comes before the values by channel."""
    return zip(
        columns.samples.tolist(),
        times,
        _numbers(columns.scores),
        _numbers(columns.thresholds),
        ["true" if flag else "false" for flag in columns.anomalous.tolist()],
        strict=True,
    )


def _expected(expected: Floats | None, rows: int) -> tuple[Iterable[str], Iterable[list[Any]]]:
    """Return the gap for a value of each row, and the values to fill it with."""
    if expected is None:
        return repeat("", rows), repeat([], rows)
    values: list[list[Any]] = expected.tolist()
    # NaN where there is no verdict, infinite beyond the largest float: not in JSON.
    plain: Bools = np.asarray(np.isfinite(expected).all(axis=1))
    for row in np.flatnonzero(~plain).tolist():
        values[row] = [f"{x:.9g}" if isfinite(x) else "null" for x in values[row]]
    return ["%.9g" if finite else "%s" for finite in plain.tolist()], values


def _times(
    times: Times | None, rows: int, heads: Sequence[LineHead], owners: Sequence[int] | None
) -> Iterable[str]:
    if times is None:
        return repeat("null", rows)
    if owners is None:
        return _texts(times, heads[0].zone)
    zones = {head.zone for head in heads}
    if len(zones) < 2:
        return _texts(times, next(iter(zones), None))
    texts = np.empty(rows, dtype=object)
    zone_of_row = np.array([head.zone for head in heads], dtype=object)[np.asarray(owners)]
    for zone in zones:
        selected = np.flatnonzero(zone_of_row == zone)
        texts[selected] = _texts(times[selected], zone)
    return texts.tolist()


def _texts(times: Times, zone: str | None) -> list[str]:
    """Return times of one zone as JSON."""
    return ["null" if text == "NaT" else f'"{text}"' for text in zoned_texts(times, zone)]


def _numbers(column: Floats) -> list[str]:
    return [repr(value) if isfinite(value) else "null" for value in column.tolist()]


def _ends(columns: VerdictColumns, rows: int) -> Iterator[str] | list[str]:
    """Return the end of each line: what is known of alarms and changes, or nothing."""
    if columns.ratios is None or columns.p_values is None or columns.alarms is None:
        return repeat("}", rows)
    alarms = zip(
        _numbers(columns.ratios), _numbers(columns.p_values), columns.alarms.tolist(), strict=True
    )
    ends = [f', "ratio": {r}, "p_value": {p}, "alarm": {number}' for r, p, number in alarms]
    if columns.distances is None or columns.changes is None:
        return [end + "}" for end in ends]
    changes = zip(ends, _numbers(columns.distances), columns.changes.tolist(), strict=True)
    return [f'{end}, "distance": {far}, "change": {number}}}' for end, far, number in changes]


@lru_cache(maxsize=64)
def _template(channels: tuple[str, ...], expected: str, shares: bool, shared: bool) -> str:
    """Return the text of a verdict with a gap for each value.

    Filling gaps is five times faster than `json.dumps`, and `watch` does little else.
    """

    def by_channel(gap: str) -> str:
        names = [json.dumps(channel, ensure_ascii=False).replace("%", "%%") for channel in channels]
        return "{" + ", ".join(f"{name}: {gap}" for name in names) + "}"

    expected_text = by_channel(expected) if expected else "null"
    shares_text = by_channel("%.6g" if shared else "null") if shares else "null"
    return (
        '"sample": %d, "time": %s, "score": %s, "threshold": %s, "anomalous": %s, '
        f'"expected": {expected_text}, "shares": {shares_text}'
    )
