"""Faults with known truth: is what `Detector` reports of them true, every word and number?

Everything is generated: no data are needed. ``python -m newnormal_reproduce.ours.truth`` prints the
table of one seed, for work on the detector.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from newnormal_reproduce.ours.truth_cases import SITUATIONS, Score, forget_fits, scores_of
from newnormal_reproduce.ours.truth_streams import KINDS, PERIODS, WIDTHS, Place, places

_DRAWS = 4  # cases of each situation at each place


class Row(NamedTuple):
    """A row of the table; its figure is a share or a mean, or a median where it is at most so."""

    name: str
    about: str
    floor: float | None = None
    at_most: bool = False

    def figure(self, values: Sequence[float]) -> float | None:
        """Return the figure of these cases; None without any."""
        if not values:
            return None
        return median(values) if self.at_most else fmean(values)

    def holds(self, figure: float | None) -> bool:
        """Whether a figure keeps to the floor."""
        if figure is None or self.floor is None:
            return True
        return figure <= self.floor if self.at_most else figure >= self.floor


ROWS = (
    Row("found", "one fault: an alarm names its channel", 0.97),
    Row("again", "the same channel again 10 to 60 samples later: a new alarm names it", 0.90),
    Row("while open", "another channel while an alarm is open: named", 0.90),
    Row("while pending", "another channel while a change is pending: named", 0.93),
    Row("expected", "expected value: part of the way to the faulty value, median", 0.04, True),
    Row("expected unmoved", "the same of a run without the fault", None, True),
    Row("range", "the true value lies in the range given", 0.90),
    Row("healthy", "healthy channels: expected within 3 usual errors, share of samples", 0.98),
    Row("healthy unmoved", "the same of a run without the fault"),
    Row("closed", "closed within 15 samples of the fault's end, and not before it", 0.90),
    Row("length", "its length within 20 % or 5 samples", 0.90),
    Row("direction", "the closing sentence has the direction", 0.98),
    Row("change", "no change pending 30 samples after the fault's end", 0.90),
    Row("stuck", "a sensor stuck for 240 samples: a sentence states that it stands still", 0.95),
    Row("first hour", "right in the first hour after the fit", 0.90),
    Row("gap", "right after two hours without samples", 0.90),
    Row("saved", "right after saving and loading", 0.90),
    Row("accepted", "right after an acceptance", 0.90),
    Row("missing", "right with 20 % of values missing", 0.90),
    Row("false", "alarms a day without a fault"),
)


@dataclass(frozen=True, eq=False)
class TruthResults:
    """The scores of every case."""

    scores: tuple[Score, ...] = ()

    def values(self, row: Row, **where: object) -> list[float]:
        """Return the values of a row, of a kind, number of channels, period or seed."""
        return [
            score.value
            for score in self.scores
            if score.row == row.name
            and all(getattr(score.place, name) == value for name, value in where.items())
        ]

    def lines(self) -> list[list[str]]:
        """Return the table: each row with its floor and figures, all and by part."""
        parts: list[dict[str, object]] = [{"kind": kind} for kind in KINDS]
        parts += [{"channels": width} for width in WIDTHS]
        parts += [{"period": period} for period in PERIODS]
        lines = []
        for row in ROWS:
            every = self.values(row)
            floor = "" if row.floor is None else f"{'≤ ' * row.at_most}{row.floor:.2f}"
            figures = [row.figure(self.values(row, **where)) for where in parts]
            lines.append(
                [row.about, floor, _two(row.figure(every)), str(len(every)), *map(_two, figures)]
            )
        return lines


HEADER = ("row", "floor", "today", "cases", *KINDS)
HEADER += tuple(f"{width} ch." for width in WIDTHS) + tuple(f"{period} s" for period in PERIODS)


def run_place(
    place: Place, draws: int = _DRAWS, situations: Iterable[str] = SITUATIONS
) -> TruthResults:
    """Run every situation at a place, some cases each."""
    try:
        scores = [score for name in situations for score in scores_of(place, name, draws)]
    finally:
        forget_fits()
    return TruthResults(tuple(scores))


def _two(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.2f}"


def _main() -> None:
    parser = argparse.ArgumentParser(description="Print the table of one seed.")
    parser.add_argument("--cases", type=int, default=96, help="of each row, over all places")
    parser.add_argument("--seed", type=int, default=2021)
    parser.add_argument("--situations", default=",".join(SITUATIONS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    asked = parser.parse_args()
    chosen = [place for place in places(asked.seed) if place.kind in asked.kinds.split(",")]
    draws, situations = -(-asked.cases // len(chosen)), asked.situations.split(",")
    found = [run_place(place, draws, situations) for place in chosen]
    results = TruthResults(tuple(score for each in found for score in each.scores))
    for line in ([*HEADER], *results.lines()):
        cells = [f"{cell:>7}" for cell in line[1:]]
        sys.stdout.write(f"{line[0]:<70}{''.join(cells)}\n")


if __name__ == "__main__":
    _main()
