"""AnoShift, ten years of network traffic: table:anoshift and fig:anoshift.

The paper gives no settings for it. Ours: the MLP with window 12, latent 16, γ 0.99, η 0.001 and
threshold Q99; the other detectors judge one row at a time. Each is fitted once on the normal rows
of 2006 to 2010; every split starts from the fitted state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Unpack

import numpy as np

from newnormal.errors import InputError
from newnormal.metrics import auprc, auroc
from newnormal_reproduce.engine.arrays import Floats
from newnormal_reproduce.engine.competitors import MOST_ROWS
from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.plan import Request, TrialPlan
from newnormal_reproduce.engine.published import Figure, Rule, Rules, anoshift_table
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import DataStream, Roots, load_stream
from newnormal_reproduce.engine.trial import Trial, TrialOutcome
from newnormal_reproduce.engine.variants import BOTH, FROZEN
from newnormal_reproduce.paper.shift import years_apart
from newnormal_reproduce.report import pages
from newnormal_reproduce.report.bars import Group, grouped_bars
from newnormal_reproduce.report.figures import figure_link, save_figure

SPLITS = ("near", "far", "2011", "2012", "2013", "2014", "2015")
MEASURES = {"auroc": "AUROC", "auprc_in": "AUPRC-in", "auprc_out": "AUPRC-out"}
_MODELS = ("pyod:SO_GAAL", "pyod:DeepSVDD", "pyod:LUNAR", "icl", "bert", "mlp")
# The paper's name for each line of ours.
_NAMES = {
    "SO_GAAL": "SO-GAAL",
    "DeepSVDD": "deepSVDD",
    "LUNAR": "LUNAR",
    "ICL": "ICL",
    "BERT": "BERT",
    "MLP": "MLP",
    "MLP + DT+TTA": "MLP+Ours",
}
_WINDOWS = (
    ("window", 12),
    ("stride", 12),
    ("fit_stride", 12),
    ("latent", 16),
    ("decay", 0.99),
    ("lr", 0.001),
    ("epochs", 10),
    ("batch", 64),
)
_RULE = Rule(99.0)

_TEXT = pages.texts("anoshift")


class AnoShift:
    """The results, measured as AnoShift does."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.measured = {
            trial: _measured(outcome, experiment.runner)
            for trial, outcome in experiment.outcomes.items()
        }

    def figures(self, split: str) -> dict[str, dict[str, Figure]]:
        """Return each measure of each line on a split, over the seeds."""
        figures_of: dict[str, dict[str, Figure]] = {}
        for line, trials in self.experiment.lines:
            values = [self.measured[trial] for trial in trials if trial in self.measured]
            if line.stream.name == f"AnoShift/{split}" and values:
                figures_of[line.name] = {
                    measure: Figure.of([measures[measure] for measures in values])
                    for measure in MEASURES
                }
        return figures_of

    def seeds(self, split: str) -> dict[str, int]:
        """Return the number of seeds of each line on a split."""
        return {
            line.name: len(self.experiment.seeds_of(trials))
            for line, trials in self.experiment.lines
            if line.stream.name == f"AnoShift/{split}"
        }

    def markdown(self) -> str:
        """Return the page."""
        experiment = self.experiment
        seeds = pages.over_seeds(experiment)
        parts = [
            _TEXT["introduction"].format(
                command=experiment.command, most=MOST_ROWS, seeds=seeds, versions=pages.versions()
            )
        ]
        for split in ("near", "far"):
            if self.figures(split):
                parts += [f"## {split.upper()}\n", self._split(split)]
        if years := [split for split in SPLITS[2:] if self.figures(split)]:
            parts.append(figure_link("anoshift-years", "Normal traffic by year, t-SNE.") + "\n")
            if self._gains():
                parts.append(figure_link("anoshift-gain", "Gain of DT+TTA in each year.") + "\n")
            for measure, title in MEASURES.items():
                parts += [f"## {title} by year\n", self._years(measure, years)]
        return "\n".join([*parts, *pages.not_run(experiment)])

    def _split(self, split: str) -> str:
        header = ["method", "seeds"]
        for title in MEASURES.values():
            header += [title, "paper", "difference"]
        printed = {
            line["method"]: line
            for line in anoshift_table()
            if line["reported"] == "paper" or line["method"] != "MLP"
        }
        lines = []
        for name, figures in self.figures(split).items():
            line = printed.get(_NAMES.get(name, ""))
            cells = []
            for measure, figure in figures.items():
                if line is None:
                    cells += [str(figure), "-", ""]
                else:
                    paper = line[f"{split}_{measure}"]
                    cells += [str(figure), paper, f"{figure.mean - float(paper):+.3f}"]
            lines.append([name, str(self.seeds(split)[name]), *cells])
        return pages.table(header, lines)

    def _years(self, measure: str, years: Sequence[str]) -> str:
        by_year = {year: self.figures(year) for year in years}
        names = list(dict.fromkeys(name for row in by_year.values() for name in row))
        lines = []
        for name in names:
            row = {year: by_year[year][name][measure] for year in years if name in by_year[year]}
            seeds = pages.span(self.seeds(year)[name] for year in row)
            lines.append([name, seeds, *(str(row.get(year, "-")) for year in years)])
        return pages.table(["method", "seeds", *years], lines)

    def csv(self) -> str:
        """Return a line a trial, and one for each split not found and each failure."""

        def cells(line: Line, trial: Trial, outcome: TrialOutcome | None) -> dict[str, object]:
            if outcome is None:
                return {"method": line.name}
            values = {name: f"{value:.6g}" for name, value in self.measured[trial].items()}
            return {"method": line.name, **values, "tau": outcome.tau}

        columns = ["status", "split", "method", "seed", *MEASURES, "tau", "note"]
        rows = self.experiment.rows(cells)
        return csv_text(columns, ({"split": row.pop("dataset"), **row} for row in rows))

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write page, table and picture into a folder, and return their paths."""
        folder = Path(folder)
        texts = {"anoshift.md": self.markdown(), "anoshift.csv": self.csv()}
        return (*write_texts(folder, texts), *self._draw(folder))

    def _gains(self) -> dict[str, Group]:
        """Return the gain of DT+TTA over the frozen MLP in each year."""
        groups: dict[str, Group] = {}
        for year in SPLITS[2:]:
            figures = self.figures(year)
            if "MLP" in figures and "MLP + DT+TTA" in figures:
                both, frozen = figures["MLP + DT+TTA"], figures["MLP"]
                groups[year] = {
                    title: (Figure(both[measure].mean - frozen[measure].mean, None), None)
                    for measure, title in MEASURES.items()
                }
        return groups

    def _draw(self, folder: Path) -> list[Path]:
        """Draw fig:anoshift: the years in a plane, and the gain of DT+TTA in each."""
        paths = []
        if gains := self._gains():
            figure = grouped_bars(gains, axis="gained by DT+TTA", level=0.0)
            paths += save_figure(figure, folder, "anoshift-gain")
        if normal := self._normal_rows():
            paths += save_figure(years_apart(normal), folder, "anoshift-years")
        return paths

    def _normal_rows(self) -> dict[str, Floats]:
        """Return the history and each year's normal rows, for fig:anoshift (a)."""
        rows: dict[str, Floats] = {}
        for line, _ in self.experiment.lines:
            split = line.stream.name.partition("/")[2]
            if split in SPLITS[2:] and split not in rows:
                data = load_stream(line.stream.name, line.stream.root)
                rows.setdefault("2006 to 2010", data.train)
                rows[split] = data.test[data.labels == 0]
        return rows


