"""The pages and pictures of `newnormal.experiments.drift`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from newnormal.experiments import drift_alarms_page, page
from newnormal.experiments.averages import covered
from newnormal.experiments.bars import Group, grouped_bars
from newnormal.experiments.drift_alarms import Alarms
from newnormal.experiments.drift_figures import (
    COLLECTIONS,
    LATER,
    OURS,
    PLAIN,
    TARGET,
    TUNED,
    Figures,
    called,
)
from newnormal.experiments.drift_words import listed, percent, short
from newnormal.experiments.linear import COMPONENTS
from newnormal.experiments.paper import Figure
from newnormal.experiments.pictures import figure_of, keep

__all__ = ["details_of", "draw", "page_of"]

_MEASURES = {"auprc": "AUPRC", "vus_pr": "VUS-PR", "auroc": "AUROC"}
_CHARTS = {
    "drift-macro": "Macro AUPRC and VUS-PR of each row.",
    "drift-collections": "AUPRC of each row on each collection, the mean over its streams.",
}

_INTRODUCTION = """\
# No knobs

Does a detector that nobody tuned, `Detector()`, do better than any one setting of the paper's
method on streams that nobody has seen? And what does it say when normal changes? Made by
`{command}`.

- **{plain}** is the paper's autoencoder, neither detrended nor adapted; **γ, η** is its method
  (DT+TTA) at one setting for all streams. Window 5, latent 16.
- **PCA** has min({components}, C) components of C channels, from history's samples,
  standardised; its score is the mean squared residual. Of {components} channels or fewer it leaves
  none, and is left out.
- **{ours}** is `Detector()`: it chooses from history alone.
- The threshold of each is the {quantile:g} quantile of its own scores on history. No row looks
  ahead, and none has seen a test label.
- AUPRC is the trapezoid's; VUS-PR forgives up to 100 samples at an event's border.
- Figures are the mean ± population standard deviation over {seeds};
  PCA leaves nothing to chance and has one. Rows are compared on the streams that all of them have.
- Every run is a line of [drift.csv](drift.csv), and every stream one of
  [drift-detail.md](drift-detail.md). What alarms come to is in
  [drift-alarms.csv](drift-alarms.csv), a line for each budget, change and fault of a run.

Computed by {versions}.
"""

_MACRO = """\
## Over all collections

The mean over {collections} of the mean over their
streams: a collection counts once, however many it has.
"""
_BY_COLLECTION = """\
## {measure} by collection

The mean over a collection's streams; the best of a line is **bold**.
"""
_FIVE = """\
## The paper's five sets

Means over {sets}. **{tuned}** is DT+TTA as the paper has it, window,
latent, γ, η and the threshold's percentile chosen for each set by hand; **covered** is the share of
the way from the {plain} to it.
"""
_CHANGES = """\
## When normal changes

The share of normal samples called anomalous on generated streams: since the previous change, from
the change to the next, and that without its first {later:,} samples. The threshold was meant to let
{target:.0%} through. The changes are no anomalies: a plant's levels move, and later its machine's
cycle gets faster; a wave's level moves by three amplitudes; a wave swings 1.6 times as far.
"""
_CALLED = """\
## Normal samples called anomalous

Their share over whole streams, where {target:.0%} was meant.
"""
_DETAIL = """\
# No knobs, stream by stream

