"""The rows and floors of `newnormal_reproduce.ours.truth`, and the figures over its cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from newnormal_reproduce.ours.truth_cases import Score


class Row(NamedTuple):
    """A row of the table: a share or a mean; or a median, where `at_most`, which has to be low."""

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
        """Return whether a figure is at its floor or better.

        >>> Row("a", "", 0.9).holds(0.89), Row("b", "", 0.04, at_most=True).holds(0.03)
        (False, True)
        """
        if figure is None or self.floor is None:
            return True
        return figure <= self.floor if self.at_most else figure >= self.floor

    @property
    def limit(self) -> str:
        """The floor in words; nothing where there is none."""
        if self.floor is None:
            return ""
        return f"{'≤' if self.at_most else '≥'} {self.floor:.2f}"


ROWS = (
    Row("found", "one fault: an alarm names its channel", 0.97),
    Row("again", "the same channel again 10 to 60 samples later: a new alarm names it", 0.90),
    Row("while open", "another channel while an alarm is open: named", 0.90),
    Row("while pending", "another channel while a change is pending: named", 0.93),
    Row("expected", "expected value: part of the way to the faulty one, median", 0.04, True),
    Row("expected unmoved", "the same in a run without the fault", None, True),
    Row("range", "the true value lies in the range given", 0.90),
    Row("healthy", "healthy channels: samples with an error of at most 3 usual ones", 0.98),
    Row("healthy unmoved", "the same in a run without the fault"),
    Row("closed", "closed within 15 samples of the fault's end, and not before it", 0.90),
    Row("length", "its length within 20 % or 5 samples", 0.90),
    Row("direction", "the closing sentence has the direction", 0.98),
    Row("change", "no change pending 30 samples after the fault's end", 0.90),
    Row("stuck", "a sensor stuck for 240 samples: a sentence has that it stands still", 0.95),
    Row("usual", "all right with one fault and nothing else", 0.90),
    Row("first hour", "all right in the first hour after the fit", 0.90),
    Row("gap", "all right after two hours without samples", 0.90),
    Row("saved", "all right after saving and loading", 0.90),
    Row("accepted", "all right after an acceptance", 0.90),
    Row("missing", "all right with 20 % of values missing", 0.90),
    Row("false", "alarms a day without a fault"),
)


@dataclass(frozen=True, eq=False)
class TruthResults:
    """The scores of every case."""

    scores: tuple[Score, ...] = ()

    def __add__(self, other: TruthResults) -> TruthResults:
        return TruthResults(self.scores + other.scores)

    @property
    def seeds(self) -> list[int]:
        """The seeds that were run."""
        return sorted({score.place.seed for score in self.scores})

    def values(self, row: Row, **where: object) -> list[float]:
        """Return the values of a row, of a kind, number of channels, period or seed."""
        return [
            score.value
            for score in self.scores
            if score.row == row.name
            and all(getattr(score.place, name) == value for name, value in where.items())
        ]

    def figure(self, row: Row, **where: object) -> float | None:
        """Return the figure of a row over these; None without cases."""
        return row.figure(self.values(row, **where))

    def below(self) -> list[Row]:
        """Return the rows that do not keep to their floor."""
        return [row for row in ROWS if not row.holds(self.figure(row))]


def two(figure: float | None) -> str:
    """Return a figure with two digits, or a dash."""
    return "-" if figure is None else f"{figure:.2f}"
