"""What the loop asks of its stages; each does nothing where a detector does without it.

A stage holds no state: it is handed the stream's. `newnormal.models`, `newnormal.alarms` and
`newnormal.acceptance` have the real ones, which derive from these.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from newnormal.kernels.drift import DriftOut
from newnormal.types import Bools, Event, Floats, Floats32, Ints, Verdicts

if TYPE_CHECKING:
    from newnormal.core.state import Fitted, StreamState
    from newnormal.kernels.channels import ChannelOut
    from newnormal.kernels.step import StepOut, StepParams
    from newnormal.kernels.stream import ModelState


class Scorer:
    """A model: scores samples and learns from them.

    What raises `NotImplementedError` every model has. The rest a committee has, with its members
    and the places that a stream was at; most models do without.
    """

    reconstructs: ClassVar[bool] = True  # whether verdicts have `expected` and `shares`
    center: Floats  # (C,) history's mean, scaled: the trend starts there

    @property
    def sizes(self) -> dict[str, Any]:
        """How long the axes of its arrays are, by the letters of `newnormal.types.tables`."""
        raise NotImplementedError

    def initial(self, weights: Floats32) -> ModelState:
        """Return the state before the first sample."""
        raise NotImplementedError

    def advance(
        self,
        samples: Floats,
        flush: bool,
        state: ModelState,
        params: StepParams,
        out: StepOut,
        phases: Floats | None = None,
        votes: Floats32 | None = None,
        clean: Floats | None = None,
    ) -> None:
        """Consume samples (T, C) in the user's units, as `newnormal.kernels.step` describes.

        `phases` (T,) say where in the rhythm each sample is; `votes` (rows, V) is room for what
        each member votes; `clean` (T, C) scaled is what replaces missing values.
        """
        raise NotImplementedError

    def snapshot(self, state: ModelState) -> tuple[Floats32, Floats]:
        """Return copies of what was learned: the weights, and the trend."""
        raise NotImplementedError

    def restore_learned(self, state: ModelState, weights: Floats32, trend: Floats) -> None:
        """Restore what `snapshot` returned; the samples stay."""
        raise NotImplementedError

    def shift_trend(self, state: ModelState, jump: Floats, age: int, decay: float) -> None:
        """Shift the trend by what it has not yet followed of a jump `age` samples ago."""
        raise NotImplementedError

    # ------------------------------------------------------------------ members, places

    @property
    def vote_kinds(self) -> tuple[str, ...]:
        """The kind of each vote that `advance` can give; none but for a committee."""
        return ()

    @property
    def vote_count(self) -> int:
        """How many members vote; 0 for a model without any."""
        return len(self.vote_kinds)

    @property
    def rhythm_levels(self) -> Floats32:
        """The rhythm's levels, (B, C); a model without a rhythm has none."""
        return np.zeros((1, len(self.center)), np.float32)

    def with_learning_margin(self, factor: float) -> Self:
        """Return the model that learns also from samples that score so many times as high.

        What it learns from by the parameters' threshold is for the caller to change.
        """
        return self

    def advance_beside(
        self,
        samples: Floats,
        channels: ChannelOut,
        state: StreamState,
        params: StepParams,
        out: StepOut,
        phases: Floats | None,
        votes: Floats32 | None,
    ) -> Floats:
        """Consume samples as their channels were judged: what is hidden counts as missing.

        Returns the scores (T,) of the samples as they were observed.
        """
        raise NotImplementedError

    @property
    def translates(self) -> bool:
        """Whether it judges a changed stream as if it had stayed where it was."""
        return False

    def translate(self, state: ModelState, slot: int, shift: Floats, age: int) -> None:
        """Judge a stream that moved by `shift` (C,) scaled `age` samples ago from where it is."""

    def accept_translation(self, state: ModelState, slot: int, *, stays: bool = True) -> None:
        """Accept a shift, the way there and the way back as normal; it may be over."""

    def newest_translation(self, state: ModelState) -> Floats | None:
        """Return the shift that was accepted last, or None if the stream is not there."""
        return None

    def drop_translation(self, state: ModelState, slot: int) -> None:
        """Forget a shift."""

    def seen_levels(self, seen: Any, ages: Ints) -> Floats:
        """Return the mean of what was `seen` of each channel in so many samples; NaN: not known."""
        return np.full(len(ages), np.nan)

    def recall(
        self, state: ModelState, seen: Any, channels: Bools, shift: Floats, age: int
    ) -> None:
        """Remember what was `seen` of channels that moved by `shift` (C,) `age` samples ago."""

    def accept_pattern(
        self, state: ModelState, votes: Floats, channels: Bools, *, grows: bool = False
    ) -> None:
        """Accept samples with votes no higher than these, in these channels (C,), as normal."""

    def accepted(self, state: ModelState) -> Any:
        """Return what was accepted besides the weights and the trend; None for most models."""
        return None

    def restore_accepted(self, state: ModelState, kept: Any) -> None:
        """Restore what `accepted` returned."""


