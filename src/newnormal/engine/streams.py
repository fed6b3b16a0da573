"""The streams of the service: what is known of each beside its detector."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from newnormal.arrivals.order import Order
from newnormal.engine.values import COLLECTING, Item, StreamView
from newnormal.errors import InputError
from newnormal.types import NO_TIME, Alarm, Bools, Floats, Ints

NO_PAST = -(1 << 63)

_POINTS = 60  # of a sparkline
_STRETCH = 8  # samples of a point of it
_KNOWN = 100  # gaps that are remembered; samples that came during a fit are judged behind it
_STREAM_SIZE, _CHANNEL_SIZE = 8_192, 1_024  # bytes, as measured
_SILENCE = "silence"
_ATTENTION = ("alarm", _SILENCE, "change", "channels")  # worst first


class HasModelError(InputError):
    """History came for a stream that has a model, or is being fitted: HTTP's 409."""

    status = 409


@dataclass(frozen=True)
class PendingFit:
    """A fit that has begun, of samples `first` to `last`."""

    began: int  # the position of its entry
    first: int
    last: int
    channels: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class FittedModel:
    """A model that a stream has, or had."""

    generation: int
    file: str
    channels: tuple[str, ...]
    first: int
    last: int
    reason: str
    time: int  # of the last sample it was fitted on, in ns


