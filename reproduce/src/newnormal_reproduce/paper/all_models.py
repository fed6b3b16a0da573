"""Detrending, adaptation and both on all five models: claimed by the paper, not shown in it.

γ and η are the paper's for its MLP. If that η diverges on history for another model, it is the
largest of η/10, η/100 ... that does not. The threshold decides what is learned. For every model and
variant it is the percentile that the paper uses for the MLP's DT+TTA, which is no oracle.
"""

from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, TypeAlias, Unpack

from newnormal_reproduce.engine.competitors import FIVE
from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.plan import Request, TrialPlan
from newnormal_reproduce.engine.published import Figure, Rules, settings
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import DataStream, Roots
from newnormal_reproduce.engine.variants import VARIANTS
from newnormal_reproduce.report import pages
from newnormal_reproduce.report.bars import Group, grouped_bars
from newnormal_reproduce.report.figures import figure_link, save_figure

_MEASURES = {"auroc": "AUROC", "auprc": "AUPRC", "vus_pr": "VUS-PR", "f1": "F1"}

_TEXT = pages.texts("all-models")


def all_models(roots: Roots | Runner, **request: Unpack[Request]) -> Experiment:
    """Run each model frozen, detrended, adapted and both.

    The request is as in `TrialPlan.of`. By default: the paper's nine data sets, its five models,
    all four variants.
    """
    plan = TrialPlan.of(roots, **request)
    taking_part = plan.competitors(FIVE)

    def lines_of(stream: DataStream) -> Iterator[Line]:
        rule = stream.setting.thresholds["DT+TTA"].f1
        for competitor in taking_part:
            for variant in VARIANTS:
                yield Line(
                    stream,
                    competitor,
                    variant,
                    Rules(rule, rule),
                    plan.seeds,
                    steady=competitor.model != "mlp",
                    compared=False,
                )

    return plan.conduct(
        "all-models",
        [setting.name for setting in settings()],
        lines_of,
        pages={"all-models.md": _page},
        draw=_draw,
    )


class Cell(NamedTuple):
    """A model on a data set: the number of seeds that all its variants have, and their values."""

    seeds: int
    variants: dict[str, list[float]]

    @property
    def gain(self) -> float | None:
        """The mean of DT+TTA minus that of frozen."""
        if "frozen" not in self.variants or "DT+TTA" not in self.variants:
            return None
        return fmean(self.variants["DT+TTA"]) - fmean(self.variants["frozen"])


Cells: TypeAlias = dict[tuple[str, str], Cell]  # by data set and model


def _cells(result: Experiment, measure: str) -> Cells:
    """Return the values of a measure, over the seeds that all variants have."""
    values_of: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for line, trials in result.lines:
        values = {
            outcome.trial.seed: getattr(outcome.report, measure)
            for outcome in result.outcomes_of(trials)
        }
        if values:
            key = (line.stream.name, line.competitor.name)
            values_of.setdefault(key, {})[line.variant.name] = values
    cells: Cells = {}
    for key, variants in values_of.items():
        shared = sorted(set.intersection(*(set(values) for values in variants.values())))
        if shared:
            by_variant = {name: [values[s] for s in shared] for name, values in variants.items()}
            cells[key] = Cell(len(shared), by_variant)
    return cells


def _page(result: Experiment) -> str:
    parts = [
        _TEXT["introduction"].format(
            command=result.command, seeds=pages.over_seeds(result), versions=pages.versions()
        )
    ]
    if result.outcomes:
        if _gains(result):
            parts.append(figure_link("all-models-gain", "AUROC gained by DT+TTA.") + "\n")
        parts += _means(result)
        for measure, name in _MEASURES.items():
            parts += [f"## {name}\n", _table(_cells(result, measure))]
        parts += ["## Learning rates\n", _rates(result), pages.settings_used(result)]
    return "\n".join([*parts, *pages.not_run(result)])


