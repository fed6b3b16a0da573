"""The part about alarms of the page of `newnormal_reproduce.ours.drift`."""

from collections.abc import Sequence
from statistics import fmean, median

from newnormal_reproduce.engine.drifting import FAULTS, ONSET
from newnormal_reproduce.ours.averages import percent, short
from newnormal_reproduce.ours.drift_alarms import (
    ACCEPT_AFTER,
    FOLLOWED,
    LIMIT,
    NOTHING,
    DriftAlarms,
)
from newnormal_reproduce.ours.drift_figures import OURS
from newnormal_reproduce.report import pages

_TEXT = pages.texts("drift")


def summary(alarms: DriftAlarms, rows: Sequence[str]) -> list[str | None]:
    """Return the summary of the tables, a sentence each, or None if a table is missing."""
    return [_about_acceptance(alarms), _about_absorption(alarms, rows), _about_faults(alarms)]


def _about_acceptance(alarms: DriftAlarms) -> str | None:
    every = [response for responses in alarms.changes().values() for response in responses]
    changes = [response for response in every if response.change != NOTHING]
    if not changes:
        return None
    times = [response.after / ACCEPT_AFTER for response in changes if response.accepted]
    text = f"Of {len(changes)} changes of normal it accepted {len(times)}"
    if times:
        text += (
            f", after {median(times):.2f} times `accept_after` in the median "
            f"({min(times):.2f} to {max(times):.2f})"
        )
    others = [response.longest / ACCEPT_AFTER for response in changes if not response.accepted]
    if others:
        text += f"; after the others nothing lasted longer than {max(others):.2f} times that"
    early = [response.accepted for response in every if response.change == NOTHING]
    return (
        f"{text}. Before the first change it accepted something on {sum(early)} of {len(early)} "
        "runs."
    )


def _about_absorption(alarms: DriftAlarms, rows: Sequence[str]) -> str | None:
    shares = alarms.fault_shares("absorbed")
    means = {
        row: fmean(figures[row].mean for figures in shares.values())
        for row in rows
        if shares and all(row in figures for figures in shares.values())
    }
    if OURS not in means:
        return None
    others = "; ".join(f"{row}: {share:.0%}" for row, share in means.items() if row != OURS)
    return f"Of faults that stay it absorbed {means[OURS]:.0%} before feedback could be given" + (
        f" ({others})." if others else "."
    )


def _about_faults(alarms: DriftAlarms) -> str | None:
    if not (faults := alarms.mine()):
        return None
    early, rejected, learned = (
        sum(bool(getattr(fault, part)) for fault in faults)
        for part in ("early", "rejected", "learned")
    )
    return (
        f"It accepted {early} of {len(faults)} such faults without feedback before `accept_after`, "
        f"and {learned} of the {rejected} that were rejected."
    )


def sections(alarms: DriftAlarms, rows: Sequence[str]) -> list[str]:
    """Return the sections on acceptance and faults."""
    return [*_until_accepted(alarms), *_faults(alarms, rows)]


def _until_accepted(alarms: DriftAlarms) -> list[str]:
    lines = []
    for (kind, change), responses in alarms.changes().items():
        done = [response for response in responses if response.accepted]
        times = [response.after / ACCEPT_AFTER for response in done]
        cells = ["-"] * 4
        if done:
            span = f"{min(times):.2f} to {max(times):.2f}"
            mean = fmean(response.alarms for response in done)
            youngest = min(response.age for response in done) / ACCEPT_AFTER
            cells = [f"{median(times):.2f}", span, f"{mean:.1f}", f"{youngest:.2f}"]
        others = [response.longest for response in responses if not response.accepted]
        cells.append(f"{max(others) / ACCEPT_AFTER:.2f}" if others else "-")
        share = f"{len(done) / len(responses):.0%}"
        lines.append([f"{short(kind)}: {change}", str(len(responses)), share, *cells])
    if not lines:
        return []
    streams = len({of.stream for of in alarms.acceptances})
    text = _TEXT["until accepted"].format(
        limit=LIMIT,
        accept_after=ACCEPT_AFTER,
        nothing=NOTHING,
        streams=streams,
        plural="s"[: streams > 1],
    )
    accepted = ["accepted", "after, median", "range", "alarms", "youngest"]
    return [text, pages.table(["change", "changes", *accepted, "longest of others"], lines)]


def _faults(alarms: DriftAlarms, rows: Sequence[str]) -> list[str]:
    shares = {part: alarms.fault_shares(part) for part in ("noticed", "absorbed")}
    keys = sorted(shares["noticed"], key=lambda key: [*FAULTS].index(key[1]))
    named = [row for row in rows if any(row in shares["noticed"][key] for key in keys)]
    lines = []
    for part, by_key in shares.items():
        for kind, fault in keys:
            figures = by_key[kind, fault]
            cells = [percent(figures[row]) if row in figures else "-" for row in named]
            lines.append([part, f"{fault}, {_source(kind)}", *cells])
    if not lines:
        return []
    text = _TEXT["faults"].format(onset=ONSET, quarter=ACCEPT_AFTER // 4, limit=LIMIT)
    return [text, pages.table(["share", "fault", *named], lines), *_kept(alarms)]


def _kept(alarms: DriftAlarms) -> list[str]:
    if not (mine := alarms.mine()):
        return []
    lines = []
    for name in [*FAULTS, "all"]:
        faults = [fault for fault in mine if name in (fault.fault, "all")]
        shares = [
            _share([fault.early for fault in faults]),
            _share([fault.late for fault in faults]),
            _share([fault.rejected for fault in faults]),
            _share([fault.learned for fault in faults if fault.rejected]),
        ]
        lines.append([name, str(len(faults)), *shares])
    accepted = ["accepted before 1", f"accepted by {FOLLOWED}"]
    header = ["fault", "faults", *accepted, "rejected", "accepted though rejected"]
    return [_TEXT["accepted faults"].format(followed=FOLLOWED), pages.table(header, lines)]


def _share(truths: Sequence[bool | None]) -> str:
    """Return the share of values that are true.

    >>> _share([True, False]), _share([])
    ('50.0%', '-')
    """
    return f"{fmean(map(bool, truths)):.1%}" if truths else "-"


def _source(kind: str) -> str:
    """Return the source of a faulty stream: without their change, the waves are one kind.

    >>> _source("drift/wave-level"), _source("drift/plant")
    ('wave', 'plant')
    """
    return short(kind).partition("-")[0]
