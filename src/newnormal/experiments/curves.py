"""All thresholds at once: fig:main_roc and fig:ab_f1trace.

ROC and precision-recall curves of the rows of the main table, and F1 against the threshold for the
rows of the ablation, from the scores those experiments kept.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np

from newnormal.experiments import page
from newnormal.experiments.ablation import ablation
from newnormal.experiments.entrants import FIVE
from newnormal.experiments.experiment import Experiment, Line, write_texts
from newnormal.experiments.lab import Lab
from newnormal.experiments.main import main
from newnormal.experiments.paper import settings
from newnormal.experiments.pictures import colour_of, figure_of, keep, label_of
from newnormal.experiments.plan import Asked, Plan
from newnormal.experiments.streams import Roots, forget_data, load_stream
from newnormal.experiments.unit import Outcome
from newnormal.metrics.inputs import labels_and_scores
from newnormal.plots.charts import Curve, Panel
from newnormal.plots.charts import curves as draw_curves
from newnormal.types import Floats, Ints

__all__ = ["Curves", "curves", "f1_against_threshold", "operating_points", "runs_behind"]

_POINTS = 300  # of a drawn curve

_INTRODUCTION = """\
# All thresholds at once

`fig:main_roc` and `fig:ab_f1trace`. Made by `{command}`.

Each curve is one run: of {seeds}, the one whose AUROC is the median; which that
is stands in [curves.csv](curves.csv). A row that adapts was run with the threshold the paper chose
for its F1, which decides what it learns; the curve grades the scores of that run by other
thresholds.
"""

_ROC = """\
ROC curves, one panel a data set (fig:main_roc, left). A score that knows nothing gets the
diagonal."""
_PR = """\
Precision-recall curves (fig:main_roc, right). The level line is the share of anomalous samples,
which a score that knows nothing gets."""
_F1 = """\
F1 against the threshold for the rows of the ablation (fig:ab_f1trace), threshold on a log scale.
The dot is the threshold the paper's rule gives; where that is Q*, an oracle, it sits on the frozen
model's peak."""

_BEST = """\
## The decision, for every threshold

The best F1 over all thresholds is an **oracle**: nobody has it before the labels are known. Beside
it, F1 at the threshold the rule gives.
"""


class Points(NamedTuple):
    """What every threshold gives, from the highest to the lowest."""

    false_positive_rate: Floats
    recall: Floats
    precision: Floats


def operating_points(labels: Ints, scores: Floats) -> Points:
    """Return false-positive rate, recall and precision for each distinct score as threshold.

    Examples
    --------
    >>> operating_points(np.array([0, 1]), np.array([0.1, 0.9])).precision.tolist()
    [1.0, 1.0, 0.5]
    """
    truth, values = labels_and_scores(labels, scores)
    order = np.argsort(-values, kind="stable")
    descending = values[order]
    ends = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))
    hits = np.cumsum(truth[order])[ends]
    flagged = ends + 1
    anomalous = max(int(truth.sum()), 1)
    rates = (flagged - hits) / max(len(truth) - int(truth.sum()), 1)
    precision = hits / flagged
    return Points(
        np.concatenate([[0.0], rates]),
        np.concatenate([[0.0], hits / anomalous]),
        np.concatenate([precision[:1], precision]),
    )


def f1_against_threshold(labels: Ints, scores: Floats, thresholds: Floats) -> Floats:
    """Return F1 at each threshold, where a sample is anomalous if its score reaches it.

    Examples
    --------
    >>> f1_against_threshold(np.array([0, 1]), np.array([0.1, 0.9]), np.array([0.5, 2.0])).tolist()
    [1.0, 0.0]
    """
    truth, values = labels_and_scores(labels, scores)
    order = np.argsort(values, kind="stable")
    first = np.searchsorted(values[order], thresholds, side="left")
    hits = np.append(np.cumsum(truth[order][::-1])[::-1], 0)[first]
    flagged = len(values) - first
    f1: Floats = 2 * hits / np.maximum(flagged + truth.sum(), 1)
    return f1


@dataclass(frozen=True, eq=False)
class Curves:
    """The runs behind the curves: the main table's and the ablation's."""

    baselines: Experiment
    rows: Experiment
    command: str

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write ``curves.md``, ``curves.csv`` and the pictures, and return their paths."""
        folder, lab = Path(folder), self.baselines.lab
        taken = {"baselines": _median_runs(self.baselines), "rows": _median_runs(self.rows)}
        over = page.over_seeds(self.baselines, self.rows, where="curves.csv")
        text = [_INTRODUCTION.format(command=self.command, seeds=over)]
        pictures: list[Path] = []
        if taken["baselines"]:
            roc, pr = _ranking_panels(lab, taken["baselines"])
            for name, panels, caption in (("curves-roc", roc, _ROC), ("curves-pr", pr, _PR)):
                pictures += keep(draw_curves(panels, _colours(panels), columns=3), folder, name)
                text.append(figure_of(name, caption) + "\n")
        if taken["rows"]:
            panels = _threshold_panels(lab, taken["rows"])
            figure = draw_curves(panels, _colours(panels), columns=3)
            pictures += keep(figure, folder, "curves-f1")
            text += [figure_of("curves-f1", _F1) + "\n", _BEST]
            text.append(page.table(_HEADER, [_line(each) for each in taken["rows"]]))
        text += page.not_run(self.baselines, self.rows)
        forget_data()
        texts = {"curves.md": "\n".join(text), "curves.csv": _csv(taken)}
        return (*write_texts(folder, texts), *pictures)


def curves(roots: Roots | Lab, **asked: Unpack[Asked]) -> Curves:
    """Run what the curves are of: lines of the main table and the MLP's rows of the ablation.

    Parameters
    ----------
    roots, **asked
        As `Plan.of`'s. Usually: the paper's nine data sets; its five models for the ROC and
        precision-recall curves.
    """
    plan = Plan.of(roots, **asked)
    return Curves(*runs_behind(plan, plan.seeds), plan.command("curves"))


def runs_behind(plan: Plan, seeds: Sequence[int]) -> tuple[Experiment, Experiment]:
    """Run the main table's lines for some seeds, and the MLP's ablation for all of the plan's."""
    names = plan.streams([setting.name for setting in settings()])
    models = FIVE if plan.models is None else plan.models
    lab, rows = plan.lab, plan.asked_rows
    return (
        main(lab, datasets=names, models=models, rows=rows, seeds=seeds, extra=plan.extra),
        ablation(lab, datasets=names, rows=rows, seeds=plan.seeds),
    )


