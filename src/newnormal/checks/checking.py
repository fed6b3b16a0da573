"""The check of one series."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np

from newnormal.base import BaseDetector
from newnormal.checks.channels import channel_facts, channel_finding
from newnormal.checks.facts import ChannelFacts, InputFacts
from newnormal.checks.findings import Finding, Level, Remedies, worst_first
from newnormal.checks.history import Need, history_findings, needs_of, rhythm_of, scaled_history
from newnormal.checks.live import live_findings
from newnormal.checks.loading import Loaded, loaded
from newnormal.checks.plan import FitPlan, limit_findings, period_of, planned
from newnormal.checks.reading import DUPLICATE, LATE, note_of, reading_findings
from newnormal.checks.report import lines_of, text_of
from newnormal.checks.sampling import Sampling, sampling_findings
from newnormal.checks.texts import amount, percent
from newnormal.checks.twins import twin_findings
from newnormal.core.outliers import Outliers, find_outliers
from newnormal.detector import Detector, load
from newnormal.tabular import InputProfile, Table, default_channels
from newnormal.types import Floats

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
    time: none; 2 channels: 0, 1
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
    shell: bool = True,
) -> Check:
    """Return the check of a series that was read already.

    Parameters
    ----------
    table
        The series.
    name
        Where it is from.
    detector
        The detector that is to be fitted; None: a `Detector` with its defaults.
    model
        A fitted detector to compare with.
    shell
        Whether findings name options of the command line.
    """
    reading_facts = table.profile
    time = () if reading_facts is None else reading_facts.time
    return _checked(name, Loaded(table, [], time, shell), detector, model)


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
    scaled = scaled_history(table.values, outliers)
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
    text = {each.channel for each in loaded.findings if each.code == "text"}
    read = reading_findings(table.profile, facts, remedies)
    known = text | {each.channel for each in read if each.code == "text"}
    others = _no_measurement(findings)
    measured = [at for at, each in enumerate(channels) if each not in others]
    findings = [each for each in findings if each.code != "empty" or each.channel not in known]
    findings += [
        *loaded.findings,
        *read,
        *_order_findings(counts, table.profile, remedies),
        *sampling_findings(facts.sampling, facts.samples, table.zone, remedies),
        *history_findings(needs, facts.samples, period, rhythm),
        *limit_findings(config, spec, period, remedies),
        *_far_findings(outliers, channels, table, set(measured), remedies),
        *twin_findings(table.values, channels, measured, remedies),
    ]
    if model is not None:
        findings += live_findings(channels, period, table.channels is not None, model)
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
            sentence = f"{name!r} misses {percent(share)} of its values"
            level: Level = "warning" if share >= _MISSING else "note"
            findings.append(Finding(level, "missing", name, sentence))
    return tuple(columns), findings


def _no_measurement(findings: list[Finding]) -> set[str | None]:
    return {each.channel for each in findings if each.code in _NO_MEASUREMENT}


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
        sentence = note_of(read, DUPLICATE) or f"{some} {DUPLICATE}"
        findings.append(Finding(level, "duplicates", None, sentence, option))
    if late:
        some = "1 sample is" if late == 1 else f"{late:,} samples are"
        sentence = note_of(read, LATE) or f"{some} {LATE}"
        findings.append(Finding(level, "out_of_order", None, sentence, remedies.sort()))
    return findings


def _far_findings(
    outliers: tuple[Outliers, ...],
    channels: tuple[str, ...],
    table: Table,
    measured: set[int],
    remedies: Remedies,
) -> list[Finding]:
    findings = []
    for each in outliers:
        if each.channel not in measured:
            continue
        name = channels[each.channel]
        sentence = _far_sentence(each.sentence(channels, table.times), name)
        low, high = float(each.values.min()), float(each.values.max())
        option = remedies.missing(amount(low)) if low == high else None
        findings.append(Finding("warning", "far_values", name, sentence, option))
    return findings


def _far_sentence(sentence: str, name: str) -> str:
    """Return the sentence about outliers of a channel in the words of a check."""
    rest = sentence.removeprefix(f"channel {name!r}: ")
    return f"{name!r}: {rest}".replace("left out of history", "are far from all others")
