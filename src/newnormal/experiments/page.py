"""Results as a Markdown page: ours, the paper's, the difference."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numba
import numpy as np

import newnormal
from newnormal.experiments.comparison import Comparison
from newnormal.experiments.judging import Run
from newnormal.experiments.paper import MEASURES, Figure, Rule
from newnormal.experiments.rows import ROWS

__all__ = ["ablation", "table"]

_INTRODUCTION = """\
# The paper's ablation, run again

The MLP of the paper: frozen, with detrending alone (DT), with adaptation alone (TTA), with both;
its hyperparameters, its threshold rules. Made by `{command}`.

- Figures are the mean ± population standard deviation over seeds {seeds}; AUPRC is the trapezoid's.
- Qp is the p-th percentile of history's scores and τ its value. Q\\* is an **oracle**: the
  threshold with the best F1 on the test labels, from the frozen model's scores. Figures with it
  stand apart or are marked.
- A figure of the paper without ± is one run of its appendix; a dash is one it does not print.
- A difference is **bold** where it exceeds 2·√(s² + s²), with ours and the paper's deviation, and
  the last digit the paper prints.
- Every run, with all its counts, is a line of [ablation.csv](ablation.csv).

Computed by {versions}. Another machine rounds differently, which learning magnifies.
"""

_RANKING = """\
## The score: AUROC and AUPRC

They need no threshold, but adaptation does: it learns from what scores below τ. For an adapting row
with two thresholds the paper prints one figure and does not say for which. We set it beside the run
with the threshold for F1, a choice made after seeing both: with the other, MSL P-15, TTA, has an
AUROC far below the 0.640 ± 0.036 it prints (in its own appendix, too: 0.546).
"""

_HONEST = """\
## The decision: F1 and F1-PA, thresholds from history

Precision, recall and counts are means, after point adjustment for F1-PA.
"""

_ORACLE = """\
## The decision: oracle thresholds

As the paper has it where its rule is Q\\*. No detector in use can have such a threshold.
"""

_DIFFERENCES = """\
## Where ours differs from the paper

{within} of the {judged} figures for which the paper prints a deviation are within 2·√(s² + s²).
Small differences mean little: with the authors' code, scaling the initial weights by 1 ± 1e-7
moved the five-seed means of MSL P-15, DT+TTA, between 0.449 and 0.554 (F1) and between 0.563 and
0.650 (AUPRC).
"""


def ablation(
    comparisons: Sequence[Comparison],
    runs: Sequence[Run],
    *,
    not_run: Mapping[str, str],
    command: str,
) -> str:
    """Return the page of the ablation."""
    seeds = sorted({run.seed for run in runs})
    parts = [
        _INTRODUCTION.format(
            command=command, seeds=", ".join(map(str, seeds)) or "none", versions=_versions()
        )
    ]
    if comparisons:
        parts += [
            _RANKING,
            _ranking(comparisons),
            _HONEST,
            _decisions(comparisons, runs, oracle=False),
            _ORACLE,
            _decisions(comparisons, runs, oracle=True),
            _differences(comparisons),
        ]
    if not_run:
        parts += ["## Not run\n", table(("data set", "why"), not_run.items())]
    return "\n".join(parts)


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    Examples
    --------
    >>> print(table(("a", "b"), [("1", "2")]), end="")
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    rows = [header, ["---"] * len(header)]
    rows += [[" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _ranking(comparisons: Sequence[Comparison]) -> str:
    header = ["data set", "row", "rule", "τ"]
    for measure in ("auroc", "auprc"):
        header += [MEASURES[measure], "paper", "difference"]
    areas = {(c.dataset, c.row, str(c.rule), c.measure): c for c in comparisons}
    adapting = {row.name for row in ROWS if row.adapt}
    lines = []
    for (dataset, row, rule, measure), first in areas.items():
        if measure == "auroc":
            second = areas[dataset, row, rule, "auprc"]
            threshold = [_rule(first.rule), _tau(first.tau)] if row in adapting else ["", ""]
            lines.append([dataset, row, *threshold, *_beside(first), *_beside(second)])
    return table(header, lines)


def _decisions(comparisons: Sequence[Comparison], runs: Sequence[Run], *, oracle: bool) -> str:
    header = ["data set", "row", "measure", "rule", "τ", "ours", "paper", "difference"]
    header += ["precision", "recall", "TP", "FP", "FN", "TN"]
    lines = []
    for c in comparisons:
        if c.measure not in ("f1", "adjusted_f1") or c.rule.oracle != oracle:
            continue
        prefix = c.measure.removesuffix("f1")
        mine = [r for r in runs if (r.dataset, r.row, r.rule) == (c.dataset, c.row, str(c.rule))]

        def mean(name: str, prefix: str = prefix, mine: list[Run] = mine) -> float:
            return fmean(getattr(run, prefix + name) for run in mine)

        ratios = [f"{mean(name):.3f}" for name in ("precision", "recall")]
        counts = [f"{mean(name):.0f}" for name in ("tp", "fp", "fn", "tn")]
        threshold = [_rule(c.rule), _tau(c.tau)]
        name = MEASURES[c.measure]
        lines.append([c.dataset, c.row, name, *threshold, *_beside(c), *ratios, *counts])
    return table(header, lines)


def _differences(comparisons: Sequence[Comparison]) -> str:
    judged = [c for c in comparisons if c.agrees is not None]
    beyond = [c for c in judged if not c.agrees]
    text = _DIFFERENCES.format(within=len(judged) - len(beyond), judged=len(judged))
    if beyond:
        header = ("data set", "row", "measure", "rule", "ours", "paper", "difference")
        text += "\n" + table(
            header,
            [[c.dataset, c.row, MEASURES[c.measure], _rule(c.rule), *_beside(c)] for c in beyond],
        )
    return text


def _beside(compared: Comparison) -> list[str]:
    """Return ours, the paper's and the difference."""
    if compared.paper is None or compared.difference is None:
        return [str(compared.ours), "-", ""]
    difference = f"{compared.difference:+.3f}"
    if compared.agrees is False:
        difference = f"**{difference}**"
    return [str(compared.ours), str(compared.paper), difference]


def _tau(tau: Figure) -> str:
    return f"{tau.mean:.3g}" + ("" if tau.std is None else f" ± {tau.std:.2g}")


def _rule(rule: Rule) -> str:
    return "Q\\* (oracle)" if rule.oracle else str(rule)


def _versions() -> str:
    return (
        f"newnormal {newnormal.__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__} and Numba {numba.__version__} on "
        f"{platform.system()} {platform.machine()}"
    )
