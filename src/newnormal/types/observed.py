"""What was judged in a run, and what happened meanwhile: what a picture needs beside verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from newnormal.types.alarms import ACCEPTED, REJECTED, Alarm, Change, Event
from newnormal.types.arrays import Bools, Floats


@dataclass(frozen=True, eq=False)
class Observed:
    """The samples of a run, and its alarms and changes.

    `values`: the samples that were judged, shape (T, C), in the user's units; NaN where missing.
    `margins`: how far from `expected` nearly all values of a channel lie, shape (C,); None if not
    known.
    `events`: what happened to alarms and changes meanwhile, in the order in which it was known.
    `remaining`: the alarms and changes that are open after the last sample.
    `labels`: true for a sample that is labelled as a fault; None without labels.
    `rejected`: the numbers of the changes that were rejected before the first sample.
    `decided`: the alarms and changes that were accepted or rejected before the first sample, of the
    last hundred.
    """

    values: Floats
    margins: Floats | None = None
    events: tuple[Event, ...] = ()
    remaining: tuple[Alarm | Change, ...] = ()
    labels: Bools | None = None
    rejected: frozenset[int] = frozenset()
    decided: tuple[Alarm | Change, ...] = ()

    def rows(self, rows: slice) -> Observed:
        """Return it for some consecutive rows; the events stay."""
        labels = None if self.labels is None else self.labels[rows]
        return replace(self, values=self.values[rows], labels=labels)

    @staticmethod
    def rejected_of(opened: Iterable[Alarm | Change]) -> frozenset[int]:
        """Return the numbers of the changes that are rejected, of what is open."""
        changes = (item for item in opened if isinstance(item, Change))
        return frozenset(change.number for change in changes if change.state == REJECTED)

    @staticmethod
    def decided_of(past: Iterable[Alarm | Change]) -> tuple[Alarm | Change, ...]:
        """Return what was accepted or rejected, of alarms and changes as last reported."""
        return tuple(
            item
            for item in past
            if (item.reason if isinstance(item, Alarm) else item.state) in (ACCEPTED, REJECTED)
        )

    @classmethod
    def joined(cls, parts: Sequence[Observed | None]) -> Observed | None:
        """Return that of consecutive runs as one; None if any has none."""
        runs = [part for part in parts if part is not None]
        if len(runs) < len(parts) or not runs:
            return None
        labels = [run.labels for run in runs if run.labels is not None]
        return cls(
            np.concatenate([run.values for run in runs]),
            runs[0].margins,
            tuple(chain.from_iterable(run.events for run in runs)),
            runs[-1].remaining,
            np.concatenate(labels) if len(labels) == len(runs) else None,
            runs[0].rejected,
            runs[0].decided,
        )
