"""Detrending, adaptation and both on all five models: what the paper claims and does not show.

γ and η are the MLP's of the paper's table. Where that η diverges for another model, it is the
largest of η/10, η/100 ... that does not, on history. The threshold, which decides what is learned,
is for every model and row the percentile the paper uses for the MLP's DT+TTA: no oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, TypeAlias, Unpack

from newnormal.experiments import page
from newnormal.experiments.bars import Group, grouped_bars
from newnormal.experiments.entrants import FIVE
from newnormal.experiments.experiment import Experiment, Line
from newnormal.experiments.lab import Lab
from newnormal.experiments.paper import Figure, Rules, settings
from newnormal.experiments.pictures import figure_of, keep
from newnormal.experiments.plan import Asked, Plan
from newnormal.experiments.rows import ROWS
from newnormal.experiments.streams import Roots, Stream

__all__ = ["everyone"]

_MEASURES = {"auroc": "AUROC", "auprc": "AUPRC", "vus_pr": "VUS-PR", "f1": "F1"}

_INTRODUCTION = """\
# Everyone adapts

The paper says its two parts "can be seamlessly added to other baselines" and shows none. Here each
of its models runs frozen, with detrending alone (DT), with adaptation alone (TTA), and with both.
Made by `{command}`.

- γ and η are the paper's for the MLP. Where that η diverges for another model, the largest of η/10ᵏ
  that does not: run over history, adapting, the guard never puts weights back and the mean score
  stays below ten times that of the same detector learning nothing.
- The threshold of every line is the percentile the paper uses for the MLP's DT+TTA: no oracle.
- Figures are the mean ± population standard deviation over {seeds}; AUPRC is the
  trapezoid's. A line has the seeds that all its rows have. The difference is DT+TTA's mean less the
  frozen one's.
- Every run is a line of [everyone.csv](everyone.csv).

Computed by {versions}.
"""

_OVERALL = """\
{heading}

Means over the data sets on which all rows of the model ran; a data set counts once, however many
seeds it has.
"""
_RAISED = """\
Detrending plus adaptation raises the mean AUROC of {better}
of the {others} other models than the MLP.
"""


def everyone(roots: Roots | Lab, **asked: Unpack[Asked]) -> Experiment:
    """Run each model frozen, detrended, adapted and both.

    Parameters
    ----------
    roots, **asked
        As `Plan.of`'s. Usually: the paper's nine data sets, its five models, all four rows.
    """
    plan = Plan.of(roots, **asked)
    taking_part = plan.entrants(FIVE)

    def lines_of(stream: Stream) -> Iterator[Line]:
        rule = stream.setting.thresholds["DT+TTA"].f1
        for entrant in taking_part:
            for row in ROWS:
                yield Line(
                    stream,
                    entrant,
                    row,
                    Rules(rule, rule),
                    plan.seeds,
                    steady=entrant.model != "mlp",
                    compared=False,
                )

    return plan.conduct(
        "everyone",
        [setting.name for setting in settings()],
        lines_of,
        pages={"everyone.md": _page},
        draw=_draw,
    )


class Cell(NamedTuple):
    """A model on a data set: how many seeds all of its rows have, and a value each, by row."""

    seeds: int
    rows: dict[str, list[float]]

    @property
    def gain(self) -> float | None:
        """What DT+TTA adds to the mean."""
        if "frozen" not in self.rows or "DT+TTA" not in self.rows:
            return None
        return fmean(self.rows["DT+TTA"]) - fmean(self.rows["frozen"])


Cells: TypeAlias = dict[tuple[str, str], Cell]  # by data set and model


def _cells(result: Experiment, measure: str) -> Cells:
    """Return the values of a measure; rows are compared over the seeds that all of them have."""
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for line, units in result.lines:
        values = {
            unit.seed: getattr(result.outcomes[unit].report, measure)
            for unit in units
            if unit in result.outcomes
        }
        if values:
            key = (line.stream.name, line.entrant.name)
            found.setdefault(key, {})[line.row.name] = values
    cells: Cells = {}
    for key, rows in found.items():
        shared = sorted(set.intersection(*(set(values) for values in rows.values())))
        if shared:
            each = {name: [values[seed] for seed in shared] for name, values in rows.items()}
            cells[key] = Cell(len(shared), each)
    return cells


def _page(result: Experiment) -> str:
    parts = [
        _INTRODUCTION.format(
            command=result.command, seeds=page.over_seeds(result), versions=page.versions()
        ),
    ]
    if result.outcomes:
        if _gains(result):
            parts.append(figure_of("everyone-gain", "AUROC gained by DT+TTA.") + "\n")
        parts += _means(result)
        for measure, name in _MEASURES.items():
            parts += [f"## {name}\n", _table(_cells(result, measure))]
        parts += ["## Learning rates\n", _rates(result), page.settings_used(result)]
    return "\n".join([*parts, *page.not_run(result)])


def _table(cells: Cells) -> str:
    header = ["data set", "model", "seeds", *(row.name for row in ROWS), "difference"]
    lines = []
    for (dataset, model), cell in cells.items():
        shown = [
            str(Figure.of(cell.rows[row.name])) if row.name in cell.rows else "-" for row in ROWS
        ]
        lines.append([dataset, model, str(cell.seeds), *shown, _difference(cell.gain)])
    return page.table(header, lines)


def _difference(gain: float | None) -> str:
    return "" if gain is None else f"{gain:+.3f}"


def _means(result: Experiment) -> list[str]:
    """Return means over the paper's data sets and, where there are others, over all streams."""
    papers = {line.stream.name for line, _ in result.lines if line.stream.setting.of_the_paper}
    everything = {line.stream.name for line, _ in result.lines}
    parts = []
    if papers:
        parts.append(_overall(result, papers, "## Over the paper's data sets"))
    if everything != papers:
        parts.append(_overall(result, everything, "## Over all streams"))
    return parts


