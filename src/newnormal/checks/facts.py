"""What there is: samples, channels, and what was found while they were read."""

from dataclasses import asdict, dataclass
from typing import Any

from newnormal.checks.sampling import Sampling
from newnormal.core.phases import SampleClock
from newnormal.core.rhythm import Rhythm
from newnormal.tabular import InputProfile


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
