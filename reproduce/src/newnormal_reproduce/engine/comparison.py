"""Our figure, the paper's figure, the difference, and whether it is significant."""

import math
from dataclasses import dataclass

from newnormal_reproduce.engine.published import Figure, Rule, detail, printed

LAST_DIGIT = 0.001  # the paper prints three


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One measure of one line of an experiment beside the paper's."""

    dataset: str
    model: str
    variant: str
    measure: str
    rule: Rule
    seeds: int
    tau: Figure  # the threshold over the seeds
    ours: Figure
    paper: Figure | None  # None if it prints none; without deviation if its appendix alone has it

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.paper is None else self.ours.mean - self.paper.mean

    @property
    def agrees(self) -> bool | None:
        """Whether the difference is within twice both deviations together, or the last digit.

        None if one of the two is a single run, or the paper prints nothing.
        """
        if self.paper is None or self.paper.std is None or self.ours.std is None:
            return None
        allowed = max(2 * math.hypot(self.ours.std, self.paper.std), LAST_DIGIT)
        return abs(self.ours.mean - self.paper.mean) <= allowed


def paper_figure(dataset: str, variant: str, measure: str, model: str = "MLP") -> Figure | None:
    """Return the figure that the paper prints for a model's variant, from any of its tables.

    table:Ablation_Full has three data sets; table:Main_Exp_Full has frozen and DT+TTA of all nine.
    Detrending alone and adaptation alone on the other six are in the appendix, as one run and
    without AUPRC.

    >>> print(paper_figure("MSL/P-15", "DT", "auroc"), "|", paper_figure("SMD/1-4", "DT", "auroc"))
    0.799 ± 0.008 | 0.838
    """
    for table in ("ablation", "main"):
        if (figure := printed(table, dataset, variant, measure, model)) is not None:
            return figure
    line = detail(dataset, variant, "adjusted_f1" if measure == "adjusted_f1" else "f1", model)
    return None if line is None or measure not in line else Figure(float(line[measure]), None)
