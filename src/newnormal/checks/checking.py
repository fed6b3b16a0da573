"""The check of one series, and those of many streams.

One module because many streams are checked one by one and then counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np

from newnormal.base import BaseDetector
from newnormal.checks.channels import channel_facts, channel_finding, twin_findings
from newnormal.checks.facts import (
    ChannelFacts,
    InputFacts,
    Sampling,
    channel_period,
    sampling_findings,
)
from newnormal.checks.findings import LEVELS, Finding, Level, Remedies, length, worst_first
from newnormal.checks.loading import Loaded, loaded, of_table, unreadable
from newnormal.checks.plan import (
    FitPlan,
    Need,
    cleaned_history,
    history_findings,
    limit_findings,
    needs_of,
    period_of,
    planned,
    rhythm_of,
)
from newnormal.checks.report import lines_of, text_of
from newnormal.core.outliers import ChannelOutliers, find_outliers
from newnormal.core.scaling import Scaler
from newnormal.detector import Detector, load
from newnormal.models.channels import history_faults
from newnormal.tabular import InputProfile, StreamTables, Table, default_channels
from newnormal.tabular.columns import alike
from newnormal.texts import counted, listed, share_text, shown
from newnormal.types import Floats

# What notes of these two have in them.
_DUPLICATE, _LATE = "the time of another", "out of order"
_TEXT = 0.9  # of a column's cells are no numbers: it is text
_SAME_RATE = 1.25  # the longer period, of the shorter one, at most
_MISSING = 0.2  # of a channel's values are missing, for a warning
# What a channel is, rather than what it measures: it is no twin of another, and has no far values.
_NO_MEASUREMENT = ("empty", "constant", "label_like", "time_like", "row_number", "counter_like")


@dataclass(frozen=True, eq=False)
class Check:
    """What was found about a series before it is fitted.

    Attributes
    ----------
    name
        The file; None for data in Python.
    facts
        What there is; None where nothing could be read.
    needs
        How much history is enough for what.
    plan
        What `fit` would do; None where it would refuse.
    findings
        What is suspicious, the worst first.
    """

    name: str | None
    facts: InputFacts | None
    needs: tuple[Need, ...]
    plan: FitPlan | None
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether `fit` would go on: nothing is an error."""
        return self.level != "error"

    @property
    def level(self) -> str | None:
        """The worst level of the findings; None if there are none."""
        return self.findings[0].level if self.findings else None

    def lines(self, limit: int = 5) -> list[str]:
        """Return the lines that matter, the worst first: at most `limit`.

        The first is what was taken for the time and for channels. Findings of one kind share a
        line.
        """
        return lines_of(self.facts, self.findings, limit)

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "name": self.name,
            "ok": self.ok,
            "facts": None if self.facts is None else self.facts.as_dict(),
            "history": {need.what: need.as_dict() for need in self.needs},
            "plan": None if self.plan is None else self.plan.as_dict(),
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def __str__(self) -> str:
        return text_of(self.name, self.facts, self.needs, self.plan, self.findings)


def check(
    data: Any,
    *,
    times: Any = None,
    model: BaseDetector | str | PathLike[str] | None = None,
    **options: Any,
) -> Check:
    r"""Look at data before it is fitted: what there is, what is suspicious, what `fit` would do.

    Odd data is not an error: what `fit` would refuse is a finding of level ``"error"``.

    Parameters
    ----------
    data
        What `Detector.fit` takes, or the path of a file.
    times
        The samples' times, as for `Detector.fit`.
    model
        A fitted detector, or its file: what in the data differs from its history is found too.
    options
        How to read a file: those of `newnormal.tabular.read`, such as ``drop="host"``.

    Returns
    -------
    The check: print it, or use its `findings`, `facts`, `plan` and `ok`.

    Raises
    ------
    InputError
        If the file is not there.
    ParameterError
        If an option is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> import newnormal
    >>> rng = np.random.default_rng(0)
    >>> data = np.stack([rng.normal(size=500), np.cumsum(rng.random(500))], axis=1)
    >>> found = newnormal.check(data)
    >>> found.ok, [(each.level, each.code, each.channel) for each in found.findings]
    (True, [('warning', 'counter_like', '1'), ('note', 'no_times', None)])
    >>> print(*found.lines(), sep="\n")
    time: none; 2 channels: 0 and 1
    '1' looks like a counter: it only rises: pass the differences of '1'
    there are no times: a day is taken to have 1,440 samples: pass times=, or Detector(period=...)
    """
    name = fspath(data) if isinstance(data, str | PathLike) else None
    detector = load(model) if isinstance(model, str | PathLike) else model
    return _checked(name, loaded(data, times, options), None, detector)


