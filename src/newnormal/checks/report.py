"""A check as text."""

from collections.abc import Sequence

from newnormal.alarms.words import channels_text
from newnormal.checks.facts import InputFacts
from newnormal.checks.findings import Finding, length
from newnormal.checks.plan import FitPlan, Need
from newnormal.texts import counted, number_text, share_text, shown
from newnormal.types import time_text

_APART = 3  # findings of one kind that have a line each
_TOGETHER = 6  # channels in one option
_KINDS = {  # of several channels in one line
    "label_like": "look like labels",
    "counter_like": "look like counters: they only rise",
    "time_like": "look like Unix time",
    "row_number": "are numbers of rows",
    "constant": "are constant",
    "empty": "have no values",
    "near_empty": "have hardly any values",
    "missing": "miss values",
    "few_values": "have few different values",
    "saturated": "may be clipped",
    "duplicate_of": "follow exactly from other channels",
    "far_values": "have values far from all others",
    "bad_cells": "have cells that are no numbers",
    "text": "do not hold numbers",
    "infinite": "have infinite values",
}
# Notes that are worth a line before `fit`.
_ANSWERABLE = ("no_times", "label_like", "duplicate_of", "short_history", "reading")
_NEEDS = {
    "fit": "to fit",
    "test": "to test the committee's choices",
    "every_member": "for every member of the committee",
    "alarm_threshold": "for an alarm threshold within what was seen",
    "daily_rhythm": "for a daily rhythm",
    "weekend_rhythm": "for working days and weekends",
    "weekday_rhythm": "for each day of the week",
}


def lines_of(facts: InputFacts | None, findings: Sequence[Finding], limit: int) -> list[str]:
    """Return the lines that matter, at most `limit`, the worst first."""
    lines = [] if facts is None else [taken_line(facts)]
    matters = [each for each in findings if each.level != "note" or each.code in _ANSWERABLE]
    lines += [line for _, line in grouped(matters, apart=1)]
    if len(lines) > limit:
        more = len(lines) - limit + 1
        lines = [*lines[: limit - 1], f"and {more} more: newnormal check shows them"]
    return [shown(line) for line in lines[:limit]]


def taken_line(facts: InputFacts) -> str:
    """Return what was taken for the time and for channels."""
    profile, names = facts.profile, facts.time
    how = "" if profile is None else _dates(profile.written)
    if facts.sampling is None:
        time = "none"
    elif names:
        time = f"{' and '.join(map(repr, names))}{how}"
    else:
        time = f"from {time_text(facts.sampling.first, facts.zone)}{how}"
    return (
        f"time: {time}; {counted(len(facts.names), 'channel')}: {shown(channels_text(facts.names))}"
    )


def _dates(written: dict[str, str]) -> str:
    words = [written[key] for key in ("dates", "time_unit") if key in written]
    return f" ({', '.join(words)})" if words else ""


