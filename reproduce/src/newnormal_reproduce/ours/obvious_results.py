"""The results of `newnormal_reproduce.ours.obvious`, and figures over them."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from newnormal.datasets.synthetic.obvious import FAULTS, KINDS
from newnormal_reproduce.engine.arrays import Bools, Floats

LIMIT = 1  # alarms a day


class FaultExcerpt(NamedTuple):
    """The samples of a faulty channel around its fault, for a picture."""

    values: Floats
    start: int  # of the fault in these
    length: int
    openings: tuple[int, ...]
    in_alarm: Bools


class FaultRun(NamedTuple):
    """One run over a stream with a fault, or without one."""

    rate: str
    stream: str
    kind: str
    channels: int
    seed: int
    fault: str | None
    found: int | None  # 1 or 0; None without a fault
    delay: float  # samples; NaN without a fault
    openings: int
    false: int  # openings
    days: float  # of normal samples
    in_alarm: float  # share of normal samples
    pending: float
    shown: FaultExcerpt | None = None


class Night(NamedTuple):
    """One run over the nightly job."""

    stream: str
    seed: int
    openings: int  # in all nights; in the first night for nightly/new
    at_job: int | None = None  # of these, at the nightly job or up to ten samples after it
    false: int | None = None
    found: int | None = None  # the job at noon, 1 or 0
    accepted: bool | None = None  # for nightly/new: what opened in the first night
    later: int | None = None  # alarms in the five days after that


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

    def __add__(self, other: "ObviousResults") -> "ObviousResults":
        return ObviousResults(self.judged + other.judged, self.nights + other.nights)

    @property
    def rates(self) -> list[str]:
        """The rates of sampling that were run."""
        return list(dict.fromkeys(run.rate for run in self.judged))

    @property
    def seeds(self) -> list[int]:
        """The seeds that were run."""
        judged = {run.seed for run in self.judged}
        return sorted(judged | {night.seed for night in self.nights})

    def with_fault(self, rate: str, **where: object) -> list[FaultRun]:
        """Return the runs with a fault at a rate, of a kind, fault or number of channels."""
        return [
            run
            for run in self.judged
            if run.rate == rate
            and run.fault is not None
            and all(getattr(run, name) == value for name, value in where.items())
        ]

    def share_found(self, rate: str, **where: object) -> float | None:
        """Return the share of these faults that were found; None without faults."""
        return mean_of(self.with_fault(rate, **where), "found")

    def quiet(self, rate: str, kind: str | None = None) -> Quiet | None:
        """Return the alarms a day on streams without a fault; None without such streams."""
        runs = [
            run
            for run in self.judged
            if run.rate == rate and run.fault is None and kind in (None, run.kind)
        ]
        if not runs:
            return None
        daily = [run.openings / run.days for run in runs]
        in_alarm, pending = fmean(run.in_alarm for run in runs), fmean(run.pending for run in runs)
        return Quiet(len(runs), fmean(daily), float(np.quantile(daily, 0.9)), in_alarm, pending)

    def nights_of(self, variant: str) -> list[Night]:
        """Return the runs over a variant of the nightly job."""
        return [night for night in self.nights if night.stream.endswith(f"/{variant}")]

    def example(self, fault: str) -> FaultRun | None:
        """Return a run to draw, of the first rate and seed; faults are on different kinds."""
        runs = [run for run in self.judged if run.fault == fault and run.shown is not None]
        usual = KINDS[FAULTS.index(fault) % len(KINDS)]

        def order(run: FaultRun) -> tuple[bool, bool, bool, int]:
            return run.rate != self.rates[0], run.kind != usual, run.channels != 2, run.seed

        return min(runs, key=order, default=None)


def mean_of(runs: Iterable[FaultRun | Night], part: str) -> float | None:
    """Return the mean of a part over the runs that have it; None if none has."""
    values = [value for run in runs if (value := getattr(run, part)) is not None]
    return fmean(values) if values else None