def _table(cells: Cells) -> str:
    header = ["data set", "model", "seeds", *(variant.name for variant in VARIANTS), "difference"]
    lines = []
    for (dataset, model), cell in cells.items():
        shown = [
            str(Figure.of(cell.variants[variant.name])) if variant.name in cell.variants else "-"
            for variant in VARIANTS
        ]
        lines.append([dataset, model, str(cell.seeds), *shown, _difference(cell.gain)])
    return pages.table(header, lines)


def _difference(gain: float | None) -> str:
    return "" if gain is None else f"{gain:+.3f}"


def _means(result: Experiment) -> list[str]:
    """Return means over the paper's data sets and, if there are others, over all streams."""
    papers = {line.stream.name for line, _ in result.lines if line.stream.setting.of_the_paper}
    everything = {line.stream.name for line, _ in result.lines}
    parts = []
    if papers:
        parts.append(_overall(result, papers, "## Over the paper's data sets"))
    if everything != papers:
        parts.append(_overall(result, everything, "## Over all streams"))
    return parts


def _overall(result: Experiment, datasets: Set[str], heading: str) -> str:
    """Return each model's means over those of the data sets on which all its variants ran."""
    names = [variant.name for variant in VARIANTS]
    header = ["model", "measure", "data sets", "seeds", *names, "difference"]
    requested = {line.variant.name for line, _ in result.lines}
    means: dict[tuple[str, str], tuple[list[str], Cell]] = {}
    for measure in _MEASURES:
        by_model: dict[str, list[Cell]] = {}
        for (dataset, model), cell in _cells(result, measure).items():
            if dataset in datasets and requested == cell.variants.keys():
                by_model.setdefault(model, []).append(cell)
        for model, cells in by_model.items():
            counts = [str(len(cells)), pages.span(cell.seeds for cell in cells)]
            by_variant = {
                name: [fmean(fmean(cell.variants[name]) for cell in cells)] for name in requested
            }
            means[model, measure] = counts, Cell(1, by_variant)
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
            *(f"{cell.variants[name][0]:.3f}" if name in requested else "-" for name in names),
            _difference(cell.gain),
        ]
        for model in dict.fromkeys(model for model, _ in means)
        for measure in _MEASURES
        for counts, cell in [means[model, measure]]
    ]
    text = _TEXT["overall"].format(heading=heading)
    if gains:
        better = sum(gain > 0 for gain in gains.values())
        text += _TEXT["raised"].format(better=better, others=len(gains))
    return text + "\n" + pages.table(header, lines)


def _rates(result: Experiment) -> str:
    """Return the learning rate of each adapting line, and how often the guard restored weights."""
    header = ["data set", "model", "variant", "rule", "η", "weights restored"]
    lines = []
    for line, trials in result.lines:
        done = result.outcomes_of(trials)
        if not line.variant.adapt or not done:
            continue
        counts = Counter(outcome.lr for outcome in done)
        rates = ", ".join(
            f"{rate:g}" + (f" ({count} of {len(done)} seeds)" if len(counts) > 1 else "")
            for rate, count in sorted(counts.items(), reverse=True)
        )
        if any(outcome.lr != outcome.trial.options.lr for outcome in done):
            rates += f" instead of {done[0].trial.options.lr:g}"
        restored = sum(outcome.restored for outcome in done)
        who = [line.stream.name, line.competitor.name, line.variant.name, str(line.rules.f1)]
        lines.append([*who, rates, str(restored) if restored else ""])
    return pages.table(header, lines)


def _gains(result: Experiment) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for (dataset, model), cell in _cells(result, "auroc").items():
        if cell.gain is not None:
            groups.setdefault(dataset, {})[model] = (Figure(cell.gain, None), None)
    return groups


def _draw(result: Experiment, folder: Path) -> list[Path]:
    if not (groups := _gains(result)):
        return []
    figure = grouped_bars(groups, axis="AUROC gained by DT+TTA", level=0.0)
    return save_figure(figure, folder, "all-models-gain")
