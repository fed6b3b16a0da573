"""The pages and pictures of `newnormal.experiments.drift`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from newnormal.experiments import page
from newnormal.experiments.averages import covered
from newnormal.experiments.bars import Group, grouped_bars
from newnormal.experiments.drift_alarms import (
    ACCEPT_AFTER,
    AFTER,
    ALL,
    BEFORE,
    BUDGETS,
    FOLLOWED,
    Alarms,
    Pooled,
)
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
from newnormal.experiments.drifting import FAULTS, KINDS, ONSET
from newnormal.experiments.linear import COMPONENTS
from newnormal.experiments.paper import Figure
from newnormal.experiments.pictures import figure_of, keep

__all__ = ["details_of", "draw", "page_of"]

_MEASURES = {"auprc": "AUPRC", "vus_pr": "VUS-PR", "auroc": "AUROC"}
_CHARTS = {
    "drift-macro": "Macro AUPRC and VUS-PR of each row.",
    "drift-collections": "AUPRC of each row on each collection, the mean over its streams.",
    "drift-budget": "Alarms the default detector opens, as a multiple of its budget: 1 was meant.",
}
# What alarms are pooled over; names that have colours of their own.
_PARTS = {ALL: "real streams", BEFORE: "generated, before", AFTER: "generated, after"}

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
_AFTER = """\
And what a person hears of it: the alarms a day of the default detector when it is held to a budget,
`Detector(alarms_per_day=...)`, before the first change and from it on, at a sample a minute and
with labelled stretches removed. Until their change the two kinds of wave are one and the same.
"""
_BUDGET = """\
## Alarms against a budget

How many alarms the default detector opens when it is held to a budget,
`Detector(alarms_per_day=...)`: as a multiple of that budget, so that 1 was meant and less is fewer.
At a sample a minute, over live parts with labelled stretches removed; alarms and days of a line's
streams are pooled. Generated streams count apart, before their first change and after it.
"""
_ACCEPTED = """\
## Until a new normal is accepted

Held to {budget} alarm a day, on whole live parts, nobody saying anything: from each change to
the first alarm after it that ends with "new normal accepted", before the next change. The time is
in units of `accept_after`, {accept_after:,} samples: not before 1, and by 2, counted from where
the stream was first found away from its normal. A change that is not accepted was followed by no
alarm that lasted: the detector came to terms with it below its threshold, or between short alarms,
and nothing had to be accepted. Changes are those of {count} over all seeds.
"""
_FAULTS = """\
## Faults that stay

One sensor of a generated stream fails and stays failed: it is stuck at its last value, drops to 6
standard deviations of history below its mean, reads 5 too many, or turns to noise of 5. Every
channel in turn, from the {onset:,}th sample on, on streams without another change and with labelled
stretches removed; each row at its own threshold.

- **noticed**: an alarm is open at some time in the first quarter of `accept_after` (a quarter is
  {quarter:,} samples). Every row calls a few samples in a hundred anomalous anyway, so that
  somewhere in a quarter an alarm is open with no fault at all: a high share proves little, a low
  one is a failure.
- **absorbed**: of the samples from a half to one `accept_after`, fewer than half are in alarm. The
  fault has become normal, or it has never been one. A frozen row learns nothing, but may not see
  a sensor that is stuck at a value it often has.
"""
_KEPT = """\
What the default detector makes of them: the share that it accepts, nobody saying anything, before
one `accept_after` has passed (none was meant) and by {followed} times that (a fault that is as
stable and predictable as a new normal is one, to who cannot ask); the share with an alarm open
after a quarter of it, which is then rejected; and of these the share that is accepted all the same
by {followed} times `accept_after` (none was meant).
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
        *_after_changes(alarms),
        *_called(drift),
        *_budgets(alarms),
        *_until_accepted(alarms),
        *_faults(drift, alarms),
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
        _about_budgets(alarms),
        _about_shifts(alarms),
        _about_acceptance(alarms),
        *_about_faults(drift, alarms),
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
    return f"Outside these its AUPRC is below the {PLAIN}'s on {_listed(worse)}." if worse else None


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


def _about_budgets(alarms: Alarms) -> str | None:
    found = _pooled(alarms)
    if not found:
        return None
    where = {
        ALL: "{} real streams",
        BEFORE: "{} generated ones before their first change",
        AFTER: "the same after it",
    }
    said = [
        f"{_listed([f'{ratio.mean:.2f}' for ratio in _ratios(parts)])} on "
        + where[part].format(parts[0].streams)
        for part, parts in found.items()
    ]
    return (
        f"Held to {_listed([str(budget) for budget in BUDGETS])} alarms a day, it opens this many "
        f"times as many, labelled stretches removed: {'; '.join(said)}."
    )


