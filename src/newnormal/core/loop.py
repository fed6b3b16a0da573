"""The loop: what happens to samples, in one place.

Every verb goes through `advance`. The order is a contract. Samples are consumed in stretches that
end where a review is due, at fixed sample numbers, so that a series in pieces, or sample by sample,
gives the same bits. For each stretch:

1. each channel is judged by itself; what is beyond its range is hidden: for all that follows it
   counts as missing (`newnormal.kernels.channels`; `Detector` alone);
2. the shadow, if there is one, is trained on the samples (`acceptance.train_shadow`);
3. the model consumes them: it scores, and learns from what it may learn from (`model.advance`,
   whose own order is `newnormal.kernels.step`'s: a verdict never depends on the update it causes);
4. the samples that became final are measured against the accepted normal (`acceptance.measure`);
5. they are compared with their limits, which opens and closes alarms, and the threshold moves
   (`alarms.judge`); where a channel goes beyond the limit of the distance, a change opens after
   that sample (`acceptance.crossed`);
6. at the end of a stretch the stream is reviewed (`acceptance.review`): that opens changes, ends
   those that reverted and accepts those that have been stable long enough. It changes what happens
   to later samples, and no verdict before.

A sample is pending until its window is judged; its verdict comes with the stretch that judges it.
"""

from __future__ import annotations

import numpy as np

from newnormal.core.state import Fitted, StreamState, judge_channels, rank, rows_of
from newnormal.kernels.channels import ChannelOut
from newnormal.kernels.step import PENDING, SEEN, StepOut, blank_out
from newnormal.types import Event, Floats, Floats32, Times, Verdicts, time_at


def advance(
    fitted: Fitted,
    state: StreamState,
    samples: Floats,
    times: Times | None,
    flush: bool,
    before: np.datetime64 | None = None,
) -> tuple[Verdicts, list[Event]]:
    """Consume samples (T, C) and change the state in place.

    Parameters
    ----------
    samples
        In the user's units, NaN where missing, no infinity.
    times
        Of the pending samples and then of these; None where the stream has none.
    flush
        Whether to judge the tail too, in one last window of the newest samples.
    before
        The time of the newest sample that had a verdict before this call.

    Returns verdicts, a row for each sample that was pending and then for each new one, NaN where it
    is pending still; and events, what happened to alarms and changes.
    """
    samples = np.ascontiguousarray(samples)  # kernels do not look at that again
    pending = int(state.model.step.counts[PENDING])
    out = blank_out(pending + len(samples), samples.shape[1])
    verdicts = fitted.verdicts(state, out, times)
    events: list[Event] = []
    consumed = done = 0  # samples consumed, rows that are final
    ended = False
    while not ended:
        room = fitted.acceptance.samples_until_review(state)
        part = samples[consumed : consumed + room]
        consumed += len(part)
        is_due = len(part) == room
        # Where a review is due the tail is judged after it, as by `step` and then `flush`.
        ended = consumed == len(samples) and not (flush and is_due)
        done, new = _stretch(fitted, state, part, flush and ended, out, verdicts, done)
        events += new
        if is_due:
            newest = time_at(times, done - 1) if done else before
            events += fitted.acceptance.review(fitted, state, newest)
    return verdicts, events


def _stretch(
    fitted: Fitted,
    state: StreamState,
    part: Floats,
    flush: bool,
    out: StepOut,
    verdicts: Verdicts,
    done: int,
) -> tuple[int, list[Event]]:
    """Consume samples between two reviews; return how many rows are final, and the events."""
    step = state.model.step
    pending = int(step.counts[PENDING])
    stop = done + pending + len(part)
    waiting = step.samples[len(step.samples) - pending :].copy()
    params = fitted.params(float(state.learn_threshold[0]), fitted.acceptance.is_frozen(state))
    rows = out
    if stop - done < len(out.scores):
        rows = StepOut._make([column[done:stop] for column in out])

    times = None if verdicts.times is None else verdicts.times[done + pending : stop]
    phases = fitted.phases(times, int(step.counts[SEEN]), len(part))
    votes = fitted.votes(stop - done)
    channels = judge_channels(fitted, state, part, phases, verdicts, slice(done, stop))
    fitted.acceptance.train_shadow(fitted, state, part, flush, phases, channels)
    if channels is None:
        fitted.model.advance(part, flush, state.model, params, rows, phases, votes)
        joint = rows.scores
    else:
        observed = fitted.model.advance_beside(part, channels, state, params, rows, phases, votes)
        joint = rows.scores.copy()
        rank(fitted, state, observed, channels, rows.scores)
    final = stop - int(step.counts[PENDING])
    judged = np.concatenate([waiting, part])[: final - done] if pending else part[: final - done]
    events = judge_rows(fitted, state, verdicts, slice(done, final), judged, joint, votes, channels)
    return final, events


def judge_rows(
    fitted: Fitted,
    state: StreamState,
    verdicts: Verdicts,
    rows: slice,
    samples: Floats,
    joint: Floats,
    votes: Floats32 | None,
    channels: ChannelOut | None,
) -> list[Event]:
    """Judge rows that became final, with their samples, joint scores and votes: 4 and 5."""
    events: list[Event] = []
    start = rows.start
    while start < rows.stop:
        span = slice(start - rows.start, rows.stop - rows.start)
        part = rows_of(channels, span)
        drift = fitted.acceptance.measure(fitted, state, samples[span], part)
        now = slice(start, rows.stop)
        if drift is not None:  # up to a sample that crosses the limit
            assert verdicts.distances is not None and verdicts.changes is not None
            span = slice(span.start, span.start + len(drift.distances))
            now = slice(start, start + len(drift.distances))
            verdicts.distances[now] = drift.distances
            verdicts.changes[now] = fitted.acceptance.newest_open(state)
        part_votes = None if votes is None else votes[span]
        part = rows_of(channels, span)
        events += fitted.alarms.judge(
            fitted, state, verdicts, now, samples[span], joint[span], part_votes, part
        )
        start = now.stop
        if drift is not None and drift.crossings[-1]:
            when = time_at(verdicts.times, start - 1)
            events += fitted.acceptance.crossed(fitted, state, verdicts.first + start - 1, when)
    return events
