"""What came of an experiment: the lines of its table, the units behind them, and their outcomes."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from newnormal.experiments.comparison import Comparison, paper_figure
from newnormal.experiments.entrants import Entrant
from newnormal.experiments.lab import Lab
from newnormal.experiments.paper import APPENDIX_SEED, Figure, Options, Rules, title
from newnormal.experiments.rows import FROZEN, Row
from newnormal.experiments.streams import Stream
from newnormal.experiments.unit import Outcome, Unit
from newnormal.metrics import Report

__all__ = [
    "Draw",
    "Experiment",
    "Line",
    "Page",
    "write_texts",
]

Page: TypeAlias = "Callable[[Experiment], str]"
Draw: TypeAlias = "Callable[[Experiment, Path], Sequence[Path]]"


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a table: a model on a stream, as a row, under the thresholds for F1 and F1-PA.

    Attributes
    ----------
    steady
        Whether the learning rate is divided by ten until learning on history does not diverge.
    compared
        Whether the paper's figures, where it has any, belong beside it.
    seeds
        One unit each, and threshold.
    """

    stream: Stream
    entrant: Entrant
    row: Row
    rules: Rules
    seeds: tuple[int, ...]
    steady: bool = False
    compared: bool = True

    @property
    def name(self) -> str:
        """What pictures and columns call it: the model, and what was added to it."""
        return self.entrant.name + ("" if self.row == FROZEN else f" + {self.row.name}")

    def units(self, lab: Lab) -> list[Unit]:
        """Return the units behind the line."""
        return [
            lab.unit(
                self.stream,
                self.entrant.model,
                self.row.name,
                rule,
                seed,
                steady=self.steady and self.row.adapt,
                **dict(self.entrant.options),
            )
            for seed in self.seeds
            for rule in self.rules.distinct()
        ]


@dataclass(frozen=True, eq=False)
class Experiment:
    """What came of it.

    Attributes
    ----------
    name
        The experiment, which its files are named after.
    lab
        Where it was run.
    lines
        The lines of its table, each with those of its units of which something came.
    outcomes, failures
        What came of each unit: an outcome, or an error.
    not_run
        Why a data set is missing: where to get it, what is wrong with it, or that nothing has been
        computed for it.
    command
        The command that does this again.
    pages
        What makes each page, by the file's name; the first is the experiment's own.
    draw
        What draws pictures into a folder and returns their paths.
    """

    name: str
    lab: Lab
    lines: tuple[tuple[Line, tuple[Unit, ...]], ...]
    outcomes: Mapping[Unit, Outcome]
    failures: Mapping[Unit, str]
    not_run: Mapping[str, str]
    command: str
    pages: Mapping[str, Page]
    draw: Draw | None = None

    @property
    def seeds(self) -> list[int]:
        """The seeds of all outcomes."""
        return self.seeds_of(self.outcomes)

    def seeds_of(self, units: Iterable[Unit]) -> list[int]:
        """Return the seeds for which some of these units have an outcome."""
        return sorted({unit.seed for unit in units if unit in self.outcomes})

    def found(self, units: Iterable[Unit], rule: object) -> list[Outcome]:
        """Return the outcomes of those units under a rule."""
        return [
            self.outcomes[unit] for unit in units if unit in self.outcomes and unit.rule == rule
        ]

    def shown(self, units: Iterable[Unit], rule: object) -> Outcome | None:
        """Return one outcome under a rule: of the appendix's seed, or else the first."""
        found = self.found(units, rule)
        return min(
            found,
            key=lambda each: (each.unit.seed != APPENDIX_SEED, each.unit.seed),
            default=None,
        )

    def comparisons(self) -> list[Comparison]:
        """Return each measure of each line beside the paper's.

        A row that adapts has AUROC and AUPRC for each of its thresholds. The paper prints one
        figure and does not say for which; it is set beside the run with the threshold for F1,
        because on MSL P-15, TTA, the other's AUROC is 0.1 below, in its own appendix as well.
        """
        return [each for line, units in self.lines for each in self._compare(line, units)]

    def _compare(self, line: Line, units: Sequence[Unit]) -> Iterable[Comparison]:
        known = title(line.entrant.model) if line.compared else None
        for order, (rule, serves) in enumerate(line.rules.distinct().items()):
            under = self.found(units, rule)
            if not under:
                continue
            # Scores of a row that does not adapt are the same under any threshold.
            ranking = ("auroc", "auprc") if order == 0 or line.row.adapt else ()
            for measure in serves + ranking:
                paper = None
                if known is not None and (order == 0 or measure in serves):
                    paper = paper_figure(line.stream.name, line.row.name, measure, known)
                yield Comparison(
                    dataset=line.stream.name,
                    model=line.entrant.name,
                    row=line.row.name,
                    measure=measure,
                    rule=rule,
                    seeds=len(under),
                    tau=Figure.of([each.tau for each in under]),
                    ours=Figure.of([getattr(each.report, measure) for each in under]),
                    paper=paper,
                )

    def csv(self) -> str:
        """Return a line a unit, and a line for each data set not found and each failure."""
        text = io.StringIO()
        options = [field.name for field in fields(Options)]
        measures = [field.name for field in fields(Report) if field.name != "threshold"]
        head = ["status", "dataset", "model", "row", "seed", "measures", "rule", "oracle", "tau"]
        table = csv.DictWriter(
            text,
            [*head, *measures, "learned", "restored", *options, "note"],
            lineterminator="\n",
        )
        table.writeheader()
        for line, units in self.lines:
            for unit in units:
                cells: dict[str, Any] = {
                    "dataset": unit.dataset,
                    "model": line.entrant.name,
                    "row": unit.row,
                    "seed": unit.seed,
                    "measures": " ".join(line.rules.distinct()[unit.rule]),
                    "rule": str(unit.rule),
                    "oracle": unit.rule.oracle,
                    **asdict(unit.options),
                }
                outcome = self.outcomes.get(unit)
                if outcome is None:
                    cells |= {"status": "failed", "note": self.failures[unit]}
                else:
                    cells |= asdict(outcome.report)
                    del cells["threshold"]
                    cells |= {"status": "ok", "tau": outcome.tau, "lr": outcome.lr}
                    cells |= {"learned": outcome.learned, "restored": outcome.restored}
                table.writerow({name: _cell(value) for name, value in cells.items()})
        for name, why in self.not_run.items():
            table.writerow({"status": "absent", "dataset": name, "note": why})
        return text.getvalue()

    def markdown(self) -> str:
        """Return the page: tables of ours, the paper's and the difference."""
        return next(iter(self.pages.values()))(self)

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write pages, table and pictures into a folder, and return their paths."""
        folder = Path(folder)
        texts = {name: page(self) for name, page in self.pages.items()}
        paths = write_texts(folder, {**texts, f"{self.name}.csv": self.csv()})
        return paths if self.draw is None else (*paths, *self.draw(self, folder))


def write_texts(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write files into a folder, made where it is not there, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return tuple(folder / name for name in texts)


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"  # noqa: PLR0124 - NaN
    return value
