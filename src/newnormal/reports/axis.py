"""Where samples lie along a page's axis: seconds since 1970, or the samples' numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from newnormal.alarms.words import moment_text
from newnormal.metrics.alarms import true_alarms
from newnormal.types import Floats, Timeline


def seconds_of(time: np.datetime64) -> float:
    """Return a time as seconds since 1970, UTC.

    >>> seconds_of(np.datetime64("1970-01-01T00:01:00.5"))
    60.5
    """
    return float(time.astype("datetime64[ns]").astype(np.int64)) / 1e9


@dataclass(frozen=True, eq=False)
class Axis:
    """The axis of a stream."""

    timeline: Timeline
    timed: bool  # whether it is one of time; it must not be where the stream has none

    @classmethod
    def of(cls, timeline: Timeline) -> "Axis":
        """Return the axis that suits a stream: of time, where every sample has one."""
        return cls(timeline, timeline.times is not None)

    @cached_property
    def x(self) -> Floats:
        """Where each sample is, shape (T,)."""
        times = self.timeline.times
        if self.timed and times is not None:
            return times.astype("datetime64[ns]").astype(np.int64) / 1e9
        return self.timeline.verdicts.samples.astype(np.float64)

    @cached_property
    def met(self) -> Mapping[int, bool]:
        """Whether each alarm finds a labelled event, by its number; none without labels."""
        timeline, labels = self.timeline, self.timeline.labels
        if labels is None:
            return {}
        return true_alarms(timeline.observed.events, labels, first=timeline.first)

    def at(self, sample: int, time: np.datetime64 | None = None) -> float | None:
        """Return where a sample is, by its time if that is known; it may be before the first.

        A sample of unknown time that is not in the timeline lies at the timeline's end nearest to
        it; None in an empty one.
        """
        if not self.timed:
            return _short(float(sample))
        if time is not None:
            return _short(seconds_of(time))
        if not len(self.timeline):
            return None
        row = min(max(sample - self.timeline.first, 0), len(self.timeline) - 1)
        return _short(float(self.x[row]))

    def text(self, sample: int, time: np.datetime64 | None) -> str:
        """Return when a sample was, in words: its time in the stream's zone, or its number.

        Seconds are there where they are not 0.
        """
        timed = self.timed and time is not None
        text = moment_text(time if timed else None, sample, self.timeline.verdicts.zone)
        whole = timed and text[16:19] == ":00" and text[19:20] != "."
        return text[:16] + text[19:] if whole else text

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Where the first and the last sample are; None without any."""
        if not len(self.timeline):
            return None, None
        return _short(float(self.x[0])), _short(float(self.x[-1]))


def _short(x: float) -> float:
    """Return a place as JSON has it in the fewest digits: a whole number without a point."""
    return int(x) if x.is_integer() else round(x, 6)
