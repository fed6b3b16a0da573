"""What there is: samples and how regular they are, channels, and what was found in reading."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from newnormal.checks.findings import Finding, Remedies, length, seconds
from newnormal.core.history import median_period
from newnormal.core.phases import SampleClock
from newnormal.core.rhythm import Rhythm
from newnormal.tabular import InputProfile, Table
from newnormal.texts import counted, share_text
from newnormal.types import Times, time_text

_SAME = 0.01  # of the period: a step this near to it is equal to it
_NEAR = 0.5  # of the period: a step this near to it lost no sample
_REGULAR = 0.8  # of the steps are near the period, or the sampling is irregular
_APART = 1.5  # periods: channels whose values are further apart come at times of their own
_GAP = 10  # periods: a gap where the sampling is irregular
_LARGEST = 3  # gaps that are listed
# Of the samples that gaps miss, for a warning: where one is long, and where samples miss singly.
_LOST, _LOST_SINGLY = 0.05, 0.2


@dataclass(frozen=True)
class Gap:
    """A time without samples."""

    after: np.datetime64  # the time of the last sample before it
    sample: int  # which sample that is, counted from 0
    length: np.timedelta64  # from that sample to the next


@dataclass(frozen=True)
class Sampling:
    """How a series with times is sampled."""

    first: np.datetime64
    last: np.datetime64
    period: np.timedelta64 | None  # the median time between samples; None for one sample
    regular: float  # share of the steps that are equal to the period, to one part in a hundred
    near: float  # share of the steps in which no sample is lost: within half a period of it
    gaps: int
    lost: int  # samples that would fill the gaps
    largest: tuple[Gap, ...]  # of the gaps, the largest first

    @classmethod
    def of(cls, times: Times | None) -> "Sampling | None":
        """Return how strictly increasing times lie; None where there are none.

        >>> times = np.array([0, 60, 120, 300, 360, 420], dtype="datetime64[s]")
        >>> found = Sampling.of(times)
        >>> found.period, found.regular, found.gaps, found.lost, found.largest[0].sample
        (np.timedelta64(60000000000,'ns'), 0.8, 1, 2, 2)
        """
        if times is None or len(times) == 0:
            return None
        times = times.astype("datetime64[ns]")
        if (period := median_period(times)) is None:
            return cls(times[0], times[-1], None, 1.0, 1.0, 0, 0, ())
        steps = np.diff(times).astype(np.int64)
        size = max(int(period.astype(np.int64)), 1)
        away = np.abs(steps - size)
        near = float(np.mean(away <= _NEAR * size))
        least = (1 + _NEAR) * size if near >= _REGULAR else _GAP * size
        long = np.flatnonzero(steps > least)
        largest = long[np.argsort(-steps[long], kind="stable")[:_LARGEST]]
        return cls(
            times[0],
            times[-1],
            period,
            float(np.mean(away <= _SAME * size)),
            near,
            len(long),
            int((np.rint(steps[long] / size) - 1).sum()),
            tuple(
                Gap(times[at], int(at), np.timedelta64(int(steps[at]), "ns"))
                for at in largest.tolist()
            ),
        )

    @property
    def span(self) -> np.timedelta64:
        """From the first sample to the last."""
        return np.timedelta64(self.last - self.first)

    @property
    def is_regular(self) -> bool:
        """Whether most steps are near the period."""
        return self.near >= _REGULAR

    def as_dict(self, zone: str | None = None) -> dict[str, Any]:
        """Return it as values of JSON; times are in their zone, lengths in seconds."""
        return {
            "first": time_text(self.first, zone),
            "last": time_text(self.last, zone),
            "span_seconds": seconds(self.span),
            "period_seconds": None if self.period is None else seconds(self.period),
            "regular_share": self.regular,
            "gaps": self.gaps,
            "lost_samples": self.lost,
            "largest_gaps": [
                {
                    "after": time_text(gap.after, zone),
                    "sample": gap.sample,
                    "seconds": seconds(gap.length),
                }
                for gap in self.largest
            ],
        }


def channel_period(table: Table) -> np.timedelta64 | None:
    """Return the median time between two values of a channel: the shortest of all channels."""
    if table.times is None:
        return None
    there = ~np.isnan(table.values)
    periods = [median_period(table.times[column]) for column in there.T]
    return min((period for period in periods if period is not None), default=None)


def sampling_findings(
    sampling: Sampling | None,
    samples: int,
    zone: str | None,
    remedies: Remedies,
    own: np.timedelta64 | None = None,
) -> list[Finding]:
    """Return what is suspicious about the times of a series, given the period of its channels."""
    if sampling is None:
        sentence = "there are no times: a day is taken to have 1,440 samples"
        return [Finding("note", "no_times", None, sentence, remedies.period())]
    findings = []
    period = sampling.period
    if period is not None and own is not None and own > _APART * period:
        sentence = (
            f"the channels come at times of their own, each every {length(own)} or less often"
        )
        option = remedies.resample(length(own).replace(" ", ""))
        findings.append(Finding("warning", "apart", None, sentence, option))
    elif period is not None and not sampling.is_regular:
        sentence = (
            f"the times are irregular: only {share_text(sampling.near)} of the steps are near "
            f"their median, {length(period)}"
        )
        option = remedies.resample(length(period).replace(" ", ""))
        findings.append(Finding("warning", "irregular", None, sentence, option))
    if sampling.gaps:
        gap = sampling.largest[0]
        lost = sampling.lost / (samples + sampling.lost)
        long = period is not None and gap.length >= _GAP * period
        many = lost >= (_LOST if long else _LOST_SINGLY)
        sentence = (
            f"{counted(sampling.gaps, 'gap')} in the times, in which "
            f"{counted(sampling.lost, 'sample')} {'is' if sampling.lost == 1 else 'are'} "
            f"missing; the largest is {length(gap.length)} after {time_text(gap.after, zone)}"
        )
        findings.append(Finding("warning" if many else "note", "gaps", None, sentence))
    return findings


@dataclass(frozen=True)
class ChannelFacts:
    """A channel in numbers; None where it has no values."""

    name: str
    missing: int  # values
    low: float | None
    high: float | None
    median: float | None
    distinct: int | None  # how many different values it has, if these are few; else None

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {name: value for name, value in asdict(self).items() if name != "name"}


@dataclass(frozen=True, eq=False)
class InputFacts:
    """What there is."""

    samples: int  # how many there are
    time: tuple[str, ...]  # the column or columns of their times, where these have names
    channels: tuple[ChannelFacts, ...]  # each in numbers, in the order of the values
    sampling: Sampling | None  # how they are sampled; None without times
    zone: str | None  # the zone of the times; None if they have none
    # the daily or weekly rhythm, as the detector itself finds it; None if there is none
    rhythm: Rhythm | None
    # duplicates, out_of_order: samples that share the time of another, and that were not in the
    # order of their times
    duplicates: int
    out_of_order: int
    profile: InputProfile | None  # what was found while a file was read; None for data in Python

    @property
    def names(self) -> tuple[str, ...]:
        """The channels' names."""
        return tuple(channel.name for channel in self.channels)

    @property
    def missing(self) -> int:
        """How many values are missing, of all channels."""
        return sum(channel.missing for channel in self.channels)

    def as_dict(self) -> dict[str, Any]:
        """Return them as values of JSON."""
        return {
            "samples": self.samples,
            "time": list(self.time),
            "sampling": None if self.sampling is None else self.sampling.as_dict(self.zone),
            "zone": self.zone,
            "duplicate_times": self.duplicates,
            "times_out_of_order": self.out_of_order,
            "missing_values": self.missing,
            "rhythm": rhythm_as_dict(self.rhythm, self.names),
            "channels": {channel.name: channel.as_dict() for channel in self.channels},
            "reading": None if self.profile is None else profile_as_dict(self.profile),
        }


def rhythm_as_dict(rhythm: Rhythm | None, names: tuple[str, ...]) -> dict[str, Any] | None:
    """Return a rhythm as values of JSON."""
    if rhythm is None:
        return None
    clock = rhythm.clock
    return {
        "by": "sample" if isinstance(clock, SampleClock) else "time",
        "period_samples": clock.period if isinstance(clock, SampleClock) else None,
        "kinds_of_day": None if isinstance(clock, SampleClock) else clock.kinds,
        "channels": [name for name, has in zip(names, rhythm.explained, strict=False) if has],
    }


def profile_as_dict(profile: InputProfile) -> dict[str, Any]:
    """Return what was found while reading as values of JSON."""
    return {
        "header": list(profile.header),
        "time": list(profile.time),
        "written": dict(profile.written),
        "lines": profile.lines,
        "bad_lines": profile.bad_lines,
        "first_bad_line": profile.first_bad,
        "bad_cells": {
            name: {"count": cell.count, "line": cell.line, "example": cell.example}
            for name, cell in profile.bad_cells.items()
        },
        "notes": list(profile.notes),
    }