class Alarms:
    """Compares scores with the alarm threshold, and turns anomalous samples into alarms.

    Without it there are no alarms, and what the model's own loop decided is anomalous.
    """

    active = False  # whether there are alarms

    def columns(self, rows: int) -> tuple[Floats, Floats, Ints] | tuple[None, None, None]:
        """Return room for the columns of alarms: ratios, p-values and numbers of alarms."""
        return None, None, None

    def judge(
        self,
        fitted: Fitted,
        state: StreamState,
        verdicts: Verdicts,
        rows: slice,
        samples: Floats,
        joint: Floats,
        votes: Floats32 | None,
        channels: ChannelOut | None,
    ) -> list[Event]:
        """Write what is known of alarms into rows that became final; return the events.

        `samples` (R, C), `joint` scores (R,), `votes` (R, V) and `channels` are those of these
        rows.
        """
        return []


class Acceptance:
    """Decides what becomes normal.

    Without it nothing is reviewed: the model learns as in the paper.
    """

    def begin(self, fitted: Fitted, state: StreamState) -> None:
        """Add what acceptance keeps to a state before the first sample."""

    def columns(self, rows: int) -> tuple[Floats, Ints] | tuple[None, None]:
        """Return room for the columns of changes: distances, and numbers of changes."""
        return None, None

    def newest_open(self, state: StreamState) -> int:
        """Return the number of the newest open change; 0 for none."""
        return 0

    def samples_until_review(self, state: StreamState) -> int:
        """Return how many samples to consume before the next review, at least 1."""
        return sys.maxsize

    def is_frozen(self, state: StreamState) -> bool:
        """Whether the weights are held, as after a rejection."""
        return False

    def train_shadow(
        self,
        fitted: Fitted,
        state: StreamState,
        samples: Floats,
        flush: bool,
        phases: Floats | None = None,
        channels: ChannelOut | None = None,
    ) -> None:
        """Hand the shadow, if there is one, what the running model is about to consume."""

    def measure(
        self,
        fitted: Fitted,
        state: StreamState,
        samples: Floats,
        channels: ChannelOut | None = None,
    ) -> DriftOut | None:
        """Measure how far samples that became final are from the accepted normal.

        It ends with the first one that crosses the limit. None: nothing is measured.
        """
        return None

    def crossed(
        self, fitted: Fitted, state: StreamState, sample: int, time: np.datetime64 | None
    ) -> list[Event]:
        """Open the change of channels that went beyond the limit at a sample."""
        return []

    def review(self, fitted: Fitted, state: StreamState, time: np.datetime64 | None) -> list[Event]:
        """Find what changed or reverted, and accept what has been stable long enough."""
        return []


NO_ALARMS = Alarms()
NO_ACCEPTANCE = Acceptance()
