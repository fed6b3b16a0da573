"""Samples of live streams, judged by the fleet; verdicts as rows of the store."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from newnormal.arrivals.order import Steps, joined
from newnormal.engine.streams import StreamRecord
from newnormal.engine.values import StoredRows
from newnormal.fleet.results import FleetVerdicts, Part
from newnormal.tabular import Table
from newnormal.types import Floats, Ints

if TYPE_CHECKING:
    from newnormal.engine.applying import Applier

_LOG = logging.getLogger("newnormal")


class LiveBatch:
    """Closed time steps of live streams that are judged in one call."""

    def __init__(self) -> None:
        self._steps: dict[str, tuple[StreamRecord, int, list[Steps]]] = {}

    def __bool__(self) -> bool:
        return bool(self._steps)

    def add(self, stream: StreamRecord, steps: Steps) -> None:
        """Add steps of a stream, which follow those it has."""
        if stream.name not in self._steps:
            self._steps[stream.name] = stream, stream.count, []
        self._steps[stream.name][2].append(steps)

    def taken(self) -> Iterator[tuple[StreamRecord, Steps]]:
        """Give the steps of each stream."""
        for stream, _, parts in self._steps.values():
            yield stream, joined(parts)

    def of(self, name: str) -> tuple[StreamRecord, int, Steps]:
        """Return a stream, the number of its first sample here, and its steps."""
        stream, first, parts = self._steps[name]
        return stream, first, joined(parts)

    def tables(self) -> dict[str, Table]:
        """Return what the fleet takes: the channels of each stream's model."""
        tables = {}
        for name, (stream, _, parts) in self._steps.items():
            assert stream.model is not None
            (times, values, *_), columns = joined(parts), model_columns(stream)
            if columns is not None:
                values = np.ascontiguousarray(values[:, columns])
            tables[name] = Table(values, stream.model.channels, times.view("datetime64[ns]"))
        return tables


def model_columns(stream: StreamRecord) -> Ints | None:
    """Return where the model's channels are among those that were seen; None: they are the same."""
    seen = stream.order.channels
    if stream.columns is None or stream.columns[0] != len(seen):
        assert stream.model is not None
        channels = stream.model.channels
        column_of = {name: k for k, name in enumerate(seen)}
        taken = None
        if channels != seen:
            taken = np.array([column_of[name] for name in channels], np.int64)
        stream.columns = len(seen), taken
    columns: Ints | None = stream.columns[1]
    return columns


def judge(applier: "Applier", batch: LiveBatch) -> None:
    """Judge a batch; store verdicts as rows, and report what happened."""
    verdicts = applier.fleet.consume(batch.tables())
    for part in verdicts.parts:
        for name, rows, ratios, distance in _rows_of(part):
            stream, first, steps = batch.of(name)
            applier.store.samples.add(stream.id, _stored(stream, first, steps, rows))
            stream.note_ratios(ratios)
            stream.distance = distance
    for error in verdicts.errors:  # steps come in order: this is a fault of ours
        _LOG.error("stream %s: samples were not judged: %s", error.stream, error.error.message)
    report_events(applier, verdicts)


def report_events(applier: "Applier", verdicts: FleetVerdicts, *, alert: bool = True) -> None:
    """Report the events of verdicts, stream by stream, and incidents; without an alert if not.

    The fleet gives events of one moment in the order in which it has the streams, which is another
    after a recovery: here they are in the order of the streams' numbers.
    """
    applier.fleet.take_events()  # they are in the verdicts
    events = [(applier.streams.named(event.stream), event) for event in verdicts.events]
    of_streams = [(stream, event) for stream, event in events if stream is not None]
    of_streams.sort(key=lambda pair: pair[0].id)
    for stream, event in of_streams:
        applier.report.events(stream, [event], alert=alert)
    for incident in verdicts.incidents:
        applier.report.incident(incident, applier.streams, alert=alert)


def _rows_of(part: Part) -> Iterator[tuple[str, StoredRows, Floats, float]]:
    """Give the verdicts of each stream: name, rows of its model's channels, ratios, distance."""
    columns = part.judged.columns
    for k, span in part.spans.items():
        kept = part.streams[k]
        expected = columns.expected[span]
        rows = StoredRows(
            0,
            kept.fitted.channels,
            part.judged.times[span],
            np.empty((0, expected.shape[1])),  # the values are the batch's
            columns.scores[span],
            columns.thresholds[span],
            columns.ratios[span],
            columns.anomalous[span],
            expected,
            expected - columns.lows[span],
            columns.highs[span] - expected,
            # Three digits take half the room of seven; cut off, so that none reaches 1.
            (columns.channel_ratios[span].view(np.uint32) & 0xFFFFF000).view(np.float32),
        )
        distances = columns.distances[span]
        yield kept.name, rows, columns.ratios[span], float(distances[-1])


def _stored(stream: StreamRecord, first: int, steps: Steps, rows: StoredRows) -> StoredRows:
    """Return the verdicts with the values of all channels that were seen."""
    columns = model_columns(stream)
    if columns is None:
        return replace(rows, first=first, values=steps.values)
    wide: dict[str, Any] = {}
    for name in ("expected", "below", "above", "channel_ratios"):
        wide[name] = np.full(steps.values.shape, np.nan)
        wide[name][:, columns] = getattr(rows, name)
    channels = stream.order.channels[: steps.values.shape[1]]
    return replace(rows, first=first, channels=channels, values=steps.values, **wide)