class _Taken(NamedTuple):
    """The run of a line that is drawn, and of how many seeds it is the middle one."""

    line: Line
    run: Outcome
    seeds: int


def _median_runs(experiment: Experiment) -> list[_Taken]:
    """Return each line's run of median AUROC, under the threshold for F1."""
    found = []
    for line, units in experiment.lines:
        runs = experiment.found(units, line.rules.f1)
        if runs:
            ranked = sorted(runs, key=lambda run: run.report.auroc)
            found.append(_Taken(line, ranked[(len(ranked) - 1) // 2], len(ranked)))
    return found


def _ranking_panels(lab: Lab, runs: Sequence[_Taken]) -> tuple[list[Panel], list[Panel]]:
    roc, pr = [], []
    for name in dict.fromkeys(each.line.stream.name for each in runs):
        labels = _labels(lab, name)
        left, right = [], []
        for line, run, _ in runs:
            if line.stream.name != name:
                continue
            points = operating_points(labels, run.judgement.scores)
            called, strong = line.name, line.row.name == "DT+TTA"
            left.append(Curve(called, *_thin(points.false_positive_rate, points.recall), strong))
            right.append(Curve(called, *_thin(points.recall, points.precision), strong))
        roc.append(Panel(label_of(name), left, "false-positive rate", "recall", diagonal=True))
        pr.append(Panel(label_of(name), right, "recall", "precision", level=float(labels.mean())))
    return roc, pr


def _threshold_panels(lab: Lab, runs: Sequence[_Taken]) -> list[Panel]:
    panels = []
    for name in dict.fromkeys(each.line.stream.name for each in runs):
        labels = _labels(lab, name)
        mine = [(line, run) for line, run, _ in runs if line.stream.name == name]
        shown = np.concatenate([run.judgement.scores for _, run in mine])
        shown = shown[np.isfinite(shown) & (shown > 0)]
        bounds = np.quantile(shown, [0.2, 1.0])
        taus = [run.tau for _, run in mine if np.isfinite(run.tau)]
        thresholds = np.geomspace(min([bounds[0], *taus]), max([bounds[1], *taus]) * 1.2, _POINTS)
        drawn = []
        for line, run in mine:
            scores = run.judgement.scores
            f1 = f1_against_threshold(labels, scores, thresholds)
            at = f1_against_threshold(labels, scores, np.array([run.tau]))
            drawn.append(
                Curve(
                    line.name,
                    thresholds,
                    f1,
                    line.row.name == "DT+TTA",
                    (run.tau, float(at[0])),
                )
            )
        panels.append(Panel(label_of(name), drawn, "threshold", "F1", log=True))
    return panels


_HEADER = (
    "data set",
    "row",
    "seeds",
    "shown",
    "rule",
    "τ",
    "F1",
    "best F1 (oracle)",
    "its threshold",
)


def _line(taken: _Taken) -> list[str]:
    line, run, seeds = taken
    report = run.report
    return [
        line.stream.name,
        line.name,
        str(seeds),
        str(run.unit.seed),
        str(run.unit.rule).replace("*", "\\*") + (" (oracle)" if run.unit.rule.oracle else ""),
        f"{run.tau:.3g}",
        f"{report.f1:.3f}",
        f"{report.best_f1:.3f}",
        f"{report.best_f1_threshold:.3g}",
    ]


def _csv(taken: dict[str, list[_Taken]]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    measures = ("auroc", "auprc", "f1", "best_f1", "best_f1_threshold")
    table.writerow(["curves", "dataset", "name", "seeds", "seed", "rule", "tau", *measures])
    for which, runs in taken.items():
        for line, run, seeds in runs:
            numbers = [f"{getattr(run.report, name):.6g}" for name in measures]
            place = [which, line.stream.name, line.name, seeds, run.unit.seed]
            table.writerow([*place, str(run.unit.rule), f"{run.tau:.6g}", *numbers])
    return text.getvalue()


def _colours(panels: Sequence[Panel]) -> dict[str, str]:
    return {curve.name: colour_of(curve.name) for panel in panels for curve in panel.curves}


def _labels(lab: Lab, name: str) -> Ints:
    return load_stream(name, lab.streams.about(name).root).labels


def _thin(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return a curve of at most so many points; those where y turns are among them."""
    if len(x) <= _POINTS:
        return x, y
    ends = np.linspace(0, len(x) - 1, 4 * _POINTS).astype(np.int64)
    early = np.geomspace(1, len(x) - 1, _POINTS).astype(np.int64)
    chosen = np.unique(np.concatenate([[0], early, ends]))
    return x[chosen], y[chosen]
