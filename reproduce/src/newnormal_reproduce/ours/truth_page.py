"""The page and the picture of `newnormal_reproduce.ours.truth`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from newnormal_reproduce.ours.truth_results import ROWS, TruthResults, two
from newnormal_reproduce.ours.truth_streams import KINDS, PERIODS, WIDTHS
from newnormal_reproduce.report import pages
from newnormal_reproduce.report.figures import (
    FALSE,
    INK,
    PALE,
    SMALL,
    TRUE,
    blank,
    figure_link,
    save_figure,
)

_INTRODUCTION = """\
# What is reported, beside the truth

Is what `Detector()` reports of a fault true, every word and number? Made by `{command}`.

- Streams are generated: noise around a level (flat), a daily cycle, channels that one hidden load
  drives, a slow wander that comes back (walk), positive values with bursts, and a weekly cycle;
  with 1, 3, 6 and 12 channels of levels from 0.0033 to 1e10; every 2 s, 15 s, minute and 5 minutes.
  History has 10,080 samples. What a value would be without the fault is known exactly.
- A fault is a step, a spike in each third sample, a ramp, or noise, of 12 to 45 samples and of 4 to
  9 standard deviations of its channel, in a channel drawn at random. Noise is for finding alone,
  and a ramp, whose start nobody sees, has no length.
- A channel is **named** if it is in the evidence of an alarm that opens or is updated during the
  fault. **All right** is an alarm that names the channel, is closed within 15 samples of the
  fault's end and not before it, and has the direction in its sentence.
  It is counted in several situations, and in none of them, to compare with.
- An expected value is 0 of the way if it is what the value would be without the fault, and 1 if it
  is the faulty value. Noise cannot be foreseen: below are the same figures for what is expected at
  the same samples if there is no fault.
- Figures are over {seeds}. Every place is a line of [truth.csv](truth.csv).

Computed by {versions}.
"""
_CAPTION = "Each figure, and its floor as a mark: blue where it holds, red where it does not."


def page_of(results: TruthResults, failures: Mapping[str, str], command: str) -> str:
    """Return the page."""
    parts = [
        _INTRODUCTION.format(
            command=command,
            seeds=f"seeds {', '.join(map(str, results.seeds)) or 'none'}",
            versions=pages.versions(),
        )
    ]
    if results.scores:
        every = sum(row.floor is not None for row in ROWS)
        good = every - len(results.below())
        parts += pages.summary([f"{good} of {every} figures are at their floor or better."])
        parts += ["## Every figure\n", pages.table(*every_of(results))]
        parts += [figure_link("truth-floors", _CAPTION) + "\n"]
        parts += ["## By stream\n", pages.table(*parts_of(results))]
    if failures:
        parts += ["## Not run\n", pages.table(("what", "why"), list(failures.items()))]
    return "\n".join(parts)


def every_of(results: TruthResults) -> tuple[list[str], list[list[str]]]:
    """Return each figure beside its floor: header and lines."""
    lines = [
        [row.about, row.limit, two(row.figure(values)), str(len(values))]
        for row in ROWS
        if (values := results.values(row))
    ]
    return ["reported", "floor", "figure", "cases"], lines


def parts_of(results: TruthResults) -> tuple[list[str], list[list[str]]]:
    """Return each figure by kind of stream, number of channels and period: header and lines."""
    parts: dict[str, dict[str, object]] = {kind: {"kind": kind} for kind in KINDS}
    parts |= {f"{width} ch.": {"channels": width} for width in WIDTHS}
    parts |= {f"{period} s": {"period": period} for period in PERIODS}
    lines = [
        [row.name, *(two(results.figure(row, **where)) for where in parts.values())]
        for row in ROWS
        if results.values(row)
    ]
    return ["figure", *parts], lines


def draw(results: TruthResults, folder: Path) -> list[Path]:
    """Draw a bar for each figure that has a floor, and a mark at the floor."""
    rows = [row for row in ROWS if row.floor is not None and results.values(row)]
    if not rows:
        return []
    figures = [results.figure(row) or 0.0 for row in rows]
    colours = [
        TRUE if row.holds(figure) else FALSE for row, figure in zip(rows, figures, strict=True)
    ]
    height = 0.27 * len(rows) + 0.7
    figure = blank(10, height)
    axes = figure.add_axes((0.5, 0.45 / height, 0.45, 1 - 0.55 / height))
    heights = np.arange(len(rows))[::-1]
    axes.barh(heights, figures, height=0.6, color=colours, alpha=0.85)
    floors = [row.floor or 0.0 for row in rows]
    axes.scatter(floors, heights, marker="|", s=190, color=INK, linewidths=2, zorder=3)
    axes.set_yticks(heights, [row.about for row in rows])
    for place, value in zip(heights, figures, strict=True):
        axes.text(1.03, place, f"{value:.2f}", va="center", fontsize=SMALL, color=INK)
    axes.set_xlim(0, 1.02)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.tick_params(labelsize=SMALL, labelcolor=INK, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color=PALE, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    return save_figure(figure, folder, "truth-floors")
