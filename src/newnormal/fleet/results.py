"""What a fleet made of samples: verdicts as columns, with the stream of each; events; errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from newnormal import hooks
from newnormal.alarms.words import in_zone
from newnormal.errors import NewnormalError
from newnormal.fleet.group import Judged
from newnormal.fleet.stream import Stream
from newnormal.types import (
    NO_TIME,
    Bools,
    Event,
    Floats,
    IncidentEvent,
    Ints,
    Observed,
    Times,
    Verdicts,
)
from newnormal.types.frames import FrameKind, frame_of, kind_of
from newnormal.types.verdict_lines import LineHead, VerdictColumns, verdict_lines
from newnormal.types.zones import common_zone

if TYPE_CHECKING:
    from newnormal.fleet.observed import FleetObserved


@dataclass(frozen=True)
class FleetEvent:
    """An event of one stream, with the stream's name.

    Attributes
    ----------
    stream
        The stream's name.
    event
        What happened to an alarm or to a change of it.
    """

    stream: str
    event: Event

    def in_zone(self, zone: str | None) -> FleetEvent:
        """Return it with times that are given out in a zone."""
        return self if self.event.zone == zone else replace(self, event=in_zone(self.event, zone))

    def as_dict(self) -> dict[str, Any]:
        """Return `stream` and the entries of the event as plain Python values."""
        return {"stream": self.stream, **self.event.as_dict()}

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        return _line(self.as_dict())


@dataclass(frozen=True)
class StreamError:
    """Samples of one stream that were not taken, and why.

    Attributes
    ----------
    stream
        The stream's name.
    error
        What was expected, what was found, and what to do.
    rows
        The rows of the input that were not taken; none where the stream was not one of them.
    """

    stream: str
    error: NewnormalError
    rows: tuple[int, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return `stream`, `error` and `hint` as plain Python values."""
        return {"stream": self.stream, "error": self.error.message, "hint": self.error.hint}

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        return _line(self.as_dict())


@dataclass(frozen=True, eq=False)
class Part:
    """The verdicts of streams of one shape."""

    streams: tuple[Stream, ...]  # of the group, by position
    judged: Judged
    rows: Ints  # (N,) of the input
    has_alarms: bool
    has_changes: bool

    @classmethod
    def of(cls, streams: Sequence[Stream], judged: Judged, origin: Ints) -> Part:
        """Return what a group judged; `origin` is the row of the input of each of its rows."""
        late = judged.rows < 0
        return cls(
            tuple(streams),
            judged,
            np.where(late, -1, origin[judged.rows] if len(origin) else -1),
            any(each.fitted.alarms.active for each in streams),
            any(each.fitted.drift is not None for each in streams),
        )

    @cached_property
    def names(self) -> NDArray[np.object_]:
        """The names of the group's streams, by position."""
        return np.array([stream.name for stream in self.streams], dtype=object)

    @cached_property
    def places(self) -> dict[str, int]:
        """The position of each of the group's streams."""
        return {stream.name: at for at, stream in enumerate(self.streams)}

    @cached_property
    def spans(self) -> dict[int, slice]:
        """The rows of each stream that has any: they lie together."""
        owners = self.judged.streams
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        stops = np.append(starts[1:], len(owners))[: len(starts)]
        return {
            at: slice(start, stop)
            for at, start, stop in zip(
                owners[starts].tolist(), starts.tolist(), stops.tolist(), strict=True
            )
        }

    def json_lines(self, rows: Ints) -> list[str]:
        """Return a line of JSON for each of some verdicts."""
        judged = self.judged
        different, owners = np.unique(judged.streams[rows], return_inverse=True)
        streams = [self.streams[at] for at in different.tolist()]
        heads = [
            LineHead.of_stream(stream.name, stream.fitted.channels, stream.zone)
            for stream in streams
        ]
        found = judged.columns
        alarms = (found.ratios, found.p_values, found.alarms)
        changes = (found.distances, found.changes)
        columns: list[Any] = [
            judged.numbers,
            judged.times.view("datetime64[ns]"),
            found.scores,
            found.thresholds,
            found.anomalous,
            found.expected,
            found.shares,
            *(alarms if self.has_alarms else (None, None, None)),
            *(changes if self.has_changes else (None, None)),
        ]
        taken: list[Any] = [None if each is None else each[rows] for each in columns]
        chosen = VerdictColumns(*taken)
        return verdict_lines(chosen, heads, owners.tolist())


