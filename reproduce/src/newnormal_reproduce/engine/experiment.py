"""The result of an experiment: the lines of its table, their trials, and the outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from newnormal.metrics import Report
from newnormal_reproduce.engine.comparison import Comparison, paper_figure
from newnormal_reproduce.engine.competitors import Competitor
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.published import (
    APPENDIX_SEED,
    Figure,
    Rule,
    Rules,
    TrialOptions,
    title,
)
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import DataStream
from newnormal_reproduce.engine.trial import Trial, TrialOutcome
from newnormal_reproduce.engine.variants import FROZEN, Variant

Page: TypeAlias = "Callable[[Experiment], str]"
Draw: TypeAlias = "Callable[[Experiment, Path], Sequence[Path]]"


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a table: a model on a stream, as a variant, with the thresholds of F1 and F1-PA.

    It has a trial for each seed and threshold.
    """

    stream: DataStream
    competitor: Competitor
    variant: Variant
    rules: Rules
    seeds: tuple[int, ...]
    steady: bool = False  # divide the learning rate by ten until it does not diverge on history
    compared: bool = True  # with the paper's figures, if it has any

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
    """The result of an experiment: an outcome or an error of each trial."""

    name: str  # also of its files
    runner: Runner
    lines: tuple[tuple[Line, tuple[Trial, ...]], ...]  # with those trials that have a result
    outcomes: Mapping[Trial, TrialOutcome]
    failures: Mapping[Trial, str]
    not_run: Mapping[str, str]  # why a data set is missing, or where to get it
    command: str  # runs it again
    pages: Mapping[str, Page]  # by the name of the file; the first is the main page
    draw: Draw | None = None  # draws pictures into a folder

    @property
    def seeds(self) -> list[int]:
        """The seeds of all outcomes."""
        return self.seeds_of(self.outcomes)

    def seeds_of(self, trials: Iterable[Trial]) -> list[int]:
        """Return the seeds for which some of these trials have an outcome."""
        return sorted({trial.seed for trial in trials if trial in self.outcomes})

    def outcomes_of(self, trials: Iterable[Trial], rule: Rule | None = None) -> list[TrialOutcome]:
        """Return the outcomes of these trials, or of those with a rule."""
        return [
            self.outcomes[trial]
            for trial in trials
            if trial in self.outcomes and rule in (None, trial.rule)
        ]

    def shown(self, trials: Iterable[Trial], rule: Rule) -> TrialOutcome | None:
        """Return one outcome with a rule: of the appendix's seed, or else of the first."""

        def order(outcome: TrialOutcome) -> tuple[bool, int]:
            return outcome.trial.seed != APPENDIX_SEED, outcome.trial.seed

        return min(self.outcomes_of(trials, rule), key=order, default=None)

    def comparisons(self) -> list[Comparison]:
        """Return each measure of each line beside the paper's.

        A variant that adapts has AUROC and AUPRC for each of its thresholds. The paper prints one
        figure and does not state for which. We set it beside the run with the threshold for F1,
        because on MSL P-15, TTA, the other's AUROC is 0.1 below, also in the paper's appendix.
        """
        return [row for line, trials in self.lines for row in self._compare(line, trials)]

    def _compare(self, line: Line, trials: Sequence[Trial]) -> Iterable[Comparison]:
        model = title(line.competitor.model) if line.compared else None
        for order, (rule, serves) in enumerate(line.rules.distinct().items()):
            if not (outcomes := self.outcomes_of(trials, rule)):
                continue
            # Without adaptation the scores are the same for any threshold.
            ranking = ("auroc", "auprc") if order == 0 or line.variant.adapt else ()
            for measure in serves + ranking:
                paper = None
                if model is not None and (order == 0 or measure in serves):
                    paper = paper_figure(line.stream.name, line.variant.name, measure, model)
                yield Comparison(
                    dataset=line.stream.name,
                    model=line.competitor.name,
                    variant=line.variant.name,
                    measure=measure,
                    rule=rule,
                    seeds=len(outcomes),
                    tau=Figure.of([outcome.tau for outcome in outcomes]),
                    ours=Figure.of([getattr(outcome.report, measure) for outcome in outcomes]),
                    paper=paper,
                )

    def csv(self) -> str:
        """Return a line a trial, and a line for each data set not found and each failure."""
        options = [field.name for field in fields(TrialOptions)]
        measures = [field.name for field in fields(Report) if field.name != "threshold"]
        head = ["status", "dataset", "model", "variant", "seed", "measures", "rule", "oracle"]
        columns = [*head, "tau", *measures, "learned", "restored", *options, "note"]

        def cells(line: Line, trial: Trial, outcome: TrialOutcome | None) -> dict[str, Any]:
            about = {
                "model": line.competitor.name,
                "variant": trial.variant,
                "measures": " ".join(line.rules.distinct()[trial.rule]),
                "rule": str(trial.rule),
                "oracle": str(trial.rule.oracle),
                **asdict(trial.options),
            }
            if outcome is None:
                return about
            counters = {"learned": outcome.learned, "restored": outcome.restored}
            return {
                **about,
                **asdict(outcome.report),
                "tau": outcome.tau,
                "lr": outcome.lr,
                **counters,
            }

        return csv_text(columns, self.rows(cells))

    def rows(
        self, cells: Callable[[Line, Trial, TrialOutcome | None], Mapping[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Yield the cells of each trial, and a row for each data set that is missing.

        Every row has its status, data set and, if there is no result, a note.
        """
        for line, trials in self.lines:
            for trial in trials:
                outcome = self.outcomes.get(trial)
                note = self.failures[trial] if outcome is None else None
                status = "ok" if outcome is not None else "failed"
                about = {"status": status, "dataset": trial.dataset, "seed": trial.seed}
                yield {**about, "note": note, **cells(line, trial, outcome)}
        for name, why in self.not_run.items():
            yield {"status": "absent", "dataset": name, "note": why}

    def markdown(self) -> str:
        """Return the main page: ours, the paper's and the difference."""
        return next(iter(self.pages.values()))(self)

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write pages, table and pictures into a folder, and return their paths."""
        folder = Path(folder)
        texts = {name: page(self) for name, page in self.pages.items()}
        paths = write_texts(folder, {**texts, f"{self.name}.csv": self.csv()})
        return paths if self.draw is None else (*paths, *self.draw(self, folder))
