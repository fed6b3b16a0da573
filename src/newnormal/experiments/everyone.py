"""Detrending, adaptation and both on all five models: what the paper claims and does not show.

γ and η are the MLP's of the paper's table. Where that η diverges for another model, it is the
largest of η/10, η/100 ... that does not, on history. The threshold, which decides what is learned,
is for every model and row the percentile the paper uses for the MLP's DT+TTA: no oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Any

from newnormal.experiments import page
from newnormal.experiments.bars import Group, grouped_bars
from newnormal.experiments.entrants import PAPER_MODELS, entrants
from newnormal.experiments.experiment import (
    Experiment,
    Line,
    check_seeds,
    command,
    conduct,
    find_streams,
)
from newnormal.experiments.lab import Lab
from newnormal.experiments.paper import SEEDS, Figure, Rules, settings
from newnormal.experiments.pictures import figure_of, keep
from newnormal.experiments.rows import ROWS, rows_named
from newnormal.experiments.streams import Roots

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
- Figures are the mean ± population standard deviation over seeds {seeds}; AUPRC is the trapezoid's.
  The difference is DT+TTA's mean less the frozen one's.
- Every run is a line of [everyone.csv](everyone.csv).

Computed by {versions}.
"""

_OVERALL = """\
## Over all data sets

Means over the {count} data sets on which all four rows ran. Detrending plus adaptation raises the
mean AUROC of {better} of the {others} other models than the MLP.
"""


def everyone(
    roots: Roots | Lab,
    *,
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    seeds: Sequence[int] = SEEDS,
    rows: Sequence[str] | None = None,
    extra: str | PathLike[str] | None = None,
    **lab_options: Any,
) -> Experiment:
    """Run each model frozen, detrended, adapted and both.

    Parameters
    ----------
    roots
        Folders that hold data sets, or a `Lab`.
    datasets
        Names; None: the paper's nine.
    models
        Names of models; None: the paper's five.
    seeds
        One fit each.
    rows
        Rows to run; None: all four.
    extra
        A TOML file of further models.
    **lab_options
        As `Lab`'s: cache, processes, progress.
    """
    lab = roots if isinstance(roots, Lab) else Lab(roots, **lab_options)
    seeds, chosen = check_seeds(seeds), rows_named(rows)
    taking_part = entrants(models, [m for m in PAPER_MODELS if m != "lstm-diagonal"], extra)
    names = lab.streams.chosen(datasets, [setting.name for setting in settings()])
    found = find_streams(lab, names)
    lines = []
    for stream in found.streams:
        rule = stream.setting.thresholds["DT+TTA"].f1
        lines += [
            Line(
                stream,
                entrant,
                row,
                Rules(rule, rule),
                seeds,
                steady=entrant.model != "mlp",
                compared=False,
            )
            for entrant in taking_part
            for row in chosen
        ]
    return conduct(
        "everyone",
        lab,
        lines,
        not_run=found.not_run,
        command=command("everyone", seeds, datasets=datasets, models=models, rows=rows),
        pages={"everyone.md": _page},
        draw=_draw,
    )


Cells = dict[tuple[str, str], dict[str, list[float]]]  # (data set, model) → row → a value a seed


def _cells(result: Experiment, measure: str) -> Cells:
    cells: Cells = {}
    for line, units in result.lines:
        values = [
            getattr(result.outcomes[unit].report, measure)
            for unit in units
            if unit in result.outcomes
        ]
        if values:
            key = (line.stream.name, line.entrant.name)
            cells.setdefault(key, {})[line.row.name] = values
    return cells


def _page(result: Experiment) -> str:
    seeds = ", ".join(map(str, result.seeds)) or "none"
    parts = [
        _INTRODUCTION.format(command=result.command, seeds=seeds, versions=page.versions()),
    ]
    if result.outcomes:
        parts.append(figure_of("everyone-gain", "AUROC gained by DT+TTA.") + "\n")
        parts.append(_overall(result))
        for measure, name in _MEASURES.items():
            parts += [f"## {name}\n", _table(_cells(result, measure))]
        parts += ["## Learning rates\n", _rates(result), page.settings_used(result)]
    return "\n".join([*parts, *page.not_run(result)])


def _table(cells: Cells) -> str:
    header = ["data set", "model", *(row.name for row in ROWS), "difference"]
    lines = []
    for (dataset, model), rows in cells.items():
        shown = [str(Figure.of(rows[row.name])) if row.name in rows else "-" for row in ROWS]
        lines.append([dataset, model, *shown, _gain(rows)])
    return page.table(header, lines)


def _gain(rows: dict[str, list[float]]) -> str:
    if "frozen" not in rows or "DT+TTA" not in rows:
        return ""
    return f"{fmean(rows['DT+TTA']) - fmean(rows['frozen']):+.3f}"


def _overall(result: Experiment) -> str:
    """Return means over data sets, each model over those on which all its rows ran."""
    header = ["model", "measure", *(row.name for row in ROWS), "difference", "data sets"]
    lines, gains = [], {}
    complete: set[str] = set()
    for measure, name in _MEASURES.items():
        by_model: dict[str, list[dict[str, list[float]]]] = {}
        for (dataset, model), rows in _cells(result, measure).items():
            if all(row.name in rows for row in ROWS):
                complete.add(dataset)
                by_model.setdefault(model, []).append(rows)
        for model, found in by_model.items():
            means = {row.name: [fmean(fmean(rows[row.name]) for rows in found)] for row in ROWS}
            if measure == "auroc":
                gains[model] = means["DT+TTA"][0] - means["frozen"][0]
            shown = [f"{means[row.name][0]:.3f}" for row in ROWS]
            lines.append([model, name, *shown, _gain(means), str(len(found))])
    others = {model: gain for model, gain in gains.items() if model != "MLP"}
    text = _OVERALL.format(
        count=len(complete), better=sum(gain > 0 for gain in others.values()), others=len(others)
    )
    lines.sort(key=lambda line: list(gains).index(line[0]))
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


def _draw(result: Experiment, folder: Path) -> list[Path]:
    groups: dict[str, Group] = {}
    for (dataset, model), rows in _cells(result, "auroc").items():
        if "frozen" in rows and "DT+TTA" in rows:
            gain = fmean(rows["DT+TTA"]) - fmean(rows["frozen"])
            groups.setdefault(dataset, {})[model] = (Figure(gain, None), None)
    if not groups:
        return []
    figure = grouped_bars(groups, axis="AUROC gained by DT+TTA", level=0.0)
    return keep(figure, folder, "everyone-gain")