def _about_shifts(alarms: Alarms) -> str | None:
    found = _pooled(alarms)
    if not {BEFORE, AFTER} <= found.keys():
        return None
    before, after = (
        _listed([f"{each.rate.mean:.1f}" for each in found[part]]) for part in (BEFORE, AFTER)
    )
    return (
        f"False alarms once normal has changed: {after} a day at these budgets; before, {before}."
    )


def _about_acceptance(alarms: Alarms) -> str | None:
    every = [each for found in alarms.changes().values() for each in found]
    done = [each.after / ACCEPT_AFTER for each in every if each.accepted]
    if not every:
        return None
    text = f"Of {len(every)} changes of normal it had to accept {len(done)}"
    if done:
        text += (
            f", after {median(done):.2f} times `accept_after` in the median "
            f"({min(done):.2f} to {max(done):.2f})"
        )
    return f"{text}; after the others no alarm lasted."


def _about_faults(drift: Figures, alarms: Alarms) -> list[str]:
    shares = alarms.fault_shares("absorbed")
    means = {
        row: fmean(rows[row].mean for rows in shares.values())
        for row in drift.rows
        if shares and all(row in rows for rows in shares.values())
    }
    if OURS not in means:
        return []
    others = _listed([f"{row} {share:.0%}" for row, share in means.items() if row != OURS])
    mine = alarms.mine()
    early = sum(bool(each.early) for each in mine)
    rejected = sum(bool(each.rejected) for each in mine)
    learned = sum(bool(each.learned) for each in mine)
    return [
        f"Of faults that stay it has absorbed {means[OURS]:.0%} before anybody could be asked "
        f"(mean of {len(shares)} kinds{f'; {others}' if others else ''}).",
        f"It accepted {early} of {len(mine)} such faults by itself before `accept_after`, and "
        f"{learned} of the {rejected} that were rejected.",
    ]


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
    named = _listed([f"{name} ({len(streams)})" for name, streams in mine.items()])
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
        _FIVE.format(sets=_listed(sets), tuned=TUNED, plain=PLAIN),
        page.table(header, lines),
    ]


def _around_changes(drift: Figures) -> list[str]:
    lines = [
        [f"{_short(kind)}: {what}", name, *map(_percent, around)]
        for (kind, what), rows in drift.changes().items()
        for name, around in rows.items()
    ]
    if not lines:
        return []
    header = ["change", "row", "before", "after", f"from {LATER:,} samples after it on"]
    return [_CHANGES.format(later=LATER, target=TARGET), page.table(header, lines)]


def _after_changes(alarms: Alarms) -> list[str]:
    lines = []
    for budget in BUDGETS:
        for owner, name in [*((kind.name, _short(kind.name)) for kind in KINDS), (None, "all")]:
            parts = [alarms.rate(budget, part, owner) for part in (BEFORE, AFTER)]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                cells = [_two(part.rate) for part in known]
                lines.append([f"{budget} a day", name, str(known[0].streams), *cells])
    if not lines:
        return []
    return [_AFTER, page.table(["budget", "kind", "streams", "before", "after"], lines)]


def _pooled(alarms: Alarms) -> dict[str, list[Pooled]]:
    """Return what is pooled at each budget, by the part: of real streams, and of generated ones."""
    found = {part: _at_budgets(alarms, part) for part in _PARTS}
    return {part: parts for part, parts in found.items() if parts}


def _at_budgets(alarms: Alarms, part: str, owner: str | None = None) -> list[Pooled]:
    """Return what is pooled at each budget, or nothing."""
    found = [alarms.rate(budget, part, owner) for budget in BUDGETS]
    return [each for each in found if each is not None]


def _ratios(parts: Sequence[Pooled]) -> list[Figure]:
    """Return alarms a day as a multiple of each budget."""
    return [
        Figure(part.rate.mean / budget, None if part.rate.std is None else part.rate.std / budget)
        for budget, part in zip(BUDGETS, parts, strict=True)
    ]


def _budgets(alarms: Alarms) -> list[str]:
    owners = {name: _at_budgets(alarms, ALL, name) for name in COLLECTIONS}
    pooled = {_PARTS[part]: parts for part, parts in _pooled(alarms).items()}
    lines = [
        [name, str(parts[0].streams), f"{parts[0].days:.0f}", *map(_two, _ratios(parts))]
        for name, parts in {**owners, **pooled}.items()
        if parts
    ]
    if not lines:
        return []
    header = ["over", "streams", "days", *(f"budget {budget}" for budget in BUDGETS)]
    figure = figure_of("drift-budget", _CHARTS["drift-budget"]) + "\n"
    return [_BUDGET, page.table(header, lines), figure]