@dataclass
class StreamRecord:
    """A stream as the engine has it."""

    id: int
    name: str
    order: Order
    state: str = COLLECTING
    count: int = 0  # how many closed samples it has: the number of the next one
    unkept: int = 0  # samples that were judged and not kept
    offset: int = 0  # the number of the first sample that its model has judged
    fit: PendingFit | None = None  # the fit that is under way, or None
    models: list[FittedModel] = field(default_factory=list)  # those it has had, the newest last
    lost: int = 0  # how many generations it had besides, which the log has no more
    tried: int = 0  # at how many samples the last fit began that failed; 0 if none did
    # Channels that a person accepted for the next model, and the first sample that has them.
    wanted: tuple[tuple[str, ...], int] | None = None
    problem: str = ""
    items: dict[str, Item] = field(default_factory=dict)  # those that are open, by key
    # The incident of streams that are silent together, if it is one of them.
    outage: Item | None = None
    source: str = ""  # the source that its newest samples came from; "" if they were pushed
    period_given: bool = False  # by the settings: models do not change it
    # The newest time of before its source was first started, in ns; `NO_PAST` once that is over.
    past: int = NO_PAST
    last_item: Item | None = None  # the newest item
    last_alarm: int | None = None
    numbers: dict[str, int] = field(default_factory=dict)  # of silences and of other channels
    counts: dict[str, int] = field(
        default_factory=lambda: {"alarms": 0, "changes": 0, "replaced": 0}
    )
    since: dict[str, int] = field(default_factory=dict)  # first sample of channels not the model's
    ignored: tuple[str, ...] = ()  # channels that a person rejected
    # For how many steps each channel has had no value.
    absent: dict[str, int] = field(default_factory=dict)
    excused_after: int | None = None  # a gap before the first step after this time is known
    gaps: tuple[int, ...] = ()  # times of steps with a gap before them that is known
    quiet: tuple[int, ...] = ()  # numbers of alarms about such gaps, which made no alert
    ratio: float = math.nan
    distance: float = math.nan
    # The highest ratio of each of the last stretches of samples.
    ring: list[float] = field(default_factory=list)
    ringed: int = 0  # samples in the newest stretch
    columns: Any = None  # where the model's channels are among the order's, and for how many
    version: int = 0  # increases when it changes
    view: tuple[int, StreamView] | None = None  # as it was last asked for, and its version then
    begun: bool = False  # a fit was handed to the log, and has not come back from it
    brought: dict[str, int] = field(default_factory=dict)  # bytes of its names by who wrote them
    counted: tuple[str, ...] | None = None  # the channels that are in `brought`

    @property
    def generation(self) -> int:
        """How many models it has had."""
        return self.lost + len(self.models)

    @property
    def model(self) -> FittedModel | None:
        """The model that judges it."""
        return self.models[-1] if self.models else None

    @property
    def is_live(self) -> bool:
        """Whether a model judges it, also while another is fitted."""
        return bool(self.models)

    @property
    def now(self) -> int:
        """The time of its newest closed step in ns; before the first, that of its model."""
        closed, model = self.order.closed, self.model
        return closed if closed != NO_TIME or model is None else model.time

    @property
    def silence(self) -> Item | None:
        """What is open about its silence; from any thread."""
        silences = (item for item in list(self.items.values()) if item.kind == _SILENCE)
        return self.outage or next(silences, None)

    def needed_channels(self) -> Bools | None:
        """Return which channels make a step complete; None where nothing waits for that."""
        if self.model is None:
            return None
        model = set(self.model.channels)
        return np.array([name in model for name in self.order.channels])

    def note_ratios(self, ratios: Floats) -> None:
        """Take the ratios of score and threshold of newly judged samples into the sparkline."""
        for ratio in ratios.tolist():
            value = ratio if math.isfinite(ratio) else 0.0
            if not self.ring or self.ringed == _STRETCH:
                self.ring = [*self.ring[1 - _POINTS :], value]
                self.ringed = 1
            else:
                self.ring[-1] = max(self.ring[-1], value)
                self.ringed += 1
        if len(ratios):
            self.ratio = float(ratios[-1])

    def note_gap(self, times: Ints) -> None:
        """If a known gap precedes one of these steps, remember that step."""
        if self.excused_after is None:
            return
        first = int(np.searchsorted(times, self.excused_after, side="right"))
        if first < len(times):
            self.gaps = (*self.gaps, int(times[first]))[-_KNOWN:]
            self.excused_after = None

    def is_known_gap(self, alarm: Alarm, time: int) -> bool:
        """Whether an alarm that opened at a time is about a known gap; remember it if so."""
        is_known = alarm.cause == _SILENCE and not alarm.evidence and time in self.gaps
        if is_known:
            self.quiet = (*self.quiet, alarm.number)[-_KNOWN:]
        return is_known

    def put(self, item: Item) -> None:
        """Take note of an item as it is now."""
        if item.open:
            self.items[item.key] = item
        else:
            self.items.pop(item.key, None)
        if self.last_item is None or item.opened >= self.last_item.opened:
            self.last_item = item
        self.version += 1

    def shown(self) -> StreamView:
        """Return it as pages show it; from any thread."""
        version, shown = self.version, self.view
        if shown is None or shown[0] != version:
            opened = sorted(
                (*self.items.values(), *([self.outage] if self.outage else ())),
                key=lambda item: item.opened,
            )
            kinds = {_kind(item) for item in opened if item.state != "rejected"}
            attention = next((kind for kind in _ATTENTION if kind in kinds), "")
            about = next((item for item in reversed(opened) if _kind(item) == attention), None)
            about = about or (opened[-1] if opened else self.last_item)
            order, model, samples = self.order, self.model, self.count + self.unkept
            view = StreamView(
                id=self.id,
                name=self.name,
                state=self.state,
                channels=order.channels if model is None else model.channels,
                samples=samples,
                period=order.period,
                newest=order.closed if order.closed != NO_TIME and samples else None,
                ratio=self.ratio,
                distance=self.distance,
                sparkline=tuple(self.ring),
                attention=attention or ("failed" if self.problem else ""),
                sentence="" if about is None else about.sentence,
                item=None if about is None else about.key,
                item_state="" if about is None else about.state,
                last_alarm=self.last_alarm,
                generation=self.generation,
                counts={**order.counts, **self.counts},
                problem=self.problem,
            )
            self.view = shown = version, view
        return shown[1]


def _kind(item: Item) -> str:
    """Return what an item is to its stream: an incident of silence is a silence."""
    return _SILENCE if item.kind == "incident" else item.kind


