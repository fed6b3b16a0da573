"""All thresholds at once: fig:main_roc and fig:ab_f1trace.

ROC and precision-recall curves of the lines of the main table, and F1 against the threshold for
the variants of the ablation, from the scores that those experiments stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np

from newnormal_reproduce.engine.arrays import Floats, Ints
from newnormal_reproduce.engine.competitors import FIVE
from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.plan import Request, TrialPlan
from newnormal_reproduce.engine.published import settings
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import Roots, forget_data, load_stream
from newnormal_reproduce.engine.trial import TrialOutcome
from newnormal_reproduce.paper.ablation import ablation
from newnormal_reproduce.paper.main import main
from newnormal_reproduce.report import pages
from newnormal_reproduce.report.charts import Curve, Panel
from newnormal_reproduce.report.charts import curves as draw_curves
from newnormal_reproduce.report.figures import colour_of, figure_link, label_of, save_figure

_POINTS = 300  # of a drawn curve

_TEXT = pages.texts("curves")


class OperatingPoints(NamedTuple):
    """Rates at every threshold, from the highest to the lowest."""

    false_positive_rate: Floats
    recall: Floats
    precision: Floats


def operating_points(labels: Ints, scores: Floats) -> OperatingPoints:
    """Return false-positive rate, recall and precision for each distinct score as threshold.

    >>> operating_points(np.array([0, 1]), np.array([0.1, 0.9])).precision.tolist()
    [1.0, 1.0, 0.5]
    """
    truth, values = labels == 1, np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    order = np.argsort(-values, kind="stable")
    descending = values[order]
    ends = np.flatnonzero(np.append(descending[1:] != descending[:-1], True))
    hits = np.cumsum(truth[order])[ends]
    flagged = ends + 1
    anomalous = max(int(truth.sum()), 1)
    rates = (flagged - hits) / max(len(truth) - int(truth.sum()), 1)
    precision = hits / flagged
    return OperatingPoints(
        np.concatenate([[0.0], rates]),
        np.concatenate([[0.0], hits / anomalous]),
        np.concatenate([precision[:1], precision]),
    )


def f1_against_threshold(labels: Ints, scores: Floats, thresholds: Floats) -> Floats:
    """Return F1 at each threshold, where a sample is anomalous if its score reaches it.

    >>> f1_against_threshold(np.array([0, 1]), np.array([0.1, 0.9]), np.array([0.5, 2.0])).tolist()
    [1.0, 0.0]
    """
    truth, values = labels == 1, np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    order = np.argsort(values, kind="stable")
    first = np.searchsorted(values[order], thresholds, side="left")
    hits = np.append(np.cumsum(truth[order][::-1])[::-1], 0)[first]
    flagged = len(values) - first
    f1: Floats = 2 * hits / np.maximum(flagged + truth.sum(), 1)
    return f1


@dataclass(frozen=True, eq=False)
class Curves:
    """The runs of the curves: the main table's and the ablation's."""

    baselines: Experiment
    variants: Experiment
    command: str

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write ``curves.md``, ``curves.csv`` and the pictures, and return their paths."""
        folder, runner = Path(folder), self.baselines.runner
        taken = {"baselines": _median_runs(self.baselines), "variants": _median_runs(self.variants)}
        over = pages.over_seeds(self.baselines, self.variants, where="curves.csv")
        text = [_TEXT["introduction"].format(command=self.command, seeds=over)]
        pictures: list[Path] = []
        if taken["baselines"]:
            roc, pr = _ranking_panels(runner, taken["baselines"])
            for name, panels, caption in (
                ("curves-roc", roc, _TEXT["roc"]),
                ("curves-pr", pr, _TEXT["pr"]),
            ):
                pictures += save_figure(
                    draw_curves(panels, _colours(panels), columns=3), folder, name
                )
                text.append(figure_link(name, caption) + "\n")
        if taken["variants"]:
            panels = _threshold_panels(runner, taken["variants"])
            figure = draw_curves(panels, _colours(panels), columns=3)
            pictures += save_figure(figure, folder, "curves-f1")
            text += [figure_link("curves-f1", _TEXT["f1"]) + "\n", _TEXT["best"]]
            text.append(pages.table(_HEADER, [_line(median) for median in taken["variants"]]))
        text += pages.not_run(self.baselines, self.variants)
        forget_data()
        texts = {"curves.md": "\n".join(text), "curves.csv": _csv(taken)}
        return (*write_texts(folder, texts), *pictures)


def curves(roots: Roots | Runner, **request: Unpack[Request]) -> Curves:
    """Run the lines of the main table and the MLP's variants of the ablation, and draw curves.

    The request is as in `TrialPlan.of`. By default: the paper's nine data sets; its five models for
    the ROC and precision-recall curves.
    """
    plan = TrialPlan.of(roots, **request)
    return Curves(*runs_behind(plan, plan.seeds), plan.command("curves"))


