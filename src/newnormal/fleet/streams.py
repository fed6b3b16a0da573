"""The streams of a fleet: by name, in order, and in groups of one shape."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary, finalize

import numpy as np

from newnormal.alarms import AlarmLog
from newnormal.base import BaseDetector
from newnormal.core.arena import Layout, Memory
from newnormal.core.state import Fitted
from newnormal.errors import InputError, ParameterError
from newnormal.fitting import move_limits
from newnormal.fleet.group import CompiledGroup, Group
from newnormal.fleet.stream import FitBlock, Shape, Stream
from newnormal.tabular.columns import alike
from newnormal.texts import listed
from newnormal.types import Ints


class FleetStreams:
    """Streams by name; those of one shape are in one group.

    >>> streams = FleetStreams()
    >>> len(streams), streams.names
    (0, ())
    """

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self._where: dict[str, tuple[Group, int]] = {}
        self._by_shape: dict[Any, Group] = {}
        self._shapes: dict[Layout, Shape] = {}
        self._fits: WeakValueDictionary[int, FitBlock] = WeakValueDictionary()  # by id(Fitted)
        # The shape of the streams of a fit, and a detector with their options.
        self._shape_of: WeakKeyDictionary[FitBlock, tuple[Shape, BaseDetector]] = (
            WeakKeyDictionary()
        )
        self._memory = Memory()
        self._names: tuple[str, ...] | None = ()
        self._places: dict[int, Ints] = {}

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, name: object) -> bool:
        return name in self._where

    def __getitem__(self, name: str) -> Stream:
        group, at = self.where(name)
        return group.streams[at]

    def __iter__(self) -> Iterator[Stream]:
        """Give the streams in the fleet's order."""
        for group, at in self._where.values():
            yield group.streams[at]

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the fleet's order."""
        if self._names is None:
            self._names = tuple(self._where)
        return self._names

    @property
    def nbytes(self) -> int:
        """How many bytes the arrays of all streams take, those of shared fits once."""
        fits = {id(stream.fit): len(stream.fit.block) for stream in self}
        return sum(stream.nbytes for stream in self) + sum(fits.values())

    @property
    def period(self) -> np.timedelta64 | None:
        """The median of the streams' periods; None where none has one."""
        periods = [period for stream in self if (period := stream.fitted.period) is not None]
        if not periods:
            return None
        median = np.median([int(period.astype(np.int64)) for period in periods])
        return np.timedelta64(int(median), "ns")

    def where(self, name: str) -> tuple[Group, int]:
        """Return the group of a stream and its position there."""
        try:
            return self._where[name]
        except (KeyError, TypeError):
            raise unknown_stream(name, self.names) from None

    def places(self, group: Group) -> Ints:
        """Return the positions in a group of its streams, in the fleet's order."""
        if id(group) not in self._places:
            places = [at for other, at in self._where.values() if other is group]
            self._places[id(group)] = np.array(places, dtype=np.int64)
        return self._places[id(group)]

    def add(self, name: str, detector: BaseDetector) -> Stream:
        """Add a stream that goes on from where a detector is; it has alarms in any case."""
        parts = detector.to_parts()
        fitted = parts.fitted
        if not fitted.alarms.active:
            fitted = fitted.with_alarms(AlarmLog())
        fit = self._fit(fitted)
        if fit not in self._shape_of:
            shape = Shape.of(parts.state)
            shape = self._shapes.setdefault(shape.layout, shape)
            self._shape_of[fit] = shape, detector.unfitted()
        shape, template = self._shape_of[fit]
        if template.get_params() != detector.get_params():
            template = detector.unfitted()
        stream = Stream(name, template, fit, shape, self._memory.take(shape.layout.nbytes))
        stream.put(parts.state, parts.past)
        stream.live_zone = parts.zone
        self._place(stream)
        return stream

    def restore(self, stream: Stream) -> None:
        """Add a stream that was made elsewhere; `common` has what it shares."""
        self._place(stream)

    def take(self, other: Stream) -> None:
        """Add a copy of a stream of another fleet."""
        fit, shape = self.common(other.fitted, other.shape)
        block = self._memory.take(shape.layout.nbytes)
        stream = Stream(other.name, other.template, fit, shape, block)
        stream.copy(other)
        self._place(stream)

    def common(self, fitted: Fitted, shape: Shape) -> tuple[FitBlock, Shape]:
        """Return what streams of one fit, and those of one shape, have in common."""
        return self._fit(fitted), self._shapes.setdefault(shape.layout, shape)

    def _place(self, stream: Stream) -> None:
        group = self._group(stream)
        self._where[stream.name] = group, group.add(stream)
        self._changed()

    def remove(self, name: str) -> None:
        """Remove a stream; its memory may be another's after this."""
        group, at = self.where(name)
        stream = group.streams[at]
        moved = group.remove(at)
        self._memory.give_back(stream.block)
        del self._where[name]
        if moved is not None:
            self._where[moved.name] = group, at
        self._changed()

    def replace(self, name: str, detector: BaseDetector) -> Stream:
        """Replace a stream by another of the same name; the order of streams stays."""
        order = self.names
        self.remove(name)
        stream = self.add(name, detector)
        self._where = {other: self._where[other] for other in order}
        self._changed()
        return stream

    def set_options(self, names: Collection[str], options: Mapping[str, Any]) -> None:
        """Change options of live streams; if one of them cannot take them, nothing changes."""
        made: dict[tuple[int, int], tuple[BaseDetector, Fitted]] = {}  # streams share fits
        for name in names:
            stream = self[name]
            key = id(stream.fitted), id(stream.template)
            if key not in made:
                try:
                    made[key] = stream.live().with_limit(**options)
                except ParameterError as error:
                    text = f"stream {name}: {error.message}"
                    raise ParameterError(text, hint=error.hint) from None
        for name in names:
            group, at = self._where[name]
            stream = group.streams[at]
            template, fitted = made[id(stream.fitted), id(stream.template)]
            move_limits(stream.open(), stream.fitted, fitted)
            stream.template, stream.fit = template, self._fit(fitted)
            group.refresh(at)

    def _changed(self) -> None:
        self._names = None
        self._places = {}

    def _fit(self, fitted: Fitted) -> FitBlock:
        block = self._fits.get(id(fitted))
        if block is None or block.fitted is not fitted:
            block = FitBlock.of(fitted, self._memory)
            finalize(block, self._memory.give_back, block.block)
            self._fits[id(fitted)] = block
        return block

    def _group(self, stream: Stream) -> Group:
        layout = stream.shape.layout
        # One stream by itself needs no other kernels than its detector.
        is_compiled = stream.is_compiled and bool(stream.name)
        if not is_compiled:
            key: Any = len(stream.fitted.channels)
        else:
            key = (layout, stream.fit.layout, stream.fitted.acceptance.timing)  # type: ignore[attr-defined]
        if key not in self._by_shape:
            channels = len(stream.fitted.channels)
            made = CompiledGroup(stream) if is_compiled else Group(channels)
            self._by_shape[key] = made
            self.groups.append(made)
        return self._by_shape[key]


def unknown_stream(name: object, names: tuple[str, ...]) -> InputError:
    """Return the error for a name that no stream has."""
    return InputError(
        f"expected one of the {len(names)} streams of this fleet, found {name!r}",
        hint=(isinstance(name, str) and alike([name], names)) or f"the streams are {listed(names)}",
    )