class StreamRecords:
    """All streams, by number and by name."""

    def __init__(self) -> None:
        self.next_id = 1
        self._by_id: dict[int, StreamRecord] = {}
        self._by_name: dict[str, StreamRecord] = {}
        self.names: Counter[str] = Counter()  # bytes of all names, by who wrote them

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[StreamRecord]:
        return iter(list(self._by_id.values()))

    def get(self, number: int) -> StreamRecord | None:
        """Return a stream by its number."""
        return self._by_id.get(number)

    def named(self, name: str) -> StreamRecord | None:
        """Return a stream by its name."""
        return self._by_name.get(name)

    def add(self, stream: StreamRecord) -> StreamRecord:
        """Add a stream."""
        self._by_id[stream.id] = self._by_name[stream.name] = stream
        self.next_id = max(self.next_id, stream.id + 1)
        self.names.update(stream.brought)
        return stream

    def count_names(self, stream: StreamRecord, writer: str) -> None:
        """Take note of who wrote names of a stream that were not counted."""
        channels = stream.order.channels
        if channels is stream.counted:
            return
        stream.counted = channels
        size = size_of_names(stream.name, channels) - sum(stream.brought.values())
        if size:
            stream.brought[writer] = stream.brought.get(writer, 0) + size
            self.names[writer] += size

    def remove(self, stream: StreamRecord) -> None:
        """Remove a stream."""
        del self._by_id[stream.id], self._by_name[stream.name]
        self.names.subtract(stream.brought)
        self.names = +self.names


def size_of_names(stream: str | None, channels: Iterable[str]) -> int:
    """Return about how many bytes a new stream and its channels take, with their first samples.

    The stream is None where it is not new.
    """
    size = sum(_CHANNEL_SIZE + len(name) for name in channels)
    return size if stream is None else size + _STREAM_SIZE + len(stream)


def check_without_model(streams: StreamRecords, names: Iterable[str]) -> None:
    """Raise a HasModelError unless all streams of these names can take a history."""
    for stream in filter(None, map(streams.named, names)):
        if stream.is_live or stream.fit is not None:
            raise HasModelError(
                f"expected a stream without a model, found {stream.name!r}, which is "
                f"{stream.state}",
                hint="push samples and ask for a refit, or remove the stream first",
            )


# Fields that are saved in a form of their own, and those that are made anew.
_SPECIAL = {"order", "fit", "models", "wanted", "items", "last_item", "ratio", "distance"}
_UNSAVED = {"outage", "columns", "version", "view", "begun", "counted"}
_PLAIN = tuple(f.name for f in fields(StreamRecord) if f.name not in _SPECIAL | _UNSAVED)


def stream_to_json(stream: StreamRecord) -> dict[str, Any]:
    """Return a stream as JSON values."""
    return {
        **{name: getattr(stream, name) for name in _PLAIN},
        "ratio": _number(stream.ratio),
        "distance": _number(stream.distance),
        "order": stream.order.to_json(),
        "fit": None if stream.fit is None else vars(stream.fit),
        "models": [vars(model) for model in stream.models],
        "wanted": stream.wanted,
        "items": [vars(item) for item in stream.items.values()],
        "last_item": None if stream.last_item is None else vars(stream.last_item),
    }


def stream_from_json(saved: Mapping[str, Any]) -> StreamRecord:
    """Return what `stream_to_json` was called on."""
    facts = dict(saved)
    items = [Item(**item) for item in facts.pop("items")]
    last, fit, wanted = facts.pop("last_item"), facts.pop("fit"), facts.pop("wanted")
    models = [
        FittedModel(**{**model, "channels": tuple(model["channels"])})
        for model in facts.pop("models")
    ]
    for name in ("ignored", "gaps", "quiet"):
        facts[name] = tuple(facts[name])
    ratio, distance = (_from_number(facts.pop(name)) for name in ("ratio", "distance"))
    return StreamRecord(
        order=Order.from_json(facts.pop("order")),
        fit=None if fit is None else PendingFit(**{**fit, "channels": tuple(fit["channels"])}),
        models=models,
        wanted=None if wanted is None else (tuple(wanted[0]), wanted[1]),
        items={item.key: item for item in items},
        last_item=None if last is None else Item(**last),
        ratio=ratio,
        distance=distance,
        **facts,
    )


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _from_number(value: float | None) -> float:
    return math.nan if value is None else value
