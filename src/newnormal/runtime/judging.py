"""Judging a finished series: in pieces, so that no event is lost and a bar can be drawn."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from newnormal.base import BaseDetector
from newnormal.tabular import Table
from newnormal.types import Event, Observed, Verdicts

_PIECE = 1000  # samples: the detector keeps 1000 events, and a piece has fewer


class Judgement(NamedTuple):
    """The verdicts of a series, and everything that happened to alarms and changes meanwhile."""

    verdicts: Verdicts
    events: list[Event]


def judge_series(
    detector: BaseDetector,
    series: Table,
    *,
    frozen: bool = False,
    on_samples: Callable[[int], None] | None = None,
) -> Judgement:
    """Run a detector over a series, with its alarms tracked, and keep every event.

    The verdicts are those of `run`, bit for bit; if `frozen`, those of `score_frozen`, and the
    detector does not change.

    `detector`: it consumes the series, unless `frozen`. `series`: what to judge. `frozen`: judge
    with the present weights and trend, and learn nothing. `on_samples`: called with how many
    samples are done after each piece.
    """
    judging = detector.frozen_copy() if frozen else detector
    judging.track_alarms().take_events()
    rejected = Observed.rejected_of(judging.changes_)
    decided = Observed.decided_of(detector.past_)
    length = len(series.values)
    piece = max(_PIECE, judging.window_)  # a piece is not shorter than what one verdict needs
    parts: list[Verdicts] = []
    events: list[Event] = []
    for start in range(0, max(length, 1), piece):
        stop = min(start + piece, length)
        last = stop == length
        verdicts = judging.run(_rows(series, start, stop), flush=last)
        events += judging.take_events()
        pending = 0 if last else min(int(judging.counters["pending"]), len(verdicts))
        if verdicts.late is not None and start:  # at the start they are of earlier samples
            parts.append(verdicts.late)
        parts.append(verdicts.rows(slice(0, len(verdicts) - pending)))
        if on_samples is not None:
            on_samples(stop)
    # Parts have what is pending of them in the next one, so what was observed is given as a whole.
    labels = None if series.labels is None else series.labels.astype(bool)
    observed = replace(
        _observed(verdicts),
        values=series.values,
        events=tuple(events),
        labels=labels,
        rejected=rejected,
        decided=decided,
    )
    return Judgement(replace(Verdicts.joined(parts), observed=observed), events)


def _observed(verdicts: Verdicts) -> Observed:
    assert verdicts.observed is not None  # `run` keeps it
    return verdicts.observed


def _rows(series: Table, start: int, stop: int) -> Table:
    times = None if series.times is None else series.times[start:stop]
    return Table(series.values[start:stop], series.channels, times, zone=series.zone)
