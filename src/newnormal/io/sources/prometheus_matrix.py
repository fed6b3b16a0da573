"""Answers to range queries of Prometheus: series as arrays on a grid of times."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import numpy as np

from newnormal.errors import InputError
from newnormal.types import Floats, Ints

_SECOND = 1_000_000_000
_NEAR = 1_000_000  # ns: Prometheus has times in ms
_SHOWN = 300  # characters of a warning


class Grid(NamedTuple):
    """Times at which a query is evaluated: `size` from `first` on, `step` apart, in ns."""

    first: int
    size: int
    step: int

    @property
    def last(self) -> int:
        """The last one."""
        return self.first + (self.size - 1) * self.step

    @property
    def times(self) -> Ints:
        """All of them.

        >>> Grid(10, 3, 5).times.tolist()
        [10, 15, 20]
        """
        return self.first + np.arange(self.size, dtype=np.int64) * self.step


class Series(NamedTuple):
    """A series of an answer: its labels, and (N,) its values at the times of the grid."""

    labels: dict[str, str]
    values: Floats


class Answer(NamedTuple):
    """What a range query gave."""

    series: list[Series]
    warnings: tuple[str, ...]


def read_matrix(body: bytes, grid: Grid) -> Answer:
    """Return the series of an answer to a range query.

    What is not finite, or at another time than the grid's, is missing. A series of histograms has
    no values.

    Raises
    ------
    InputError
        If it is not such an answer.

    Examples
    --------
    >>> body = b'''{"status": "success", "data": {"resultType": "matrix", "result": [
    ...     {"metric": {"__name__": "up"}, "values": [[10, "1"], [20, "NaN"]]}]}}'''
    >>> read_matrix(body, Grid(10 * 10**9, 2, 10 * 10**9)).series
    [Series(labels={'__name__': 'up'}, values=array([ 1., nan]))]
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"expected JSON, found other bytes: {error}",
            hint="url is the part of the address before /api/v1",
        ) from error
    try:
        data = found["data"]
        if found["status"] != "success" or data["resultType"] != "matrix":
            raise InputError("expected a matrix, found another answer")
        warnings = tuple(str(each)[:_SHOWN] for each in found.get("warnings") or ())
        series = [_series(each, grid) for each in data["result"]]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"expected series with values, found {error!r:.200}") from error
    return Answer(series, warnings)


def _series(found: Any, grid: Grid) -> Series:
    labels, given = found["metric"], found.get("values") or []
    if not all(isinstance(each, str) for each in labels.values()):
        raise InputError("expected labels that are texts, found others")
    row: Floats = np.full(grid.size, np.nan)
    if len(given) == 1:  # by far the most frequent, and an array for it would cost most
        ((at, value),) = given
        _put_one(row, grid, at, float(value))
    elif given:
        times = np.array([at for at, _ in given], np.float64)
        values = np.array([float(value) for _, value in given])
        with np.errstate(invalid="ignore"):  # times that are infinite
            exact = (times - grid.first / _SECOND) * (_SECOND / grid.step)
            places = np.rint(exact)
            good = (np.abs(exact - places) <= _NEAR / grid.step) & np.isfinite(values)
        good &= (places >= 0) & (places < grid.size)
        row[places[good].astype(np.int64)] = values[good]
    return Series(labels, row)


def _put_one(row: Floats, grid: Grid, at: float, value: float) -> None:
    exact = (at - grid.first / _SECOND) * (_SECOND / grid.step)
    if not (math.isfinite(exact) and math.isfinite(value)):
        return
    place = round(exact)
    if 0 <= place < grid.size and abs(exact - place) <= _NEAR / grid.step:
        row[place] = value
