"""What is written to the log of the service before it acts, as values and as bytes.

An entry is a kind and a JSON object, and for samples their numbers behind it, little-endian.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_args

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError, StateError
from newnormal.types import Ints

_LENGTH = struct.Struct("<I")
_LEAST_VALUES = 50


@dataclass(frozen=True, eq=False)
class SamplesArrived:
    """Samples came: pushed, of a source, or uploaded as history."""

    kind: ClassVar[str] = "arrived"
    arrivals: tuple[Arrival, ...]  # the samples
    # The name of a source, and its snapshot behind these samples; "" and None if pushed.
    source: str = ""
    input_position: Mapping[str, Any] | None = None
    # Whether they are the whole history of their streams, to be fitted at once.
    history: bool = False
    past: bool = False  # whether they are of the time before their source was first started
    writer: str = ""  # who sent them: a token, an address, or a source


@dataclass(frozen=True, eq=False)
class StepsTaken:
    """Samples that are in order came, of an input that can be read again or by a program's call.

    They are judged as they are, and not kept.
    """

    kind: ClassVar[str] = "steps"
    arrivals: tuple[Arrival, ...]  # times are NO_TIME where samples have none
    rows: Ints  # (N,) for each row of the input its arrival; (0,): one arrival after the other
    input_position: Mapping[str, Any] | None = None  # behind them, with the zone of their times
    anew: tuple[str, ...] = ()  # streams that keep only what they learned: this is another input
    # Whether these streams have ended, all without any samples: what is pending is judged.
    flush: bool = False
    close_alarms: bool = False  # whether the streams have ended


@dataclass(frozen=True)
class Closed:
    """The clock closed time steps of a stream: all that began before a time, in ns."""

    kind: ClassVar[str] = "closed"
    stream: int
    until: int


@dataclass(frozen=True)
class FitBegan:
    """A fit begins: of the samples `first` to `last` (included) of a stream."""

    kind: ClassVar[str] = "fit_began"
    stream: int
    first: int
    last: int
    reason: str  # ``"history"``, ``"uploaded"``, ``"request"``, ``"schedule"`` or ``"channels"``
    # That the model is to have; None: those that it has, or those seen so far.
    channels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class FitTaken:
    """A fitted model is taken over."""

    kind: ClassVar[str] = "fit_taken"
    stream: int
    began: int  # the position of the `FitBegan` that it belongs to
    # The name of its file in the folder of models, which is on the disk before this is logged.
    model: str


@dataclass(frozen=True)
class FitFailed:
    """A fit failed."""

    kind: ClassVar[str] = "fit_failed"
    stream: int
    began: int
    message: str
    hint: str | None = None
    again: bool = False  # whether the same history may be fitted: its process ended, say


@dataclass(frozen=True)
class FeedbackGiven:
    """A person decides: ``accept``, ``reject`` or ``undo``."""

    kind: ClassVar[str] = "feedback"
    stream: int
    verb: str
    item: str | None  # the key of the item that is meant; None for ``undo``
    # Who it was, and what they wrote.
    who: str = ""
    comment: str = ""


@dataclass(frozen=True)
class Silent:
    """By the clock, a live stream has sent nothing for too long, since a time in ns."""

    kind: ClassVar[str] = "silent"
    stream: int
    since: int
    now: int
    # Streams that stopped at the same moment: their numbers, each with its time.
    others: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Removed:
    """A stream is removed, with all that is kept of it."""

    kind: ClassVar[str] = "removed"
    stream: int


@dataclass(frozen=True)
class Restored:
    """A stream goes back to an earlier model, from the next sample on."""

    kind: ClassVar[str] = "restored"
    stream: int
    generation: int


@dataclass(frozen=True)
class ModelPut:
    """A model from elsewhere is put into a stream, which begins with it if it is new."""

    kind: ClassVar[str] = "model_put"
    stream: str
    model: str  # its state file, base64
    now: int  # in ns
    writer: str = ""  # who put it


@dataclass(frozen=True)
class Started:
    """The service started, at a time in ns: until then it could not take samples in."""

    kind: ClassVar[str] = "started"
    now: int


@dataclass(frozen=True)
class Configured:
    """From here on, new streams are put in order by these settings, and limits on alarms hold."""

    kind: ClassVar[str] = "configured"
    # (pattern, period, lateness, alarms_per_day): of the streams whose names match, times in ns,
    # or None; later ones hold more.
    patterns: tuple[tuple[str, int | None, int | None, float | None], ...]


@dataclass(frozen=True)
class PositionsLost:
    """What was in the records since a position is lost, but for the names that it gave out."""

    kind: ClassVar[str] = "lost"
    first: int
    streams: int  # the highest number of a stream
    numbers: int  # the highest one of anything in the key of an item


Entry = (
    SamplesArrived
    | Closed
    | Configured
    | FitBegan
    | FitTaken
    | FitFailed
    | FeedbackGiven
    | ModelPut
    | PositionsLost
    | Silent
    | Removed
    | Restored
    | Started
    | StepsTaken
)
_KINDS: dict[str, Any] = {cls.kind: cls for cls in get_args(Entry)}


def check_input_position(entry: SamplesArrived | StepsTaken) -> None:
    """Raise an InputError unless the input position of a source can be written."""
    try:
        json.dumps(dict(entry.input_position or {}), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{_source_of(entry)}: expected a snapshot of JSON values, found {error}",
            hint="newnormal.testing checks a source",
        ) from error


def pack(entries: Sequence[Entry]) -> bytes:
    """Return the entries of one record as bytes.

    >>> unpack(pack([Removed(3), Silent(1, 5, 9)]))
    [Removed(stream=3), Silent(stream=1, since=5, now=9, others=())]
    """
    facts: list[Any] = []
    numbers: list[bytes] = []
    for entry in entries:
        values = {field.name: getattr(entry, field.name) for field in fields(entry)}
        if isinstance(entry, SamplesArrived | StepsTaken):
            arrivals = entry.arrivals
            values["arrivals"] = [[a.stream, a.channels, len(a.times)] for a in arrivals]
            position = entry.input_position
            values["input_position"] = None if position is None else dict(position)
            for arrival in arrivals:
                numbers.append(np.ascontiguousarray(arrival.times, "<i8").tobytes())
                numbers.append(np.ascontiguousarray(arrival.values, "<f8").tobytes())
        if isinstance(entry, StepsTaken):
            values["rows"] = len(entry.rows)
            numbers.append(np.ascontiguousarray(entry.rows, "<i4").tobytes())
        facts.append([entry.kind, *values.values()])
    head = json.dumps(facts, separators=(",", ":")).encode()
    return b"".join((_LENGTH.pack(len(head)), head, *numbers))


def unpack(record: bytes) -> list[Entry]:
    """Return the entries of a record."""
    try:
        (length,) = _LENGTH.unpack_from(record)
        offset = _LENGTH.size + length
        entries: list[Entry] = []

        def numbers(kind: str, count: int) -> Any:
            nonlocal offset
            column = np.frombuffer(record, kind, count, offset)
            offset += column.nbytes
            return column

        for kind, *listed in json.loads(record[_LENGTH.size : offset]):
            if kind not in (SamplesArrived.kind, StepsTaken.kind):
                entries.append(_KINDS[kind](*map(_tupled, listed)))
                continue
            arrivals, *others = listed
            taken = []
            for stream, channels, count in arrivals:
                times = numbers("<i8", count).astype(np.int64)
                flat = numbers("<f8", count * len(channels)).astype(np.float64)
                values = flat.reshape(count, len(channels))
                taken.append(Arrival(stream, tuple(channels), times, values))
            if kind == StepsTaken.kind:
                rows, position, anew, *flags = others
                others = [numbers("<i4", rows).astype(np.int64), position, tuple(anew), *flags]
            entries.append(_KINDS[kind](tuple(taken), *others))
        if offset != len(record):
            raise ValueError("length")
    except (LookupError, TypeError, ValueError, struct.error) as error:
        raise StateError(
            f"expected a record of the log, found other bytes: {error}",
            hint="newnormal serve verify names what is damaged; restore a backup",
        ) from error
    return entries


def _source_of(entry: SamplesArrived | StepsTaken) -> str:
    return f"source {entry.source!r}" if isinstance(entry, SamplesArrived) else "source"


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def values_of(arrivals: Sequence[Arrival]) -> int:
    """Return how many values there are; an arrival of few takes as much memory as one of 50."""
    return sum(max(arrival.values.size, _LEAST_VALUES) for arrival in arrivals)
