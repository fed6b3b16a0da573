"""Ours: classic detectors beside the five models on every stream there is, by AUPRC and VUS-PR."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Unpack

from newnormal.experiments import page
from newnormal.experiments.entrants import FIVE
from newnormal.experiments.experiment import Experiment, Line
from newnormal.experiments.lab import Lab
from newnormal.experiments.paper import Figure, Rule, Rules, settings
from newnormal.experiments.plan import Asked, Plan
from newnormal.experiments.rows import FROZEN, row_named
from newnormal.experiments.streams import SYNTHETIC, Roots, Stream
from newnormal.models.peers import MOST_ROWS

__all__ = ["PEERS", "peers"]

PEERS = ("pyod:PCA", "pyod:IForest", "pyod:LOF", "pyod:OCSVM", "pyod:ECOD")
_MODELS = (*FIVE, *PEERS)
_CHANCE = ("pyod:IForest",)  # the other peers give the same scores whatever the seed
_RULE = Rule(99.0)
_BOTH = row_named("DT+TTA")

_INTRODUCTION = """\
# Beside classic detectors

PCA, isolation forest, LOF, one-class SVM and ECOD, from PyOD, a sample judged by itself; the
paper's models as fitted; and its MLP with detrending and adaptation. Every stream found, and
synthetic ones. Made by `{command}`.

- PyOD's detectors have its default settings, but PCA has as many components as history's rank. LOF
  and one-class SVM, whose cost grows with the square of history, are fitted on at most {most:,} of
  its samples, evenly spaced.
- Nothing was tuned to a stream: those the paper does not have borrow Yahoo (A1-R20)'s settings if
  they have one channel and SMD (M-2-1)'s if several; adaptation learns from what scores below Q99
  of history.
- AUPRC is the trapezoid's; VUS-PR forgives up to 100 samples at an event's border. Both need no
  threshold.
- A figure is the mean over {seeds}; detectors that leave
  nothing to chance need one.
- Every run is a line of [peers.csv](peers.csv).

Computed by {versions}.
"""


def peers(roots: Roots | Lab, **asked: Unpack[Asked]) -> Experiment:
    """Run classic detectors and the paper's models on every stream under the given folders.

    Needs the extras ``eval`` and ``peers``, and ``deep`` for all of the paper's but the MLP.

    Parameters
    ----------
    roots, **asked
        As `Plan.of`'s. Usually: every stream found, and the synthetic ones; the paper's five models
        and `PEERS`. Detectors that leave nothing to chance have the first seed alone.
    """
    plan = Plan.of(roots, **asked)
    taking_part = plan.entrants(_MODELS)
    usual = [
        *(setting.name for setting in settings()),
        *(name for name in plan.lab.streams.places if not name.startswith("AnoShift/")),
        *SYNTHETIC,
    ]

    def lines_of(stream: Stream) -> Iterator[Line]:
        for entrant in taking_part:
            chance = not entrant.model.startswith("pyod:") or entrant.model in _CHANCE
            seeds = plan.seeds if chance else plan.seeds[:1]
            for row in (FROZEN, _BOTH) if entrant.model == "mlp" else (FROZEN,):
                yield Line(stream, entrant, row, Rules(_RULE, _RULE), seeds, compared=False)

    return plan.conduct("peers", list(dict.fromkeys(usual)), lines_of, pages={"peers.md": _page})


def _page(result: Experiment) -> str:
    seeds = page.over_seeds(result, where="the line below its table")
    parts = [
        _INTRODUCTION.format(
            command=result.command, most=MOST_ROWS, seeds=seeds, versions=page.versions()
        )
    ]
    if result.outcomes:
        for measure, name in (("auprc", "AUPRC"), ("vus_pr", "VUS-PR")):
            parts += [f"## {name}\n", _table(result, measure), f"{_seeds_said(result)}\n"]
    return "\n".join([*parts, *page.not_run(result)])


def _table(result: Experiment, measure: str) -> str:
    """Return a column a detector and a line a stream; the best of a line is bold."""
    figures: dict[str, dict[str, Figure]] = {}
    columns: list[str] = []
    for line, units in result.lines:
        name = line.name
        columns += [name] if name not in columns else []
        values = [
            getattr(result.outcomes[unit].report, measure)
            for unit in units
            if unit in result.outcomes
        ]
        if values:
            figures.setdefault(line.stream.name, {})[name] = Figure.of(values)
    lines = []
    for stream, row in figures.items():
        best = max(figure.mean for figure in row.values())
        lines.append([stream, *(_shown(row.get(name), best) for name in columns)])
    complete = [row for row in figures.values() if len(row) == len(columns)]
    if complete:
        means = {name: Figure(fmean(row[name].mean for row in complete), None) for name in columns}
        best = max(figure.mean for figure in means.values())
        label = f"mean of the {len(complete)} with all"
        lines.append([label, *(_shown(means[name], best) for name in columns)])
    return page.table(["stream", *columns], lines)


def _seeds_said(result: Experiment) -> str:
    """Return how many seeds each column rests on."""
    counts: dict[str, list[int]] = {}
    for line, units in result.lines:
        counts.setdefault(line.name, []).append(len(result.seeds_of(units)))
    return f"Seeds: {', '.join(f'{name} {page.span(each)}' for name, each in counts.items())}."


def _shown(figure: Figure | None, best: float) -> str:
    if figure is None:
        return "-"
    return f"**{figure.mean:.3f}**" if figure.mean == best else f"{figure.mean:.3f}"
