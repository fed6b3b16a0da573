"""What a finished run of a fleet has beside its verdicts: for pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from newnormal.alarms.log import margins
from newnormal.fleet.stream import Stream
from newnormal.fleet.work import Gathered
from newnormal.tabular import StreamTables
from newnormal.types import Alarm, Bools, Change, Event, Floats, Ints, Observed


@dataclass(frozen=True, eq=False)
class FleetObserved:
    """The samples of a run, and what is open after it.

    Attributes
    ----------
    samples
        Those of each part of the verdicts, as its group was given them.
    remaining
        The alarms and changes that are open after the run, of each stream that has any.
    labels
        True for a sample that is labelled as a fault, of each stream that has labels.
    earlier
        The alarms and changes that were open before the run, of each stream that had any.
    """

    samples: tuple[Floats, ...]
    remaining: Mapping[str, tuple[Alarm | Change, ...]]
    labels: Mapping[str, Bools]
    earlier: Mapping[str, tuple[Alarm | Change, ...]]

    @classmethod
    def of(
        cls,
        gathered: Gathered,
        tables: StreamTables,
        earlier: Mapping[str, tuple[Alarm | Change, ...]],
        remaining: Mapping[str, tuple[Alarm | Change, ...]],
    ) -> Self:
        """Return it for a run over tables."""
        given = tables.tables.items()
        return cls(
            tuple(rows.samples for _, rows, _ in gathered.work),
            remaining,
            {name: each.labels.astype(bool) for name, each in given if each.labels is not None},
            earlier,
        )

    def of_stream(
        self, part: int, stream: Stream, rows: Ints, events: tuple[Event, ...]
    ) -> Observed:
        """Return what was judged of a stream, a row a verdict.

        Parameters
        ----------
        part
            Which one the stream is in.
        stream
            The stream.
        rows
            The row of the part's samples of each verdict; -1 for a sample of an earlier call:
            that has neither values nor a label here.
        events
            What happened to its alarms and changes.
        """
        now = rows >= 0
        values = np.full((len(rows), len(stream.fitted.channels)), np.nan)
        values[now] = self.samples[part][rows[now]]
        labels = self.labels.get(stream.name)
        if labels is not None:
            given, labels = labels, np.zeros(len(rows), np.bool_)
            labels[now] = given[: int(now.sum())]
        remaining = self.remaining.get(stream.name, ())
        rejected = Observed.rejected_of(self.earlier.get(stream.name, ()))
        return Observed(values, margins(stream.fitted), events, remaining, labels, rejected)
