"""What the alarms of `newnormal.experiments.drift` come to.

How many there are beside a budget, before normal shifts and after it; how long until a new normal
is accepted; and what becomes of faults that stay.
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

from newnormal.alarms import AlarmEvent
from newnormal.alarms.tracker import ACCEPTED, CLOSED, OPENED
from newnormal.config import MINUTES
from newnormal.detector import BaseDetector
from newnormal.experiments.drift_figures import COLLECTIONS, OURS, TUNED, collection
from newnormal.experiments.drifting import ONSET, Kind, faulty, kind_of, normal_part
from newnormal.experiments.experiment import Experiment
from newnormal.experiments.lab import Lab
from newnormal.experiments.paper import Figure
from newnormal.experiments.rows import Fitted
from newnormal.experiments.store import Store
from newnormal.experiments.streams import load_stream
from newnormal.experiments.unit import Outcome
from newnormal.types import Bools, Floats

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
ACCEPT_AFTER = MINUTES  # samples: the default detector's own
FOLLOWED = 3  # times that, for which a fault is followed
ALL, BEFORE, AFTER = "all", "before", "after"  # parts of a stream: its first shift divides it
NOTHING = "nothing"  # is what changed before the first shift
_STRETCH = 1000  # samples: the detector keeps that many events, and these have fewer


class Spent(NamedTuple):
    """Alarms that were opened on a part of a stream where nothing is labelled."""

    budget: int
    part: str
    alarms: int
    days: float


class Acceptance(NamedTuple):
    """What came of one change of normal.

    Attributes
    ----------
    change
        What changed.
    after
        Samples from the change until it was accepted; NaN where it was not, before the next.
    age
        For how many samples the alarm accepted had been open; NaN likewise.
    alarms
        Alarms open at some time until then, or until the next change.
    longest
        Samples of the longest of these, from the change on.
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
    """What came of one fault that stays.

    Attributes
    ----------
    fault, channel
        Which.
    noticed
        Whether an alarm was open at some time in the first quarter of `ACCEPT_AFTER`.
    absorbed
        Whether fewer than half of the samples in the second half of it were in alarm.
    early, late
        Whether it was accepted, nobody saying anything, within `ACCEPT_AFTER`; and within
        `FOLLOWED` times that.
    rejected
        Whether an alarm was open to be rejected after a quarter of it.
    learned
        Whether it was accepted all the same; None where it was not rejected. These four are None
        where learning is the paper's, which asks nobody.
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
    """Alarms a day over several streams, alarms and days pooled."""

    streams: int
    days: float
    rate: Figure


# ---------------------------------------------------------------------- counting


def watch(detector: BaseDetector, samples: Floats, *, flush: bool = True) -> list[AlarmEvent]:
    """Run a detector over samples and return all that happened to alarms."""
    events: list[AlarmEvent] = []
    for start in range(0, len(samples), _STRETCH):
        end = start + _STRETCH
        detector.run(samples[start:end], flush=flush and end >= len(samples))
        events += detector.take_events()
    return events


def spent(
    events: Iterable[AlarmEvent], budget: int, samples: int, shifts: Sequence[int]
) -> list[Spent]:
    """Count the alarms that opened: over all, or before the first shift and from it on."""
    opened = [event.sample for event in events if event.kind == OPENED]
    edges = [0, *shifts[:1], samples]
    parts = (BEFORE, AFTER) if shifts else (ALL,)
    return [
        Spent(budget, part, sum(start <= at < end for at in opened), (end - start) / MINUTES)
        for part, (start, end) in zip(parts, pairwise(edges), strict=True)
    ]


def acceptances(
    events: Sequence[AlarmEvent], changes: Sequence[str], shifts: Sequence[int], samples: int
) -> list[Acceptance]:
    """Find the first acceptance after each change and before the next, if there is one."""
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


def in_alarm(events: Iterable[AlarmEvent], samples: int) -> Bools:
    """Say of each sample whether an alarm is open."""
    found = np.zeros(samples, dtype=bool)
    for start, stop in _spans(events, samples):
        found[start:stop] = True
    return found


def _spans(events: Iterable[AlarmEvent], samples: int) -> list[tuple[int, int]]:
    """Return where each alarm was opened and closed; the last may still be open at the end."""
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


def _accepted(events: Iterable[AlarmEvent]) -> list[AlarmEvent]:
    """Return the ends of alarms whose cause became the new normal."""
    return [each for each in events if each.kind == CLOSED and each.alarm.reason == ACCEPTED]


# ---------------------------------------------------------------------- measuring


def _spent(fitted: Fitted, samples: Floats, shifts: Sequence[int]) -> Iterator[Spent]:
    for budget in BUDGETS:
        events = watch(fitted.held_to(budget), samples)
        yield from spent(events, budget, len(samples), shifts)


def _faults(detector: BaseDetector, stream: str, *, keeps: bool) -> Iterator[Fault]:
    """Hand a detector every fault; one that `keeps` its normal is also told to reject it."""
    detector.track_alarms()
    for fault, channel, samples in faulty(stream, FOLLOWED * ACCEPT_AFTER):
        events = watch(detector.reset(), samples)
        alarm = in_alarm(events, len(samples))
        found = Fault(fault, channel, noticed(alarm, ONSET), absorbed(alarm, ONSET))
        if keeps:
            late = [each.sample for each in _accepted(events) if each.sample >= ONSET]
            early = any(at < ONSET + ACCEPT_AFTER for at in late)
            found = found._replace(early=early, late=bool(late), rejected=False)
            asked = ONSET + ACCEPT_AFTER // 4
            watch(detector.reset(), samples[:asked], flush=False)
            if detector.alarm_ is not None:
                learned = _accepted(watch(detector.reject(), samples[asked:]))
                found = found._replace(rejected=True, learned=bool(learned))
        yield found


def _fitted(lab: Lab, outcome: Outcome) -> Fitted | None:
    """Return the fit behind an outcome; None where it cannot be read."""
    path = lab.store.fit_path(outcome.unit, lab.streams.about(outcome.unit.dataset))
    if not path.is_file():
        lab.detector(outcome)  # fits, and keeps it
    return Store.read_fit(path)


class Run(NamedTuple):
    """Which run something was measured on."""

    stream: str
    row: str
    seed: int


@dataclass(frozen=True, eq=False)
class Alarms:
    """The alarms of each row, run again from the fits that are kept; nothing else is kept.

    Attributes
    ----------
    spent, acceptances
        Of the default detector: against each of `BUDGETS`, and at the smallest.
    faults
        Of every row, at its own threshold.
    """

    spent: dict[Run, list[Spent]] = field(default_factory=dict)
    acceptances: dict[Run, list[Acceptance]] = field(default_factory=dict)
    faults: dict[Run, list[Fault]] = field(default_factory=dict)

    @classmethod
    def of(cls, experiment: Experiment) -> Alarms:
        """Measure all of an experiment's runs whose fits are kept, or may be made."""
        alarms = cls()
        for line, units in experiment.lines:
            stream, row = line.stream.name, line.entrant.name
            kind = kind_of(stream)
            counts = row == OURS and collection(stream) in COLLECTIONS
            if row == TUNED or not (counts or kind is not None):
                continue
            for unit in units:
                outcome = experiment.outcomes.get(unit)
                if outcome is not None and experiment.lab.has_detector(outcome):
                    alarms._measure(Run(stream, row, unit.seed), outcome, kind, experiment.lab)
        return alarms

    def _measure(self, of: Run, outcome: Outcome, kind: Kind | None, lab: Lab) -> None:
        ours = of.row == OURS
        if ours and (fitted := _fitted(lab, outcome)) is not None:
            stream = lab.streams.about(of.stream)
            data = load_stream(stream.name, stream.root)
            samples, shifts = normal_part(data)
            self.spent[of] = list(_spent(fitted, samples, shifts))
            if kind is not None:
                events = watch(fitted.held_to(BUDGETS[0]), data.test)
                changes, shifts = (NOTHING, *kind.changes), (0, *data.shifts)
                self.acceptances[of] = acceptances(events, changes, shifts, len(data.test))
        if kind is not None and kind.calm is not None:
            self.faults[of] = list(_faults(lab.detector(outcome), of.stream, keeps=ours))

    # ------------------------------------------------------------------ figures

    def rate(self, budget: int, part: str, owner: str | None = None) -> Pooled | None:
        """Return the alarms a day of an owner's streams, or of all that have such a part.

        Over the seeds that all of those streams have.
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
        """Return what came of each change, over streams and seeds, by the streams' kind.

        Before the first of them, `NOTHING` changes.
        """
        found: dict[tuple[str, str], list[Acceptance]] = {}
        for of, every in self.acceptances.items():
            for each in every:
                found.setdefault((collection(of.stream), each.change), []).append(each)
        return found

    def fault_shares(self, part: str) -> dict[tuple[str, str], dict[str, Figure]]:
        """Return the share of faults of which something is true, by kind and fault, of each row."""
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
        """Return what came of all faults under the default detector, over streams and seeds."""
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