def _until_accepted(alarms: Alarms) -> list[str]:
    lines = []
    for (kind, what), every in alarms.changes().items():
        done = [each for each in every if each.accepted]
        times = [each.after / ACCEPT_AFTER for each in done]
        cells = ["-", "-", "-"]
        if done:
            opened = fmean(each.opened for each in done)
            cells = [f"{median(times):.2f}", f"{min(times):.2f} to {max(times):.2f}"]
            cells.append(f"{opened:.1f}")
        share = f"{len(done) / len(every):.0%}"
        lines.append([f"{_short(kind)}: {what}", str(len(every)), share, *cells])
    if not lines:
        return []
    header = ["change", "changes", "accepted", "after, median", "range", "alarms until then"]
    streams = len({of.stream for of in alarms.acceptances})
    said = _ACCEPTED.format(
        budget=BUDGETS[0],
        accept_after=ACCEPT_AFTER,
        count=f"{streams} generated stream{'s'[: streams > 1]}",
    )
    return [said, page.table(header, lines)]


def _faults(drift: Figures, alarms: Alarms) -> list[str]:
    shares = {part: alarms.fault_shares(part) for part in ("noticed", "absorbed")}
    rows = [row for row in drift.rows if any(row in each for each in shares["noticed"].values())]
    which = sorted(shares["noticed"], key=lambda each: [*FAULTS].index(each[1]))
    lines = []
    for part, found in shares.items():
        for kind, fault in which:
            figures = found[kind, fault]
            cells = [_percent(figures[row]) if row in figures else "-" for row in rows]
            lines.append([part, f"{fault}, {_source(kind)}", *cells])
    if not lines:
        return []
    said = _FAULTS.format(onset=ONSET, quarter=ACCEPT_AFTER // 4)
    return [said, page.table(["", "fault", *rows], lines), *_kept(alarms)]


def _kept(alarms: Alarms) -> list[str]:
    mine = alarms.mine()
    if not mine:
        return []
    lines = []
    for fault in [*FAULTS, "all"]:
        found = [each for each in mine if fault in (each.fault, "all")]
        rejected = [each for each in found if each.rejected]
        cells = [
            _share([each.early for each in found]),
            _share([each.late for each in found]),
            _share([each.rejected for each in found]),
            _share([each.learned for each in rejected]),
        ]
        lines.append([fault, str(len(found)), *cells])
    header = ["fault", "faults", "accepted before 1", f"accepted by {FOLLOWED}", "rejected"]
    table = page.table([*header, "accepted though rejected"], lines)
    return [_KEPT.format(followed=FOLLOWED), table]


def _share(truths: Sequence[bool | None]) -> str:
    """Return how many of several things are true.

    >>> _share([True, False]), _share([])
    ('50%', '-')
    """
    return f"{fmean(map(bool, truths)):.0%}" if truths else "-"


def _short(kind: str) -> str:
    return kind.partition("/")[2]


def _source(kind: str) -> str:
    """Return what a faulty stream is made from: the kinds of wave are one without their change.

    >>> _source("drift/wave-level"), _source("drift/plant")
    ('wave', 'plant')
    """
    return _short(kind).partition("-")[0]


def _two(figure: Figure) -> str:
    """Return a figure with two decimals.

    >>> _two(Figure(1.0, 0.125)), _two(Figure(0.5, None))
    ('1.00 ± 0.12', '0.50')
    """
    return f"{figure.mean:.2f}" + ("" if figure.std is None else f" ± {figure.std:.2f}")


def _called(drift: Figures) -> list[str]:
    found = drift.means(called)
    lines = [
        [
            name,
            str(count),
            *(_percent(figures[row]) if row in figures else "-" for row in drift.rows),
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


def _percent(figure: Figure) -> str:
    """Return a share as a percentage.

    >>> _percent(Figure(0.0125, 0.001)), _percent(Figure(0.5, None))
    ('1.2% ± 0.1', '50.0%')
    """
    spread = "" if figure.std is None else f" ± {100 * figure.std:.1f}"
    return f"{figure.mean:.1%}{spread}"


def _listed(names: Sequence[str]) -> str:
    """Return names as a person lists them.

    >>> _listed(["a", "b", "c"]), _listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


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
    spent = {part: _ratios(parts) for part, parts in _pooled(alarms).items()}
    if spent:
        ratios = {
            f"{budget} a day": {_PARTS[part]: each[at] for part, each in spent.items()}
            for at, budget in enumerate(BUDGETS)
        }
        bars = grouped_bars(_groups(ratios), axis="alarms over budget", level=1.0, written=True)
        paths += keep(bars, folder, "drift-budget")
    return paths


def _groups(found: Mapping[str, Mapping[str, Figure]]) -> dict[str, Group]:
    return {
        name: {row: (figure, None) for row, figure in figures.items()}
        for name, figures in found.items()
    }