def check_table(
    table: Table,
    *,
    name: str | None = None,
    detector: BaseDetector | None = None,
    model: BaseDetector | None = None,
) -> Check:
    """Return the check of a series that was read already.

    `table`: the series. `name`: where it is from. `detector`: the detector that is to be fitted;
    None: a `Detector` with its defaults. `model`: a fitted detector to compare with. Findings name
    options of the command line.
    """
    return _checked(name, of_table(table, True), detector, model)


def _checked(
    name: str | None, loaded: Loaded, detector: BaseDetector | None, model: BaseDetector | None
) -> Check:
    with np.errstate(all="ignore"):  # of values near the largest that there are
        return _looked_at(name, loaded, detector, model)


def _looked_at(
    name: str | None, loaded: Loaded, detector: BaseDetector | None, model: BaseDetector | None
) -> Check:
    table = loaded.table
    if table is None or table.values.size == 0:
        findings = loaded.findings or [Finding("error", "unreadable", None, "there are no samples")]
        return Check(name, None, (), None, worst_first(findings))
    detector = Detector() if detector is None else detector
    remedies = Remedies(loaded.shell)
    channels = table.channels or default_channels(table.values.shape[1])
    config, spec = detector.settings()
    period = period_of(table, config)
    outliers = find_outliers(table.values)
    cleaned = cleaned_history(table.values, outliers)
    scaler = Scaler.fit(cleaned)
    scaled = scaler.apply(cleaned)
    rhythm = rhythm_of(scaled, table, period)
    columns, findings = _channel_findings(table, channels, remedies)
    counts = _counts(loaded, table.profile)
    facts = InputFacts(
        len(table.values),
        loaded.time,
        columns,
        Sampling.of(table.times),
        table.zone,
        rhythm,
        *counts,
        table.profile,
    )
    needs = needs_of(table, detector, period)
    text = {finding.channel for finding in loaded.findings if finding.code == "text"}
    read = _reading_findings(table.profile, facts, remedies)
    known = text | {each.channel for each in read if each.code == "text"}
    others = {each.channel for each in findings if each.code in _NO_MEASUREMENT}
    measured = [at for at, channel in enumerate(channels) if channel not in others]
    findings = [each for each in findings if each.code != "empty" or each.channel not in known]
    findings += [
        *loaded.findings,
        *read,
        *_order_findings(counts, table.profile, remedies),
        *sampling_findings(
            facts.sampling, facts.samples, table.zone, remedies, channel_period(table)
        ),
        *history_findings(needs, facts.samples, period, rhythm),
        *limit_findings(config, spec, period, remedies),
        *_far_findings(outliers, channels, table, set(measured), remedies),
        *twin_findings(table.values, channels, measured, remedies),
    ]
    if sentence := history_faults(cleaned, scaler, scaled, channels, rhythm, table.times):
        findings.append(Finding("warning", "faults", None, sentence, remedies.leave_out()))
    if model is not None:
        findings += _channels(channels, table.channels is not None, model.channels_)
        findings += _rate(period, model.period_)
    ordered = worst_first(findings)
    refused = any(each.level == "error" for each in ordered)
    plan = None
    if not refused:
        plan = planned(table, channels, loaded.time, detector, period, scaled, rhythm is not None)
    return Check(name, facts, tuple(needs), plan, ordered)


def _channel_findings(
    table: Table, channels: tuple[str, ...], remedies: Remedies
) -> tuple[tuple[ChannelFacts, ...], list[Finding]]:
    columns: list[ChannelFacts] = []
    findings: list[Finding] = []
    for at, name in enumerate(channels):
        column: Floats = np.ascontiguousarray(table.values[:, at])
        facts = channel_facts(name, column)
        columns.append(facts)
        finding = channel_finding(facts, column, table.times, remedies)
        if finding is not None:
            findings.append(finding)
        share = facts.missing / len(column)
        if facts.missing and (finding is None or finding.code not in ("empty", "near_empty")):
            sentence = f"{name!r} misses {share_text(share)} of its values"
            level: Level = "warning" if share >= _MISSING else "note"
            findings.append(Finding(level, "missing", name, sentence))
    return tuple(columns), findings