def anoshift(roots: Roots | Runner, **request: Unpack[Request]) -> AnoShift:
    """Run AnoShift's NEAR and FAR splits and its years.

    The request is as in `TrialPlan.of`. By default: near, far and each year from 2011 to 2015, such
    as ``"AnoShift/near"``; SO-GAAL, DeepSVDD, LUNAR, ICL, BERT and the MLP.
    """
    plan = TrialPlan.of(roots, **request)
    taking_part = plan.competitors(_MODELS)

    def lines_of(stream: DataStream) -> Iterator[Line]:
        for competitor in taking_part if stream.name not in plan.runner.streams.series else ():
            single = competitor.model.startswith("pyod:") or competitor.model in ("icl", "bert")
            ours = replace(competitor, options=competitor.options or _WINDOWS)
            for variant in (FROZEN,) if single else (FROZEN, BOTH):
                yield Line(stream, ours, variant, Rules(_RULE, _RULE), plan.seeds, compared=False)

    usual = [f"AnoShift/{split}" for split in SPLITS]
    return AnoShift(plan.conduct("anoshift", usual, lines_of, pages={}))


def _measured(outcome: TrialOutcome, runner: Runner) -> dict[str, float]:
    """Return AnoShift's measures; NaN if a split has only one class."""
    stream = runner.streams.about(outcome.trial.dataset)
    labels = load_stream(stream.name, stream.root).labels
    scores = np.nan_to_num(outcome.judgement.scores, nan=-np.inf)
    try:
        return {
            "auroc": auroc(labels, scores),
            "auprc_in": auprc(1 - labels, -scores),
            "auprc_out": auprc(labels, scores),
        }
    except InputError:
        return dict.fromkeys(MEASURES, float("nan"))
