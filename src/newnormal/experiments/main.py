"""The paper's main table: its five models frozen, and the MLP detrended and adapted.

table:Main_Exp, table:Main_Exp_Full, table:Appendix:DetailExpMain and figure 1b. Each model has the
thresholds the paper chose for it. NAB's streams come as extra rows with borrowed settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

from newnormal.experiments import page
from newnormal.experiments.bars import Group, grouped_bars
from newnormal.experiments.entrants import PAPER_MODELS, Entrant
from newnormal.experiments.experiment import Experiment, Line
from newnormal.experiments.lab import Lab
from newnormal.experiments.paper import Rule, Rules, detail, settings, title
from newnormal.experiments.pictures import figure_of, keep
from newnormal.experiments.plan import Asked, Plan
from newnormal.experiments.rows import FROZEN, Row, row_named
from newnormal.experiments.streams import Roots, Stream

__all__ = ["main"]

_BOTH = row_named("DT+TTA")

_INTRODUCTION = """\
# The paper's main table, run again

Its five models as fitted, and its MLP with detrending and adaptation; its hyperparameters, its
threshold rules. Made by `{command}`. One seed in full is in
[main-detail.md](main-detail.md).

LSTM scores by the Mahalanobis distance; LSTM (diagonal) by the diagonal alone, as the authors' code
does, so that the paper's figures belong beside that one too. Streams the paper does not have borrow
settings: one channel Yahoo (A1-R20)'s, several SMD (M-2-1)'s, threshold Q99.
"""

_CHARTS = {
    "main-f1": "F1 of each model on the paper's data sets, under the paper's thresholds.",
    "main-f1-others": "F1 of each model on streams that the paper does not have, threshold Q99.",
}


def main(roots: Roots | Lab, **asked: Unpack[Asked]) -> Experiment:
    """Run the paper's main experiment on those of its data sets that are under the given folders.

    Needs the extras ``eval`` and ``plot``, and ``deep`` for all models but the MLP.

    Parameters
    ----------
    roots, **asked
        As `Plan.of`'s. Usually: the paper's nine data sets, and NAB's where found; the paper's
        models. One it does not have is run frozen and with both parts.
    """
    plan = Plan.of(roots, **asked)
    taking_part = plan.entrants(PAPER_MODELS)
    nab = [name for name in plan.lab.streams.places if name.startswith("NAB/")]

    def lines_of(stream: Stream) -> Iterator[Line]:
        for entrant, row in _lines(taking_part):
            rules = _rules(stream, entrant, row)
            steady = row.adapt and entrant.model != "mlp"
            yield Line(stream, entrant, row, rules, plan.seeds, steady=steady)

    return plan.conduct(
        "main",
        [*(setting.name for setting in settings()), *nab],
        lines_of,
        pages={
            "main.md": _page,
            "main-detail.md": lambda result: page.details(
                result, "The main table in detail (table:Appendix:DetailExpMain)"
            ),
        },
        draw=_draw,
    )


def _lines(taking_part: Sequence[Entrant]) -> list[tuple[Entrant, Row]]:
    """Return all frozen, then those that also run with both parts: the MLP and who is new."""
    new = [each for each in taking_part if title(each.model) is None or each.model == "mlp"]
    return [(each, FROZEN) for each in taking_part] + [(each, _BOTH) for each in new]


def _rules(stream: Stream, entrant: Entrant, row: Row) -> Rules:
    """Return the thresholds the paper chose, or for who is not in it, the MLP's."""
    known = title(entrant.model)
    if known is not None and known != "MLP" and stream.setting.of_the_paper:
        lines = [detail(stream.name, row.name, measure, known) for measure in Rules._fields]
        if all(lines):
            return Rules(*(Rule.parse(line["threshold"]) for line in lines if line))
    return stream.setting.thresholds[row.name]


def _page(result: Experiment) -> str:
    pictures = "".join(f"\n{figure_of(name, _CHARTS[name])}\n" for name in _charts(result))
    return page.results(result, _INTRODUCTION + pictures)


def _charts(result: Experiment) -> dict[str, dict[str, Group]]:
    """Return the bars of figure 1b, and others for streams that the paper does not have."""
    papers, others = _CHARTS
    charts: dict[str, dict[str, Group]] = {}
    known = {setting.name for setting in settings()}
    for c in result.comparisons():
        if c.measure == "f1":
            name = c.model if c.row == FROZEN.name else f"{c.model} + {c.row}"
            groups = charts.setdefault(papers if c.dataset in known else others, {})
            groups.setdefault(c.dataset, {})[name] = (c.ours, c.paper)
    return charts


def _draw(result: Experiment, folder: Path) -> list[Path]:
    """Draw the F1 of each model, under the paper's thresholds, oracles included."""
    paths = []
    for name, groups in _charts(result).items():
        paths += keep(grouped_bars(groups, axis="F1"), folder, name)
    return paths