def runs_behind(plan: TrialPlan, seeds: Sequence[int]) -> tuple[Experiment, Experiment]:
    """Run the main table's lines for some seeds, and the MLP's ablation for all of the plan's."""
    names = plan.streams([setting.name for setting in settings()])
    models = FIVE if plan.models is None else plan.models
    runner, variants = plan.runner, plan.requested_variants
    return (
        main(
            runner, datasets=names, models=models, variants=variants, seeds=seeds, extra=plan.extra
        ),
        ablation(runner, datasets=names, variants=variants, seeds=plan.seeds),
    )


class _MedianRun(NamedTuple):
    """The run of a line that is drawn, and the number of seeds of which it is the median."""

    line: Line
    run: TrialOutcome
    seeds: int


def _median_runs(experiment: Experiment) -> list[_MedianRun]:
    """Return each line's run of median AUROC, with the threshold for F1."""
    medians = []
    for line, trials in experiment.lines:
        if runs := experiment.outcomes_of(trials, line.rules.f1):
            ranked = sorted(runs, key=lambda run: run.report.auroc)
            medians.append(_MedianRun(line, ranked[(len(ranked) - 1) // 2], len(ranked)))
    return medians


def _ranking_panels(runner: Runner, runs: Sequence[_MedianRun]) -> tuple[list[Panel], list[Panel]]:
    roc, pr = [], []
    for name in dict.fromkeys(median.line.stream.name for median in runs):
        labels = _labels(runner, name)
        left, right = [], []
        for line, run, _ in runs:
            if line.stream.name != name:
                continue
            points = operating_points(labels, run.judgement.scores)
            called, strong = line.name, line.variant.name == "DT+TTA"
            left.append(Curve(called, *_thin(points.false_positive_rate, points.recall), strong))
            right.append(Curve(called, *_thin(points.recall, points.precision), strong))
        roc.append(Panel(label_of(name), left, "false-positive rate", "recall", diagonal=True))
        pr.append(Panel(label_of(name), right, "recall", "precision", level=float(labels.mean())))
    return roc, pr


def _threshold_panels(runner: Runner, runs: Sequence[_MedianRun]) -> list[Panel]:
    panels = []
    for name in dict.fromkeys(run.line.stream.name for run in runs):
        labels = _labels(runner, name)
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
            f1_at_tau = f1_against_threshold(labels, scores, np.array([run.tau]))
            drawn.append(
                Curve(
                    line.name,
                    thresholds,
                    f1,
                    line.variant.name == "DT+TTA",
                    (run.tau, float(f1_at_tau[0])),
                )
            )
        panels.append(Panel(label_of(name), drawn, "threshold", "F1", log=True))
    return panels


_HEADER = (
    *("data set", "variant", "seeds", "shown", "rule", "τ", "F1", "best F1 (oracle)"),
    "its threshold",
)


def _line(taken: _MedianRun) -> list[str]:
    line, run, seeds = taken
    report = run.report
    return [
        line.stream.name,
        line.name,
        str(seeds),
        str(run.trial.seed),
        str(run.trial.rule).replace("*", "\\*") + (" (oracle)" if run.trial.rule.oracle else ""),
        f"{run.tau:.3g}",
        f"{report.f1:.3f}",
        f"{report.best_f1:.3f}",
        f"{report.best_f1_threshold:.3g}",
    ]


def _csv(taken: dict[str, list[_MedianRun]]) -> str:
    measures = ("auroc", "auprc", "f1", "best_f1", "best_f1_threshold")
    rows = [
        {
            "curves": which,
            "dataset": line.stream.name,
            "name": line.name,
            "seeds": seeds,
            "seed": run.trial.seed,
            "rule": str(run.trial.rule),
            "tau": run.tau,
            **{name: getattr(run.report, name) for name in measures},
        }
        for which, runs in taken.items()
        for line, run, seeds in runs
    ]
    head = ["curves", "dataset", "name", "seeds", "seed", "rule", "tau"]
    return csv_text([*head, *measures], rows)


def _colours(panels: Sequence[Panel]) -> dict[str, str]:
    return {curve.name: colour_of(curve.name) for panel in panels for curve in panel.curves}


def _labels(runner: Runner, name: str) -> Ints:
    return load_stream(name, runner.streams.about(name).root).labels


def _thin(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return a curve with fewer points, more of them at its start."""
    if len(x) <= _POINTS:
        return x, y
    ends = np.linspace(0, len(x) - 1, 4 * _POINTS).astype(np.int64)
    early = np.geomspace(1, len(x) - 1, _POINTS).astype(np.int64)
    chosen = np.unique(np.concatenate([[0], early, ends]))
    return x[chosen], y[chosen]
