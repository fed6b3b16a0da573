"""What people have today: rules of a line or three of NumPy, and detectors of River and PyOD.

The rules are models, so that they run, and are measured, as every other row of a table.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from newnormal.models.base import Block, Model, Training
from newnormal_reproduce.engine.arrays import Floats, Floats32, Ints
from newnormal_reproduce.engine.competitors import Competitor
from newnormal_reproduce.engine.experiment import Line
from newnormal_reproduce.engine.plan import TrialPlan
from newnormal_reproduce.engine.published import Rule, Rules
from newnormal_reproduce.engine.streams import DataStream
from newnormal_reproduce.engine.variants import FROZEN, Variant, variant_named

BEYOND = 0.005  # of history, beyond a fixed limit
_SIGMAS = 3.0
_HOUR = 60  # samples: one a minute
_NARROW = 1e-6  # standard deviations: half the width of the range of a channel that stood still


def limits(history: Floats) -> Floats:
    """Return the lowest and highest value of each channel, (2, C), but for the share `BEYOND`."""
    return np.asarray(np.nanquantile(history, (BEYOND / 2, 1 - BEYOND / 2), axis=0))


def bands(history: Floats, hours: Ints) -> Floats:
    """Return mean ± 3 standard deviations at each hour of the day, (2, 24, C).

    `hours` (T,) are those of history; an hour that it does not have gets the whole of it.
    """
    parts = [history[hours == hour] if hour in hours else history for hour in range(24)]
    means, far = (np.stack([of(part, axis=0) for part in parts]) for of in (np.nanmean, np.nanstd))
    return np.stack([means - _SIGMAS * far, means + _SIGMAS * far])


def distances(values: Floats, ranges: Floats) -> Floats:
    """Return how far values are from the middle of their ranges: more than 1 is outside.

    >>> distances(np.array([1.0, 3.0, 6.0]), np.array([[1.0], [5.0]])).tolist()
    [1.0, 0.0, 1.5]
    """
    low, high = ranges
    return np.asarray(np.abs(2 * values - low - high) / np.maximum(high - low, 2 * _NARROW))


class OneLiner(Model):
    """A rule that needs no training; its score is of the samples that get their verdict now.

    Values are in standard deviations of history, from its mean; a missing one counts as that.
    """

    reconstructs: ClassVar[bool] = False
    holds_objects: ClassVar[bool] = True
    at_once: ClassVar[int] = 4096

    def _fit(self, history: Floats, training: Training) -> tuple[Floats32, list[float]]:
        """Keep what the rule needs of history."""
        del training
        self.objects = self._kept(history)
        return np.empty(0, dtype=np.float32), []

    def _score(self, weights: Floats32, block: Block) -> tuple[Floats, None]:
        """Score windows; where the rule gives one score a window, all samples of it have that."""
        del weights
        return np.broadcast_to(self._scores(block), block.windows.shape[:2]).copy(), None

    def _kept(self, history: Floats) -> object:
        """Return what is kept of history (T, C)."""

    @abstractmethod
    def _scores(self, block: Block) -> Any:
        """Return the scores of windows (B, L, C) as (B, L) or (B, 1)."""


class MovingVariance(OneLiner):
    """The variance of the newest samples, mean over the channels."""

    def _scores(self, block: Block) -> Any:
        return block.windows.var(axis=1).mean(axis=1, keepdims=True)


class SquaredDifference(OneLiner):
    """The squared difference from history's mean, mean over the channels."""

    def _scores(self, block: Block) -> Any:
        return (block.windows**2).mean(axis=2)


class LastSample(OneLiner):
    """The distance from the last sample: the longest step of a channel."""

    def _scores(self, block: Block) -> Any:
        return np.abs(block.windows[:, -1] - block.windows[:, -2]).max(axis=1, keepdims=True)


class FixedLimit(OneLiner):
    """A limit of each channel that half a per cent of history is beyond."""

    def _kept(self, history: Floats) -> Floats:
        return limits(history)

    def _scores(self, block: Block) -> Any:
        return distances(block.windows, self.objects).max(axis=2)


class HourBand(OneLiner):
    """Mean ± 3 standard deviations of each channel by hour of day, as dashboards have it."""

    def _kept(self, history: Floats) -> tuple[Floats, int]:
        return bands(history, np.arange(len(history)) // _HOUR % 24), len(history)

    def _scores(self, block: Block) -> Any:
        by_hour, minute = self.objects
        ends = minute + np.cumsum(block.newest)  # of each window
        self.objects = by_hour, int(ends[-1])
        minutes = ends[:, None] + np.arange(-block.windows.shape[1], 0)
        return distances(block.windows, by_hour[:, minutes // _HOUR % 24]).max(axis=2)


class TodayRow(NamedTuple):
    """A row of a table."""

    competitor: Competitor
    variant: Variant = FROZEN
    rule: Rule = Rule(99.0)

    def line(self, stream: DataStream, seeds: tuple[int, ...]) -> Line:
        """Return its line for a stream, with the first seed alone."""
        rules = Rules(self.rule, self.rule)
        return Line(stream, self.competitor, self.variant, rules, seeds[:1], compared=False)


def split(
    plan: TrialPlan, rows: Sequence[TodayRow], usual: Sequence[str]
) -> tuple[list[TodayRow], list[Competitor]]:
    """Return which of these rows take part in a plan, and its other competitors."""
    chosen = [row for row in rows if plan.models is None or row.competitor.model in plan.models]
    models = [row.competitor.model for row in chosen]
    return chosen, [other for other in plan.competitors(usual) if other.model not in models]


def _one_liner(name: str, kind: type[OneLiner], window: int, rule: Rule) -> TodayRow:
    options = (("window", window), ("stride", 1), ("fit_stride", 1))
    return TodayRow(Competitor(name, f"{kind.__module__}:{kind.__name__}", options), rule=rule)


_OUTSIDE = Rule(None, 1.000001)  # a value at its limit is not beyond it
ONE_LINERS = (
    _one_liner("fixed limit", FixedLimit, 1, _OUTSIDE),
    _one_liner("band by hour", HourBand, 1, _OUTSIDE),
    _one_liner("moving variance", MovingVariance, 10, Rule(99.0)),
    _one_liner("squared difference", SquaredDifference, 1, Rule(99.0)),
    _one_liner("last sample", LastSample, 2, Rule(99.0)),
)
RIVER = TodayRow(Competitor("River HST", "river:HalfSpaceTrees"), variant_named("TTA"))
PYOD = tuple(TodayRow(Competitor(f"PyOD {name}", f"pyod:{name}")) for name in ("PCA", "OCSVM"))
ROWS = (*ONE_LINERS, RIVER, *PYOD)
NAMES = tuple(row.competitor.name for row in ROWS)
