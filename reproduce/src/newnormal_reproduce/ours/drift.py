"""`Detector`, without settings, beside fixed settings, on every stream and under drift.

No row uses later samples or test labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Unpack

from newnormal import M2N2
from newnormal_reproduce.engine.competitors import Competitor
from newnormal_reproduce.engine.drifting import DRIFTING
from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.plan import Request, TrialPlan
from newnormal_reproduce.engine.published import DEFAULT, SEEDS, Figure, Rule, Rules, settings
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import DataStream, Roots
from newnormal_reproduce.engine.trial import Trial, TrialOutcome
from newnormal_reproduce.engine.variants import BOTH, FROZEN
from newnormal_reproduce.ours import drift_alarms_page, drift_operator
from newnormal_reproduce.ours.averages import covered, listed, percent, short
from newnormal_reproduce.ours.drift_alarms import LATER, DriftAlarms
from newnormal_reproduce.ours.drift_figures import (
    COLLECTIONS,
    COMPONENTS,
    FIVE_SETS,
    OURS,
    PLAIN,
    TARGET,
    TUNED,
    Figures,
    collection,
)
from newnormal_reproduce.ours.drift_operator import Operator
from newnormal_reproduce.ours.today import NAMES, ROWS, split
from newnormal_reproduce.report import pages
from newnormal_reproduce.report.bars import Group, grouped_bars
from newnormal_reproduce.report.figures import figure_link, save_figure

_MEASURES = {"auprc": "AUPRC", "vus_pr": "VUS-PR", "auroc": "AUROC"}
_CHARTS = {
    "drift-macro": "Macro AUPRC and VUS-PR of each row.",
    "drift-collections": "AUPRC of each row on each collection, the mean over its streams.",
}

_TEXT = pages.texts("drift")


def page_of(drift: Figures, alarms: DriftAlarms, operator: Operator, seeds: str) -> str:
    """Return the page; `seeds` names the seeds of the figures."""
    experiment = drift.experiment
    parts = [
        _TEXT["introduction"].format(
            command=experiment.command,
            plain=PLAIN,
            ours=OURS,
            components=COMPONENTS,
            quantile=1 - TARGET,
            seeds=seeds,
            versions=pages.versions(),
        ),
        *_summary(drift, alarms, operator),
        *_over_all(drift),
        *_by_collection(drift, "auprc"),
        *_by_collection(drift, "vus_pr"),
        *drift_operator.sections(operator),
        *_papers(drift),
        *_around_changes(alarms),
        *drift_alarms_page.sections(alarms, drift.rows),
    ]
    return "\n".join([*parts, *pages.not_run(experiment)])


def details_of(drift: Figures) -> str:
    """Return the page of every stream."""
    parts = [_TEXT["detail"].format(command=drift.experiment.command, tuned=TUNED)]
    streams = list(dict.fromkeys(line.stream.name for line, _ in drift.experiment.lines))
    for measure, title in _MEASURES.items():
        values = drift.values(measure)
        names = [name for name in (*drift.rows, TUNED) if name in values]
        lines = []
        for stream in streams:
            figures = {
                name: Figure.of(list(values[name][stream].values()))
                for name in names
                if stream in values[name]
            }
            if figures:
                lines.append([stream, *_cells(figures, names)])
        parts += [f"## {title}\n", pages.table(["stream", *names], lines)]
    return "\n".join(parts)


def _summary(drift: Figures, alarms: DriftAlarms, operator: Operator) -> list[str]:
    """Return a summary of the tables in a few sentences."""
    summary = [
        *(_about_macro(drift, measure) for measure in ("auprc", "vus_pr")),
        _about_losses(drift),
        _about_others(drift),
        *(_about_five(drift, measure) for measure in ("auroc", "auprc")),
        _about_marks(drift),
        drift_operator.summary(operator),
        _about_changes(alarms),
        *drift_alarms_page.summary(alarms, drift.rows),
    ]
    return pages.summary([sentence for sentence in summary if sentence is not None])


def _about_macro(drift: Figures, measure: str) -> str | None:
    figures = drift.macros(measure)
    others = {name: figure for name, figure in figures.items() if name != OURS}
    if OURS not in figures or not others:
        return None
    best = max(others, key=lambda name: others[name].mean)
    gain = figures[OURS].mean / others[best].mean - 1
    return (
        f"Macro {_MEASURES[measure]}: {figures[OURS].mean:.3f} for the default detector, "
        f"{abs(gain):.0%} {'above' if gain >= 0 else 'below'} the best other row ({best}, "
        f"{others[best].mean:.3f})."
    )


def _about_losses(drift: Figures) -> str | None:
    differences = {
        name: figures[OURS].mean - figures[PLAIN].mean
        for name, (_, figures) in drift.means("auprc").items()
        if name in COLLECTIONS and {OURS, PLAIN} <= figures.keys()
    }
    if not differences:
        return None
    worst = min(differences, key=differences.__getitem__)
    return (
        f"Of these collections it gains least on {worst}: {differences[worst]:+.3f} in AUPRC "
        f"beside the {PLAIN}."
    )


def _about_others(drift: Figures) -> str | None:
    """Name the collections outside the macro mean on which the frozen MLP is better."""
    worse = [
        f"{name} ({figures[OURS].mean - figures[PLAIN].mean:+.3f})"
        for name, (_, figures) in drift.means("auprc").items()
        if name not in COLLECTIONS
        and {OURS, PLAIN} <= figures.keys()
        and figures[OURS].mean < figures[PLAIN].mean
    ]
    return f"Outside these its AUPRC is below the {PLAIN}'s on {listed(worse)}." if worse else None


def _about_marks(drift: Figures) -> str | None:
    halves = [
        f"{figures[OURS].mean:.2f} of those {name.rpartition(', ')[2]}"
        for name, (_, figures) in drift.means(drift.mark).items()
        if OURS in figures
    ]
    return f"Of UCR's series it finds {listed(halves)}." if halves else None


def _about_five(drift: Figures, measure: str) -> str | None:
    sets, figures = drift.five(measure)
    if not {OURS, PLAIN, TUNED} <= figures.keys():
        return None
    share = covered(*(figures[name].mean for name in (PLAIN, TUNED, OURS)))
    if share is None:
        return None
    return (
        f"On the paper's sets ({len(sets)} of 5), without settings, it covers {share:.0%} of the "
        f"difference between the {PLAIN} and the paper's hand-tuned row in mean "
        f"{_MEASURES[measure]}."
    )


def _about_changes(alarms: DriftAlarms) -> str | None:
    changes = [rows for rows in alarms.around_changes().values() if {OURS, PLAIN} <= rows.keys()]
    if not changes:
        return None
    ours, frozen = (fmean(rows[name].later.mean for rows in changes) for name in (OURS, PLAIN))
    return (
        f"From {LATER:,} samples after a change on, {ours:.1%} of normal samples are in alarm "
        f"(mean of {len(changes)} changes; the {PLAIN} {frozen:.1%})."
    )


def _over_all(drift: Figures) -> list[str]:
    macros = [drift.macros(measure) for measure in _MEASURES]
    rows = [name for name in drift.rows if all(name in figures for figures in macros)]
    if not rows:
        return []
    groups = drift.collections(drift.values("auprc"))
    macro = {name: groups[name] for name in COLLECTIONS if name in groups}
    streams = [stream for group in macro.values() for stream in group]
    lines = []
    for name in rows:
        seeds = pages.span(
            len(drift.experiment.seeds_of(trials))
            for line, trials in drift.experiment.lines
            if line.competitor.name == name and line.stream.name in streams
        )
        lines.append([name, seeds, *(str(figures[name]) for figures in macros)])
    sizes = [f"{name} ({len(group)})" for name, group in macro.items()]
    return [
        _TEXT["macro"].format(collections=listed(sizes)),
        pages.table(["row", "seeds", *_MEASURES.values()], lines),
        figure_link("drift-macro", _CHARTS["drift-macro"]) + "\n",
    ]


def _by_collection(drift: Figures, measure: str) -> list[str]:
    means = drift.means(measure)
    marks = drift.means(drift.mark) if measure == "auprc" else {}
    if not means and not marks:
        return []
    lines = [
        [name, str(count), *_cells(figures, drift.rows)] for name, (count, figures) in means.items()
    ]
    macro = [name for name in means if name in COLLECTIONS]
    if macro:
        count = str(sum(means[name][0] for name in macro))
        cells = _cells(drift.macros(measure), drift.rows)
        lines.insert(len(macro), [f"macro, mean of the {len(macro)} above", count, *cells])
    lines += [
        [f"{name}: found", str(count), *_cells(figures, drift.rows)]
        for name, (count, figures) in marks.items()
    ]
    parts = [
        _TEXT["by collection"].format(measure=_MEASURES[measure])
        + (_TEXT["marks"] if marks else ""),
        pages.table(["collection", "streams", *drift.rows], lines),
    ]
    if measure == "auprc" and macro:
        parts.append(figure_link("drift-collections", _CHARTS["drift-collections"]) + "\n")
    return parts


def _papers(drift: Figures) -> list[str]:
    five = {measure: drift.five(measure) for measure in ("auroc", "auprc")}
    sets, rows = five["auprc"]
    if not {TUNED, PLAIN} <= rows.keys():
        return []
    header, lines = ["row"], [[name] for name in rows]
    for measure, (_, figures) in five.items():
        header += [_MEASURES[measure], "covered"]
        for line in lines:
            figure = figures[line[0]]
            share = covered(figures[PLAIN].mean, figures[TUNED].mean, figure.mean)
            line += [str(figure), "-" if share is None else f"{round(share, 2) + 0.0:.0%}"]
    return [
        _TEXT["five"].format(sets=listed(sets), tuned=TUNED, plain=PLAIN),
        pages.table(header, lines),
    ]


def _around_changes(alarms: DriftAlarms) -> list[str]:
    lines = [
        [f"{short(kind)}: {what}", name, *map(percent, around)]
        for (kind, what), rows in alarms.around_changes().items()
        for name, around in rows.items()
    ]
    if not lines:
        return []
    header = ["change", "row", "before", "after", f"from {LATER:,} samples after it on"]
    return [_TEXT["changes"].format(later=LATER), pages.table(header, lines)]


def _cells(figures: Mapping[str, Figure], names: Sequence[str]) -> list[str]:
    """Return a cell a name, the best one bold; the hand-tuned row is not compared."""
    best = max((figure.mean for name, figure in figures.items() if name != TUNED), default=None)
    cells = []
    for name in names:
        figure = figures.get(name)
        text = "-" if figure is None else str(figure)
        bold = figure is not None and name != TUNED and figure.mean == best
        cells.append(f"**{text}**" if bold else text)
    return cells


def draw(drift: Figures, operator: Operator, folder: Path) -> list[Path]:
    """Draw the macro means, the mean of each collection, and what an operator gets."""
    paths = []
    macros = {f"macro {_MEASURES[name]}": drift.macros(name) for name in ("auprc", "vus_pr")}
    if all(macros.values()):
        figure = grouped_bars(_groups(macros), axis="mean over collections", written=True)
        paths += save_figure(figure, folder, "drift-macro")
    means = drift.means("auprc")
    if macro := {name: means[name][1] for name in COLLECTIONS if name in means}:
        figure = grouped_bars(_groups(macro), axis="AUPRC")
        paths += save_figure(figure, folder, "drift-collections")
    return [*paths, *drift_operator.draw(operator, folder)]


def _groups(groups: Mapping[str, Mapping[str, Figure]]) -> dict[str, Group]:
    return {
        name: {row: (figure, None) for row, figure in figures.items()}
        for name, figures in groups.items()
    }


_MODELS = ("mlp", "pca", DEFAULT)
_SETTINGS = ((0.8, 0.1), (0.99, 0.05), (0.999, 0.005))  # (γ, η)
_SEEDS = SEEDS[:3]
_RULE = Rule(100 * (1 - TARGET))


class Drift:
    """The results."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.figures = Figures(experiment)

    @cached_property
    def alarms(self) -> DriftAlarms:
        """The alarms; the detectors run again to count them."""
        return DriftAlarms.of(self.experiment)

    @cached_property
    def operator(self) -> Operator:
        """The operator's table."""
        return Operator(self.figures, self.alarms.counts)

    def markdown(self) -> str:
        """Return the page."""
        one_seed = ("PCA", *NAMES)
        lines = [line for line in self.experiment.lines if line[0].competitor.name not in one_seed]
        chance = replace(self.experiment, lines=tuple(lines))
        seeds = pages.over_seeds(chance, where="the first table")
        return page_of(self.figures, self.alarms, self.operator, seeds)

    def csv(self) -> str:
        """Return a line a trial, and a line for each data set not found and each failure."""
        measures = ["auroc", "auprc", "vus_pr", "f1", "precision", "recall"]
        head = ["status", "dataset", "collection", "half", "row", "seed", "rule", "tau"]

        def cells(line: Line, trial: Trial, outcome: TrialOutcome | None) -> dict[str, object]:
            about: dict[str, object] = {
                "collection": collection(trial.dataset),
                "half": self.figures.half(trial.dataset),
                "row": line.competitor.name,
                "rule": str(trial.rule),
            }
            if outcome is None:
                return about
            ours = {name: getattr(outcome.report, name) for name in measures}
            return {**about, **ours, "tau": outcome.tau, "found": self.figures.mark(outcome)}

        return csv_text([*head, *measures, "found", "note"], self.experiment.rows(cells))

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write pages, table and pictures into a folder, and return their paths."""
        folder = Path(folder)
        texts = {
            "drift.md": self.markdown(),
            "drift-detail.md": details_of(self.figures),
            "drift.csv": self.csv(),
            **self.alarms.tables(),
        }
        pictures = draw(self.figures, self.operator, folder)
        return (*write_texts(folder, texts), *pictures)


def drift(roots: Roots | Runner, **request: Unpack[Request]) -> Drift:
    """Run `Detector` beside fixed settings on every stream found, and on generated drift.

    The request is as in `TrialPlan.of`. By default: every stream found but those of AnoShift and
    TSB-AD-M, and generated ones, such as ``"drift/plant-1"``; the MLP, PCA and `Detector`; seeds
    2021 to 2023. Another model runs frozen.
    """
    if request.get("seeds") is None:
        request["seeds"] = _SEEDS
    plan = TrialPlan.of(roots, **request)
    rows, taking_part = split(plan, ROWS, _MODELS)
    common = plan.runner.streams.common
    names = dict.fromkeys([*(setting.name for setting in settings()), *common])

    def lines_of(stream: DataStream) -> Iterator[Line]:
        for row in rows:
            yield row.line(stream, plan.seeds)
        for competitor in taking_part:
            yield from row_lines(stream, competitor, plan.seeds)

    usual = [*sorted(names, key=_order), *DRIFTING]
    return Drift(plan.conduct("drift", usual, lines_of, pages={}))


def _order(stream: str) -> int:
    """Return a sort key that puts the collections of the macro mean first."""
    owner = stream.partition("/")[0]
    return COLLECTIONS.index(owner) if owner in COLLECTIONS else len(COLLECTIONS)


def row_lines(stream: DataStream, competitor: Competitor, seeds: tuple[int, ...]) -> Iterator[Line]:
    """Yield the lines of a competitor on a stream: the default detector, or frozen rows."""
    rules = Rules(_RULE, _RULE)
    if competitor.model == DEFAULT:
        yield Line(stream, competitor, BOTH, rules, seeds, compared=False)
    elif competitor.model == "pca" and not competitor.options:
        if stream.channels > COMPONENTS:
            pca = Competitor("PCA", "pca", (("latent", COMPONENTS),))
            yield Line(stream, pca, FROZEN, rules, seeds[:1], compared=False)
    elif competitor.model != "mlp" or competitor.options:
        yield Line(stream, competitor, FROZEN, rules, seeds, compared=False)
    else:
        yield Line(stream, _fixed(PLAIN), FROZEN, rules, seeds, compared=False)
        for decay, lr in _SETTINGS:
            fixed = _fixed(f"γ {decay}, η {lr}", decay, lr)
            yield Line(stream, fixed, BOTH, rules, seeds, compared=False)
        if stream.name in FIVE_SETS:
            rule = stream.setting.thresholds[BOTH.name].f1
            tuned = Competitor(TUNED, "mlp")
            yield Line(stream, tuned, BOTH, Rules(rule, rule), seeds, compared=False)


def _fixed(name: str, decay: float = 1.0, lr: float = 0.0) -> Competitor:
    """Return the MLP with one setting for every stream; other options are the defaults of M2N2."""
    defaults = M2N2().get_params()
    options = {
        **{option: defaults[option] for option in ("latent", "epochs", "batch")},
        **dict.fromkeys(("window", "stride", "fit_stride"), 5),
        "decay": decay,
        "lr": lr,
    }
    return Competitor(name, "mlp", tuple(options.items()))
