"""The paper's ablation: its MLP frozen, detrended (DT), adapted (TTA) and both, on its data sets.

table:Ablation, table:Ablation_Full and table:Appendix:DetailExpAb, and the MLP's columns of
table:Main_Exp. The threshold decides what is learned, so a variant that adapts is run once for each
threshold rule that the paper used with it, and every figure stands with its threshold.
"""

from collections.abc import Iterator
from typing import Unpack

from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.plan import Request, TrialPlan
from newnormal_reproduce.engine.published import settings
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import DataStream, Roots
from newnormal_reproduce.engine.variants import VARIANTS
from newnormal_reproduce.report import pages

_TEXT = pages.texts("ablation")


def ablation(roots: Roots | Runner, **request: Unpack[Request]) -> Experiment:
    """Run the paper's ablation on those of its data sets that are in the given folders.

    Each data set and seed is fitted once; its variants share the weights.

    The request is as in `TrialPlan.of`. By default: the paper's nine data sets, the MLP, all four
    variants. Other models have the MLP's thresholds.
    """
    plan = TrialPlan.of(roots, **request)
    taking_part = plan.competitors(["mlp"])
    names = [competitor.name for competitor in taking_part]
    models = "The MLP of the paper" if names == ["MLP"] else ", ".join(names)

    def lines_of(stream: DataStream) -> Iterator[Line]:
        for competitor in taking_part:
            for variant in VARIANTS:
                rules = stream.setting.thresholds[variant.name]
                compared = competitor.name == "MLP"
                yield Line(stream, competitor, variant, rules, plan.seeds, compared=compared)

    return plan.conduct(
        "ablation",
        [setting.name for setting in settings()],
        lines_of,
        pages={
            "ablation.md": lambda result: pages.results(
                result, _TEXT["introduction"].replace("{models}", models)
            ),
            "ablation-detail.md": lambda result: pages.details(
                result, "The ablation in detail (table:Appendix:DetailExpAb)"
            ),
        },
    )
