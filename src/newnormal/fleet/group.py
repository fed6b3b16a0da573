"""Streams of one shape, judged together: compiled where that is possible, else one by one."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance import TimedAcceptance
from newnormal.acceptance.shadow import blank_shadow
from newnormal.alarms.log import rows_of, track
from newnormal.base import Parts
from newnormal.core.arena import Layout
from newnormal.core.loop import judge_rows
from newnormal.core.state import StreamState
from newnormal.fleet.clocks import Clocks
from newnormal.fleet.processors import cores
from newnormal.fleet.stream import Stream
from newnormal.kernels import fleet as kernel
from newnormal.kernels.alarm import AlarmOut
from newnormal.kernels.blocks import LETTERS, Dims
from newnormal.kernels.channels import ChannelOut
from newnormal.kernels.fleet import Stops
from newnormal.kernels.step import PENDING
from newnormal.kernels.stream import FitArrays
from newnormal.kernels.uneventful import Columns
from newnormal.models.committee import Committee
from newnormal.tabular import Table
from newnormal.types import NO_TIME, Event, Floats, Ints, Verdicts, time_at
from newnormal.types.tables import declared

_LOG = logging.getLogger("newnormal")
_APART = "observed.own."  # the stream as observed, which seldom differs
_ROWS_A_THREAD = 32  # fewer cost less than to start another thread


class Rows(NamedTuple):
    """Samples of some streams of a group, one stream after the other."""

    streams: Ints  # (S,) their positions in the group
    first: Ints  # (S,) each stream's first row
    last: Ints  # (S,) the row after its last
    samples: Floats  # (N, C) without infinity
    times: Ints  # (N,) in ns, in order for each stream; NO_TIME where there is none


class Judged(NamedTuple):
    """What a group made of its rows: a row for each verdict."""

    streams: Ints  # (N,) the stream's position in the group
    rows: Ints  # (N,) the row it came from; -1 for one that was pending before
    numbers: Ints  # (N,) the sample's number in its stream
    times: Ints  # (N,) in ns
    columns: Columns
    events: list[tuple[int, Event]]  # the stream's position in the group, and the event


class Group:
    """Streams of one shape, each by the loop of one stream."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.streams: list[Stream] = []
        self.seen: Ints = np.zeros(0, np.int64)  # samples that each stream has seen
        self.newest: Ints = np.zeros(0, np.int64)  # its newest time in ns

    def add(self, stream: Stream) -> int:
        """Add a stream; return its position."""
        at = len(self.streams)
        self.streams.append(stream)
        self.seen, self.newest = _longer(self.seen, at), _longer(self.newest, at)
        self.refresh(at)
        return at

    def remove(self, at: int) -> Stream | None:
        """Remove the stream at a position; return the last one, which takes its place, if any."""
        last = self.streams.pop()
        if at == len(self.streams):
            return None
        self.streams[at] = last
        self.refresh(at)
        return last

    def refresh(self, at: int) -> None:
        """Read what is kept here of a stream, because that was changed elsewhere."""
        self.seen[at], self.newest[at] = self.streams[at].progress

    def advance(self, rows: Rows, flush: bool) -> Judged:
        """Consume rows, and judge what becomes final."""
        parts: list[tuple[int, int, Verdicts]] = []  # position, first row or -1, verdicts
        events: list[tuple[int, Event]] = []
        for at, first, last in zip(*(column.tolist() for column in rows[:3]), strict=True):
            stream = self.streams[at]
            times = rows.times[first:last]
            moments = None if (times == NO_TIME).all() else times.view("datetime64[ns]")
            table = Table(rows.samples[first:last], stream.fitted.channels, moments)
            state = stream.open()
            detector = stream.template.with_parts(Parts(stream.fitted, state))
            verdicts = detector.run(table, flush=flush)
            pending = int(state.model.step.counts[PENDING])
            if verdicts.late is not None:
                parts.append((at, -1, verdicts.late))
            parts.append((at, first, verdicts.rows(slice(0, max(0, last - first - pending)))))
            events += [(at, event) for event in detector.take_events()]
            stream.close(state)
            self.refresh(at)
        return _joined(parts, events, self.channels)


