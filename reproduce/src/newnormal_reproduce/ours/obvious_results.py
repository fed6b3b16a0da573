"""The results of `newnormal_reproduce.ours.obvious`, and figures over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from newnormal.datasets.synthetic.obvious import FAULTS, KINDS
from newnormal_reproduce.engine.arrays import Bools, Floats

LIMIT = 1  # alarms a day


class FaultExcerpt(NamedTuple):
    """The faulty channel around its fault, for a picture.

    Attributes
    ----------
    values
        Its samples.
    start, length
        The place of the fault in these.
    openings, in_alarm
        Where something opened, and whether an alarm is open.
    """

    values: Floats
    start: int
    length: int
    openings: tuple[int, ...]
    in_alarm: Bools


class FaultRun(NamedTuple):
    """One run over a stream with a fault, or without one.

    Attributes
    ----------
    fault, found, delay
        The fault, whether it was found (1 or 0), and after how many samples; None, None and NaN
        without a fault.
    openings, false, days
        What opened, what of it is false, and the days of normal samples.
    in_alarm, pending
        Shares of normal samples.
    """

    rate: str
    stream: str
    kind: str
    channels: int
    seed: int
    fault: str | None
    found: int | None
    delay: float
    openings: int
    false: int
    days: float
    in_alarm: float
    pending: float
    shown: FaultExcerpt | None = None


class Night(NamedTuple):
    """One run over the nightly job.

    Attributes
    ----------
    openings, false
        What opened in all nights (in the first night for ``nightly/new``), and what of it is false.
    at_job
        What of it opened at the nightly job, or up to ten samples after it.
    found
        Whether the job at noon was found (1 or 0).
    accepted, later
        For ``nightly/new``: whether what opened in the first night was accepted, and how many
        alarms opened in the five days after.
    """

    stream: str
    seed: int
    openings: int
    at_job: int | None = None
    false: int | None = None
    found: int | None = None
    accepted: bool | None = None
    later: int | None = None


class Quiet(NamedTuple):
    """Alarms a day on streams without a fault."""

    runs: int
    mean: float
    decile: float  # the 9th
    in_alarm: float
    pending: float


@dataclass(frozen=True, eq=False)
class ObviousResults:
    """Runs over faults and over the nightly job."""

    judged: tuple[FaultRun, ...] = ()
    nights: tuple[Night, ...] = ()

    def __add__(self, other: ObviousResults) -> ObviousResults:
        return ObviousResults(self.judged + other.judged, self.nights + other.nights)

    @property
    def rates(self) -> list[str]:
        """The rates of sampling that were run."""
        return list(dict.fromkeys(each.rate for each in self.judged))

    @property
    def seeds(self) -> list[int]:
        """The seeds that were run."""
        judged = {each.seed for each in self.judged}
        return sorted(judged | {night.seed for night in self.nights})

    def with_fault(self, rate: str, **where: object) -> list[FaultRun]:
        """Return the runs with a fault at a rate, of a kind, fault or number of channels."""
        return [
            each
            for each in self.judged
            if each.rate == rate
            and each.fault is not None
            and all(getattr(each, name) == value for name, value in where.items())
        ]

    def found(self, rate: str, **where: object) -> float | None:
        """Return the share of these faults that were found; None without faults."""
        found = [each.found for each in self.with_fault(rate, **where) if each.found is not None]
        return fmean(found) if found else None

    def quiet(self, rate: str, kind: str | None = None) -> Quiet | None:
        """Return the alarms a day on streams without a fault; None without such streams."""
        mine = [
            each
            for each in self.judged
            if each.rate == rate and each.fault is None and kind in (None, each.kind)
        ]
        if not mine:
            return None
        daily = [each.openings / each.days for each in mine]
        return Quiet(
            len(mine),
            fmean(daily),
            float(np.quantile(daily, 0.9)),
            fmean(each.in_alarm for each in mine),
            fmean(each.pending for each in mine),
        )

    def nights_of(self, variant: str) -> list[Night]:
        """Return the runs over a variant of the nightly job."""
        return [each for each in self.nights if each.stream.endswith(f"/{variant}")]

    def example(self, fault: str) -> FaultRun | None:
        """Return a run to draw, of the first rate and seed; faults are on different kinds."""
        mine = [each for each in self.judged if each.fault == fault and each.shown is not None]
        usual = KINDS[FAULTS.index(fault) % len(KINDS)]

        def order(each: FaultRun) -> tuple[bool, bool, bool, int]:
            return each.rate != self.rates[0], each.kind != usual, each.channels != 2, each.seed

        return min(mine, key=order, default=None)


def mean_of(each: Iterable[Night], part: Callable[[Night], float | None]) -> float | None:
    """Return the mean of what runs have; None if none has it."""
    found = [value for night in each if (value := part(night)) is not None]
    return fmean(found) if found else None
