"""The alarms of `newnormal.experiments.ours.drift`.

How many there are beside a budget, before and after normal shifts; how long until a new normal is
accepted; and how faults that stay are handled.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import numpy as np

from newnormal import Event
from newnormal.config import SAMPLES_PER_DAY
from newnormal.detector import BaseDetector
from newnormal.experiments.engine.drifting import ONSET, Kind, faulty, kind_of, normal_part
from newnormal.experiments.engine.experiment import Experiment
from newnormal.experiments.engine.fit import Fit
from newnormal.experiments.engine.published import Figure
from newnormal.experiments.engine.runner import Runner
from newnormal.experiments.engine.streams import load_stream
from newnormal.experiments.engine.trial import Outcome
from newnormal.experiments.ours.drift_figures import COLLECTIONS, OURS, TUNED, collection
from newnormal.types import ACCEPTED, CLOSED, OPENED, Bools, Floats

__all__ = [
    "ACCEPT_AFTER",
    "AFTER",
    "ALL",
    "BEFORE",
    "BUDGETS",
    "FOLLOWED",
    "NOTHING",
    "Acceptance",
    "Alarms",
    "Fault",
    "Pooled",
    "Run",
    "Spent",
    "absorbed",
    "acceptances",
    "in_alarm",
    "noticed",
    "spent",
    "watch",
]

BUDGETS = (1, 3, 10)  # alarms a day
ACCEPT_AFTER = SAMPLES_PER_DAY  # samples: the default of `Detector`
FOLLOWED = 3  # multiples of ACCEPT_AFTER for which a fault is followed
ALL, BEFORE, AFTER = "all", "before", "after"  # parts of a stream, divided by its first shift
NOTHING = "nothing"  # changed before the first shift
_STRETCH = 1000  # samples: the detector keeps 1000 events, and a stretch has fewer


class Spent(NamedTuple):
    """The number of alarms opened on a part of a stream without labelled samples."""

    budget: int
    part: str
    alarms: int
    days: float


class Acceptance(NamedTuple):
    """How one change of normal was accepted, or not.

    Attributes
    ----------
    change
        What changed.
    after
        Samples from the change until it was accepted; NaN if it was not before the next change.
    age
        Samples for which the accepted alarm had been open; NaN if nothing was accepted.
    alarms
        Alarms open at some time until then, or until the next change.
    longest
        Samples of the longest of these, counted from the change.
    """

    change: str
    after: float
    age: float
    alarms: int
    longest: int

    @property
    def accepted(self) -> bool:
        """Whether it was accepted."""
        return not math.isnan(self.after)


class Fault(NamedTuple):
    """How one fault that stays was handled.

    Attributes
    ----------
    fault, channel
        The fault and the failed channel.
    noticed
        Whether an alarm was open at some time in the first quarter of `ACCEPT_AFTER`.
    absorbed
        Whether fewer than half of the samples in the second half of it were in alarm.
    early, late
        Whether it was accepted without feedback within `ACCEPT_AFTER`, and within `FOLLOWED` times
        that.
    rejected
        Whether an alarm was open after a quarter of it, and was rejected.
    learned
        Whether it was accepted after the rejection; None if it was not rejected. These four are
        None for the paper's method, which has no acceptance.
    """

    fault: str
    channel: int
    noticed: bool
    absorbed: bool
    early: bool | None = None
    late: bool | None = None
    rejected: bool | None = None
    learned: bool | None = None


class Pooled(NamedTuple):
    """Alarms a day over several streams: all alarms divided by all days."""

    streams: int
    days: float
    rate: Figure


# ---------------------------------------------------------------------- counting


def watch(detector: BaseDetector, samples: Floats, *, flush: bool = True) -> list[Event]:
    """Run a detector over samples and return all alarm events."""
    events: list[Event] = []
    for start in range(0, len(samples), _STRETCH):
        end = start + _STRETCH
        detector.run(samples[start:end], flush=flush and end >= len(samples))
        events += detector.take_events()
    return events


def spent(events: Iterable[Event], budget: int, samples: int, shifts: Sequence[int]) -> list[Spent]:
    """Count the opened alarms: in all, or before the first shift and from it on."""
    opened = [event.sample for event in events if event.kind == OPENED]
    edges = [0, *shifts[:1], samples]
    parts = (BEFORE, AFTER) if shifts else (ALL,)
    return [
        Spent(
            budget, part, sum(start <= at < end for at in opened), (end - start) / SAMPLES_PER_DAY
        )
        for part, (start, end) in zip(parts, pairwise(edges), strict=True)
    ]


def acceptances(
    events: Sequence[Event], changes: Sequence[str], shifts: Sequence[int], samples: int
) -> list[Acceptance]:
    """Return the first acceptance after each change and before the next, if there is one."""
    found = []
    for change, start, end in zip(changes, shifts, [*shifts[1:], samples], strict=True):
        done = next((each for each in _accepted(events) if start <= each.sample < end), None)
        until, after, age = end, math.nan, math.nan
        if done is not None:
            until, after, age = done.sample, done.sample - start, done.sample - done.alarm.start
        lengths = [min(stop, until) - max(at, start) for at, stop in _spans(events, samples)]
        open_ = [length for length in lengths if length > 0]
        found.append(Acceptance(change, after, age, len(open_), max(open_, default=0)))
    return found


def in_alarm(events: Iterable[Event], samples: int) -> Bools:
    """Return for each sample whether an alarm is open."""
    found = np.zeros(samples, dtype=bool)
    for start, stop in _spans(events, samples):
        found[start:stop] = True
    return found


def _spans(events: Iterable[Event], samples: int) -> list[tuple[int, int]]:
    """Return the samples at which each alarm opened and closed; the last may be open at the end."""
    spans: dict[int, tuple[int, int]] = {}
    for event in events:
        stop = event.sample if event.kind == CLOSED else samples
        spans[event.alarm.number] = (event.alarm.start, stop)
    return list(spans.values())


def noticed(alarm: Bools, onset: int) -> bool:
    """Whether an alarm is open at some time in the first quarter of `ACCEPT_AFTER`."""
    return bool(alarm[onset : onset + ACCEPT_AFTER // 4].any())


def absorbed(alarm: Bools, onset: int) -> bool:
    """Whether fewer than half of the samples in the second half of it are in alarm."""
    return bool(alarm[onset + ACCEPT_AFTER // 2 : onset + ACCEPT_AFTER].mean() < 0.5)


def _accepted(events: Iterable[Event]) -> list[Event]:
    """Return the closing events of alarms that were accepted as the new normal."""
    return [each for each in events if each.kind == CLOSED and each.alarm.reason == ACCEPTED]


# ---------------------------------------------------------------------- measuring


def _spent(fit: Fit, samples: Floats, shifts: Sequence[int]) -> Iterator[Spent]:
    for budget in BUDGETS:
        events = watch(fit.with_budget(budget), samples)
        yield from spent(events, budget, len(samples), shifts)


def _faults(detector: BaseDetector, stream: str, *, accepts: bool) -> Iterator[Fault]:
    """Run a detector over every fault; with `accepts`, also reject the alarm of each."""
    detector.track_alarms()
    for fault, channel, samples in faulty(stream, FOLLOWED * ACCEPT_AFTER):
        events = watch(detector.reset(), samples)
        alarm = in_alarm(events, len(samples))
        found = Fault(fault, channel, noticed(alarm, ONSET), absorbed(alarm, ONSET))
        if accepts:
            late = [each.sample for each in _accepted(events) if each.sample >= ONSET]
            early = any(at < ONSET + ACCEPT_AFTER for at in late)
            found = found._replace(early=early, late=bool(late), rejected=False)
            judged = ONSET + ACCEPT_AFTER // 4
            watch(detector.reset(), samples[:judged], flush=False)
            if detector.alarm_ is not None:
                learned = _accepted(watch(detector.reject(), samples[judged:]))
                found = found._replace(rejected=True, learned=bool(learned))
        yield found


class Run(NamedTuple):
    """The run on which something was measured."""

    stream: str
    row: str
    seed: int


@dataclass(frozen=True, eq=False)
class Alarms:
    """The alarms of each row, computed again from the stored fits; the results are not stored.

    Attributes
    ----------
    spent, acceptances
        Of the default detector: at each of `BUDGETS`, and at the smallest.
    faults
        Of every row, at its own threshold.
    """

    spent: dict[Run, list[Spent]] = field(default_factory=dict)
    acceptances: dict[Run, list[Acceptance]] = field(default_factory=dict)
    faults: dict[Run, list[Fault]] = field(default_factory=dict)

    @classmethod
    def of(cls, experiment: Experiment) -> Alarms:
        """Measure all runs of an experiment whose fits are stored, or may be computed."""
        alarms = cls()
        for line, trials in experiment.lines:
            stream, row = line.stream.name, line.competitor.name
            kind = kind_of(stream)
            counts = row == OURS and collection(stream) in COLLECTIONS
            if row == TUNED or not (counts or kind is not None):
                continue
            for trial in trials:
                outcome = experiment.outcomes.get(trial)
                if outcome is not None and experiment.runner.has_fit(outcome):
                    alarms._measure(Run(stream, row, trial.seed), outcome, kind, experiment.runner)
        return alarms

    def _measure(self, of: Run, outcome: Outcome, kind: Kind | None, runner: Runner) -> None:
        ours = of.row == OURS
        if ours:
            fit = runner.fit(outcome)
            stream = runner.streams.about(of.stream)
            data = load_stream(stream.name, stream.root)
            samples, shifts = normal_part(data)
            self.spent[of] = list(_spent(fit, samples, shifts))
            if kind is not None:
                events = watch(fit.with_budget(BUDGETS[0]), data.test)
                changes, shifts = (NOTHING, *kind.changes), (0, *data.shifts)
                self.acceptances[of] = acceptances(events, changes, shifts, len(data.test))
        if kind is not None and kind.calm is not None:
            self.faults[of] = list(_faults(runner.detector(outcome), of.stream, accepts=ours))

    # ------------------------------------------------------------------ figures

    def rate(self, budget: int, part: str, owner: str | None = None) -> Pooled | None:
        """Return the alarms a day of a collection's streams, or of all that have such a part.

        The rate is over the seeds that all of those streams have.
        """
        seeds: dict[int, dict[str, Spent]] = {}
        for of, parts in self.spent.items():
            for each in parts:
                mine = owner is None or owner == collection(of.stream)
                if mine and (each.budget, each.part) == (budget, part):
                    seeds.setdefault(of.seed, {})[of.stream] = each
        streams = {stream for found in seeds.values() for stream in found}
        whole = [list(found.values()) for found in seeds.values() if found.keys() == streams]
        if not whole:
            return None
        days = sum(each.days for each in whole[0])
        rates = [sum(each.alarms for each in found) / days for found in whole]
        return Pooled(len(streams), days, Figure.of(rates))

    def changes(self) -> dict[tuple[str, str], list[Acceptance]]:
        """Return the acceptances of each change, over streams and seeds, by the streams' kind.

        The change before the first one is `NOTHING`.
        """
        found: dict[tuple[str, str], list[Acceptance]] = {}
        for of, every in self.acceptances.items():
            for each in every:
                found.setdefault((collection(of.stream), each.change), []).append(each)
        return found

    def fault_shares(self, part: str) -> dict[tuple[str, str], dict[str, Figure]]:
        """Return the share of faults for which `part` is true, by kind and fault, of each row."""
        found: dict[tuple[str, str], dict[str, dict[int, list[float]]]] = {}
        for of, every in self.faults.items():
            for each in every:
                rows = found.setdefault((collection(of.stream), each.fault), {})
                seeds = rows.setdefault(of.row, {})
                seeds.setdefault(of.seed, []).append(float(getattr(each, part)))
        return {
            which: {
                row: Figure.of([fmean(shares) for shares in seeds.values()])
                for row, seeds in rows.items()
            }
            for which, rows in found.items()
        }

    def mine(self) -> list[Fault]:
        """Return all faults of the default detector, over streams and seeds."""
        return [each for of, every in self.faults.items() if of.row == OURS for each in every]

    def csv(self) -> str:
        """Return a line for each measure of each run."""
        text = io.StringIO()
        own = dict.fromkeys([*Spent._fields, *Acceptance._fields, *Fault._fields])
        head = ["dataset", "collection", "row", "seed", "measure"]
        table = csv.DictWriter(text, [*head, *own], lineterminator="\n")
        table.writeheader()
        for name, runs in (
            ("budget", self.spent),
            ("acceptance", self.acceptances),
            ("fault", self.faults),
        ):
            for of, every in runs.items():
                for each in every:
                    cells = {part: _cell(value) for part, value in each._asdict().items()}
                    where = [of.stream, collection(of.stream), of.row, of.seed, name]
                    table.writerow({**dict(zip(head, where, strict=True)), **cells})
        return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return value
