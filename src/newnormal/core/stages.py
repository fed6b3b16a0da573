"""What the loop asks of its stages, and the null objects of a detector that does without one.

A stage holds no state: it is handed the stream's. `newnormal.models`, `newnormal.alarms` and
`newnormal.acceptance` have the real ones.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

import numpy as np

from newnormal.kernels.drift import DriftOut
from newnormal.types import AlarmEvent, Floats, Floats32, Ints, Verdicts

if TYPE_CHECKING:
    from newnormal.core.state import Fitted, ModelState, StreamState
    from newnormal.kernels.step import StepOut, StepParams

__all__ = ["NO_ACCEPTANCE", "NO_ALARMS", "Acceptance", "Alarms", "Scorer"]


class Scorer(Protocol):
    """A model: scores samples and learns from them."""

    @property
    def reconstructs(self) -> bool:
        """Whether it expects values; if not, verdicts have no `expected` and `shares`."""
        ...

    center: Floats  # (C,) history's mean, scaled: the trend starts there

    def initial(self, weights: Floats32) -> ModelState:
        """Return the state before the first sample."""
        ...

    def snapshot(self, state: ModelState) -> tuple[Floats32, Floats]:
        """Return copies of what was learned: the weights, and the trend."""
        ...

    def restore_learned(self, state: ModelState, weights: Floats32, trend: Floats) -> None:
        """Restore what `snapshot` returned; the samples stay."""
        ...

    def shift_trend(self, state: ModelState, jump: Floats, age: int, decay: float) -> None:
        """Shift the trend by what it has not yet followed of a jump `age` samples ago."""
        ...

    def eager(self, factor: float) -> Scorer:
        """Return the model that learns also from samples that score so many times as high."""
        ...

    def advance(
        self,
        samples: Floats,
        flush: bool,
        state: ModelState,
        params: StepParams,
        out: StepOut,
        phases: Floats | None = None,
        votes: Floats32 | None = None,
    ) -> None:
        """Consume samples (T, C) in the user's units, as `newnormal.kernels.step` describes."""
        ...


class Alarms(Protocol):
    """Compares scores with the alarm threshold, and turns anomalous samples into alarms."""

    @property
    def active(self) -> bool:
        """Whether there are alarms."""
        ...

    def columns(self, rows: int) -> tuple[Floats, Floats, Ints] | tuple[None, None, None]:
        """Return room for the columns of alarms: ratios, p-values and numbers of alarms."""
        ...

    def judge(
        self,
        fitted: Fitted,
        state: StreamState,
        verdicts: Verdicts,
        rows: slice,
        drift: DriftOut | None,
    ) -> list[AlarmEvent]:
        """Write what is known of alarms into rows that became final; return the events."""
        ...


class Acceptance(Protocol):
    """Decides what becomes normal."""

    def begin(self, fitted: Fitted, state: StreamState) -> None:
        """Add what acceptance keeps to a state before the first sample."""
        ...

    def samples_until_review(self, state: StreamState) -> int:
        """Return how many samples to consume before the next review, at least 1."""
        ...

    def is_frozen(self, state: StreamState) -> bool:
        """Whether trend and weights are held, as after a rejection."""
        ...

    def train_shadow(
        self, fitted: Fitted, state: StreamState, samples: Floats, flush: bool
    ) -> None:
        """Hand the shadow, if there is one, what the running model is about to consume."""
        ...

    def measure(
        self, fitted: Fitted, state: StreamState, pending: Floats, samples: Floats, final: int
    ) -> DriftOut | None:
        """Measure how far the first `final` of these samples are from the accepted normal."""
        ...

    def review(
        self, fitted: Fitted, state: StreamState, time: np.datetime64 | None
    ) -> list[AlarmEvent]:
        """Review the open alarm and accept it if it has been stable long enough."""
        ...


class _NoAlarms:
    """No alarms: anomalous is what the model's own loop decided."""

    active = False

    def columns(self, rows: int) -> tuple[None, None, None]:  # noqa: ARG002
        return None, None, None

    def judge(
        self,
        fitted: Fitted,  # noqa: ARG002
        state: StreamState,  # noqa: ARG002
        verdicts: Verdicts,  # noqa: ARG002
        rows: slice,  # noqa: ARG002
        drift: DriftOut | None,  # noqa: ARG002
    ) -> list[AlarmEvent]:
        return []


class _NoAcceptance:
    """Nothing is reviewed: the model learns as in the paper."""

    def begin(self, fitted: Fitted, state: StreamState) -> None: ...

    def samples_until_review(self, state: StreamState) -> int:  # noqa: ARG002
        return sys.maxsize

    def is_frozen(self, state: StreamState) -> bool:  # noqa: ARG002
        return False

    def train_shadow(
        self, fitted: Fitted, state: StreamState, samples: Floats, flush: bool
    ) -> None: ...

    def measure(
        self,
        fitted: Fitted,  # noqa: ARG002
        state: StreamState,  # noqa: ARG002
        pending: Floats,  # noqa: ARG002
        samples: Floats,  # noqa: ARG002
        final: int,  # noqa: ARG002
    ) -> DriftOut | None:
        return None

    def review(
        self,
        fitted: Fitted,  # noqa: ARG002
        state: StreamState,  # noqa: ARG002
        time: np.datetime64 | None,  # noqa: ARG002
    ) -> list[AlarmEvent]:
        return []


NO_ALARMS: Alarms = _NoAlarms()
NO_ACCEPTANCE: Acceptance = _NoAcceptance()
