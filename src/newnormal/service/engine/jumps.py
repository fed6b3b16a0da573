"""Samples that are far ahead of their stream are held: a wrong clock, or a gap.

The rule is that of `newnormal watch`, in `tabular.ordering.jumps`: two further samples near a held
one confirm it, one at the old place refutes it. Where the period is not known yet, the usual step
of the first samples is used.
"""

from __future__ import annotations

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
    """The samples of one stream that are held, and how far ahead a sample may be.

    Attributes
    ----------
    rows
        The held samples in the order of their arrival: replaced, never altered.
    usual
        The usual step of the first samples in ns; None while there are too few.
    """

    def __init__(self) -> None:
        self.rows: tuple[HeldRow, ...] = ()
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
        self.rows = tuple(each for each in self.rows if not _shares(each, at))
        return before - len(self.rows)

    def sift(self, given: Piece, newest: int, limit: int) -> tuple[list[Piece], int]:
        """Hold what is too far ahead; return what goes on, and how many samples were refuted.

        Samples are confirmed and refuted by those that have a channel of theirs: the connections
        of a sender are not equally far.

        Parameters
        ----------
        given
            Those that arrived.
        newest, limit
            The newest time of the stream, and the longest step that is no jump, in ns.
        """
        own = [each for each in self.rows if _shares(each, given.at)]
        others = [each for each in self.rows if not _shares(each, given.at)]
        times = np.append(np.array([each.time for each in own], np.int64), given.times)
        found = sift(times, newest, limit, _LONGEST)
        if found.gaps:
            self._longest = max(self._longest, min(found.limit, _LONGEST))
        held = [
            own[row]
            if row < len(own)
            else HeldRow(int(times[row]), given.values[row - len(own)].copy(), given.at)
            for row in found.held
        ]
        self.rows = (*others, *held)
        kept = _with_passed(found)
        return _pieces(kept, own, given), len(found.dropped) - len(found.passed)

    def reached(self, newest: int, limit: int = 0) -> list[Piece]:
        """Let go what the stream has come to by now: what is within a limit of the newest."""
        found = []
        for each in sorted(self.rows, key=lambda row: row.time):
            if each.time > newest + limit:
                break
            newest = max(newest, each.time)
            found.append(each)
        return self._let_go(found)

    def release(self, until: int, newest: int, period: int | None) -> list[Piece]:
        """Let go what is before a time, though nothing confirmed it, and what is near it."""
        found = sorted((each for each in self.rows if each.time < until), key=lambda row: row.time)
        if not found:
            return []
        self._longest = max(self._longest, min(found[0].time - newest, _LONGEST))
        return self._let_go(found) + self.reached(found[-1].time, self.limit(period))

    def _let_go(self, rows: list[HeldRow]) -> list[Piece]:
        gone = {id(each) for each in rows}
        self.rows = tuple(each for each in self.rows if id(each) not in gone)
        return [each.piece() for each in rows]

    # ------------------------------------------------------------------ as data

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        rows = [
            [time, [None if each != each else each for each in values.tolist()], at.tolist()]  # noqa: PLR0124
            for time, values, at in self.rows
        ]
        return {
            "rows": rows,
            "usual": self.usual,
            "first": self._first,
            "longest": self._longest,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return what `to_json` was called on."""
        holding = cls()
        holding.usual, holding._longest = found["usual"], found["longest"]
        holding._first = list(found["first"])
        holding.rows = tuple(
            HeldRow(
                time,
                np.array([np.nan if each is None else each for each in values]),
                np.array(at, np.int64),
            )
            for time, values, at in found["rows"]
        )
        return holding


def _shares(row: HeldRow, at: Ints) -> bool:
    return bool(np.isin(row.at, at).any())


def _with_passed(found: Sifted) -> Ints:
    """Return the rows that go on, with those before the confirmed ones at their places."""
    if not found.passed:
        return found.kept
    places = [(place, row) for row, place, _ in found.dropped if row in found.passed]
    return np.insert(found.kept, [place for place, _ in places], [row for _, row in places])


def _pieces(kept: Ints, own: list[HeldRow], given: Piece) -> list[Piece]:
    """Return rows, of those that were held and then of an arrival, as pieces in their order."""
    if not own:
        return [Piece(given.times[kept], given.values[kept], given.at)] if len(kept) else []
    found = []
    for part in np.split(kept, np.flatnonzero((kept < len(own)) | (np.roll(kept, 1) < len(own)))):
        if len(part) and part[0] < len(own):
            found.append(own[part[0]].piece())
        elif len(part):
            rows = part - len(own)
            found.append(Piece(given.times[rows], given.values[rows], given.at))
    return found
