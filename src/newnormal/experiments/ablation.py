"""The paper's ablation: its MLP frozen, detrended (DT), adapted (TTA) and both, on its data sets.

table:Ablation, table:Ablation_Full and table:Appendix:DetailExpAb, and the MLP's columns of
table:Main_Exp. The threshold decides what is learned, so a row that adapts is run once for each
threshold rule the paper used with it, and every figure stands with its threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from newnormal.experiments import page
from newnormal.experiments.experiment import Experiment, Line
from newnormal.experiments.lab import Lab
from newnormal.experiments.paper import settings
from newnormal.experiments.plan import Asked, Plan
from newnormal.experiments.rows import ROWS
from newnormal.experiments.streams import Roots, Stream

__all__ = ["ablation"]

_INTRODUCTION = """\
# The paper's ablation, run again

The MLP of the paper: frozen, with detrending alone (DT), with adaptation alone (TTA), with both;
its hyperparameters, its threshold rules. Made by `{command}`. One seed in
full is in [ablation-detail.md](ablation-detail.md).
"""


def ablation(roots: Roots | Lab, **asked: Unpack[Asked]) -> Experiment:
    """Run the paper's ablation on those of its data sets that are under the given folders.

    Each data set and seed is fitted once; its rows share the weights. Needs the extra ``eval``.

    Parameters
    ----------
    roots, **asked
        As `Plan.of`'s. Usually: the paper's nine data sets, the MLP, all four rows. Other models
        have the MLP's thresholds.
    """
    plan = Plan.of(roots, **asked)
    taking_part = plan.entrants(["mlp"])

    def lines_of(stream: Stream) -> Iterator[Line]:
        for entrant in taking_part:
            for row in ROWS:
                rules = stream.setting.thresholds[row.name]
                compared = entrant.name == "MLP"
                yield Line(stream, entrant, row, rules, plan.seeds, compared=compared)

    return plan.conduct(
        "ablation",
        [setting.name for setting in settings()],
        lines_of,
        pages={
            "ablation.md": lambda result: page.results(result, _INTRODUCTION),
            "ablation-detail.md": lambda result: page.details(
                result, "The ablation in detail (table:Appendix:DetailExpAb)"
            ),
        },
    )
