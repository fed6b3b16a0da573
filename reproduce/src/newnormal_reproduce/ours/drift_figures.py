"""The results of `newnormal_reproduce.ours.drift`, compared row by row."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from newnormal_reproduce.engine.arrays import Floats, Ints
from newnormal_reproduce.engine.drifting import kind_of
from newnormal_reproduce.engine.experiment import Experiment
from newnormal_reproduce.engine.published import Figure
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import load_stream
from newnormal_reproduce.engine.trial import TrialOutcome
from newnormal_reproduce.ours.averages import Values, macro, shared
from newnormal_reproduce.ours.today import NAMES

HALVED = ("SKAB", "NAB", "UCR")


class Halves(NamedTuple):
    """Names of streams, sorted."""

    choosing: tuple[str, ...]
    reporting: tuple[str, ...]


def halves(owner: str, names: Iterable[str]) -> Halves:
    """Return the streams of a collection for choosing constants, and those that report.

    Of the names in sorted order the 1st, 3rd, 5th … choose and the 2nd, 4th … report. The names
    must be those of all streams of the collection that were found.

    `owner`: one of `HALVED`; of another collection every stream reports. `names`: names of streams;
    those of other collections are left out.

    Examples
    --------
    >>> halves("UCR", ["UCR/024_B", "UCR/011_A", "SMD/1-4", "UCR/026_C"])
    Halves(choosing=('UCR/011_A', 'UCR/026_C'), reporting=('UCR/024_B',))
    >>> halves("SMD", ["SMD/2-1", "SMD/1-4"])
    Halves(choosing=(), reporting=('SMD/1-4', 'SMD/2-1'))
    """
    mine = sorted(name for name in set(names) if name.startswith(f"{owner}/") or name == owner)
    if owner not in HALVED:
        return Halves((), tuple(mine))
    return Halves(tuple(mine[::2]), tuple(mine[1::2]))


def is_choosing(name: str, names: Iterable[str]) -> bool:
    """Return whether constants are chosen on a stream, one of all `names` that were found.

    >>> is_choosing("NAB/a", ["NAB/a", "NAB/b"]), is_choosing("NAB/b", ["NAB/a", "NAB/b"])
    (True, False)
    """
    return name in halves(name.partition("/")[0], names).choosing


COLLECTIONS = ("SMD", "ASD", "JumpStarter", "MSL", "SMAP")  # which the macro mean is over
FIVE_SETS = ("SMD/1-4", "SMD/2-1", "MSL/P-15", "SMAP/T-3", "CreditCard")
CHOOSING, REPORTING = "choosing", "reporting"  # halves of a collection
UCR = "UCR"  # the collection in which one sample is marked
MARK_BEFORE, MARK_AFTER = 150, 350  # samples around the mark
COMPONENTS = 10  # of the row PCA; streams of ten channels or fewer have none
TARGET = 0.01  # share of normal samples above the threshold on history
PLAIN, OURS, TUNED = "frozen MLP", "default", "hand-tuned"  # rows


def mark_found(scores: Floats, labels: Ints) -> bool:
    """Return whether the highest score is from 150 samples before the marked one to 350 after it.

    This is how a series of UCR counts as found. Of equal scores the first is taken. A sample
    without a score is never the highest.

    >>> labels = np.zeros(1000, dtype=int)
    >>> labels[500] = 1
    >>> mark_found(np.arange(1000) == 350, labels), mark_found(np.arange(1000) == 349, labels)
    (True, False)
    """
    mark = int(np.flatnonzero(labels)[0])
    highest = int(np.argmax(np.where(np.isnan(scores), -np.inf, scores)))
    return mark - MARK_BEFORE <= highest <= mark + MARK_AFTER


class Figures:
    """Figures of each row; a row is a competitor's name in tables: `PLAIN`, `OURS`, and so on."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self._marks = {
            trial: _mark(outcome, experiment.runner)
            for trial, outcome in experiment.outcomes.items()
            if collection(trial.dataset) == UCR
        }

    @property
    def rows(self) -> list[str]:
        """The rows that are compared everywhere: all but the hand-tuned one and today's."""
        return [name for name in self.names if name not in (TUNED, *NAMES)]

    @property
    def names(self) -> list[str]:
        """Every row."""
        return list(dict.fromkeys(line.competitor.name for line, _ in self.experiment.lines))

    def values(self, measure: str | Callable[[TrialOutcome], float]) -> dict[str, Values]:
        """Return each row's values of a measure of the report or of outcomes, without NaN.

        Measures of the report leave out UCR: one marked sample cannot be ranked.
        """
        rows: dict[str, dict[str, dict[int, float]]] = {}
        for line, trials in self.experiment.lines:
            if isinstance(measure, str) and collection(line.stream.name) == UCR:
                continue
            for outcome in self.experiment.outcomes_of(trials):
                report = outcome.report
                value = getattr(report, measure) if isinstance(measure, str) else measure(outcome)
                if not math.isnan(value):
                    streams = rows.setdefault(line.competitor.name, {})
                    streams.setdefault(line.stream.name, {})[outcome.trial.seed] = value
        return dict(rows)

    def mark(self, outcome: TrialOutcome) -> float:
        """Return 1 if the mark of a series of UCR was found, 0 if not; NaN for another stream."""
        return self._marks.get(outcome.trial, math.nan)

    def half(self, stream: str) -> str:
        """Return whether constants were chosen on a stream or it reports; "" if not halved."""
        if collection(stream) not in HALVED:
            return ""
        choosing = is_choosing(stream, self.experiment.runner.streams.places)
        return CHOOSING if choosing else REPORTING

    def groups(self, streams: Iterable[str]) -> dict[str, list[str]]:
        """Return streams by collection; a halved one as two, such as "NAB, reporting"."""
        groups: dict[str, list[str]] = {}
        for name in dict.fromkeys(streams):
            owner, half = collection(name), self.half(name)
            if half:
                for part in (CHOOSING, REPORTING):  # one below the other, in this order
                    groups.setdefault(f"{owner}, {part}", [])
            groups.setdefault(f"{owner}, {half}" if half else owner, []).append(name)
        return {name: group for name, group in groups.items() if group}

    def collections(self, values: dict[str, Values]) -> dict[str, list[str]]:
        """Return the streams of each collection that all rows have, on which they are compared."""
        groups = self.groups(line.stream.name for line, _ in self.experiment.lines)
        rows = [values[name] for name in self.rows if name in values]
        compared = {name: shared(rows, group) for name, group in groups.items()}
        return {name: streams for name, streams in compared.items() if streams}

    def macros(self, measure: str) -> dict[str, Figure]:
        """Return each row's mean over `COLLECTIONS` of the mean over their streams."""
        values = self.values(measure)
        groups = self.collections(values)
        macro_groups = [groups[name] for name in COLLECTIONS if name in groups]
        return self._figures(self.rows, values, macro_groups)

    def means(
        self, measure: str | Callable[[TrialOutcome], float]
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

    @staticmethod
    def _figures(
        rows: Sequence[str], values: dict[str, Values], groups: Sequence[Sequence[str]]
    ) -> dict[str, Figure]:
        figures = {name: macro(values.get(name, {}), groups) for name in rows}
        return {name: figure for name, figure in figures.items() if figure is not None}


def collection(stream: str) -> str:
    """Return the collection of a stream: its data set, or its kind if it is generated."""
    kind = kind_of(stream)
    return stream.partition("/")[0] if kind is None else kind.name


def _mark(outcome: TrialOutcome, runner: Runner) -> float:
    stream = runner.streams.about(outcome.trial.dataset)
    labels = load_stream(stream.name, stream.root).labels
    return float(mark_found(outcome.judgement.scores, labels))
