"""Samples brought to a grid of times."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from newnormal.errors import InputError
from newnormal.types import Floats, Ints, Times

_COMMON = 100  # steps: a gap up to this is filled with missing values
_TIMES = 10  # and one up to this many times the longest such gap
_MOST = 1 << 28  # values that one call may return


class ResampledSteps(NamedTuple):
    """Samples on the grid; the number and the labels are those of what they are the mean of."""

    values: Floats
    times: Times
    numbers: Ints
    labels: Ints | None


def means(values: Floats, weights: Floats, groups: Ints, count: int) -> tuple[Floats, Floats]:
    """Return the sums of each group's values that are there, and how many these are.

    Each is added up in the order of its samples, so that in pieces it is the same number.
    """
    sums = np.empty((count, values.shape[1]))
    counts = np.empty_like(sums)
    filled = np.where(weights > 0, values, 0.0)
    for column in range(values.shape[1]):
        sums[:, column] = np.bincount(groups, filled[:, column], count)
        counts[:, column] = np.bincount(groups, weights[:, column], count)
    return sums, counts


class Resampler:
    """Brings samples to multiples of a step since 1970; they may come in pieces of any size.

    The sample of a time t is the mean of what came after t - step and until t. A step with
    nothing is a sample of missing values, but a gap that is longer than 100 steps, and longer than
    ten times the longest gap up to that so far, is left as a gap.

    >>> grid = Resampler(np.timedelta64(60, "s"), 1)
    >>> times = np.array(["2026-01-01T00:00:10", "2026-01-01T00:00:30"], "datetime64[ns]")
    >>> _ = grid.push(np.array([[1.0], [2.0]]), times, np.array([1, 2]))
    >>> steps = grid.flush()
    >>> steps.values.tolist(), steps.times.astype("datetime64[m]").tolist()[0].minute
    ([[1.5]], 1)
    """

    def __init__(self, step: np.timedelta64, width: int) -> None:
        self._step = int(step / np.timedelta64(1, "ns"))
        self._width = width
        self._newest: int | None = None  # the last step given out
        self._longest = 0  # of the gaps that are common
        self._open: int | None = None  # the step that more may come for
        self._sums = np.zeros((1, width))
        self._counts = np.zeros((1, width))
        self._number = 0

    def push(
        self,
        values: Floats,
        times: Times,
        numbers: Ints,
        labels: Ints | None = None,
        *,
        last: bool = False,
    ) -> ResampledSteps:
        """Take samples in the order of their times, and return the steps that are complete.

        With `last` nothing follows, and every step is. Labels can only be given where these are
        all samples.
        """
        if not len(values):
            return self._none()
        moments = times.astype("datetime64[ns]").view(np.int64)
        steps = -(-moments // self._step)
        there: Floats = (~np.isnan(values)).astype(np.float64)
        if self._open is not None:
            steps = np.r_[self._open, steps]
            values, there = np.vstack([self._sums, values]), np.vstack([self._counts, there])
            numbers = np.r_[self._number, numbers]
        starts = np.flatnonzero(np.r_[True, steps[1:] != steps[:-1]])
        groups = np.cumsum(np.r_[False, steps[1:] != steps[:-1]])
        sums, counts = means(values, there, groups, len(starts))
        ends = np.r_[starts[1:], len(steps)] - 1
        step_labels = None if labels is None else np.maximum.reduceat(labels, starts)
        complete = len(starts)
        self._open = None
        if moments[-1] != steps[-1] * self._step and not last:
            complete -= 1
            self._open, self._number = int(steps[-1]), int(numbers[-1])
            self._sums, self._counts = sums[-1:], counts[-1:]
        kept = slice(complete)
        return self._given(
            steps[starts][kept],
            sums[kept],
            counts[kept],
            numbers[ends][kept],
            None if step_labels is None else step_labels[kept],
        )

    def flush(self) -> ResampledSteps:
        """Return the step that is not complete: the input has ended."""
        if self._open is None:
            return self._none()
        steps, self._open = np.array([self._open]), None
        return self._given(steps, self._sums, self._counts, np.array([self._number]), None)

    def facts(self) -> dict[str, Any]:
        """Return the step that is not complete, and the last one, as JSON values."""
        facts: dict[str, Any] = {"newest": self._newest, "longest": self._longest}
        if self._open is not None:
            facts |= {"open": self._open, "number": self._number}
            facts |= {"sums": self._sums[0].tolist(), "counts": self._counts[0].tolist()}
        return facts

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore what `facts` returned."""
        self._newest, self._longest = facts["newest"], int(facts["longest"])
        self._open = facts.get("open")
        if self._open is not None:
            self._number = int(facts["number"])
            self._sums = np.array(facts["sums"], dtype=np.float64).reshape(1, self._width)
            self._counts = np.array(facts["counts"], dtype=np.float64).reshape(1, self._width)

    def _given(
        self, steps: Ints, sums: Floats, counts: Floats, numbers: Ints, labels: Ints | None
    ) -> ResampledSteps:
        """Return steps with those between them that have nothing."""
        if not len(steps):
            return self._none()
        with np.errstate(invalid="ignore", divide="ignore"):
            values = sums / counts
        gaps = np.diff(steps, prepend=steps[0] - 1 if self._newest is None else self._newest)
        common = np.where(gaps <= _COMMON, gaps, 0)
        longest = np.maximum.accumulate(np.r_[self._longest, common])
        filled = np.where(gaps <= np.maximum(_COMMON, _TIMES * longest[:-1]), gaps, 1)
        self._newest, self._longest = int(steps[-1]), int(longest[-1])
        slots = np.cumsum(filled) - 1
        count = int(slots[-1]) + 1
        if count == len(steps):
            moments = (steps * self._step).view("datetime64[ns]")
            return ResampledSteps(values, moments, numbers, labels)
        if count * self._width > _MOST:
            raise InputError(
                f"resample: expected a time between samples that suits them, found one that "
                f"makes {count} samples of {len(steps)}",
                hint="choose a longer one with --resample (resample=)",
            )
        wide = np.full((count, values.shape[1]), np.nan)
        wide[slots] = values
        every = np.repeat(steps, filled) - (np.repeat(slots, filled) - np.arange(count))
        return ResampledSteps(
            wide,
            (every * self._step).view("datetime64[ns]"),
            np.repeat(numbers, filled),
            None if labels is None else _placed(labels, slots, count),
        )

    def _none(self) -> ResampledSteps:
        nothing = np.empty(0, dtype=np.int64)
        return ResampledSteps(
            np.empty((0, self._width)), nothing.view("datetime64[ns]"), nothing, None
        )


def _placed(labels: Ints, slots: Ints, count: int) -> Ints:
    placed = np.zeros(count, dtype=labels.dtype)
    placed[slots] = labels
    return placed
