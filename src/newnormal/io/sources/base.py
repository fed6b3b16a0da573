"""What a source of samples is: three verbs, and what is needed to resume one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from newnormal.errors import InputError
from newnormal.tabular import Problem, Reading
from newnormal.types import Floats, Times

# The hint of an error about a position in the input.
FRESH = "delete the folder to read the input from the start"


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive samples, in the order of the stream.

    Attributes
    ----------
    values
        One row a sample, one column a channel, in the order of `SourceOptions.channels`: shape
        (T, C), float64. NaN is a missing value; infinite values are refused.
    times
        The samples' times in UTC (datetime64[ns]), or None. Either every batch has them or none.
    numbers
        The record each sample was read from, for messages; None where records have no numbers.
    problems
        Records that hold no sample, in order. `watch` reports and skips them, or stops at the
        first one (`--strict`).
    zone
        The zone that the times were in, before they were UTC: an IANA name, or an offset such as
        "+02:00". Output has it then. None: they had none.

    A batch may be empty: nothing has arrived yet.
    """

    values: Floats
    times: Times | None = None
    numbers: Sequence[int] | None = None
    problems: tuple[Problem, ...] = ()
    zone: str | None = None

    def __post_init__(self) -> None:
        values: object = self.values
        if not isinstance(values, np.ndarray):
            kind = type(values).__name__
            raise InputError(
                f"Batch.values: expected an array of shape (T, C), found a {kind}",
                hint="newnormal.testing.check_source checks a source",
            )

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class SourceOptions:
    """What the detector and the user ask of a source.

    Attributes
    ----------
    channels
        The detector's channels, in the order that batches must have.
    reading
        How the input is written and what is taken from it: as in `newnormal watch --help`. For
        sources without lines it may mean nothing.
    follow
        Wait for more at the end of the input instead of ending.
    unfinished
        Leave an unfinished record at the end of the input to the next start.
    report
        Called with a line for the user, by `Source.report`; None drops it. A source never prints.
    strict
        A cell that is no number makes its line a bad one; else it is a missing value.
    """

    channels: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)
    follow: bool = False
    unfinished: bool = False
    report: Callable[[str], None] | None = None
    strict: bool = False


class Source(ABC):
    """Where samples come from. Derive from it, and give `watch` the import path of your class.

    `watch` makes one source, calls `resume` if its folder has a place, and then alternates between
    `snapshot` and `next_batch` until that returns None. At the end it calls `close`.

    Parameters
    ----------
    input
        The INPUT of the command line: a path, an address, a topic.
    options
        The channels, and what the user asked for.

    Attributes
    ----------
    record
        What a record is called in messages, such as ``"line"``.
    repeats
        True if a resumed source delivers samples again that it delivered before its snapshot, as a
        pipe does whose sender starts over. `watch` then skips, by their times, samples that have a
        verdict. The default, False, promises that the first sample after `resume` is the one after
        the snapshot.

    Notes
    -----
    **A batch** has at most `limit` samples. If nothing has arrived, wait for a fraction of a
    second and return an empty batch: between two batches `watch` applies feedback and handles
    signals. None is the end of the input; it is returned again if asked again.

    **A snapshot** is the position behind the last batch: a dictionary of JSON values (`kind` and
    `zone` are reserved keys). It is taken behind every batch, so it must be cheap, and it goes into
    the log together with the samples before it. Include what tells your input from another, such
    as its address.

    **Resuming**: a new source, which has delivered nothing, gets a snapshot that an earlier one
    returned. It goes to that position and returns True. If the snapshot belongs to another input it
    returns False: `watch` then closes it, and makes another to read from the beginning. `resume`
    may also be called in the middle of the stream, with a snapshot of this very source (`--strict`
    does, to end exactly before a bad record).

    Raise an `InputError` for an input that cannot be read on: `watch` saves everything and
    stops with the message.
    """

    record: ClassVar[str] = "record"
    repeats: ClassVar[bool] = False

    def __init__(self, input: str, options: SourceOptions) -> None:  # noqa: A002
        self.input = input
        self.options = options

    @property
    def name(self) -> str:
        """What the input is called in messages."""
        return self.input

    @property
    def identity(self) -> str:
        """What tells this input from others, however the user spelled it."""
        return self.name

    @abstractmethod
    def next_batch(self, limit: int) -> Batch | None:
        """Return the next samples, at most `limit`; an empty batch if none came; None at the end.

        A record without a sample counts as one of the `limit`, too.
        """

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return the position behind the last batch as JSON values."""

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go to the position of a snapshot; return False if it belongs to another input."""
        del snapshot
        return False

    def stop(self) -> bool:
        """Take in nothing more: the user stops `watch`.

        Return True if records were received that cannot be read again: `next_batch` is then called
        until it returns None. False, the default, ends at once.
        """
        return False

    def report(self, text: str) -> None:
        """Report a line to the user."""
        if self.options.report is not None:
            self.options.report(text)

    def close(self) -> None:
        """Release what the source holds, such as a file. May be called twice."""
        return


def check_batch(source: Source, batch: Batch, channels: int, limit: int) -> None:
    """Raise an InputError if a source's batch is not what was asked of it."""
    shape, times = batch.values.shape, batch.times
    where = f"{source.name}: {type(source).__name__}.next_batch"
    check = "newnormal.testing.check_source checks a source"
    if len(shape) != 2 or shape[1] != channels:
        raise InputError(
            f"{where}: expected values of shape (T, {channels}), found {shape}", hint=check
        )
    if shape[0] > limit:
        raise InputError(
            f"{where}: expected at most {limit} samples, found {shape[0]}",
            hint="return the rest with the next batch",
        )
    if times is not None and times.shape != shape[:1]:
        raise InputError(f"{where}: expected {shape[0]} times, found {times.shape}", hint=check)
    if np.isinf(batch.values).any():
        raise InputError(
            f"{where}: expected finite values, found an infinite one",
            hint="where it means that nothing was measured, pass NaN",
        )
