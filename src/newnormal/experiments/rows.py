"""The rows of an ablation: one fitted detector, frozen, detrended, adapted, or both."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal import thresholds
from newnormal.alarms import Budget, Desk, Gauge
from newnormal.config import MINUTES
from newnormal.detector import M2N2, BaseDetector, Detector, from_state
from newnormal.errors import ParameterError, StateError
from newnormal.experiments.admission import DEFAULT, admit
from newnormal.experiments.paper import Rule
from newnormal.experiments.unit import Unit
from newnormal.state import State, under
from newnormal.thresholds import Fixed, Quantile, Threshold
from newnormal.types import Floats

__all__ = ["FROZEN", "ROWS", "Fitted", "Row", "row_named", "rows_named"]


_SCORES, _SECONDS = "history.scores", "history.seconds"
_GAUGES = ("gauge.", "keeper.normal0.gauge.")  # of a state: that of the alarms, and of home


@dataclass(frozen=True)
class Row:
    """One row: which of the method's two parts are on."""

    name: str
    detrend: bool
    adapt: bool


FROZEN = Row("frozen", detrend=False, adapt=False)
ROWS = (
    FROZEN,
    Row("DT", detrend=True, adapt=False),
    Row("TTA", detrend=False, adapt=True),
    Row("DT+TTA", detrend=True, adapt=True),
)


def rows_named(names: Sequence[str] | None = None) -> tuple[Row, ...]:
    """Return the rows of the given names, or all four, in the paper's order.

    Examples
    --------
    >>> rows_named(["DT"])
    (Row(name='DT', detrend=True, adapt=False),)
    """
    known = [row.name for row in ROWS]
    for name in names or ():
        if name not in known:
            raise ParameterError(
                f"rows: expected rows of the ablation, found {name!r}",
                hint=f"they are {', '.join(known)}",
            )
    return tuple(row for row in ROWS if names is None or row.name in names)


def row_named(name: str) -> Row:
    """Return the row of a name."""
    (row,) = rows_named([name])
    return row


@dataclass(frozen=True)
class _NotYet(Fixed):
    """No threshold yet: keeps history's scores, from which any rule can take one later."""

    value: float = math.inf
    seen: list[Floats] = field(default_factory=list)

    def fit(self, scores: Floats) -> float:
        """Keep the scores."""
        self.seen.append(scores)
        return self.value


@dataclass(frozen=True, eq=False)
class Fitted:
    """A detector fitted once, from which every row starts with the same weights."""

    detector: BaseDetector
    history_scores: Floats
    seconds: float

    @classmethod
    def on(cls, history: Floats, unit: Unit) -> Fitted:
        """Fit the unit's model on history."""
        admit(unit.model)
        later = _NotYet()
        began = time.perf_counter()
        detector = _detector(unit, later).fit(history)
        return cls(detector, later.seen[0], time.perf_counter() - began)

    def to_state(self) -> State:
        """Return it as data."""
        state = self.detector.to_state()
        extra = {_SCORES: self.history_scores, _SECONDS: np.array([self.seconds])}
        return State(state.facts, {**state.tensors, **extra})

    @classmethod
    def from_state(cls, state: State) -> Fitted:
        """Return what `to_state` was called on."""
        admit(state.facts["config"]["model"])
        seconds = float(state.tensors[_SECONDS][0])
        return cls(from_state(state), state.tensors[_SCORES], seconds)

    def threshold(self, rule: Rule, oracle: Callable[[], float]) -> float:
        """Return the threshold that a rule gives, where `oracle` finds Q*."""
        if rule.percentile is None:
            return oracle()
        return Quantile(rule.percentile / 100).fit(self.history_scores)

    def as_row(self, row: Row, threshold: float, *, decay: float, lr: float) -> BaseDetector:
        """Return a detector of its own with the fitted weights, as the row and threshold say.

        One that chose for itself chose γ and η too, and is detrended and adapted in any case.
        """
        if isinstance(self.detector, Detector) and not (row.detrend and row.adapt):
            raise ParameterError(
                f"rows: a detector that chooses for itself is detrended and adapted, "
                f"found {row.name!r}",
                hint="ask for DT+TTA, or for a model by its name",
            )
        try:
            state = self.detector.to_state()
        except StateError:
            return self._lent(row, threshold, decay, lr)
        config = {
            **state.facts["config"],
            "decay": decay,
            "lr": lr,
            "detrend": row.detrend,
            "adapt": row.adapt,
        }
        facts = {**state.facts, "config": config, "threshold": thresholds.to_json(Fixed(threshold))}
        gauge = _moved(Gauge.restore(under("gauge.", state.tensors)), threshold)
        return from_state(State(facts, _judged_by(gauge, threshold, state.tensors)))

    def held_to(self, alarms_per_day: float) -> BaseDetector:
        """Return a detector of its own that chose for itself, held to a budget of alarms.

        It is ``Detector(alarms_per_day=...)`` fitted on the same history, a sample a minute.
        """
        if not isinstance(self.detector, Detector):
            raise ParameterError(
                f"rows: only a detector that chooses for itself can be held to a budget, "
                f"found {self.detector!r}",
                hint=f"the model {DEFAULT!r} is one",
            )
        state = self.detector.to_state()
        patience = state.facts["keeper"]["accept_after"]
        budget = Budget(alarms_per_day, samples_per_day=MINUTES, accept_after=patience)
        desk = Desk.of(
            self.detector.channels_,
            math.inf,
            self.history_scores,
            budget,
            samples_per_day=MINUTES,
            active=True,
        )
        facts = {
            **state.facts,
            "given": {**state.facts["given"], "alarms_per_day": alarms_per_day},
            "alarms": desk.to_json(),
            "threshold": thresholds.to_json(Quantile(0.99)),
        }
        tensors = _judged_by(desk.gauge, desk.threshold, state.tensors)
        return from_state(State(facts, tensors))

    def _lent(self, row: Row, threshold: float, decay: float, lr: float) -> BaseDetector:
        """Return the same for a model that cannot be made data: it is shared, not copied."""
        twin = copy.copy(self.detector)
        twin._rules = twin._rules._replace(
            threshold=threshold,
            decay=decay if row.detrend else 1.0,
            lr=np.float32(lr if row.adapt else 0),
        )
        twin.threshold_ = threshold
        twin._desk = twin._desk.copy()
        twin._desk.gauge = _moved(twin._desk.gauge, threshold)
        return twin.reset()


def _moved(gauge: Gauge, threshold: float) -> Gauge:
    """Return a gauge whose threshold stays at another place, and begins anew."""
    return Gauge(gauge.terms._replace(height=threshold), gauge.tail)


def _judged_by(
    gauge: Gauge, threshold: float, tensors: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return a fitted detector's tensors with another threshold wherever they have one."""
    places = [place for place in _GAUGES if f"{place}terms" in tensors]
    mine = {place + name: array for place in places for name, array in gauge.tensors().items()}
    return {**tensors, **mine, "threshold": np.array([threshold])}


def _detector(unit: Unit, threshold: Threshold) -> BaseDetector:
    """Return the unit's detector, not fitted."""
    options = asdict(unit.options)
    if unit.model == DEFAULT:
        training = {name: options[name] or None for name in ("epochs", "batch")}
        return Detector(seed=unit.seed, threshold=threshold, **training)
    # Not all models can adapt; those that can do so where `as_row` says so.
    return M2N2(model=unit.model, seed=unit.seed, threshold=threshold, adapt=False, **options)