def grouped(findings: Sequence[Finding], apart: int = _APART) -> list[tuple[str, str]]:
    """Return levels and lines; more than `apart` findings of one kind share a line."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.level, finding.code), []).append(finding)
    lines = []
    for (level, code), group in groups.items():
        if len(group) <= apart or code not in _KINDS:
            lines += [(level, each.line) for each in group]
            continue
        channels = [each.channel or "" for each in group]
        together = _together([each.option or "" for each in group])
        which = channels_text(list(map(repr, channels)))
        if len(group) > _TOGETHER:
            which = f"{len(group):,} channels ({which})"
        lines.append((level, f"{which} {_KINDS[code]}{together}"))
    return lines


def _together(options: Sequence[str]) -> str:
    """Return what to do about several channels: the options of all, or of the first.

    >>> _together(["--label a or --drop a", "--label b or --drop b", "--drop c"])
    ': --label a --drop b,c'
    >>> _together(["--rates a", "--rates b"])
    ': --rates a,b'
    """
    if "" in options:
        return ""
    last = [option.rpartition(" or ")[2] for option in options]
    shell = all(option.startswith("--") and option.count(" ") == 1 for option in last)
    if not shell or len(options) > _TOGETHER:
        return f": {options[0]}, ..."
    first, either, _ = options[0].partition(" or ")
    rest = last[1:] if either else last
    head = rest[0].partition(" ")[0]
    if any(option.partition(" ")[0] != head for option in rest):
        return f": {options[0]}, ..."
    joined = f"{head} {','.join(option.partition(' ')[2] for option in rest)}"
    return f": {first} {joined}" if either else f": {joined}"


def text_of(
    name: str | None,
    facts: InputFacts | None,
    needs: Sequence[Need],
    plan: FitPlan | None,
    findings: Sequence[Finding],
) -> str:
    """Return a check in lines."""
    lines = [shown(name)] if name is not None else []
    if facts is not None:
        lines += _rows(fact_rows(facts, needs))
    lines.append("")
    if not findings:
        lines.append("Nothing is suspicious.")
    lines += [shown(f"{level}: {line}") for level, line in grouped(findings)]
    lines.append("")
    if plan is None:
        lines.append("fit would refuse this.")
    else:
        lines += ["fit would:", *_rows(plan_rows(plan))]
    return "\n".join(lines)


def _rows(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows) + 2
    return [f"  {name.ljust(width)}{shown(text)}" for name, text in rows]


def fact_rows(facts: InputFacts, needs: Sequence[Need]) -> list[tuple[str, str]]:
    """Return what there is as names and texts."""
    rows = [("samples", f"{facts.samples:,} of {counted(len(facts.names), 'channel')}")]
    sampling = facts.sampling
    if sampling is not None:
        span = f" ({length(sampling.span)})" if sampling.span else ""
        first, last = (time_text(each, facts.zone) for each in (sampling.first, sampling.last))
        rows.append(("from", f"{first} to {last}{span}"))
        if sampling.period is not None:
            share = share_text(sampling.regular)
            rows.append(("period", f"{length(sampling.period)}; {share} of the steps are equal"))
        gaps = "none"
        if sampling.gaps:
            largest = ", ".join(
                f"{length(gap.length)} after {time_text(gap.after, facts.zone)}"
                for gap in sampling.largest
            )
            gaps = f"{sampling.gaps:,}; the largest: {largest}"
        rows.append(("gaps", gaps))
    if facts.duplicates or facts.out_of_order:
        text = f"{facts.duplicates:,} twice, {facts.out_of_order:,} out of order"
        rows.append(("times", text))
    values = facts.samples * len(facts.names)
    missing = f"{facts.missing:,} of {values:,} values" if facts.missing else "none"
    rows.append(("missing", missing))
    rhythm = "none found"
    if facts.rhythm is not None:
        rhythm = facts.rhythm.sentence(facts.names).removeprefix("Rhythm: ")
    rows.append(("rhythm", rhythm))
    rows.append(("history", _history(needs)))
    if facts.profile is not None and facts.profile.written:
        written = ", ".join(f"{name} {text}" for name, text in facts.profile.written.items())
        rows.append(("written", written))
    return rows


def _history(needs: Sequence[Need]) -> str:
    enough = [need for need in needs if need.enough]
    short = [need for need in needs if not need.enough]
    text = f"enough {_NEEDS[enough[-1].what]}" if enough else "not enough to fit"
    more = [f"{_NEEDS[need.what]} it takes {need.text}" for need in short]
    return "; ".join([text, *more])


def plan_rows(plan: FitPlan) -> list[tuple[str, str]]:
    """Return what `fit` would do as names and texts."""
    rows = [("learn from", f"{plan.samples:,} samples"), ("channels", ", ".join(plan.channels))]
    if plan.time:
        rows.insert(0, ("take time from", " and ".join(plan.time)))
    if plan.left_out:
        rows.append(("leave out", ", ".join(plan.left_out)))
    day = f"{number_text(plan.samples_per_day, digits=6)} samples a day"
    rows.append(("period", day if plan.period is None else f"{length(plan.period)}, {day}"))
    if plan.held_out:
        rows.append(("test on", f"the newest {plan.held_out:,} samples, with planted faults"))
    rows.append(("window", f"{plan.window} samples; a verdict every {plan.stride}"))
    kinds = list(dict.fromkeys(plan.members))
    rows.append(("members", ", ".join(kinds)))
    if plan.not_used:
        rows.append(("not used", ", ".join(f"{kind} ({why})" for kind, why in plan.not_used)))
    if plan.alarms_per_day is not None:
        rows.append(("false alarms", f"at most {number_text(plan.alarms_per_day)} a day"))
    elif plan.risk is not None:
        rows.append(("false alarms", f"at most a chance of {plan.risk:g} a sample"))
    rows.append(("accept after", plan.accept_text))
    return rows
