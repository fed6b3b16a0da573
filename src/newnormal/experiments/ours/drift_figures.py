"""The results of `newnormal.experiments.ours.drift`, compared row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from newnormal.experiments.engine.drifting import KINDS, Kind, kind_of
from newnormal.experiments.engine.experiment import Experiment
from newnormal.experiments.engine.published import Figure
from newnormal.experiments.engine.runner import Runner
from newnormal.experiments.engine.streams import load_stream
from newnormal.experiments.engine.trial import Outcome
from newnormal.experiments.ours.averages import Values, macro, shared
from newnormal.types import Bools, Ints

__all__ = [
    "COLLECTIONS",
    "FIVE_SETS",
    "LATER",
    "OURS",
    "PLAIN",
    "TARGET",
    "TUNED",
    "Around",
    "Figures",
    "Shares",
    "called",
    "collection",
    "shares",
]

COLLECTIONS = ("SMD", "ASD", "JumpStarter", "MSL", "SMAP")  # which the macro mean is over
FIVE_SETS = ("SMD/1-4", "SMD/2-1", "MSL/P-15", "SMAP/T-3", "CreditCard")
LATER = 1000  # samples after a change, by which a detector should have adapted to it
TARGET = 0.01  # share of normal samples above the threshold on history
PLAIN, OURS, TUNED = "frozen MLP", "default", "hand-tuned"  # rows


class Shares(NamedTuple):
    """The share of normal samples called anomalous around a change; NaN if there are none."""

    before: float
    after: float
    later: float


class Around(NamedTuple):
    """The same as figures over streams and seeds."""

    before: Figure
    after: Figure
    later: Figure


def shares(anomalous: Bools, labels: Ints, shifts: Sequence[int]) -> list[Shares]:
    """Return the shares around each of the samples at which normal changed.

    Before is since the previous change. After is until the next. Later is the same without its
    first `LATER` samples.
    """
    ends = [*shifts[1:], len(labels)]

    def share(start: int, stop: int) -> float:
        normal = labels[start:stop] == 0
        return float(anomalous[start:stop][normal].mean()) if normal.any() else math.nan

    return [
        Shares(share(since, at), share(at, end), share(at + LATER, end))
        for since, at, end in zip([0, *shifts], shifts, ends, strict=False)
    ]


def called(outcome: Outcome) -> float:
    """Return the share of all normal samples that were called anomalous."""
    counts = outcome.report
    normal = counts.fp + counts.tn
    return counts.fp / normal if normal else math.nan


class Figures:
    """Figures of each row; a row is a competitor's name in tables: `PLAIN`, `OURS`, and so on."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.shares = {
            trial: _around(outcome, experiment.runner)
            for trial, outcome in experiment.outcomes.items()
            if kind_of(trial.dataset) is not None
        }

    @property
    def rows(self) -> list[str]:
        """The rows that are compared everywhere: all but the hand-tuned one."""
        names = dict.fromkeys(line.competitor.name for line, _ in self.experiment.lines)
        return [name for name in names if name != TUNED]

    def values(self, measure: str | Callable[[Outcome], float]) -> dict[str, Values]:
        """Return each row's values of a measure of the report or of outcomes, without NaN."""
        found: dict[str, dict[str, dict[int, float]]] = {}
        for line, trials in self.experiment.lines:
            done = [self.experiment.outcomes[u] for u in trials if u in self.experiment.outcomes]
            for outcome in done:
                report = outcome.report
                value = getattr(report, measure) if isinstance(measure, str) else measure(outcome)
                if not math.isnan(value):
                    mine = found.setdefault(line.competitor.name, {})
                    mine.setdefault(line.stream.name, {})[outcome.trial.seed] = value
        return dict(found)

    def collections(self, values: dict[str, Values]) -> dict[str, list[str]]:
        """Return the streams of each collection that all rows have, on which they are compared."""
        groups: dict[str, list[str]] = {}
        for name in dict.fromkeys(line.stream.name for line, _ in self.experiment.lines):
            groups.setdefault(collection(name), []).append(name)
        rows = [values[name] for name in self.rows if name in values]
        compared = {name: shared(rows, group) for name, group in groups.items()}
        return {name: streams for name, streams in compared.items() if streams}

    def macros(self, measure: str) -> dict[str, Figure]:
        """Return each row's mean over `COLLECTIONS` of the mean over their streams."""
        values = self.values(measure)
        groups = self.collections(values)
        mine = [groups[name] for name in COLLECTIONS if name in groups]
        return self._figures(self.rows, values, mine)

    def means(
        self, measure: str | Callable[[Outcome], float]
    ) -> dict[str, tuple[int, dict[str, Figure]]]:
        """Return the number of streams compared in each collection, and each row's mean there."""
        values = self.values(measure)
        return {
            name: (len(streams), self._figures(self.rows, values, [streams]))
            for name, streams in self.collections(values).items()
        }

    def five(self, measure: str) -> tuple[list[str], dict[str, Figure]]:
        """Return those of the paper's five sets that all rows have, and each row's mean there."""
        values = self.values(measure)
        names = [*self.rows, TUNED]
        sets = shared([values.get(name, {}) for name in names], FIVE_SETS)
        return sets, self._figures(names, values, [sets])

    def changes(self) -> dict[tuple[str, str], dict[str, Around]]:
        """Return each row's shares around each change, by the streams' kind and the change."""
        found: dict[tuple[str, str], dict[str, Around]] = {}
        for kind in KINDS:
            for at, what in enumerate(kind.changes):
                parts = [self._around(kind, at, part) for part in Shares._fields]
                if rows := [name for name in self.rows if all(name in part for part in parts)]:
                    found[kind.name, what] = {
                        name: Around(*(part[name] for part in parts)) for name in rows
                    }
        return found

    def _around(self, kind: Kind, at: int, part: str) -> dict[str, Figure]:
        """Return each row's mean of one of the shares around a kind's change."""

        def measure(outcome: Outcome) -> float:
            if kind_of(outcome.trial.dataset) != kind:
                return math.nan
            share: float = getattr(self.shares[outcome.trial][at], part)
            return share

        values = self.values(measure)
        streams = self.collections(values).get(kind.name, [])
        return self._figures(self.rows, values, [streams])

    @staticmethod
    def _figures(
        rows: Sequence[str], values: dict[str, Values], groups: Sequence[Sequence[str]]
    ) -> dict[str, Figure]:
        found = {name: macro(values.get(name, {}), groups) for name in rows}
        return {name: figure for name, figure in found.items() if figure is not None}


def collection(stream: str) -> str:
    """Return the collection of a stream: its data set, or its kind if it is generated."""
    kind = kind_of(stream)
    return stream.partition("/")[0] if kind is None else kind.name


def _around(outcome: Outcome, runner: Runner) -> list[Shares]:
    stream = runner.streams.about(outcome.trial.dataset)
    data = load_stream(stream.name, stream.root)
    return shares(outcome.judgement.anomalous, data.labels, data.shifts)
