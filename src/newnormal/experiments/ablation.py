"""The paper's ablation: its MLP frozen, detrended (DT), adapted (TTA) and both, on its data sets.

table:Ablation, table:Ablation_Full and table:Appendix:DetailExpAb, and the MLP's columns of
table:Main_Exp. The threshold decides what is learned, so a row that adapts is run once for each
threshold rule the paper used with it, and every figure stands with its threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from newnormal.experiments import page
from newnormal.experiments.entrants import entrants
from newnormal.experiments.experiment import (
    Experiment,
    Line,
    check_seeds,
    command,
    conduct,
    find_streams,
)
from newnormal.experiments.lab import Lab
from newnormal.experiments.paper import SEEDS, settings
from newnormal.experiments.rows import rows_named
from newnormal.experiments.streams import Roots

__all__ = ["ablation"]

_INTRODUCTION = """\
# The paper's ablation, run again

The MLP of the paper: frozen, with detrending alone (DT), with adaptation alone (TTA), with both;
its hyperparameters, its threshold rules. Made by `{command}`. One seed in
full is in [ablation-detail.md](ablation-detail.md).
"""


def ablation(
    roots: Roots | Lab,
    *,
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    seeds: Sequence[int] = SEEDS,
    rows: Sequence[str] | None = None,
    extra: str | PathLike[str] | None = None,
    **lab_options: Any,
) -> Experiment:
    """Run the paper's ablation on those of its data sets that are under the given folders.

    Each data set and seed is fitted once; its rows share the weights. Needs the extra ``eval``.

    Parameters
    ----------
    roots
        Folders that hold data sets, or a `Lab`.
    datasets
        Names such as ``"SMD/1-4"``; None: the paper's nine.
    models
        Models to run, with the MLP's rules; None: the MLP.
    seeds
        One fit each.
    rows
        Rows to run: ``"frozen"``, ``"DT"``, ``"TTA"``, ``"DT+TTA"``; None: all four.
    extra
        A TOML file of further models.
    **lab_options
        As `Lab`'s: cache, processes, progress.
    """
    lab = roots if isinstance(roots, Lab) else Lab(roots, **lab_options)
    seeds, chosen = check_seeds(seeds), rows_named(rows)
    taking_part = entrants(models, ["mlp"], extra)
    names = lab.streams.chosen(datasets, [setting.name for setting in settings()])
    found = find_streams(lab, names)
    lines = [
        Line(
            stream,
            entrant,
            row,
            stream.setting.thresholds[row.name],
            seeds,
            compared=entrant.name == "MLP",
        )
        for stream in found.streams
        for entrant in taking_part
        for row in chosen
    ]
    return conduct(
        "ablation",
        lab,
        lines,
        not_run=found.not_run,
        command=command("ablation", seeds, lab, datasets=datasets, models=models, rows=rows),
        pages={
            "ablation.md": lambda result: page.results(result, _INTRODUCTION),
            "ablation-detail.md": lambda result: page.details(
                result, "The ablation in detail (table:Appendix:DetailExpAb)"
            ),
        },
    )
