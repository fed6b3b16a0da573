"""What was judged in a run, and what happened meanwhile: what a picture needs beside verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from newnormal.types.alarms import REJECTED, Alarm, Change, Event
from newnormal.types.arrays import Bools, Floats


@dataclass(frozen=True, eq=False)
class Observed:
    """The samples of a run, and its alarms and changes.

    Attributes
    ----------
    values
        The samples that were judged, shape (T, C), in the user's units; NaN where missing.
    margins
        How far from `expected` nearly all values of a channel lie, shape (C,); None if not known.
    events
        What happened to alarms and changes meanwhile, in the order in which it was known.
    remaining
        The alarms and changes that are open after the last sample.
    labels
        True for a sample that is labelled as a fault; None without labels.
    rejected
        The numbers of the changes that were rejected before the first sample.
    """

    values: Floats
    margins: Floats | None = None
    events: tuple[Event, ...] = ()
    remaining: tuple[Alarm | Change, ...] = ()
    labels: Bools | None = None
    rejected: frozenset[int] = frozenset()

    def rows(self, rows: slice) -> Observed:
        """Return it for some consecutive rows; the events stay."""
        labels = None if self.labels is None else self.labels[rows]
        return replace(self, values=self.values[rows], labels=labels)

    @staticmethod
    def rejected_of(opened: Iterable[Alarm | Change]) -> frozenset[int]:
        """Return the numbers of the changes that are rejected, of what is open."""
        changes = (each for each in opened if isinstance(each, Change))
        return frozenset(each.number for each in changes if each.state == REJECTED)

    @classmethod
    def joined(cls, parts: Sequence[Observed | None]) -> Observed | None:
        """Return that of consecutive runs as one; None if any has none."""
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or not known:
            return None
        labels = [part.labels for part in known if part.labels is not None]
        return cls(
            np.concatenate([part.values for part in known]),
            known[0].margins,
            tuple(chain.from_iterable(part.events for part in known)),
            known[-1].remaining,
            np.concatenate(labels) if len(labels) == len(known) else None,
            known[0].rejected,
        )