def _counts(loaded: Loaded, read: InputProfile | None) -> tuple[int, int]:
    if read is None:
        return loaded.duplicates, loaded.out_of_order
    return read.duplicates, read.out_of_order


def _order_findings(
    counts: tuple[int, int], read: InputProfile | None, remedies: Remedies
) -> list[Finding]:
    """Return the findings of duplicate times and of times out of order."""
    duplicates, late = counts
    level: Level = "warning" if remedies.shell else "error"
    findings = []
    if duplicates:
        some = "1 sample has" if duplicates == 1 else f"{duplicates:,} samples have"
        option = "--on-duplicate last, mean or error" if remedies.shell else remedies.sort()
        sentence = _note_of(read, _DUPLICATE) or f"{some} {_DUPLICATE}"
        findings.append(Finding(level, "duplicates", None, sentence, option))
    if late:
        some = "1 sample is" if late == 1 else f"{late:,} samples are"
        sentence = _note_of(read, _LATE) or f"{some} {_LATE}"
        findings.append(Finding(level, "out_of_order", None, sentence, remedies.sort()))
    return findings


def _far_findings(
    outliers: tuple[ChannelOutliers, ...],
    channels: tuple[str, ...],
    table: Table,
    measured: set[int],
    remedies: Remedies,
) -> list[Finding]:
    findings = []
    for outlier in outliers:
        if outlier.channel not in measured:
            continue
        name = channels[outlier.channel]
        sentence = _far_sentence(outlier.sentence(channels, table.times), name)
        low, high = float(outlier.values.min()), float(outlier.values.max())
        option = remedies.missing(f"{low:.15g}") if low == high else None
        findings.append(Finding("warning", "far_values", name, sentence, option))
    return findings


def _far_sentence(sentence: str, name: str) -> str:
    """Return the sentence about outliers of a channel in the words of a check."""
    rest = sentence.removeprefix(f"channel {name!r}: ")
    return f"{name!r}: {rest}".replace("left out of history", "are far from all others")


def _reading_findings(
    profile: InputProfile | None, facts: InputFacts, remedies: Remedies
) -> list[Finding]:
    """Return bad lines, bad cells, columns of text, and notes."""
    if profile is None:
        return []
    findings = [*_lines(profile), *_cells(profile, facts, remedies)]
    reported = (_DUPLICATE, _LATE, profile.first_bad or _DUPLICATE)  # under codes of their own
    findings += [
        Finding("note", "reading", None, note)
        for note in profile.notes
        if not any(each in note for each in reported)
    ]
    return findings


def _note_of(profile: InputProfile | None, part: str) -> str | None:
    notes = () if profile is None else profile.notes
    return next((note for note in notes if part in note), None)


def _lines(profile: InputProfile) -> list[Finding]:
    if not profile.bad_lines:
        return []
    some = "1 line holds" if profile.bad_lines == 1 else f"{profile.bad_lines:,} lines hold"
    first = "" if profile.first_bad is None else f"; the first: {shown(profile.first_bad)}"
    of = f", of {profile.lines:,}" if profile.lines else ""  # a stream's are not counted apart
    return [Finding("warning", "bad_lines", None, f"{some} no sample{of}{first}")]


def _cells(profile: InputProfile, facts: InputFacts, remedies: Remedies) -> list[Finding]:
    findings = []
    missing = {channel.name: channel.missing for channel in facts.channels}
    for name, bad in profile.bad_cells.items():
        example = shown(bad.example)
        if bad.count >= _TEXT * facts.samples:
            sentence = f"{name!r} holds text, such as {example!r}"
            refused = missing.get(name, 0) == facts.samples
            level: Level = "error" if refused else "warning"
            findings.append(Finding(level, "text", name, sentence, remedies.drop(name)))
            continue
        some = "1 cell that is" if bad.count == 1 else f"{bad.count:,} cells that are"
        sentence = f"{name!r} has {some} no number, such as {example!r} in line {bad.line}"
        word = example.strip()
        option = remedies.missing(word) if word and "," not in word else None
        findings.append(Finding("warning", "bad_cells", name, sentence, option))
    return findings


