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

_LENGTH = struct.Struct("<I")
_LEAST_VALUES = 50


@dataclass(frozen=True, eq=False)
class SamplesArrived:
    """Samples came: pushed, of a pull source, or uploaded as history."""

    kind: ClassVar[str] = "arrived"
    arrivals: tuple[Arrival, ...]  # the samples
    # The name of a pull source, and its snapshot behind these samples; "" and None if pushed.
    source: str = ""
    input_position: Mapping[str, Any] | None = None
    # Whether they are the whole history of their streams, to be fitted at once.
    history: bool = False
    past: bool = False  # whether they are of the time before their source was first started
    writer: str = ""  # who sent them: a token, an address, or a pull source


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
    """A person decides: ``accept``, ``reject`` or ``rollback``."""

    kind: ClassVar[str] = "feedback"
    stream: int
    verb: str
    item: str | None  # the key of the item that is meant; None for ``rollback``
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
)
_PLAIN: dict[str, Any] = {cls.kind: cls for cls in get_args(Entry) if cls is not SamplesArrived}


def check_input_position(entry: SamplesArrived) -> None:
    """Raise an InputError unless the input position of a source can be written."""
    try:
        json.dumps(dict(entry.input_position or {}), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"source {entry.source!r}: expected a snapshot of JSON values, found {error}",
            hint="newnormal.testing.check_pull_source checks a source",
        ) from error


def pack(entries: Sequence[Entry]) -> bytes:
    """Return the entries of one record as bytes.

    >>> unpack(pack([Removed(3), Silent(1, 5, 9)]))
    [Removed(stream=3), Silent(stream=1, since=5, now=9, others=())]
    """
    facts: list[Any] = []
    numbers: list[bytes] = []
    for entry in entries:
        if isinstance(entry, SamplesArrived):
            arrivals = [[a.stream, list(a.channels), len(a.times)] for a in entry.arrivals]
            position = None if entry.input_position is None else dict(entry.input_position)
            others = entry.history, entry.past, entry.writer
            facts.append([entry.kind, arrivals, entry.source, position, *others])
            for arrival in entry.arrivals:
                numbers.append(np.ascontiguousarray(arrival.times, "<i8").tobytes())
                numbers.append(np.ascontiguousarray(arrival.values, "<f8").tobytes())
        else:
            facts.append([entry.kind, *(getattr(entry, field.name) for field in fields(entry))])
    head = json.dumps(facts, separators=(",", ":")).encode()
    return b"".join((_LENGTH.pack(len(head)), head, *numbers))


def unpack(record: bytes) -> list[Entry]:
    """Return the entries of a record."""
    try:
        (length,) = _LENGTH.unpack_from(record)
        offset = _LENGTH.size + length
        entries: list[Entry] = []
        for kind, *values in json.loads(record[_LENGTH.size : offset]):
            if kind != SamplesArrived.kind:
                entries.append(_PLAIN[kind](*map(_tupled, values)))
                continue
            listed, source, position, *others = values
            arrivals = []
            for stream, channels, count in listed:
                times = np.frombuffer(record, "<i8", count, offset).astype(np.int64)
                offset += times.nbytes
                flat = np.frombuffer(record, "<f8", count * len(channels), offset)
                offset += flat.nbytes
                numbers = flat.reshape(count, len(channels)).astype(np.float64)
                arrivals.append(Arrival(stream, tuple(channels), times, numbers))
            entries.append(SamplesArrived(tuple(arrivals), source, position, *others))
        if offset != len(record):
            raise ValueError("length")
    except (LookupError, TypeError, ValueError, struct.error) as error:
        raise StateError(
            f"expected a record of the service's log, found other bytes: {error}",
            hint="newnormal serve verify names what is damaged; restore a backup",
        ) from error
    return entries


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def values_of(arrivals: Sequence[Arrival]) -> int:
    """Return how many values there are; an arrival of few takes as much memory as one of 50."""
    return sum(max(arrival.values.size, _LEAST_VALUES) for arrival in arrivals)
