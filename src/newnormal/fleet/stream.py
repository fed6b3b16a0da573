"""One stream of a fleet: its arrays in one block, and what it has only sometimes."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance import TimedAcceptance
from newnormal.acceptance.policy import LEARNING_MARGIN
from newnormal.alarms.feedback_target import PAST, keep_newest
from newnormal.alarms.silence import longest_silence
from newnormal.base import BaseDetector, Parts
from newnormal.core.arena import Layout, Memory, blank_block, place, view
from newnormal.core.state import Fitted, StreamState, copied, nbytes
from newnormal.kernels.step import SEEN
from newnormal.kernels.stream import Baseline, FitArrays, Shadow, StreamLimits
from newnormal.models.committee import Committee
from newnormal.types import Alarm, Change, Event
from newnormal.types.tables import flatten
from newnormal.types.zones import output_zone

_ALWAYS = tuple(
    part.name for part in fields(StreamState) if part.name not in ("accepted", "undo", "shadow")
)


def fit_arrays(fitted: Fitted) -> FitArrays:
    """Return what fitting left as `newnormal.kernels.fleet` takes it."""
    model, acceptance = fitted.model, fitted.acceptance
    assert isinstance(model, Committee) and isinstance(acceptance, TimedAcceptance)
    assert fitted.drift is not None and fitted.channel is not None
    watched = fitted.never_missing
    if watched is None:
        watched = np.zeros(len(fitted.channels), np.bool_)
    limits = StreamLimits(
        *longest_silence(fitted.period), acceptance.timing.review_length, LEARNING_MARGIN
    )
    return FitArrays(
        fitted.step,
        model.params,
        fitted.alarm,
        fitted.tail_chances,
        fitted.drift,
        fitted.channel,
        watched,
        limits,
    )


def is_compiled(fitted: Fitted) -> bool:
    """Whether `newnormal.kernels.fleet` can judge a stream; any other goes through the loop."""
    model = fitted.model
    return (
        isinstance(model, Committee)
        and isinstance(fitted.acceptance, TimedAcceptance)
        and fitted.alarms.active
        and fitted.rule is None
        and fitted.drift is not None
        and fitted.channel is not None
    )


@dataclass(frozen=True, eq=False)
class FitBlock:
    """What fitting left, in one block; streams of one fit share it."""

    fitted: Fitted
    layout: Layout
    block: NDArray[np.uint8]

    @classmethod
    def of(cls, fitted: Fitted, memory: Memory | None = None) -> "FitBlock":
        """Return the block of a fitted detector; an empty one where the loop is not compiled."""
        parts = fit_arrays(fitted) if is_compiled(fitted) else ()
        layout = Layout.of(parts)
        block = blank_block(layout.nbytes) if memory is None else memory.take(layout.nbytes)
        place(parts, layout, block)
        return cls(fitted, layout, block)


def always(state: StreamState) -> StreamState:
    """Return a state without what streams have only sometimes."""
    return replace(state, accepted=None, undo=(), shadow=None)


@dataclass(frozen=True, eq=False)
class Shape:
    """What the live parts of streams look like: where each array is, and in which tuples."""

    layout: Layout
    arrays: StreamState

    @classmethod
    def of(cls, state: StreamState) -> "Shape":
        """Return the shape of a state."""
        live = always(state)
        layout = Layout.of(live)
        return cls(layout, place(live, layout, blank_block(layout.nbytes)))

    @cached_property
    def progress_at(self) -> tuple[int, int]:
        """Where a block has the number of samples seen and the newest time, in 8 bytes each."""
        offsets = {field.name: field.offset // 8 for field in self.layout.fields}
        return offsets["model.step.counts"] + SEEN, offsets["times.last"]


class Stream:
    """One stream: what fitting left, and its live state in a block.

    `name`: its name in the fleet. `template`: a detector with its options; streams may share it.
    `fit`: the block of what was fitted; streams of one fit share it. `shape`: of its live state;
    streams of one shape share it. `block`: memory for the live state; None: its own.
    """

    __slots__ = (
        "accepted",
        "arrays",
        "block",
        "fit",
        "live_zone",
        "name",
        "past",
        "shadow",
        "shadow_block",
        "shape",
        "template",
        "undo",
    )

    def __init__(
        self,
        name: str,
        template: BaseDetector,
        fit: FitBlock,
        shape: Shape,
        block: NDArray[np.uint8] | None = None,
    ) -> None:
        self.name = name
        self.template = template
        self.fit = fit
        self.shape = shape
        self.arrays = shape.arrays  # with the objects of its own, where its model holds any
        # the live state that every stream has
        self.block = blank_block(shape.layout.nbytes) if block is None else block
        # its newest alarms and changes; None before the first
        self.past: deque[Alarm | Change] | None = None
        # shadow, accepted, undo: what it has only sometimes, as in a StreamState
        self.shadow: Shadow | None = None
        self.shadow_block: NDArray[np.uint8] | None = None
        self.accepted: Baseline | None = None
        self.undo: tuple[Baseline, ...] = ()
        self.live_zone: str | None = None  # the zone of the times that it was last given, or None

    @property
    def zone(self) -> str | None:
        """The zone that its times are given out in, as `Detector.zone_`."""
        return output_zone(self.live_zone, self.fitted.zone)

    @property
    def fitted(self) -> Fitted:
        """What fitting left."""
        return self.fit.fitted

    @property
    def nbytes(self) -> int:
        """How many bytes its live state takes."""
        return len(self.block) + nbytes((self.accepted, self.undo, self.shadow))

    @property
    def is_compiled(self) -> bool:
        """Whether `newnormal.kernels.fleet` judges it."""
        return bool(self.fit.layout.fields)

    @property
    def progress(self) -> tuple[int, int]:
        """How many samples it has seen, and its newest time in ns."""
        numbers, (seen, newest) = self.block.view(np.int64), self.shape.progress_at
        return int(numbers[seen]), int(numbers[newest])

    def open(self) -> StreamState:
        """Return the live state; it shares the stream's memory. `close` takes it back."""
        live = view(self.arrays, self.shape.layout, self.block)
        return replace(live, accepted=self.accepted, undo=self.undo, shadow=self.shadow)

    def close(self, state: StreamState) -> None:
        """Take a live state back: what was replaced in it is copied into the stream's memory."""
        start = self.block.ctypes.data
        stop = start + len(self.block)
        for name in _ALWAYS:
            part = getattr(state, name)
            if part is not None and not start <= _address(part) < stop:
                place(part, self.shape.layout, self.block, name)
        self.accepted, self.undo = state.accepted, state.undo
        if state.shadow is not self.shadow:
            self.keep_shadow(state.shadow)

    def keep_shadow(self, shadow: Shadow | None) -> None:
        """Take over a copy of a shadow, or have none."""
        self.shadow = shadow
        self.shadow_block = None
        if shadow is not None:
            layout = Layout.of(shadow)
            self.shadow_block = blank_block(layout.nbytes)
            self.shadow = place(shadow, layout, self.shadow_block)

    def put(self, state: StreamState, past: Iterable[Alarm | Change] = ()) -> None:
        """Take over another live state."""
        live = always(state)
        place(live, self.shape.layout, self.block)
        if getattr(self.fitted.model, "holds_objects", False):
            self.arrays = copied(live)
        self._keep(state, past)

    def copy(self, other: "Stream") -> None:
        """Take over the live state of another stream of this shape."""
        if getattr(self.fitted.model, "holds_objects", False):
            self.put(other.open(), other.past or ())
        else:
            self.block[:] = other.block
            self._keep(other, other.past or ())
        self.live_zone = other.live_zone

    def _keep(self, state: "StreamState | Stream", past: Iterable[Alarm | Change]) -> None:
        """Take over what a stream has only sometimes."""
        self.accepted, self.undo = copied(state.accepted), copied(state.undo)
        self.keep_shadow(state.shadow)
        self.past = None
        self.remember(past)

    def parts(self) -> Parts:
        """Return copies of what makes it a detector again."""
        past = tuple(self.past or ())
        return Parts(self.fitted, self.open().copy(), past, self.live_zone)

    def detector(self) -> BaseDetector:
        """Return a detector that goes on from here by itself."""
        return self.template.with_parts(self.parts())

    def act(self, verb: str, *named: Any) -> list[Event]:
        """Do what a person says, by a verb of a detector; nothing changes if that raises.

        `named` are the alarm and the change that are meant, where the verb takes them.
        """
        parts = self.parts()
        detector = self.template.with_parts(parts)
        if not named or named == (None, None):
            getattr(detector, verb)()
        else:
            alarm, change = named
            getattr(detector, verb)(alarm, change=change)
        events = detector.take_events()
        self.put(parts.state, self.past or ())
        self.remember(item for event in events if (item := event.change or event.alarm))
        return events

    def live(self) -> BaseDetector:
        """Return a detector that shares the stream's memory: to look at, not to change."""
        past = tuple(self.past or ())
        return self.template.with_parts(Parts(self.fitted, self.open(), past, self.live_zone))

    def remember(self, items: Iterable[Alarm | Change]) -> None:
        """Keep the newest alarms and changes as they stand."""
        for item in items:
            if self.past is None:
                self.past = deque(maxlen=PAST)
            keep_newest(self.past, item)


def _address(part: Any) -> int:
    """Return where the first array of a part begins."""
    _, first = next(flatten(part))
    return int(first.ctypes.data)