def _channels(channels: Sequence[str], named: bool, fitted: Sequence[str]) -> list[Finding]:
    """Return in what channels, `named` by the user or not, differ from those of a detector."""
    if not named or tuple(fitted) == default_channels(len(fitted)):
        if len(channels) == len(fitted):
            return []
        sentence = f"the model has {len(fitted)} channels, and here are {len(channels)}"
        return [Finding("error", "channels_differ", None, sentence)]
    gone = [name for name in fitted if name not in channels]
    new = [name for name in channels if name not in fitted]
    if not gone and not new:
        return []
    parts = [f"of the model's channels {listed(gone)} are not here"] if gone else []
    parts += [f"the model does not know {listed(new)}"] if new else []
    level: Level = "error" if len(gone) == len(fitted) else "warning"
    hint = alike(gone, new)
    return [Finding(level, "channels_differ", None, "; ".join(parts), hint)]


def _rate(period: np.timedelta64 | None, fitted: np.timedelta64 | None) -> list[Finding]:
    if period is None or fitted is None or not period or not fitted:
        return []
    ratio = float(period / fitted)
    if 1 / _SAME_RATE <= ratio <= _SAME_RATE:
        return []
    sentence = (
        f"samples are {length(period)} apart here, and {length(fitted)} in the model's history"
    )
    option = f"--resample {length(fitted).replace(' ', '')}" if ratio < 1 else None
    return [Finding("warning", "rate_differs", None, sentence, option)]


_WORST = 5


def check_streams(
    tables: StreamTables | Mapping[str, Table],
    *,
    detector: BaseDetector | None = None,
    models: Mapping[str, BaseDetector] | None = None,
) -> dict[str, Check]:
    """Return the check of each stream by its name.

    `tables`: the streams; those that could not be read have a finding too. `detector`: the detector
    that is to be fitted on each; None: a `Detector` with its defaults. `models`: fitted detectors
    by the name of their stream, to compare with.
    """
    named = tables.tables if isinstance(tables, StreamTables) else tables
    known = {} if models is None else models
    checks = {
        name: check_table(table, name=name, detector=detector, model=known.get(name))
        for name, table in named.items()
    }
    if isinstance(tables, StreamTables):
        for name, error in tables.errors.items():
            checks[name] = Check(name, None, (), None, (unreadable(error),))
    return checks


@dataclass(frozen=True)
class StreamsSummary:
    """The checks of many streams together."""

    streams: int  # how many there are
    by_level: dict[str, int]  # how many have this as their worst level
    # how many streams have a finding of each level and code, the worst level first
    by_code: dict[tuple[str, str], int]
    # the streams with most to mend, the worst first, with the line of their worst finding
    worst: tuple[tuple[str, str], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "streams": self.streams,
            "levels": dict(self.by_level),
            "findings": [
                {"level": level, "code": code, "streams": count}
                for (level, code), count in self.by_code.items()
            ],
            "worst_streams": [name for name, _ in self.worst],
        }

    def lines(self, limit: int = 5) -> list[str]:
        """Return the lines that matter, the worst first: at most `limit`."""
        counts = ", ".join(
            f"{self.by_level[level]:,} with {level}s" for level in LEVELS if self.by_level[level]
        )
        first = f"{counted(self.streams, 'stream')}{': ' if counts else ', nothing found'}{counts}"
        rest = [f"{name or 'lines without a stream'}: {line}" for name, line in self.worst]
        return [shown(line) for line in [first, *rest][:limit]]


def summary_of(checks: Mapping[str, Check]) -> StreamsSummary:
    """Return the checks of many streams together."""
    by_level: dict[str, int] = dict.fromkeys(LEVELS, 0)
    codes: Counter[tuple[str, str]] = Counter()
    ranked = []
    for name, each in checks.items():
        if each.level is not None:
            by_level[each.level] += 1
        codes.update({(finding.level, finding.code) for finding in each.findings})
        counts = Counter(finding.level for finding in each.findings)
        if counts["error"] or counts["warning"]:
            ranked.append(((-counts["error"], -counts["warning"]), name))
    ranked.sort()
    ordered = sorted(codes.items(), key=lambda item: (LEVELS.index(item[0][0]), -item[1]))
    return StreamsSummary(
        len(checks),
        by_level,
        dict(ordered),
        tuple((name, checks[name].findings[0].line) for _, name in ranked[:_WORST]),
    )
