"""The paper's main table: its five models frozen, and the MLP detrended and adapted.

table:Main_Exp, table:Main_Exp_Full, table:Appendix:DetailExpMain and figure 1b. Each model has the
thresholds that the paper chose for it. NAB's streams are extra lines with borrowed settings.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

from newnormal_reproduce.engine.competitors import PAPER_MODELS, Competitor
from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.plan import Request, TrialPlan
from newnormal_reproduce.engine.published import Rule, Rules, detail, settings, title
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import DataStream, Roots
from newnormal_reproduce.engine.variants import BOTH, FROZEN, Variant
from newnormal_reproduce.report import pages
from newnormal_reproduce.report.bars import Group, grouped_bars
from newnormal_reproduce.report.figures import figure_link, save_figure

_TEXT = pages.texts("main")

_CHARTS = {
    "main-f1": "F1 of each model on the paper's data sets, with the paper's thresholds.",
    "main-f1-others": "F1 of each model on streams that are not in the paper, threshold Q99.",
}


def main(roots: Roots | Runner, **request: Unpack[Request]) -> Experiment:
    """Run the paper's main experiment on those of its data sets that are in the given folders.

    Needs the extra ``plot``, and ``deep`` for all models but the MLP.

    The request is as in `TrialPlan.of`. By default: the paper's nine data sets, and those of NAB's
    realKnownCause if found; the paper's models. A model that is not in the paper runs frozen and
    with both parts.
    """
    plan = TrialPlan.of(roots, **request)
    taking_part = plan.competitors(PAPER_MODELS)
    nab = [name for name in plan.runner.streams.places if name.startswith("NAB/realKnownCause/")]

    def lines_of(stream: DataStream) -> Iterator[Line]:
        for competitor, variant in _lines(taking_part):
            rules = _rules(stream, competitor, variant)
            steady = variant.adapt and competitor.model != "mlp"
            yield Line(stream, competitor, variant, rules, plan.seeds, steady=steady)

    return plan.conduct(
        "main",
        [*(setting.name for setting in settings()), *nab],
        lines_of,
        pages={
            "main.md": _page,
            "main-detail.md": lambda result: pages.details(
                result, "The main table in detail (table:Appendix:DetailExpMain)"
            ),
        },
        draw=_draw,
    )


def _lines(taking_part: Sequence[Competitor]) -> list[tuple[Competitor, Variant]]:
    """Return all models frozen, then the MLP and models that are not in the paper with both."""
    frozen = [(competitor, FROZEN) for competitor in taking_part]
    return frozen + [
        (competitor, BOTH)
        for competitor in taking_part
        if title(competitor.model) is None or competitor.model == "mlp"
    ]


def _rules(stream: DataStream, competitor: Competitor, variant: Variant) -> Rules:
    """Return the thresholds that the paper chose; for models that are not in it, the MLP's."""
    name = title(competitor.model)
    if name is not None and name != "MLP" and stream.setting.of_the_paper:
        lines = [detail(stream.name, variant.name, measure, name) for measure in Rules._fields]
        if all(lines):
            return Rules(*(Rule.parse(line["threshold"]) for line in lines if line))
    return stream.setting.thresholds[variant.name]


def _page(result: Experiment) -> str:
    pictures = "".join(f"\n{figure_link(name, _CHARTS[name])}\n" for name in _charts(result))
    return pages.results(result, _TEXT["introduction"] + pictures)


def _charts(result: Experiment) -> dict[str, dict[str, Group]]:
    """Return the bars of figure 1b, and others for streams that are not in the paper."""
    chart, other_chart = _CHARTS
    charts: dict[str, dict[str, Group]] = {}
    papers = {setting.name for setting in settings()}
    for c in result.comparisons():
        if c.measure == "f1":
            name = c.model if c.variant == FROZEN.name else f"{c.model} + {c.variant}"
            groups = charts.setdefault(chart if c.dataset in papers else other_chart, {})
            groups.setdefault(c.dataset, {})[name] = (c.ours, c.paper)
    return charts


def _draw(result: Experiment, folder: Path) -> list[Path]:
    """Draw the F1 of each model, with the paper's thresholds, oracles included."""
    paths = []
    for name, groups in _charts(result).items():
        paths += save_figure(grouped_bars(groups, axis="F1"), folder, name)
    return paths
