"""What a fleet made of samples: verdicts as columns, with the stream of each; events; errors.

One module because verdicts, and what pictures need beside them, are the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal import hooks
from newnormal.alarms.log import margins
from newnormal.alarms.words import in_zone
from newnormal.errors import NewnormalError
from newnormal.fleet.group import Judged
from newnormal.fleet.stream import Stream
from newnormal.types import (
    NO_TIME,
    Alarm,
    Bools,
    Change,
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

_BY_CHANNEL = ("lows", "highs", "channel_ratios")


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


@dataclass(frozen=True, eq=False)
class FleetObserved:
    """The samples of a run, and what is open after it."""

    samples: tuple[Floats, ...]  # those of each part of the verdicts, as its group was given them
    # The alarms and changes that are open after the run, of each stream that has any.
    remaining: Mapping[str, tuple[Alarm | Change, ...]]
    # True for a sample that is labelled as a fault, of each stream that has labels.
    labels: Mapping[str, Bools]
    # The last alarms and changes before the run, of each stream that had any.
    earlier: Mapping[str, tuple[Alarm | Change, ...]]
    # Those of which decisions are shown; None: the same.
    decided: Mapping[str, tuple[Alarm | Change, ...]] | None = None

    def of_stream(
        self, part: int, stream: Stream, rows: Ints, events: tuple[Event, ...]
    ) -> Observed:
        """Return what was judged of a stream, a row a verdict.

        `part` is which one the stream is in, and `rows` the row of the part's samples of each
        verdict; -1 for a sample of an earlier call: that has neither values nor a label here.
        """
        now = rows >= 0
        values = np.full((len(rows), len(stream.fitted.channels)), np.nan)
        values[now] = self.samples[part][rows[now]]
        labels = self.labels.get(stream.name)
        if labels is not None:
            given, labels = labels, np.zeros(len(rows), np.bool_)
            labels[now] = given[: int(now.sum())]
        remaining = self.remaining.get(stream.name, ())
        earlier = self.earlier.get(stream.name, ())
        past = earlier if self.decided is None else self.decided.get(stream.name, ())
        before = Observed.rejected_of(earlier), Observed.decided_of(past)
        return Observed(values, margins(stream.fitted), events, remaining, labels, *before)


@dataclass(frozen=True)
class StreamError:
    """Samples of one stream that were not taken, and why."""

    stream: str
    error: NewnormalError  # what was expected, what was found, and what to do
    # the rows of the input that were not taken; none where the stream was not one of them
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
            any(stream.fitted.alarms.active for stream in streams),
            any(stream.fitted.drift is not None for stream in streams),
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
        columns = self.columns(rows, alarms=self.has_alarms, changes=self.has_changes)
        times = judged.times[rows].view("datetime64[ns]")
        chosen = VerdictColumns(judged.numbers[rows], times, **columns)
        return verdict_lines(chosen, heads, owners.tolist())

    def columns(
        self, rows: Any, *, alarms: bool, changes: bool, expected: bool = True
    ) -> dict[str, Any]:
        """Return the columns of some rows, as `Verdicts` has them; None for what there is not."""
        has = dict.fromkeys(("scores", "thresholds", "anomalous"), True)
        has |= {"expected": expected, "shares": expected}
        has |= dict.fromkeys(("ratios", "p_values", "alarms"), alarms)
        has |= dict.fromkeys(("distances", "changes"), changes)
        columns = self.judged.columns
        return {name: getattr(columns, name)[rows] if own else None for name, own in has.items()}


def _column(name: str, blank: Any, doc: str) -> Any:
    """Return the property of a column of all parts; `blank` is for samples that were not taken."""

    def column(self: FleetVerdicts) -> NDArray[Any]:
        columns = [getattr(part.judged.columns, name) for part in self._parts]
        return self._together(columns, blank)

    return property(column, doc=doc)


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
        failed = sum(len(error.rows) for error in self.errors)
        return failed + sum(len(part.rows) for part in self._parts)

    def __repr__(self) -> str:
        return (
            f"FleetVerdicts({len(self)} rows, {int(self.anomalous.sum())} anomalous, "
            f"{len(self.events)} events, {len(self.errors)} errors)"
        )

    @cached_property
    def _order(self) -> Ints | None:
        """The order of the rows of all parts, and then of errors; None: as they are."""
        failed = [row for error in self.errors for row in error.rows]
        rows = np.concatenate([*(part.rows for part in self._parts), np.array(failed, np.int64)])
        if len(rows) < 2 or (rows[1:] >= rows[:-1]).all():
            return None
        return np.argsort(rows, kind="stable")

    def _together(self, columns: list[NDArray[Any]], blank: Any) -> NDArray[Any]:
        failed = sum(len(error.rows) for error in self.errors)
        if len(columns) == 1 and not failed and self._order is None:
            return columns[0]
        dtype = columns[0].dtype if columns else np.asarray(blank).dtype
        column = np.concatenate([*columns, np.full(failed, blank, dtype)])
        return column if self._order is None else column[self._order]

    scores: Floats = _column("scores", np.nan, "The scores; NaN where there is none.")
    thresholds: Floats = _column("thresholds", np.nan, "What each score was compared with.")
    anomalous: Bools = _column("anomalous", False, "Whether each sample is anomalous.")
    ratios: Floats = _column(
        "ratios", np.nan, "How far each score is to its threshold: 1 and above is anomalous."
    )
    p_values: Floats = _column("p_values", np.nan, "The chance of such a score or a higher one.")
    alarms: Ints = _column("alarms", 0, "The number of the stream's open alarm, 0 without one.")
    distances: Floats = _column(
        "distances",
        np.nan,
        "How far the stream is from its accepted normal; NaN without acceptance.",
    )
    changes: Ints = _column(
        "changes", 0, "The number of the stream's newest open change, 0 without one."
    )

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
        names = [part.names[part.judged.streams] for part in self._parts if len(part.rows)]
        failed = [error.stream for error in self.errors for _ in error.rows]
        column = np.concatenate([*names, np.array(failed, dtype=object)])
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
        zones = {
            part.streams[at].zone
            for part in self._parts
            for at in np.unique(part.judged.streams).tolist()
        }
        return common_zone(zones)

    def to_frame(self, like: Any = None) -> Any:
        """Return the columns as a frame that joins with the user's own, as `Verdicts.to_frame`.

        Times of streams in different zones are in UTC, unless the user's have a zone by their type.
        """
        kind = self.frame if like is None else kind_of(like, self.frame)
        if kind is not None and any((part.rows < 0).any() for part in self._parts):
            kind = replace(kind, counts=None)  # some are late: of rows that came before
        columns = {name: column for name, column in self.columns().items() if name != "time"}
        return frame_of(columns, self.times, self.zone, kind)

    def plot(self, **options: Any) -> Any:
        """Draw them: `newnormal.plot` with these verdicts; needs the extra ``plot``."""
        return hooks.plot(self, **options)

    _repr_html_ = hooks.html

    def _texts(self) -> NDArray[np.object_]:
        judged = sum(len(part.rows) for part in self._parts)
        texts = [error.error.message for error in self.errors for _ in error.rows]
        column = np.array([None] * judged + texts, dtype=object)
        return column if self._order is None else column[self._order]

    def json_lines(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Return rows `start` to `stop` as lines of JSON: `stream`, then as `Verdicts` has them.

        A sample that was not taken has `stream`, `error` and `hint`.
        """
        order = np.arange(len(self)) if self._order is None else self._order
        order = order[start : len(self) if stop is None else stop]
        lines = [""] * len(order)
        end = 0
        for part in self._parts:
            begin, end = end, end + len(part.rows)
            here = np.flatnonzero((order >= begin) & (order < end))
            texts = part.json_lines(order[here] - begin)
            if len(texts) == len(lines):
                return texts
            for row, line in zip(here.tolist(), texts, strict=True):
                lines[row] = line
        failed = [error for error in self.errors for _ in error.rows]
        for row in np.flatnonzero(order >= end).tolist():
            lines[row] = failed[order[row] - end].to_json()
        return lines

    def __getitem__(self, stream: str) -> Verdicts:
        """Return the verdicts of one stream."""
        for nth, part in enumerate(self._parts):
            if (at := part.places.get(stream)) is not None:
                return self._of(nth, at)
        raise KeyError(stream)

    def __iter__(self) -> Iterator[str]:
        """Give the names of the streams that have a verdict here."""
        for part in self._parts:
            for at in np.unique(part.judged.streams).tolist():
                yield part.names[at]

    def _of(self, nth: int, at: int) -> Verdicts:
        part = self._parts[nth]
        span, stream = part.spans.get(at, slice(0, 0)), part.streams[at]
        times, fitted = part.judged.times[span], stream.fitted
        columns = part.columns(
            span,
            alarms=fitted.alarms.active,
            changes=fitted.drift is not None,
            expected=fitted.model.reconstructs,
        )
        if fitted.channel is not None:
            judged = part.judged.columns
            columns |= {name: getattr(judged, name)[span] for name in _BY_CHANNEL}
        observed = None
        if self.observed is not None:
            events = self._events_of.get(stream.name, ())
            observed = self.observed.of_stream(nth, stream, part.judged.rows[span], events)
        return Verdicts(
            times=None if (times == NO_TIME).all() else times.view("datetime64[ns]"),
            channels=fitted.channels,
            first=int(part.judged.numbers[span.start]) if span.stop > span.start else 0,
            zone=stream.zone,
            observed=observed,
            **columns,
        )

    @cached_property
    def _events_of(self) -> dict[str, tuple[Event, ...]]:
        events: dict[str, list[Event]] = {}
        for event in self.events:
            events.setdefault(event.stream, []).append(event.event)
        return {name: tuple(own) for name, own in events.items()}


def _line(facts: dict[str, Any]) -> str:
    return json.dumps(facts, ensure_ascii=False, allow_nan=False)