Each stream of [drift.md](drift.md), the mean ± population standard deviation over seeds; the best
of a line, {tuned} apart, is **bold**. Made by `{command}`.
"""


def page_of(drift: Figures, alarms: Alarms, seeds: str) -> str:
    """Return the page; `seeds` says which ones figures are over."""
    experiment = drift.experiment
    parts = [
        _INTRODUCTION.format(
            command=experiment.command,
            plain=PLAIN,
            ours=OURS,
            components=COMPONENTS,
            quantile=1 - TARGET,
            seeds=seeds,
            versions=page.versions(),
        ),
        *_in_words(drift, alarms),
        *_over_all(drift),
        *_by_collection(drift, "auprc"),
        *_by_collection(drift, "vus_pr"),
        *_papers(drift),
        *_around_changes(drift),
        *drift_alarms_page.after_changes(alarms),
        *_called(drift),
        *drift_alarms_page.sections(alarms, drift.rows),
    ]
    return "\n".join([*parts, *page.not_run(experiment)])


def details_of(drift: Figures) -> str:
    """Return the page of every stream."""
    parts = [_DETAIL.format(command=drift.experiment.command, tuned=TUNED)]
    streams = list(dict.fromkeys(line.stream.name for line, _ in drift.experiment.lines))
    for measure, title in _MEASURES.items():
        values = drift.values(measure)
        names = [name for name in (*drift.rows, TUNED) if name in values]
        lines = []
        for stream in streams:
            found = {
                name: Figure.of(list(values[name][stream].values()))
                for name in names
                if stream in values[name]
            }
            lines.append([stream, *_cells(found, names)])
        parts += [f"## {title}\n", page.table(["stream", *names], lines)]
    return "\n".join(parts)


# ---------------------------------------------------------------------- in words


def _in_words(drift: Figures, alarms: Alarms) -> list[str]:
    """Return what the tables show, in a few sentences."""
    said = [
        *(_about_macro(drift, measure) for measure in ("auprc", "vus_pr")),
        _about_losses(drift),
        _about_others(drift),
        *(_about_five(drift, measure) for measure in ("auroc", "auprc")),
        _about_changes(drift),
        *drift_alarms_page.in_words(alarms, drift.rows),
    ]
    sentences = [f"- {each}" for each in said if each is not None]
    return ["## What came of it\n", "\n".join(sentences) + "\n"] if sentences else []


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
    """Name what is outside the macro mean and where leaving the MLP alone is better."""
    worse = [
        f"{name} ({figures[OURS].mean - figures[PLAIN].mean:+.3f})"
        for name, (_, figures) in drift.means("auprc").items()
        if name not in COLLECTIONS
        and {OURS, PLAIN} <= figures.keys()
        and figures[OURS].mean < figures[PLAIN].mean
    ]
    return f"Outside these its AUPRC is below the {PLAIN}'s on {listed(worse)}." if worse else None


def _about_five(drift: Figures, measure: str) -> str | None:
    sets, figures = drift.five(measure)
    if not {OURS, PLAIN, TUNED} <= figures.keys():
        return None
    way = covered(*(figures[name].mean for name in (PLAIN, TUNED, OURS)))
    if way is None:
        return None
    return (
        f"On the paper's sets ({len(sets)} of 5), with no setting, it covers {way:.0%} of the way "
        f"from the {PLAIN} to the paper's hand-tuned row in mean {_MEASURES[measure]}."
    )


def _about_changes(drift: Figures) -> str | None:
    found = [rows for rows in drift.changes().values() if {OURS, PLAIN} <= rows.keys()]
    if not found:
        return None
    mine, frozen = (fmean(rows[name].later.mean for rows in found) for name in (OURS, PLAIN))
    return (
        f"{LATER:,} samples after a change and later, it calls {mine:.1%} of normal samples "
        f"anomalous (mean of {len(found)} changes; the {PLAIN} {frozen:.1%}; {TARGET:.0%} was "
        f"meant)."
    )


# ---------------------------------------------------------------------- tables


def _over_all(drift: Figures) -> list[str]:
    found = {measure: drift.macros(measure) for measure in _MEASURES}
    rows = [name for name in drift.rows if all(name in each for each in found.values())]
    if not rows:
        return []
    groups = drift.collections(drift.values("auprc"))
    mine = {name: groups[name] for name in COLLECTIONS if name in groups}
    everything = [stream for streams in mine.values() for stream in streams]
    lines = []
    for name in rows:
        seeds = page.span(
            len(drift.experiment.seeds_of(units))
            for line, units in drift.experiment.lines
            if line.entrant.name == name and line.stream.name in everything
        )
        lines.append([name, seeds, *(str(each[name]) for each in found.values())])
    named = listed([f"{name} ({len(streams)})" for name, streams in mine.items()])
    return [
        _MACRO.format(collections=named),
        page.table(["row", "seeds", *_MEASURES.values()], lines),
        figure_of("drift-macro", _CHARTS["drift-macro"]) + "\n",
    ]


def _by_collection(drift: Figures, measure: str) -> list[str]:
    found = drift.means(measure)
    if not found:
        return []
    lines = [
        [name, str(count), *_cells(figures, drift.rows)] for name, (count, figures) in found.items()
    ]
    mine = [name for name in found if name in COLLECTIONS]
    if mine:
        count = str(sum(found[name][0] for name in mine))
        macros = _cells(drift.macros(measure), drift.rows)
        lines.insert(len(mine), [f"macro, mean of the {len(mine)} above", count, *macros])
    parts = [
        _BY_COLLECTION.format(measure=_MEASURES[measure]),
        page.table(["collection", "streams", *drift.rows], lines),
    ]
    if measure == "auprc" and mine:
        parts.append(figure_of("drift-collections", _CHARTS["drift-collections"]) + "\n")
    return parts


def _papers(drift: Figures) -> list[str]:
    found = {measure: drift.five(measure) for measure in ("auroc", "auprc")}
    sets, figures = found["auprc"]
    if not {TUNED, PLAIN} <= figures.keys():
        return []
    header, lines = ["row"], [[name] for name in figures]
    for measure, (_, mine) in found.items():
        header += [_MEASURES[measure], "covered"]
        for line in lines:
            way = covered(mine[PLAIN].mean, mine[TUNED].mean, mine[line[0]].mean)
            line += [str(mine[line[0]]), "-" if way is None else f"{round(way, 2) + 0.0:.0%}"]
    return [
        _FIVE.format(sets=listed(sets), tuned=TUNED, plain=PLAIN),
        page.table(header, lines),
    ]


def _around_changes(drift: Figures) -> list[str]:
    lines = [
        [f"{short(kind)}: {what}", name, *map(percent, around)]
        for (kind, what), rows in drift.changes().items()
        for name, around in rows.items()
    ]
    if not lines:
        return []
    header = ["change", "row", "before", "after", f"from {LATER:,} samples after it on"]
    return [_CHANGES.format(later=LATER, target=TARGET), page.table(header, lines)]


def _called(drift: Figures) -> list[str]:
    found = drift.means(called)
    lines = [
        [
            name,
            str(count),
            *(percent(figures[row]) if row in figures else "-" for row in drift.rows),
        ]
        for name, (count, figures) in found.items()
    ]
    if not lines:
        return []
    header = ["collection", "streams", *drift.rows]
    return [_CALLED.format(target=TARGET), page.table(header, lines)]


def _cells(figures: Mapping[str, Figure], names: Sequence[str]) -> list[str]:
    """Return a cell a name, the best one bold; the hand-tuned row does not compete."""
    best = max((each.mean for name, each in figures.items() if name != TUNED), default=None)
    cells = []
    for name in names:
        figure = figures.get(name)
        text = "-" if figure is None else str(figure)
        bold = figure is not None and name != TUNED and figure.mean == best
        cells.append(f"**{text}**" if bold else text)
    return cells


# ---------------------------------------------------------------------- pictures


def draw(drift: Figures, alarms: Alarms, folder: Path) -> list[Path]:
    """Draw the macro means, the mean of each collection, and alarms beside their budget."""
    paths = []
    macros = {f"macro {_MEASURES[each]}": drift.macros(each) for each in ("auprc", "vus_pr")}
    if all(macros.values()):
        figure = grouped_bars(_groups(macros), axis="mean over collections", written=True)
        paths += keep(figure, folder, "drift-macro")
    means = {name: figures for name, (_, figures) in drift.means("auprc").items()}
    mine = {name: means[name] for name in COLLECTIONS if name in means}
    if mine:
        paths += keep(grouped_bars(_groups(mine), axis="AUPRC"), folder, "drift-collections")
    return [*paths, *drift_alarms_page.draw(alarms, folder)]


def _groups(found: Mapping[str, Mapping[str, Figure]]) -> dict[str, Group]:
    return {
        name: {row: (figure, None) for row, figure in figures.items()}
        for name, figures in found.items()
    }
