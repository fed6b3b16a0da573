"""What `Detector` chose, in sentences and one table."""

import math

from newnormal.tuning.choice import COPIES, LEARNED_NOTHING, NO_RHYTHM, TOO_SHORT, Choice, Member
from newnormal.tuning.choose import HELD_OUT, LEAST

_COLUMNS = """\
takes      half-life of the trend that it subtracts, or length of its window
learns at  its learning rate: the one of smallest error on the held-out samples
planted    average precision on planted faults; 1 ranks them above all else
weight     its part of the score
"""
_WHY = {
    LEARNED_NOTHING: "it learned nothing. On held-out history it leaves 90% or more of the "
    "variance.",
    COPIES: "it reproduces faults. Its average precision on planted faults is less than a third "
    "of the best member's.",
    TOO_SHORT: "history is too short for it.",
    NO_RHYTHM: "history has no rhythm.",
}


def explain(choice: Choice) -> str:
    """Return what was chosen and why, in lines."""
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
    rows = [("member", "takes", "learns at", "planted", "weight"), *map(_row, choice.members)]
    if choice.held_out:
        rows.append(("all members", "", "", f"{choice.ensemble_ap:.2f}", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines = [about, "", *(f"  {line}" for line in table), ""]
    lines += [_COLUMNS] if choice.held_out else []
    for member in choice.members:
        if member.dropped:
            lines.append(f"The {_name(member)} has weight 0: {_WHY[member.dropped]}")
    return "\n".join([*lines, *choice.notes, _smoothing(choice)])


def _row(member: Member) -> tuple[str, ...]:
    precision = member.average_precision
    learns = member.kind == "autoencoder"
    return (
        member.kind,
        _memory(member),
        (f"{member.lr:g}" if member.lr else "does not") if learns else "-",
        "-" if math.isnan(precision) else f"{precision:.2f}",
        f"{member.weight:.0%}",
    )


def _memory(member: Member) -> str:
    if member.kind == "rhythm":
        return "the phase"
    if math.isinf(member.memory):
        return "endless"
    return f"{member.memory:g} sample{'' if member.memory == 1 else 's'}"


def _name(member: Member) -> str:
    """Return the member's name; there are several autoencoders."""
    if member.kind == "autoencoder":
        endless = math.isinf(member.memory)
        return f"autoencoder of {'endless memory' if endless else _memory(member)}"
    return member.kind if member.kind == "linear subspace" else f"member {member.kind!r}"


def _smoothing(choice: Choice) -> str:
    if choice.plan.smoothing == 0:
        return "The score is not smoothed."
    unit = "sample" if choice.plan.smoothing == 1 else "samples"
    half_life = f"smoothed with a half-life of {choice.plan.smoothing:g} {unit}"
    return f"The autoencoder and the forecast vote at once; the other votes are {half_life}."