class FleetVerdicts:
    """Verdicts of many streams as columns, a row a sample, in the order of the input.

    Attributes
    ----------
    events
        What happened to alarms and changes meanwhile, in the order of their times.
    incidents
        What happened to incidents, events of the fleet beside the streams' own.
    errors
        The samples that were not taken, by stream. Each is a row of the columns as well, without a
        score.
    observed
        What was judged, and what is open after it: ``verdicts["web-1"].observed`` has it by
        stream. None but for series that are over, as `run` takes them unless ``flush=False``.

    Examples
    --------
    >>> import numpy as np
    >>> from newnormal import Fleet
    >>> rng = np.random.default_rng(0)
    >>> histories = {name: rng.normal(size=(300, 2)) for name in ("web-1", "web-2")}
    >>> fleet = Fleet(epochs=1).fit(histories)
    >>> verdicts = fleet.step({"web-1": [0.1, 0.2], "web-2": [np.inf, 0.0]})
    >>> verdicts.streams.tolist(), np.isnan(verdicts.scores).tolist()
    (['web-1', 'web-2'], [False, True])
    >>> verdicts.errors[0].stream
    'web-2'
    """

    def __init__(
        self,
        parts: tuple[Part, ...],
        errors: tuple[StreamError, ...] = (),
        events: tuple[FleetEvent, ...] = (),
        incidents: tuple[IncidentEvent, ...] = (),
        frame: FrameKind | None = None,
        observed: FleetObserved | None = None,
    ) -> None:
        self.frame = frame
        self.observed = observed
        self._parts = parts
        self.errors = errors
        self.events = events
        self.incidents = incidents

    @property
    def parts(self) -> tuple[Part, ...]:
        """The verdicts of each group of streams."""
        return self._parts

    def __len__(self) -> int:
        failed = sum(len(each.rows) for each in self.errors)
        return failed + sum(len(part.rows) for part in self._parts)

    def __repr__(self) -> str:
        return (
            f"FleetVerdicts({len(self)} rows, {int(self.anomalous.sum())} anomalous, "
            f"{len(self.events)} events, {len(self.errors)} errors)"
        )

    @cached_property
    def _order(self) -> Ints | None:
        """The order of the rows of all parts, and then of errors; None: as they are."""
        failed = [row for each in self.errors for row in each.rows]
        rows = np.concatenate([*(part.rows for part in self._parts), np.array(failed, np.int64)])
        if len(rows) < 2 or (rows[1:] >= rows[:-1]).all():
            return None
        return np.argsort(rows, kind="stable")

    def _column(self, name: str, blank: Any) -> NDArray[Any]:
        found = [getattr(part.judged.columns, name) for part in self._parts]
        return self._together(found, blank)

    def _together(self, found: list[NDArray[Any]], blank: Any) -> NDArray[Any]:
        failed = sum(len(each.rows) for each in self.errors)
        if len(found) == 1 and not failed and self._order is None:
            return found[0]
        dtype = found[0].dtype if found else np.asarray(blank).dtype
        column = np.concatenate([*found, np.full(failed, blank, dtype)])
        return column if self._order is None else column[self._order]

    @property
    def scores(self) -> Floats:
        """The scores; NaN where there is none."""
        return self._column("scores", np.nan)

    @property
    def thresholds(self) -> Floats:
        """What each score was compared with."""
        return self._column("thresholds", np.nan)

    @property
    def anomalous(self) -> Bools:
        """Whether each sample is anomalous."""
        return self._column("anomalous", False)

    @property
    def ratios(self) -> Floats:
        """How far each score is to its threshold: 1 and above is anomalous."""
        return self._column("ratios", np.nan)

    @property
    def p_values(self) -> Floats:
        """The chance of such a score or a higher one."""
        return self._column("p_values", np.nan)

    @property
    def alarms(self) -> Ints:
        """The number of the stream's open alarm, 0 without one."""
        return self._column("alarms", 0)

    @property
    def distances(self) -> Floats:
        """How far the stream is from its accepted normal; NaN without acceptance."""
        return self._column("distances", np.nan)

    @property
    def changes(self) -> Ints:
        """The number of the stream's newest open change, 0 without one."""
        return self._column("changes", 0)

    @property
    def samples(self) -> Ints:
        """The sample's number in its stream; -1 for one that was not taken."""
        return self._together([part.judged.numbers for part in self._parts], -1)

    @property
    def times(self) -> Times | None:
        """The samples' times; NaT for one without, None where no sample has one."""
        times = self._together([part.judged.times for part in self._parts], NO_TIME)
        return None if (times == NO_TIME).all() else times.view("datetime64[ns]")

    @cached_property
    def streams(self) -> NDArray[np.object_]:
        """The name of each row's stream."""
        found = [
            part.names[part.judged.streams] if len(part.rows) else _NO_NAMES for part in self._parts
        ]
        names = [each.stream for each in self.errors for _ in each.rows]
        column = np.concatenate([*found, np.array(names, dtype=object)])
        return column if self._order is None else column[self._order]

    def columns(self) -> Mapping[str, NDArray[Any]]:
        """Return the columns of one value a sample, ready for ``pandas.DataFrame(...)``."""
        table: dict[str, NDArray[Any]] = {"stream": self.streams, "sample": self.samples}
        times = self.times
        if times is not None:
            table["time"] = times
        table |= {"score": self.scores, "threshold": self.thresholds, "anomalous": self.anomalous}
        if any(part.has_alarms for part in self._parts):
            table |= {"ratio": self.ratios, "p_value": self.p_values, "alarm": self.alarms}
        if any(part.has_changes for part in self._parts):
            table |= {"distance": self.distances, "change": self.changes}
        if self.errors:
            table["error"] = self._texts()
        return table

    @property
    def zone(self) -> str | None:
        """The zone that all streams with a verdict here have in common; UTC where they differ."""
        found = (
            part.streams[at].zone
            for part in self._parts
            for at in np.unique(part.judged.streams).tolist()
        )
        return common_zone(set(found))

    def to_frame(self, like: Any = None) -> Any:
        """Return the columns as a frame that joins with the user's own, as `Verdicts.to_frame`.

        Times of streams in different zones are in UTC, unless the user's have a zone by their type.
        """
        kind = self.frame if like is None else kind_of(like, self.frame)
        if kind is not None and any((part.rows < 0).any() for part in self._parts):
            kind = replace(kind, counts=None)  # some are late: of rows that came before
        columns = {name: each for name, each in self.columns().items() if name != "time"}
        return frame_of(columns, self.times, self.zone, kind)

    def plot(self, **options: Any) -> Any:
        """Draw them: `newnormal.plot` with these verdicts; needs the extra ``plot``."""
        return hooks.plot(self, **options)

    def _repr_html_(self) -> str:
        """Return them as a notebook shows them: what needs attention, and a page to look at."""
        return hooks.html(self)

    def _texts(self) -> NDArray[np.object_]:
        judged = sum(len(part.rows) for part in self._parts)
        texts = [each.error.message for each in self.errors for _ in each.rows]
        column = np.array([None] * judged + texts, dtype=object)
        return column if self._order is None else column[self._order]

    def json_lines(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Return rows `start` to `stop` as lines of JSON: `stream`, then as `Verdicts` has them.

        A sample that was not taken has `stream`, `error` and `hint`.
        """
        own = slice(start, len(self) if stop is None else stop)
        at = np.arange(len(self))[own] if self._order is None else self._order[own]
        lines = [""] * len(at)
        end = 0
        for part in self._parts:
            begin, end = end, end + len(part.rows)
            here = np.flatnonzero((at >= begin) & (at < end))
            found = part.json_lines(at[here] - begin)
            if len(found) == len(lines):
                return found
            for row, line in zip(here.tolist(), found, strict=True):
                lines[row] = line
        failed = [each for each in self.errors for _ in each.rows]
        for row in np.flatnonzero(at >= end).tolist():
            lines[row] = failed[at[row] - end].to_json()
        return lines

    def __getitem__(self, stream: str) -> Verdicts:
        """Return the verdicts of one stream."""
        for nth, part in enumerate(self._parts):
            at = part.places.get(stream)
            if at is not None:
                return self._of(nth, at)
        raise KeyError(stream)

    def __iter__(self) -> Iterator[str]:
        """Give the names of the streams that have a verdict here."""
        for part in self._parts:
            for at in np.unique(part.judged.streams).tolist():
                yield part.names[at]

    def _of(self, nth: int, at: int) -> Verdicts:
        part = self._parts[nth]
        own = part.spans.get(at, slice(0, 0))
        columns, times = part.judged.columns, part.judged.times[own]
        fitted = part.streams[at].fitted
        alarms, changes = (
            {name: getattr(columns, name)[own] for name in names}
            for names in (("ratios", "p_values", "alarms"), ("distances", "changes"))
        )
        expects = fitted.model.reconstructs
        return Verdicts(
            columns.scores[own],
            columns.thresholds[own],
            columns.anomalous[own],
            columns.expected[own] if expects else None,
            columns.shares[own] if expects else None,
            None if (times == NO_TIME).all() else times.view("datetime64[ns]"),
            fitted.channels,
            int(part.judged.numbers[own.start]) if own.stop > own.start else 0,
            zone=part.streams[at].zone,
            observed=self._observed(nth, part.streams[at], part.judged.rows[own]),
            **(alarms if fitted.alarms.active else {}),
            **(changes if fitted.drift is not None else {}),
        )

    def _observed(self, nth: int, stream: Stream, rows: Ints) -> Observed | None:
        events = self._events_of.get(stream.name, ())
        return None if self.observed is None else self.observed.of_stream(nth, stream, rows, events)

    @cached_property
    def _events_of(self) -> dict[str, tuple[Event, ...]]:
        found: dict[str, list[Event]] = {}
        for each in self.events:
            found.setdefault(each.stream, []).append(each.event)
        return {name: tuple(events) for name, events in found.items()}


def _line(found: dict[str, Any]) -> str:
    return json.dumps(found, ensure_ascii=False, allow_nan=False)


_NO_NAMES = np.array([], dtype=object)
