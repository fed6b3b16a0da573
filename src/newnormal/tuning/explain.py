"""What `Detector` chose, in sentences and one table."""

from __future__ import annotations

import math
import textwrap

from newnormal.tuning.choose import HELD_OUT, LEAST, SMOOTHED, Choice, Member

__all__ = ["explain"]

_WIDTH = 80  # of a terminal
_COLUMNS = """\
memory     half-life of the trend that a member subtracts before it scores
learns at  its learning rate: the one of smallest error on the held-out samples
found      average precision on the planted faults; 1 ranks them above all else
weight     its part of the score; a member that finds less than a third of what
           the best one finds gets weight 0
"""


def explain(choice: Choice) -> str:
    """Return what was chosen and why, as lines of at most 80 characters."""
    about = f"A committee, chosen from {choice.samples:,} samples of history. "
    if choice.held_out:
        about += (
            f"Its members were trained on all but the newest {choice.held_out:,}, tested on those "
            "with planted faults and with changes that are no faults, and then trained on all."
        )
    else:
        about += (
            f"Nothing was tested: that takes {LEAST} samples that are not missing, the newest "
            f"{HELD_OUT:.0%} among them."
        )
    rows = [("member", "memory", "learns at", "found", "weight"), *map(_row, choice.members)]
    if choice.held_out:
        rows.append(("all members", "", "", f"{choice.ensemble_ap:.2f}", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(
        [
            *_wrapped(about),
            "",
            *(f"  {line}" for line in table),
            "",
            *([_COLUMNS] if choice.held_out else []),
            *_wrapped(_smoothing(choice)),
            *_left_out(choice),
        ]
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, width=_WIDTH)


def _row(member: Member) -> tuple[str, ...]:
    precision = member.average_precision
    return (
        "linear subspace" if member.linear else "autoencoder",
        "endless" if math.isinf(member.memory) else f"{member.memory:g} samples",
        "-" if member.linear else f"{member.lr:g}" if member.lr else "does not",
        "-" if math.isnan(precision) else f"{precision:.2f}",
        f"{member.weight:.0%}",
    )


def _left_out(choice: Choice) -> list[str]:
    return [line for each in choice.left_out for line in _wrapped(f"{each[:1].upper()}{each[1:]}.")]


def _smoothing(choice: Choice) -> str:
    if not choice.held_out:
        return "The score is not smoothed."
    fact = f"neighbouring scores correlate by {choice.autocorrelation:.2f}"
    if choice.plan.smoothing:
        return f"The score is smoothed with a half-life of one sample: {fact}."
    low = choice.autocorrelation < SMOOTHED[0]
    why = "too little for smoothing to help" if low else "so they are smooth already"
    return f"The score is not smoothed: {fact}, {why}."
