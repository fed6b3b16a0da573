"""Ours: the detector that nobody tuned beside fixed settings, on every stream and under drift.

Nothing looks ahead, and no row has seen a test label.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Unpack

from newnormal.config import Config
from newnormal.experiments import drift_page, page
from newnormal.experiments.admission import DEFAULT
from newnormal.experiments.drift_alarms import Alarms
from newnormal.experiments.drift_figures import (
    COLLECTIONS,
    FIVE_SETS,
    PLAIN,
    TARGET,
    TUNED,
    Figures,
    Shares,
    called,
    collection,
)
from newnormal.experiments.drifting import DRIFTING
from newnormal.experiments.entrants import Entrant
from newnormal.experiments.experiment import Experiment, Line, write_texts
from newnormal.experiments.lab import Lab
from newnormal.experiments.linear import COMPONENTS, PCA
from newnormal.experiments.paper import Rule, Rules, settings
from newnormal.experiments.plan import Asked, Plan
from newnormal.experiments.rows import FROZEN, row_named
from newnormal.experiments.streams import Roots, Stream

__all__ = ["Drift", "drift"]

_PCA = f"{PCA.__module__}:{PCA.__name__}"
_MODELS = ("mlp", _PCA, DEFAULT)
_SETTINGS = ((0.8, 0.1), (0.99, 0.05), (0.999, 0.005))  # (γ, η)
_RULE = Rule(100 * (1 - TARGET))
_BOTH = row_named("DT+TTA")


class Drift:
    """What came of it."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.figures = Figures(experiment)

    @cached_property
    def alarms(self) -> Alarms:
        """What alarms come to; the detectors are run again for it."""
        return Alarms.of(self.experiment)

    def markdown(self) -> str:
        """Return the page."""
        lines = [each for each in self.experiment.lines if each[0].entrant.model != _PCA]
        chance = replace(self.experiment, lines=tuple(lines))
        seeds = page.over_seeds(chance, where="the first table")
        return drift_page.page_of(self.figures, self.alarms, seeds)

    def csv(self) -> str:
        """Return a line a unit, and a line for each data set not found and each failure."""
        text = io.StringIO()
        measures = ["auroc", "auprc", "vus_pr", "f1", "precision", "recall"]
        around = [f"{part}_{at}" for at in (1, 2) for part in Shares._fields]
        head = ["status", "dataset", "collection", "row", "seed", "rule", "tau"]
        table = csv.DictWriter(
            text, [*head, *measures, "called", *around, "note"], lineterminator="\n"
        )
        table.writeheader()
        for line, units in self.experiment.lines:
            for unit in units:
                cells: dict[str, object] = {
                    "dataset": unit.dataset,
                    "collection": collection(unit.dataset),
                    "row": line.entrant.name,
                    "seed": unit.seed,
                    "rule": str(unit.rule),
                }
                outcome = self.experiment.outcomes.get(unit)
                if outcome is None:
                    cells |= {"status": "failed", "note": self.experiment.failures[unit]}
                else:
                    found = {name: getattr(outcome.report, name) for name in measures}
                    found |= {"tau": outcome.tau, "called": called(outcome)}
                    every = [value for each in self.figures.shares.get(unit, []) for value in each]
                    found |= dict(zip(around, every, strict=False))
                    cells |= {name: _number(value) for name, value in found.items()}
                    cells["status"] = "ok"
                table.writerow(cells)
        for name, why in self.experiment.not_run.items():
            table.writerow({"status": "absent", "dataset": name, "note": why})
        return text.getvalue()

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write pages, table and pictures into a folder, and return their paths."""
        folder = Path(folder)
        texts = {
            "drift.md": self.markdown(),
            "drift-detail.md": drift_page.details_of(self.figures),
            "drift.csv": self.csv(),
            "drift-alarms.csv": self.alarms.csv(),
        }
        pictures = drift_page.draw(self.figures, self.alarms, folder)
        return (*write_texts(folder, texts), *pictures)


def drift(roots: Roots | Lab, **asked: Unpack[Asked]) -> Drift:
    """Run the default detector beside fixed ones on every stream found, and on generated drift.

    Parameters
    ----------
    roots, **asked
        As `Plan.of`'s. Usually: every stream found but AnoShift's, and generated ones, such as
        ``"drift/plant-1"``; the MLP, PCA and the default detector. Another model runs frozen.
    """
    plan = Plan.of(roots, **asked)
    taking_part = plan.entrants(_MODELS)
    places = [name for name in plan.lab.streams.places if not name.startswith("AnoShift/")]
    found = dict.fromkeys([*(setting.name for setting in settings()), *places])

    def lines_of(stream: Stream) -> Iterator[Line]:
        for entrant in taking_part:
            yield from _lines(stream, entrant, plan.seeds)

    usual = [*sorted(found, key=_order), *DRIFTING]
    return Drift(plan.conduct("drift", usual, lines_of, pages={}))


def _order(stream: str) -> int:
    """Sort key under which the collections of the macro mean come first."""
    owner = stream.partition("/")[0]
    return COLLECTIONS.index(owner) if owner in COLLECTIONS else len(COLLECTIONS)


def _lines(stream: Stream, entrant: Entrant, seeds: tuple[int, ...]) -> Iterator[Line]:
    rules = Rules(_RULE, _RULE)
    if entrant.model == DEFAULT:
        yield Line(stream, entrant, _BOTH, rules, seeds, compared=False)
    elif entrant.model == _PCA:
        if stream.channels > COMPONENTS:
            yield Line(stream, entrant, FROZEN, rules, seeds[:1], compared=False)
    elif entrant.model != "mlp" or entrant.options:
        yield Line(stream, entrant, FROZEN, rules, seeds, compared=False)
    else:
        yield Line(stream, _fixed(PLAIN), FROZEN, rules, seeds, compared=False)
        for decay, lr in _SETTINGS:
            fixed = _fixed(f"γ {decay}, η {lr}", decay, lr)
            yield Line(stream, fixed, _BOTH, rules, seeds, compared=False)
        if stream.name in FIVE_SETS:
            rule = stream.setting.thresholds[_BOTH.name].f1
            own = Entrant(TUNED, "mlp")
            yield Line(stream, own, _BOTH, Rules(rule, rule), seeds, compared=False)


def _fixed(name: str, decay: float = 1.0, lr: float = 0.0) -> Entrant:
    """Return the MLP at one setting for every stream; what is not given is the detector's own."""
    own = Config(window=5, latent=16, decay=decay, lr=lr)
    options = {
        "window": own.window,
        "stride": own.judging_stride(),
        "fit_stride": own.training_stride(),
        "latent": own.latent,
        "decay": own.decay,
        "lr": own.lr,
        "epochs": own.epochs,
        "batch": own.batch,
    }
    return Entrant(name, "mlp", tuple(options.items()))


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"
