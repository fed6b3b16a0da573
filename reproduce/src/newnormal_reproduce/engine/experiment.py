"""The result of an experiment: the lines of its table, their trials, and the outcomes."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from newnormal.metrics import Report
from newnormal_reproduce.engine.comparison import Comparison, paper_figure
from newnormal_reproduce.engine.competitors import Competitor
from newnormal_reproduce.engine.published import APPENDIX_SEED, Figure, Rules, TrialOptions, title
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import DataStream
from newnormal_reproduce.engine.trial import Trial, TrialOutcome
from newnormal_reproduce.engine.variants import FROZEN, Variant

Page: TypeAlias = "Callable[[Experiment], str]"
Draw: TypeAlias = "Callable[[Experiment, Path], Sequence[Path]]"


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a table: a model on a stream, as a variant, with the thresholds of F1 and F1-PA.

    Attributes
    ----------
    steady
        Whether the learning rate is divided by ten until learning on history does not diverge.
    compared
        Whether to set the paper's figures, if it has any, beside it.
    seeds
        One trial for each seed and threshold.
    """

    stream: DataStream
    competitor: Competitor
    variant: Variant
    rules: Rules
    seeds: tuple[int, ...]
    steady: bool = False
    compared: bool = True

    @property
    def name(self) -> str:
        """Its name in pictures and columns: the model, and what was added to it."""
        return self.competitor.name + ("" if self.variant == FROZEN else f" + {self.variant.name}")

    def trials(self, runner: Runner) -> list[Trial]:
        """Return the trials of the line."""
        return [
            runner.trial(
                self.stream,
                self.competitor.model,
                self.variant.name,
                rule,
                seed,
                steady=self.steady and self.variant.adapt,
                **dict(self.competitor.options),
            )
            for seed in self.seeds
            for rule in self.rules.distinct()
        ]


@dataclass(frozen=True, eq=False)
class Experiment:
    """The result of an experiment.

    Attributes
    ----------
    name
        The experiment. Its files have this name.
    runner
        What ran it.
    lines
        The lines of its table, each with those of its trials that have a result.
    outcomes, failures
        The result of each trial: an outcome, or an error.
    not_run
        Why a data set is missing: where to get it, what is wrong with it, or that nothing has been
        computed for it.
    command
        The command that runs it again.
    pages
        The function that writes each page, by the file's name; the first is the main page.
    draw
        The function that draws pictures into a folder and returns their paths.
    """

    name: str
    runner: Runner
    lines: tuple[tuple[Line, tuple[Trial, ...]], ...]
    outcomes: Mapping[Trial, TrialOutcome]
    failures: Mapping[Trial, str]
    not_run: Mapping[str, str]
    command: str
    pages: Mapping[str, Page]
    draw: Draw | None = None

    @property
    def seeds(self) -> list[int]:
        """The seeds of all outcomes."""
        return self.seeds_of(self.outcomes)

    def seeds_of(self, trials: Iterable[Trial]) -> list[int]:
        """Return the seeds for which some of these trials have an outcome."""
        return sorted({trial.seed for trial in trials if trial in self.outcomes})

    def found(self, trials: Iterable[Trial], rule: object) -> list[TrialOutcome]:
        """Return the outcomes of those trials with a rule."""
        return [
            self.outcomes[trial]
            for trial in trials
            if trial in self.outcomes and trial.rule == rule
        ]

    def shown(self, trials: Iterable[Trial], rule: object) -> TrialOutcome | None:
        """Return one outcome with a rule: of the appendix's seed, or else of the first."""
        found = self.found(trials, rule)
        return min(
            found,
            key=lambda each: (each.trial.seed != APPENDIX_SEED, each.trial.seed),
            default=None,
        )

    def comparisons(self) -> list[Comparison]:
        """Return each measure of each line beside the paper's.

        A variant that adapts has AUROC and AUPRC for each of its thresholds. The paper prints one
        figure and does not state for which. We set it beside the run with the threshold for F1,
        because on MSL P-15, TTA, the other's AUROC is 0.1 below, also in the paper's appendix.
        """
        return [each for line, trials in self.lines for each in self._compare(line, trials)]

    def _compare(self, line: Line, trials: Sequence[Trial]) -> Iterable[Comparison]:
        known = title(line.competitor.model) if line.compared else None
        for order, (rule, serves) in enumerate(line.rules.distinct().items()):
            under = self.found(trials, rule)
            if not under:
                continue
            # Without adaptation the scores are the same for any threshold.
            ranking = ("auroc", "auprc") if order == 0 or line.variant.adapt else ()
            for measure in serves + ranking:
                paper = None
                if known is not None and (order == 0 or measure in serves):
                    paper = paper_figure(line.stream.name, line.variant.name, measure, known)
                yield Comparison(
                    dataset=line.stream.name,
                    model=line.competitor.name,
                    variant=line.variant.name,
                    measure=measure,
                    rule=rule,
                    seeds=len(under),
                    tau=Figure.of([each.tau for each in under]),
                    ours=Figure.of([getattr(each.report, measure) for each in under]),
                    paper=paper,
                )

    def csv(self) -> str:
        """Return a line a trial, and a line for each data set not found and each failure."""
        text = io.StringIO()
        options = [field.name for field in fields(TrialOptions)]
        measures = [field.name for field in fields(Report) if field.name != "threshold"]
        head = ["status", "dataset", "model", "variant", "seed", "measures", "rule", "oracle"]
        table = csv.DictWriter(
            text,
            [*head, "tau", *measures, "learned", "restored", *options, "note"],
            lineterminator="\n",
        )
        table.writeheader()
        for line, trials in self.lines:
            for trial in trials:
                cells: dict[str, Any] = {
                    "dataset": trial.dataset,
                    "model": line.competitor.name,
                    "variant": trial.variant,
                    "seed": trial.seed,
                    "measures": " ".join(line.rules.distinct()[trial.rule]),
                    "rule": str(trial.rule),
                    "oracle": trial.rule.oracle,
                    **asdict(trial.options),
                }
                outcome = self.outcomes.get(trial)
                if outcome is None:
                    cells |= {"status": "failed", "note": self.failures[trial]}
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
        """Return the main page: ours, the paper's and the difference."""
        return next(iter(self.pages.values()))(self)

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write pages, table and pictures into a folder, and return their paths."""
        folder = Path(folder)
        texts = {name: page(self) for name, page in self.pages.items()}
        paths = write_texts(folder, {**texts, f"{self.name}.csv": self.csv()})
        return paths if self.draw is None else (*paths, *self.draw(self, folder))


def write_texts(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write files into a folder, made if it does not exist, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return tuple(folder / name for name in texts)


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"  # noqa: PLR0124 - NaN
    return value
