"""Faults with known truth: every word and number that `Detector` reports, compared with it.

Everything is generated: no data are needed.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from newnormal.errors import ParameterError
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.fingerprint import code_of
from newnormal_reproduce.engine.plan import command
from newnormal_reproduce.engine.published import SEEDS
from newnormal_reproduce.engine.sweep import Progress, sweep_all
from newnormal_reproduce.ours import truth_cases as cases
from newnormal_reproduce.ours.truth_cases import Place, Score
from newnormal_reproduce.report import figures, pages

_SEEDS = SEEDS[:3]
_DRAWS = 4  # cases of each situation at each place
_CODE = (
    "newnormal.detector",
    "newnormal.types.alarms",
    "newnormal_reproduce.ours.today",
    "newnormal_reproduce.ours.truth_cases",
)
_TEXT = pages.texts("truth")
_SMOOTH: dict[str, object] = {"is_bursty": False}
_CAPTION = "Each figure, and its floor as a mark: blue where it holds, red where it does not."


class Row(NamedTuple):
    """A row of the table: a share or a mean; or a median, where `at_most`, which has to be low."""

    name: str
    about: str
    floor: float | None = None
    at_most: bool = False

    def figure(self, values: Sequence[float]) -> float | None:
        """Return the figure of these cases; None without any."""
        return (median if self.at_most else fmean)(values) if values else None

    def holds(self, figure: float | None) -> bool:
        """Return whether a figure is at its floor or better.

        >>> Row("a", "", 0.9).holds(0.89), Row("b", "", 0.04, at_most=True).holds(0.03)
        (False, True)
        """
        if figure is None or self.floor is None:
            return True
        return figure <= self.floor if self.at_most else figure >= self.floor


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
    Row("limit found", "a limit that 0.5 % of history is beyond: it names the fault's channel"),
    Row("limit false", "its alarms a day without a fault"),
    Row("band found", "mean ± 3 standard deviations by hour of day: it names the channel"),
    Row("band false", "its alarms a day without a fault"),
)


@dataclass(frozen=True, eq=False)
class Truth:
    """The scores of every case, and the error of each place that failed."""

    scores: list[Score]
    failures: dict[str, str]
    command: str  # runs it again

    def values(self, row: Row, **where: object) -> list[float]:
        """Return the values of a row, of a kind, number of channels, period or seed."""
        return [
            score.value
            for score in self.scores
            if score.row == row.name
            and all(getattr(score.place, name) == value for name, value in where.items())
        ]

    def markdown(self) -> str:
        """Return the page."""
        seeds = ", ".join(map(str, sorted({score.place.seed for score in self.scores}))) or "none"
        about = {"command": self.command, "seeds": seeds, "versions": pages.versions()}
        parts, where = [_TEXT["introduction"].format(**about)], dict[str, dict[str, object]]()
        where |= {kind: {"kind": kind} for kind in cases.KINDS}
        where |= {f"{width} ch.": {"channels": width} for width in cases.WIDTHS}
        where |= {f"{period} s": {"period": period} for period in cases.PERIODS}
        if rows := [row for row in ROWS if self.values(row)]:
            floors = [row for row in ROWS if row.floor is not None]
            good, smooth = (
                sum(row.holds(row.figure(self.values(row, **of))) for row in floors)
                for of in (dict[str, object](), _SMOOTH)
            )
            lines = [
                [row.about, *_cells(row, self.values(row)), _two(row.figure(smooth_values))]
                for row in rows
                for smooth_values in [self.values(row, **_SMOOTH)]
            ]
            by_part = [
                [row.name, *(_two(row.figure(self.values(row, **of))) for of in where.values())]
                for row in rows
            ]
            parts += [
                *pages.summary(
                    [
                        f"{good} of {len(floors)} figures are at their floor or better; "
                        f"without the streams with bursts {smooth}."
                    ]
                ),
                "## Every figure\n",
                pages.table(["reported", "floor", "figure", "cases", "no bursts"], lines),
                figures.figure_link("truth-floors", _CAPTION) + "\n",
                "## By stream\n",
                pages.table(["figure", *where], by_part),
            ]
        if self.failures:
            parts += ["## Not run\n", pages.table(("what", "why"), list(self.failures.items()))]
        return "\n".join(parts)

    def csv(self) -> str:
        """Return a line for each row of each place, and one for each failure."""
        lines: list[dict[str, object]] = []
        for place in dict.fromkeys(score.place for score in self.scores):
            for row in ROWS:
                if values := self.values(row, **place._asdict()):
                    figure = {"cases": len(values), "figure": row.figure(values)}
                    lines.append({"status": "ok", **place._asdict(), "row": row.name, **figure})
        lines += [{"status": "failed", "note": f"{it}: {why}"} for it, why in self.failures.items()]
        return csv_text(["status", *Place._fields, "row", "cases", "figure", "note"], lines)

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write page, table and picture into a folder, and return their paths."""
        texts = {"truth.md": self.markdown(), "truth.csv": self.csv()}
        return (*write_texts(Path(folder), texts), *self._draw(Path(folder)))

    def _draw(self, folder: Path) -> list[Path]:
        """Draw a bar for each figure that has a floor, and a mark at the floor."""
        rows = [row for row in ROWS if row.floor is not None and self.values(row)]
        if not rows:
            return []
        found = [row.figure(self.values(row)) or 0.0 for row in rows]
        held = [row.holds(figure) for row, figure in zip(rows, found, strict=True)]
        colours = [figures.TRUE if holds else figures.FALSE for holds in held]
        floors, tall = [row.floor or 0.0 for row in rows], 0.27 * len(rows) + 0.7
        figure, heights = figures.blank(10, tall), np.arange(len(rows))[::-1]
        small, ink = figures.SMALL, figures.INK
        axes = figure.add_axes((0.5, 0.45 / tall, 0.45, 1 - 0.55 / tall))
        axes.barh(heights, found, height=0.6, color=colours, alpha=0.85)
        axes.scatter(floors, heights, marker="|", s=190, color=ink, linewidths=2, zorder=3)
        axes.set_yticks(heights, [row.about for row in rows])
        for place, value in zip(heights, found, strict=True):
            axes.text(1.03, place, f"{value:.2f}", va="center", fontsize=small, color=ink)
        axes.set(xlim=(0, 1.02), ylim=(-0.7, len(rows) - 0.3), axisbelow=True)
        axes.tick_params(labelsize=small, labelcolor=ink, length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.grid(axis="x", color=figures.PALE, linewidth=0.5, alpha=0.6)
        return figures.save_figure(figure, folder, "truth-floors")


def truth(
    datasets: Sequence[str] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    draws: int = _DRAWS,
    processes: int = 1,
    progress: Progress | None = None,
    cache: Path | None = None,
    compute: bool = True,
) -> Truth:
    """Plant faults in generated streams, and compare what `Detector` reports with the truth.

    The parameters are those of `obvious_faults`, and of `Runner` for the stored results; without a
    `cache` nothing is stored. A data set is a kind of stream such as ``"load"``, or ``"load-3"``
    with its channels; `draws` are the cases of each situation at each place.
    """
    numbers = _SEEDS if seeds is None else tuple(seeds)
    every = [place for seed in numbers for place in cases.places(seed)]
    names = [{place.kind, f"{place.kind}-{place.channels}"} for place in every]
    for text in datasets or ():
        if text not in set().union(*names):
            raise ParameterError(
                f"datasets: expected a kind of stream, found {text!r}",
                hint=f"such as {', '.join(cases.KINDS)}, or load-3 with its channels",
            )
    pairs = zip(every, names, strict=True)
    tasks = [place for place, named in pairs if datasets is None or named & set(datasets)]
    work = partial(_stored, cache, draws, compute)
    found, failures = sweep_all(work, tasks, processes=processes, progress=progress)
    again = command("truth", "", datasets=datasets, seeds=None if numbers == _SEEDS else numbers)
    return Truth([score for scores in found for score in scores], failures, again)


def _stored(cache: Path | None, draws: int, compute: bool, place: Place) -> list[Score]:
    """Read the results of a place, or run it and store them."""
    if cache is None:
        return list(cases.scores_of(place, draws))
    key = hashlib.sha256(f"{code_of(*_CODE)} {draws}".encode()).hexdigest()[:20]
    path = cache / "truth" / f"{'-'.join(map(str, place))}-{key}.json"
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return [Score(row, place, value) for row, value in stored]
    except (OSError, ValueError):
        scores = list(cases.scores_of(place, draws)) if compute else []
    if compute:
        write_texts(cache, {".gitignore": "*\n"})
        text = json.dumps([(score.row, score.value) for score in scores])
        (part,) = write_texts(path.parent, {f".{path.name}.part": text})
        part.replace(path)
    return scores


def _cells(row: Row, values: Sequence[float]) -> list[str]:
    """Return the floor, the figure and the number of cases of a row."""
    floor = "" if row.floor is None else f"{'≤' if row.at_most else '≥'} {row.floor:.2f}"
    return [floor, _two(row.figure(values)), str(len(values))]


def _two(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.2f}"