def _overall(result: Experiment, datasets: Set[str], heading: str) -> str:
    """Return each model's means over those of the data sets on which all its rows ran."""
    header = ["model", "measure", "data sets", "seeds", *(row.name for row in ROWS), "difference"]
    asked = {line.row.name for line, _ in result.lines}
    means: dict[tuple[str, str], tuple[list[str], Cell]] = {}
    for measure in _MEASURES:
        by_model: dict[str, list[Cell]] = {}
        for (dataset, model), cell in _cells(result, measure).items():
            if dataset in datasets and asked == cell.rows.keys():
                by_model.setdefault(model, []).append(cell)
        for model, cells in by_model.items():
            counts = [str(len(cells)), page.span(cell.seeds for cell in cells)]
            rows = {name: [fmean(fmean(cell.rows[name]) for cell in cells)] for name in asked}
            means[model, measure] = counts, Cell(1, rows)
    gains = {
        model: cell.gain
        for (model, measure), (_, cell) in means.items()
        if measure == "auroc" and model != "MLP" and cell.gain is not None
    }
    lines = [
        [
            model,
            _MEASURES[measure],
            *counts,
            *(f"{cell.rows[row.name][0]:.3f}" if row.name in asked else "-" for row in ROWS),
            _difference(cell.gain),
        ]
        for model in dict.fromkeys(model for model, _ in means)
        for measure in _MEASURES
        for counts, cell in [means[model, measure]]
    ]
    text = _OVERALL.format(heading=heading)
    if gains:
        better = sum(gain > 0 for gain in gains.values())
        text += _RAISED.format(better=better, others=len(gains))
    return text + "\n" + page.table(header, lines)


def _rates(result: Experiment) -> str:
    """Return the learning rate of each adapting line, and how often the guard stepped in."""
    header = ["data set", "model", "row", "rule", "η", "guard stepped in"]
    lines = []
    for line, units in result.lines:
        done = [result.outcomes[unit] for unit in units if unit in result.outcomes]
        if not line.row.adapt or not done:
            continue
        counts = Counter(each.lr for each in done)
        rates = ", ".join(
            f"{rate:g}" + (f" ({count} of {len(done)} seeds)" if len(counts) > 1 else "")
            for rate, count in sorted(counts.items(), reverse=True)
        )
        if any(each.lr != each.unit.options.lr for each in done):
            rates += f" instead of {done[0].unit.options.lr:g}"
        restored = sum(each.restored for each in done)
        who = [line.stream.name, line.entrant.name, line.row.name, str(line.rules.f1)]
        lines.append([*who, rates, str(restored) if restored else ""])
    return page.table(header, lines)


def _gains(result: Experiment) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for (dataset, model), cell in _cells(result, "auroc").items():
        if cell.gain is not None:
            groups.setdefault(dataset, {})[model] = (Figure(cell.gain, None), None)
    return groups


def _draw(result: Experiment, folder: Path) -> list[Path]:
    groups = _gains(result)
    if not groups:
        return []
    figure = grouped_bars(groups, axis="AUROC gained by DT+TTA", level=0.0)
    return keep(figure, folder, "everyone-gain")
