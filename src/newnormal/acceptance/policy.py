"""What may become normal, when, and the way back.

A stream is normal, in alarm, or a candidate for a new normal. The order of things:

1. At every review, a fixed number of samples apart, without an alarm: what was learned is kept, in
   case the next alarm is rejected.
2. An alarm that lasts for a quarter of `accept_after` gets a shadow: a copy of the running model
   that learns what the running one does not.
3. Once the shadow's scores are low and stable, the alarm is a candidate; from
   `accept_after` on it is accepted: the shadow takes over, and what was normal before is kept.
4. What a person rejects is not learned: the model goes back to the weights and the trend from
   before the alarm, and is frozen until the stream is back to normal.

The time counts for one change: it restarts where the stream moves on meanwhile.

Reviews come at fixed sample numbers: a series in pieces, or sample by sample, gives the same bits.
"""

from __future__ import annotations

import numpy as np

from newnormal.acceptance.range import initial
from newnormal.acceptance.review import (
    FROZEN,
    MOVES,
    NEXT,
    REVIEWS,
    SCORES,
    TRAINS,
    Review,
    Timing,
)
from newnormal.core.state import Fitted, ReviewState, StreamState, copied
from newnormal.kernels.drift import BEYOND, DriftOut, advance
from newnormal.kernels.step import PENDING, SEEN, blank_out
from newnormal.types import AlarmEvent, Floats

__all__ = ["TimedAcceptance"]

_REVIEWS = 6  # in `accept_after`
_LONGEST = 512  # samples between reviews, at most
_SCORED = 0.5  # of `accept_after`: how long a shadow's scores are kept
# A shadow learns from scores this many times the threshold; from any, one wild sample could throw
# its weights out of all bounds.
_EAGER = 100.0
_MOST_SCORES = 1 << 20


class TimedAcceptance:
    """The acceptance stage of the loop: accepts what lasts, and what a person accepts.

    Parameters
    ----------
    accept_after
        Samples before which nothing is accepted without a person; infinity: never.
    """

    def __init__(self, accept_after: float) -> None:
        length = int(max(1, min(accept_after / _REVIEWS, _LONGEST)))
        scores = int(max(2, min(_SCORED * accept_after, _MOST_SCORES)))
        self.timing = Timing(accept_after, length, scores, max(2, scores // length))

    # ------------------------------------------------------------------ with every stretch

    def begin(self, fitted: Fitted, state: StreamState) -> None:
        """Add what acceptance keeps to a state before the first sample."""
        baseline = fitted.baseline
        assert baseline is not None
        state.drift = initial(baseline.lows, baseline.highs)
        state.review = ReviewState(np.array([0, 0, -1, 0]), np.zeros(2))
        state.last_quiet = copied(baseline)

    def samples_until_review(self, state: StreamState) -> int:
        """Return how many samples to consume before the next review, at least 1."""
        assert state.review is not None
        reviews = state.review.counts[REVIEWS]
        return int((reviews + 1) * self.timing.review_length - state.model.step.counts[SEEN])

    def is_frozen(self, state: StreamState) -> bool:
        """Whether trend and weights are held, after a rejection."""
        assert state.review is not None
        return bool(state.review.counts[FROZEN])

    def train_shadow(
        self, fitted: Fitted, state: StreamState, samples: Floats, flush: bool
    ) -> None:
        """Hand the shadow, if there is one, what the running model is about to consume."""
        shadow = state.shadow
        if shadow is None or not shadow.counts[TRAINS]:
            return
        counts = shadow.model.step.counts
        rows = int(counts[PENDING]) + len(samples)
        out = blank_out(rows, samples.shape[1])
        threshold = _EAGER * float(state.learn_threshold[0])
        params = fitted.step._replace(alarm_threshold=threshold, learn_threshold=threshold)
        fitted.model.eager(_EAGER).advance(samples, flush, shadow.model, params, out)
        scores = out.scores[: rows - int(counts[PENDING])]
        for score in scores[~np.isnan(scores)].tolist():
            shadow.scores[shadow.counts[NEXT]] = score
            shadow.counts[NEXT] = (shadow.counts[NEXT] + 1) % len(shadow.scores)
            shadow.counts[SCORES] = min(shadow.counts[SCORES] + 1, len(shadow.scores))

    def measure(
        self, fitted: Fitted, state: StreamState, pending: Floats, samples: Floats, final: int
    ) -> DriftOut | None:
        """Measure how far the first `final` of these samples are from the accepted normal."""
        assert fitted.drift is not None and state.drift is not None and state.review is not None
        judged = np.concatenate([pending, samples]) if len(pending) else samples
        judged = judged[:final]
        out = DriftOut(np.zeros(final, np.int8), np.zeros(final, np.int64))
        advance(judged, state.drift, fitted.drift, out)
        if state.review.levels[MOVES] > 1:
            out.flags[:] = BEYOND
            out.where[:] = -1
        return out

    # ------------------------------------------------------------------ reviews

    def review(
        self, fitted: Fitted, state: StreamState, time: np.datetime64 | None
    ) -> list[AlarmEvent]:
        """Review the open alarm and accept it if it has been stable long enough."""
        return Review(self.timing, fitted, state, time).review()

    def accept(
        self, fitted: Fitted, state: StreamState, time: np.datetime64 | None
    ) -> list[AlarmEvent]:
        """Accept what the open alarm is about as normal from here on."""
        return Review(self.timing, fitted, state, time).accept()

    def reject(
        self, fitted: Fitted, state: StreamState, time: np.datetime64 | None
    ) -> list[AlarmEvent]:
        """Reject what the open alarm is about; restore what was learned before it."""
        return Review(self.timing, fitted, state, time).reject()

    def rollback(
        self, fitted: Fitted, state: StreamState, time: np.datetime64 | None
    ) -> list[AlarmEvent]:
        """Undo the newest acceptance."""
        return Review(self.timing, fitted, state, time).rollback()

    def distance(self, fitted: Fitted, state: StreamState) -> float:
        """Return how far stream or weights are from the accepted normal; 1 is the limit."""
        return Review(self.timing, fitted, state, None).distance
