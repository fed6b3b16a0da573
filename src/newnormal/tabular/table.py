"""A series as arrays, and what must hold of one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from newnormal.core.times import is_late
from newnormal.errors import InputError
from newnormal.tabular.reading import InputProfile
from newnormal.types import Floats, Ints, Times, time_text
from newnormal.types.frames import FrameKind


@dataclass(frozen=True, eq=False)
class Table:
    """A series as arrays: what every input becomes before a detector sees it.

    `values`: one row a sample, one column a channel, shape (T, C), C-contiguous; NaN is missing.
    `channels`: the channels' names, or None where the input had none (a plain array).
    `times`: the samples' times in UTC (datetime64[ns]), strictly increasing, or None.
    `labels`: the ground truth, 0 or 1 a sample, where a label column was requested.
    `zone`: the zone that the times had: its IANA name, or an offset such as "+02:00"; None if none.
    `profile`: what was found out while it was read; None if it was not read from a file.
    `frame`: what the frame is like that it was made from; None for other data.
    """

    values: Floats
    channels: tuple[str, ...] | None
    times: Times | None
    labels: Ints | None = None
    zone: str | None = None
    profile: InputProfile | None = None
    frame: FrameKind | None = None


def default_channels(count: int) -> tuple[str, ...]:
    """Return the names of channels that came without any: their positions.

    >>> default_channels(3)
    ('0', '1', '2')
    """
    return tuple(str(channel) for channel in range(count))


def check_finite(values: Floats, channels: Sequence[str]) -> None:
    """Raise an `InputError` naming channel and sample where a value is infinite."""
    infinite = np.isinf(values)
    if infinite.any():
        sample, channel = np.argwhere(infinite)[0]
        raise InputError(
            f"channel {channels[channel]!r}, sample {sample}: expected a finite number, "
            f"found {values[sample, channel]}",
            hint="where it means that nothing was measured, pass NaN",
        )


def check_times(times: Times, count: int) -> None:
    """Raise an `InputError` unless there is one time a sample, each later than the last."""
    if times.shape != (count,):
        actual = f"{times.size} times" if times.ndim == 1 else f"an array of shape {times.shape}"
        raise InputError(f"expected one time a sample, {count} in all, found {actual}")
    missing = np.isnat(times)
    if missing.any():
        raise InputError(
            f"sample {missing.argmax()}: expected a time, found none (NaT)",
            hint="every sample needs a time, or none has one",
        )
    stuck = is_late(times[1:], times[:-1])
    if stuck.any():
        row = int(stuck.argmax()) + 1
        raise InputError(
            f"sample {row}: expected a time later than the one before, "
            f"{time_text(times[row - 1])}, found {time_text(times[row])}",
            hint="sort the samples by time and keep one a time, or leave the times out",
        )