class CompiledGroup(Group):
    """Streams that `newnormal.kernels.fleet` judges, on all cores."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(len(stream.fitted.channels))
        fitted = stream.fitted
        model, acceptance = fitted.model, fitted.acceptance
        assert isinstance(model, Committee) and isinstance(acceptance, TimedAcceptance)
        assert fitted.drift is not None
        self._widths = model.network.padded
        sizes = {
            **model.sizes,
            "B": len(model.params.members.rhythm_levels),
            "W": len(fitted.drift.max_drift),
        }
        shadow = blank_shadow(
            stream.shape.arrays.model, acceptance.timing, len(fitted.drift.margins)
        )
        sizes |= {"N": len(shadow.scores), "M": len(shadow.positions)}
        self._dims = Dims(*(sizes[letter] for letter in LETTERS))
        state, fit = stream.shape.layout, stream.fit.layout
        self._at = (
            state.offsets,
            fit.offsets,
            Layout.of(shadow).offsets,
            state.lines(_often(StreamState)),
            fit.lines(_often(FitArrays)),
        )
        lines = sum(len(offsets) for offsets in self._at[-2:])
        self._at_a_time = max(1, round(lines / _requests(self._dims, self._widths)))
        self._states = self._fits = self._shadows = np.zeros(0, np.int64)
        self._clocks: Clocks | None = None

    def add(self, stream: Stream) -> int:
        """Add a stream; return its position."""
        at = len(self.streams)
        self._states, self._fits = _longer(self._states, at), _longer(self._fits, at)
        self._shadows = _longer(self._shadows, at)
        return super().add(stream)

    def refresh(self, at: int) -> None:
        """Read what is kept here of a stream, because that was changed elsewhere."""
        super().refresh(at)
        stream = self.streams[at]
        self._states[at] = stream.block.ctypes.data
        self._fits[at] = stream.fit.block.ctypes.data
        self._shadows[at] = _address(stream.shadow_block)
        self._clocks = None

    def advance(self, rows: Rows, flush: bool) -> Judged:  # noqa: ARG002 - nothing is pending
        """Consume rows: compiled, up to what is rare, which Python handles, until all is done."""
        counts = rows.last - rows.first
        streams = np.repeat(rows.streams, counts)
        numbers = np.arange(len(streams)) - np.repeat(rows.first - self.seen[rows.streams], counts)
        if self._clocks is None:
            self._clocks = Clocks([stream.fitted for stream in self.streams])
        call = _Call(
            rows,
            self._clocks.phases(streams, rows.times, numbers),
            kernel.Streams(
                self._states[rows.streams],
                self._fits[rows.streams],
                self._shadows[rows.streams],
                *self._at,
                self._at_a_time,
            ),
            _columns(len(streams), self.channels, self._dims.votes),
            _stops(rows.first),
        )
        events: list[tuple[int, Event]] = []
        left = np.flatnonzero(counts > 0)
        while len(left):
            self._consume(call, left)
            rare = left[call.stops.why[left] != kernel.DONE]
            for k in rare.tolist():
                events += self._handle(call, k)
            left = rare[call.stops.done[rare] < rows.last[rare]]
        self.seen[rows.streams] += counts
        ends = rows.times[rows.last[counts > 0] - 1]
        self.newest[rows.streams[counts > 0]] = np.maximum(
            self.newest[rows.streams[counts > 0]], ends
        )
        self._warn(call)
        every = np.arange(len(streams))
        return Judged(streams, every, numbers, rows.times, call.columns, events)

    def _consume(self, call: _Call, which: Ints) -> None:
        """Run the kernel over these streams of a call, a part of them on each core."""
        rows = call.rows
        shared = (
            call.streams,
            self._dims,
            self._widths,
            rows.samples,
            rows.times,
            call.phases,
            rows.first,
            rows.last,
            False,
            call.columns,
            call.stops,
        )
        work = np.cumsum(rows.last[which] - call.stops.done[which])
        threads = min(cores(), len(which), int(work[-1]) // _ROWS_A_THREAD + 1)
        if threads == 1:
            kernel.advance(which, *shared)
            return
        cuts = np.searchsorted(work, work[-1] * np.arange(1, threads) / threads)
        parts = np.split(which, cuts)
        waiting = [_pool().submit(kernel.advance, part, *shared) for part in parts[1:]]
        kernel.advance(parts[0], *shared)
        for future in waiting:
            future.result()

    def _handle(self, call: _Call, k: int) -> list[tuple[int, Event]]:
        """Do what is rare of a stream, as `newnormal.core.loop` does; return the events."""
        rows, stops, columns = call.rows, call.stops, call.columns
        at = int(rows.streams[k])
        stream = self.streams[at]
        fitted, state = stream.fitted, stream.open()
        base, end = int(rows.first[k]), int(rows.last[k])
        verdicts = call.verdicts(k, int(self.seen[at]), fitted.channels)
        why, since, done, consumed = (
            int(column[k]) for column in (stops.why, stops.since, stops.done, stops.consumed)
        )
        events: list[Event] = []
        if why & kernel.OPENS:
            span = slice(since, done)
            own = slice(since - base, done - base)
            out = AlarmOut(
                columns.thresholds[span],
                columns.ratios[span],
                columns.anomalous[span],
                columns.alarms[span],
                columns.p_values[span],
                columns.joint_ratios[span],
            )
            samples, votes, paces = rows.samples[span], columns.votes[span], columns.paces[span]
            log_rows = rows_of(fitted, verdicts, own, out, samples, votes, paces)
            at_event = int(stops.event[k]) - since
            events += track(fitted, state, log_rows, verdicts, own.start, at_event)
        if why & kernel.CHANGE:
            row = done - base - 1
            when = time_at(verdicts.times, row)
            events += fitted.acceptance.crossed(fitted, state, verdicts.first + row, when)
        rest = slice(done, consumed)
        if done < consumed:
            here = slice(done - base, consumed - base)
            channels = ChannelOut(
                columns.expected[rest],
                columns.lows[rest],
                columns.highs[rest],
                columns.channel_ratios[rest],
                columns.clean[rest],
                columns.hidden[rest],
                columns.paces[rest],
                columns.episodes[rest],
                columns.ranks[rest],
            )
            samples, votes, joint = rows.samples[rest], columns.votes[rest], columns.joint[rest]
            events += judge_rows(fitted, state, verdicts, here, samples, joint, votes, channels)
        if stops.is_due[k]:
            when = time_at(verdicts.times, consumed - base - 1)
            events += fitted.acceptance.review(fitted, state, when)
        stream.close(state)
        stops.done[k] = consumed
        call.streams.shadows[k] = self._shadows[at] = _address(stream.shadow_block)
        assert consumed <= end
        return [(at, event) for event in events]

    def _warn(self, call: _Call) -> None:
        for k in np.flatnonzero(call.stops.restored).tolist():
            _LOG.warning(
                "stream %s: learning diverged: the weights went back to a good copy, %d time(s)",
                self.streams[int(call.rows.streams[k])].name,
                int(call.stops.restored[k]),
            )


class _Call(NamedTuple):
    """One call of a compiled group."""

    rows: Rows
    phases: Floats
    streams: kernel.Streams
    columns: Columns
    stops: Stops

    def verdicts(self, k: int, first: int, channels: tuple[str, ...]) -> Verdicts:
        """Return the rows of one stream as verdicts, which share the columns."""
        span = slice(int(self.rows.first[k]), int(self.rows.last[k]))
        columns = self.columns
        return Verdicts(
            columns.scores[span],
            columns.thresholds[span],
            columns.anomalous[span],
            columns.expected[span],
            columns.shares[span],
            self.rows.times[span].view("datetime64[ns]"),
            channels,
            first,
            None,
            columns.ratios[span],
            columns.p_values[span],
            columns.alarms[span],
            columns.distances[span],
            columns.changes[span],
            columns.lows[span],
            columns.highs[span],
            columns.channel_ratios[span],
        )


@cache
def _often(kind: type) -> frozenset[str]:
    """Return the names of the arrays that every sample touches."""
    often = (name for name, line in declared(kind).items() if not line.seldom)
    return frozenset(name for name in often if not name.startswith(_APART))


def _requests(dims: Dims, widths: Ints) -> float:
    """Return how often the kernels of one stream ask for lines, for one sample, about.

    A row in four of the first layer of each autoencoder and, of the units of the others that are
    not at zero, about half, one in four; each row of the forecast and of the windows' subspace, and
    a shape in four.
    """
    rows = widths[1] / 4 + widths[1:-1].sum() / 8
    return float(dims.experts * rows + dims.channels + dims.windows_rank + dims.shapes / 4)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), "newnormal-fleet")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # its threads are not in the child


def _longer(array: Ints, at: int) -> Ints:
    """Return an array with room for one more position; it grows by half."""
    if at < len(array):
        return array
    longer = np.zeros(at + 1 + at // 2, np.int64)
    longer[:at] = array
    return longer


def _address(block: NDArray[np.uint8] | None) -> int:
    return 0 if block is None else int(block.ctypes.data)


def _columns(rows: int, channels: int, votes: int) -> Columns:
    return Columns(
        np.empty(rows),
        np.empty(rows),
        np.empty(rows, np.bool_),
        np.empty((rows, channels)),
        np.empty((rows, channels), np.float32),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty((rows, channels)),
        np.empty((rows, channels)),
        np.empty((rows, channels), np.float32),
        np.empty((rows, votes), np.float32),
        np.empty(rows),
        np.empty(rows),
        np.empty((rows, channels)),
        np.empty((rows, channels), np.int64),
        np.empty((rows, channels), np.float32),
        np.empty(rows, np.int64),
        np.empty(rows),
    )


def _stops(first: Ints) -> Stops:
    count = len(first)
    return Stops(
        first.copy(),
        first.copy(),
        first.copy(),
        first.copy(),
        np.zeros(count, np.bool_),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
    )


def _joined(
    parts: list[tuple[int, int, Verdicts]], events: list[tuple[int, Event]], channels: int
) -> Judged:
    """Return the verdicts of streams that were judged one by one."""
    sizes = [len(part) for _, _, part in parts]
    judged = Judged(
        np.repeat([at for at, _, _ in parts], sizes).astype(np.int64),
        np.full(sum(sizes), -1),
        np.zeros(sum(sizes), np.int64),
        np.full(sum(sizes), NO_TIME),
        _columns(sum(sizes), channels, 0),
        events,
    )
    start = 0
    for size, (_, first, part) in zip(sizes, parts, strict=True):
        span = slice(start, start + size)
        start += size
        judged.numbers[span] = part.samples
        if first >= 0:
            judged.rows[span] = np.arange(first, first + size)
        if part.times is not None:
            judged.times[span] = part.times.astype("datetime64[ns]").view(np.int64)
        for name, column in judged.columns._asdict().items():
            given = getattr(part, name, None)
            if given is None:
                given = 0 if column.dtype.kind == "i" else np.nan
            column[span] = given
    return judged
