"""Samples that are far ahead of their stream are held: a wrong clock, or a gap.

The rule is that of `newnormal watch`, in `tabular.ordering.jumps`: two further samples near a held
one confirm it, one at the old place refutes it. Where the period is not known yet, the usual step
of the first samples is used.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from newnormal.tabular.ordering.jumps import DAY, PERIODS, Sifted, sift
from newnormal.types import Floats, Ints

_STEPS = 8  # of the first samples, from which the usual one is taken
# The longest gap that makes others of its length ordinary, in ns. Longer ones are confirmed each
# time: after one of a day, any time up to a day ahead would be taken.
_LONGEST = 3_600_000_000_000


class Piece(NamedTuple):
    """Samples of the same channels."""

    times: Ints  # (N,)
    values: Floats  # (N, C)
    at: Ints  # (C,) where the channels are among those of the stream


class HeldRow(NamedTuple):
    """A sample that is held."""

    time: int
    values: Floats
    at: Ints

    def piece(self) -> Piece:
        """Return it as samples."""
        return Piece(np.array([self.time], np.int64), self.values[None], self.at)


class HeldSamples:
    """The samples of one stream that are held, and how far ahead a sample may be."""

    def __init__(self) -> None:
        # the held samples in the order of their arrival: replaced, never altered
        self.rows: tuple[HeldRow, ...] = ()
        # the usual step of the first samples in ns; None while there are too few
        self.usual: int | None = None
        self._first: list[int] = []  # times, until the usual step is known
        self._longest = 0  # gap so far, in ns

    def limit(self, period: int | None) -> int:
        """Return the longest step that is no jump, in ns."""
        step = period or self.usual
        return DAY if step is None else max(PERIODS * step, self._longest)

    def learn(self, times: Ints) -> None:
        """Find the usual step; for samples that have all channels."""
        self._first = list(dict.fromkeys([*self._first, *times.tolist()]))[: _STEPS + 1]
        if len(self._first) > _STEPS:
            self.usual = int(np.median(np.diff(sorted(self._first))))
            self._first = []

    def refute(self, at: Ints) -> int:
        """Drop what is held of channels; return how many samples that were."""
        before = len(self.rows)
        self.rows = tuple(row for row in self.rows if not _shares(row, at))
        return before - len(self.rows)

    def sift(self, arrived: Piece, newest: int, limit: int) -> tuple[list[Piece], int]:
        """Hold what is too far ahead; return what goes on, and how many samples were refuted.

        Samples are confirmed and refuted by those that have a channel of theirs: the connections
        of a sender are not equally far. Times are in ns; `limit` is the longest step that is no
        jump.
        """
        held_before = [row for row in self.rows if _shares(row, arrived.at)]
        others = [row for row in self.rows if not _shares(row, arrived.at)]
        times = np.append(np.array([row.time for row in held_before], np.int64), arrived.times)
        sifted = sift(times, newest, limit, _LONGEST)
        if sifted.gaps:
            self._longest = max(self._longest, min(sifted.limit, _LONGEST))
        held = [
            held_before[row]
            if row < len(held_before)
            else HeldRow(int(times[row]), arrived.values[row - len(held_before)].copy(), arrived.at)
            for row in sifted.held
        ]
        self.rows = (*others, *held)
        kept = _with_passed(sifted)
        return _pieces(kept, held_before, arrived), len(sifted.dropped) - len(sifted.passed)

    def reached(self, newest: int, limit: int = 0) -> list[Piece]:
        """Let go what the stream has come to by now: what is within a limit of the newest."""
        near = []
        for row in sorted(self.rows, key=lambda row: row.time):
            if row.time > newest + limit:
                break
            newest = max(newest, row.time)
            near.append(row)
        return self._let_go(near)

    def release(self, until: int, newest: int, period: int | None) -> list[Piece]:
        """Let go what is before a time, though nothing confirmed it, and what is near it."""
        early = sorted((row for row in self.rows if row.time < until), key=lambda row: row.time)
        if not early:
            return []
        self._longest = max(self._longest, min(early[0].time - newest, _LONGEST))
        return self._let_go(early) + self.reached(early[-1].time, self.limit(period))

    def _let_go(self, rows: list[HeldRow]) -> list[Piece]:
        gone = {id(row) for row in rows}
        self.rows = tuple(row for row in self.rows if id(row) not in gone)
        return [row.piece() for row in rows]

    # ------------------------------------------------------------------ as data

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        rows = [
            [time, [None if each != each else each for each in values.tolist()], at.tolist()]  # noqa: PLR0124
            for time, values, at in self.rows
        ]
        return {"rows": rows, "usual": self.usual, "first": self._first, "longest": self._longest}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_json` was called on."""
        holding = cls()
        holding.usual, holding._longest = saved["usual"], saved["longest"]
        holding._first = list(saved["first"])
        holding.rows = tuple(
            HeldRow(
                time,
                np.array([np.nan if value is None else value for value in values]),
                np.array(at, np.int64),
            )
            for time, values, at in saved["rows"]
        )
        return holding


def _shares(row: HeldRow, at: Ints) -> bool:
    return bool(np.isin(row.at, at).any())


def _with_passed(sifted: Sifted) -> Ints:
    """Return the rows that go on, with those before the confirmed ones at their places."""
    if not sifted.passed:
        return sifted.kept
    passed = [(offset, row) for row, offset, _ in sifted.dropped if row in sifted.passed]
    return np.insert(sifted.kept, [offset for offset, _ in passed], [row for _, row in passed])


def _pieces(kept: Ints, held_before: list[HeldRow], arrived: Piece) -> list[Piece]:
    """Return rows, of those that were held and then of an arrival, as pieces in their order."""
    if not held_before:
        return [Piece(arrived.times[kept], arrived.values[kept], arrived.at)] if len(kept) else []
    pieces = []
    for part in np.split(
        kept, np.flatnonzero((kept < len(held_before)) | (np.roll(kept, 1) < len(held_before)))
    ):
        if len(part) and part[0] < len(held_before):
            pieces.append(held_before[part[0]].piece())
        elif len(part):
            rows = part - len(held_before)
            pieces.append(Piece(arrived.times[rows], arrived.values[rows], arrived.at))
    return pieces
