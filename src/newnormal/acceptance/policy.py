"""What may become normal, when, and the way back.

A change is that the stream stands away from its accepted normal. The order of things:

1. At every review, a fixed number of samples apart, without alarm or change: what was learned is
   kept, in case the next change is rejected.
2. A channel that goes beyond the limit opens a change at once; one that an alarm left outside its
   normal opens one at the next review. Once it has lasted for four reviews the stream is judged
   from where it is, so that what happens next is seen.
3. A change that lasts for a quarter of `accept_after` gets a shadow: a copy of the running model
   that learns what the running one does not. Once the shadow's scores are low and stable, and
   `accept_after` is over, it is accepted: the shadow takes over, and what was normal before is
   kept.
4. What a person rejects is not learned: the model goes back to its weights from before the change,
   and learns nothing until the stream is back.
5. Channels that are back where they were end their change: it has reverted.

The time counts for one change: it restarts where the stream moves on meanwhile.

Reviews come at fixed sample numbers: a series in pieces, or sample by sample, gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from newnormal.acceptance.range import initial
from newnormal.acceptance.review import Review
from newnormal.acceptance.shadow import Timing
from newnormal.core.stages import Acceptance
from newnormal.core.state import Fitted, StreamState, copied
from newnormal.kernels.channels import ChannelOut
from newnormal.kernels.drift import DriftOut, advance
from newnormal.kernels.step import PENDING, SEEN, blank_out
from newnormal.kernels.stream import (
    CHANGE_NUMBER,
    CHANGE_STATE,
    IS_REJECTED,
    REVIEWS,
    SHADOW_NEXT,
    SHADOW_SCORES,
    SHADOW_TRAINS,
    ChangeState,
    ReviewState,
)
from newnormal.types import Alarm, Change, Event, Floats, Ints
from newnormal.types.tables import first

_REVIEWS = 6  # in `accept_after`
_LONGEST = 60  # samples between reviews, at most
_SCORED = 0.5  # of `accept_after`: how long a shadow's scores are kept
# A shadow learns from scores this many times the threshold; from any, one wild sample could throw
# its weights out of all bounds.
LEARNING_MARGIN = 100.0
_MOST_SCORES = 1 << 20
_MOST_POSITIONS = 2048
_NO_VALUES = np.zeros((0, 0))
_NO_COUNTS = np.zeros((0, 0), np.int64)


class TimedAcceptance(Acceptance):
    """The acceptance stage of the loop: accepts what lasts, and what a person accepts.

    `accept_after`: samples before which nothing is accepted without a person; infinity: never.
    """

    def __init__(self, accept_after: float) -> None:
        length = int(max(1, min(accept_after / _REVIEWS, _LONGEST)))
        scores = int(max(2, min(_SCORED * accept_after, _MOST_SCORES)))
        positions = max(2, min(scores // length, _MOST_POSITIONS))
        self.timing = Timing(accept_after, length, scores, positions)

    def begin(self, fitted: Fitted, state: StreamState) -> None:
        """Add what acceptance keeps to a state before the first sample."""
        baseline = fitted.baseline
        assert baseline is not None
        state.drift = initial(baseline.lows, baseline.highs)
        state.review = first(ReviewState, {})
        state.changes = first(ChangeState, {"C": len(fitted.channels)})
        state.last_quiet = copied(baseline)

    def columns(self, rows: int) -> tuple[Floats, Ints]:
        """Return room for the columns of changes: distances, and numbers of changes."""
        distances = np.empty(rows)
        distances.fill(np.nan)  # `np.full` takes 1 µs longer
        return distances, np.zeros(rows, np.int64)

    def newest_open(self, state: StreamState) -> int:
        """Return the number of the newest open change; 0 for none."""
        assert state.changes is not None
        return int(max(state.changes.counts[:, CHANGE_NUMBER].tolist()))

    def samples_until_review(self, state: StreamState) -> int:
        """Return how many samples to consume before the next review, at least 1."""
        assert state.review is not None
        reviews = state.review.counts[REVIEWS]
        return int((reviews + 1) * self.timing.review_length - state.model.step.counts[SEEN])

    def is_frozen(self, state: StreamState) -> bool:
        """Whether the weights are held, while a rejected change lasts."""
        assert state.changes is not None
        return IS_REJECTED in state.changes.counts[:, CHANGE_STATE].tolist()

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
        shadow = state.shadow
        if shadow is None or not shadow.counts[SHADOW_TRAINS]:
            return
        counts = shadow.model.step.counts
        rows = int(counts[PENDING]) + len(samples)
        out = blank_out(rows, samples.shape[1])
        threshold = LEARNING_MARGIN * float(state.learn_threshold[0])
        params = fitted.step._replace(alarm_threshold=threshold, learn_threshold=threshold)
        model = fitted.model.with_learning_margin(LEARNING_MARGIN)
        if channels is None:
            model.advance(samples, flush, shadow.model, params, out, phases)
        else:
            masked = np.where(channels.hidden, np.nan, samples)
            model.advance(masked, flush, shadow.model, params, out, phases, None, channels.clean)
        scores = out.scores[: rows - int(counts[PENDING])]
        for score in scores[~np.isnan(scores)].tolist():
            shadow.scores[shadow.counts[SHADOW_NEXT]] = score
            shadow.counts[SHADOW_NEXT] = (shadow.counts[SHADOW_NEXT] + 1) % len(shadow.scores)
            shadow.counts[SHADOW_SCORES] = min(shadow.counts[SHADOW_SCORES] + 1, len(shadow.scores))

    def measure(
        self,
        fitted: Fitted,
        state: StreamState,
        samples: Floats,
        channels: ChannelOut | None = None,
    ) -> DriftOut | None:
        """Measure the distance of samples from normal, up to one that crosses the limit."""
        assert fitted.drift is not None and state.drift is not None
        out = DriftOut(np.empty(len(samples)), np.empty(len(samples), np.bool_))
        expected, hidden = _NO_VALUES, _NO_COUNTS
        if channels is not None:
            expected, hidden = channels.expected, channels.hidden
        given = samples, expected, hidden, state.drift, fitted.drift, out
        count = fitted.kernels.call(advance, *given)
        if count == len(samples):
            return out
        return DriftOut(out.distances[:count], out.crossings[:count])

    def review(self, fitted: Fitted, state: StreamState, time: np.datetime64 | None) -> list[Event]:
        """Find what changed or reverted, and accept what has been stable long enough."""
        return Review(self.timing, fitted, state, time).review()

    def crossed(
        self, fitted: Fitted, state: StreamState, sample: int, time: np.datetime64 | None
    ) -> list[Event]:
        """Open the change of channels that went beyond the limit at a sample."""
        review = Review(self.timing, fitted, state, time)
        review.judged = sample + 1
        review.channel = None
        return review.crossed()

    def accept(
        self, fitted: Fitted, state: StreamState, time: np.datetime64 | None, slot: int
    ) -> list[Event]:
        """Accept an open change as normal from here on."""
        return Review(self.timing, fitted, state, time).accept(slot)

    def accept_pattern(
        self, fitted: Fitted, state: StreamState, time: np.datetime64 | None, alarm: Alarm
    ) -> list[Event]:
        """Accept samples like those of an alarm as normal from here on."""
        return Review(self.timing, fitted, state, time).accept_pattern(alarm)

    def reject(
        self, fitted: Fitted, state: StreamState, time: np.datetime64 | None, slot: int
    ) -> list[Event]:
        """Reject an open change; restore what was learned before it."""
        return Review(self.timing, fitted, state, time).reject(slot)

    def reject_alarm(
        self, fitted: Fitted, state: StreamState, time: np.datetime64 | None, alarm: Alarm
    ) -> list[Event]:
        """Reject an alarm whose change is not known yet."""
        return Review(self.timing, fitted, state, time).reject_alarm(alarm)

    def undo(
        self,
        fitted: Fitted,
        state: StreamState,
        time: np.datetime64 | None,
        past: Mapping[int, Change],
    ) -> list[Event]:
        """Undo the newest acceptance; if it was of a change of the `past`, that is open again."""
        return Review(self.timing, fitted, state, time).undo(past)

    def distance(self, fitted: Fitted, state: StreamState) -> float:
        """Return how far stream or weights are from the accepted normal; 1 is the limit."""
        return Review(self.timing, fitted, state, None).distance
