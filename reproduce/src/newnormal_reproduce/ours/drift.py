"""`Detector`, without settings, beside fixed settings, on every stream and under drift.

No row uses later samples or test labels.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Unpack

from newnormal import M2N2
from newnormal_reproduce.engine.competitors import Competitor
from newnormal_reproduce.engine.drifting import DRIFTING
from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.plan import Request, TrialPlan
from newnormal_reproduce.engine.published import DEFAULT, SEEDS, Rule, Rules, settings
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import DataStream, Roots
from newnormal_reproduce.engine.trial import Trial, TrialOutcome
from newnormal_reproduce.engine.variants import BOTH, FROZEN
from newnormal_reproduce.ours import drift_page
from newnormal_reproduce.ours.drift_alarms import DriftAlarms
from newnormal_reproduce.ours.drift_figures import (
    COLLECTIONS,
    COMPONENTS,
    FIVE_SETS,
    PLAIN,
    TARGET,
    TUNED,
    Figures,
    collection,
)
from newnormal_reproduce.ours.drift_operator import Operator
from newnormal_reproduce.ours.today import NAMES, ROWS, split
from newnormal_reproduce.report import pages

_MODELS = ("mlp", "pca", DEFAULT)
_SETTINGS = ((0.8, 0.1), (0.99, 0.05), (0.999, 0.005))  # (γ, η)
_SEEDS = SEEDS[:3]
_RULE = Rule(100 * (1 - TARGET))


class Drift:
    """The results."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.figures = Figures(experiment)

    @cached_property
    def alarms(self) -> DriftAlarms:
        """The alarms; the detectors run again to count them."""
        return DriftAlarms.of(self.experiment)

    @cached_property
    def operator(self) -> Operator:
        """The operator's table."""
        return Operator(self.figures, self.alarms.counts)

    def markdown(self) -> str:
        """Return the page."""
        one_seed = ("PCA", *NAMES)
        lines = [line for line in self.experiment.lines if line[0].competitor.name not in one_seed]
        chance = replace(self.experiment, lines=tuple(lines))
        seeds = pages.over_seeds(chance, where="the first table")
        return drift_page.page_of(self.figures, self.alarms, self.operator, seeds)

    def csv(self) -> str:
        """Return a line a trial, and a line for each data set not found and each failure."""
        measures = ["auroc", "auprc", "vus_pr", "f1", "precision", "recall"]
        head = ["status", "dataset", "collection", "half", "row", "seed", "rule", "tau"]

        def cells(line: Line, trial: Trial, outcome: TrialOutcome | None) -> dict[str, object]:
            about: dict[str, object] = {
                "collection": collection(trial.dataset),
                "half": self.figures.half(trial.dataset),
                "row": line.competitor.name,
                "rule": str(trial.rule),
            }
            if outcome is None:
                return about
            ours = {name: getattr(outcome.report, name) for name in measures}
            return {**about, **ours, "tau": outcome.tau, "found": self.figures.mark(outcome)}

        return csv_text([*head, *measures, "found", "note"], self.experiment.rows(cells))

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write pages, table and pictures into a folder, and return their paths."""
        folder = Path(folder)
        texts = {
            "drift.md": self.markdown(),
            "drift-detail.md": drift_page.details_of(self.figures),
            "drift.csv": self.csv(),
            **self.alarms.tables(),
        }
        pictures = drift_page.draw(self.figures, self.operator, folder)
        return (*write_texts(folder, texts), *pictures)


def drift(roots: Roots | Runner, **request: Unpack[Request]) -> Drift:
    """Run `Detector` beside fixed settings on every stream found, and on generated drift.

    The request is as in `TrialPlan.of`. By default: every stream found but those of AnoShift and
    TSB-AD-M, and generated ones, such as ``"drift/plant-1"``; the MLP, PCA and `Detector`; seeds
    2021 to 2023. Another model runs frozen.
    """
    if request.get("seeds") is None:
        request["seeds"] = _SEEDS
    plan = TrialPlan.of(roots, **request)
    rows, taking_part = split(plan, ROWS, _MODELS)
    common = plan.runner.streams.common
    names = dict.fromkeys([*(setting.name for setting in settings()), *common])

    def lines_of(stream: DataStream) -> Iterator[Line]:
        for row in rows:
            yield row.line(stream, plan.seeds)
        for competitor in taking_part:
            yield from row_lines(stream, competitor, plan.seeds)

    usual = [*sorted(names, key=_order), *DRIFTING]
    return Drift(plan.conduct("drift", usual, lines_of, pages={}))


def _order(stream: str) -> int:
    """Return a sort key that puts the collections of the macro mean first."""
    owner = stream.partition("/")[0]
    return COLLECTIONS.index(owner) if owner in COLLECTIONS else len(COLLECTIONS)


def row_lines(stream: DataStream, competitor: Competitor, seeds: tuple[int, ...]) -> Iterator[Line]:
    """Yield the lines of a competitor on a stream: the default detector, or frozen rows."""
    rules = Rules(_RULE, _RULE)
    if competitor.model == DEFAULT:
        yield Line(stream, competitor, BOTH, rules, seeds, compared=False)
    elif competitor.model == "pca" and not competitor.options:
        if stream.channels > COMPONENTS:
            pca = Competitor("PCA", "pca", (("latent", COMPONENTS),))
            yield Line(stream, pca, FROZEN, rules, seeds[:1], compared=False)
    elif competitor.model != "mlp" or competitor.options:
        yield Line(stream, competitor, FROZEN, rules, seeds, compared=False)
    else:
        yield Line(stream, _fixed(PLAIN), FROZEN, rules, seeds, compared=False)
        for decay, lr in _SETTINGS:
            fixed = _fixed(f"γ {decay}, η {lr}", decay, lr)
            yield Line(stream, fixed, BOTH, rules, seeds, compared=False)
        if stream.name in FIVE_SETS:
            rule = stream.setting.thresholds[BOTH.name].f1
            tuned = Competitor(TUNED, "mlp")
            yield Line(stream, tuned, BOTH, Rules(rule, rule), seeds, compared=False)


def _fixed(name: str, decay: float = 1.0, lr: float = 0.0) -> Competitor:
    """Return the MLP with one setting for every stream; other options are the defaults of M2N2."""
    defaults = M2N2().get_params()
    options = {
        **{option: defaults[option] for option in ("latent", "epochs", "batch")},
        **dict.fromkeys(("window", "stride", "fit_stride"), 5),
        "decay": decay,
        "lr": lr,
    }
    return Competitor(name, "mlp", tuple(options.items()))
