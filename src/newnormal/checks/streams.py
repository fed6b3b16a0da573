"""The checks of many streams, and their summary."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from newnormal.base import BaseDetector
from newnormal.checks.checking import Check, check_table
from newnormal.checks.findings import LEVELS
from newnormal.checks.loading import unreadable
from newnormal.tabular import StreamTables, Table
from newnormal.texts import counted, shown

_WORST = 5


def check_streams(
    tables: StreamTables | Mapping[str, Table],
    *,
    detector: BaseDetector | None = None,
    models: Mapping[str, BaseDetector] | None = None,
    shell: bool = True,
) -> dict[str, Check]:
    """Return the check of each stream by its name.

    `tables`: the streams; those that could not be read have a finding too. `detector`: the detector
    that is to be fitted on each; None: a `Detector` with its defaults. `models`: fitted detectors
    by the name of their stream, to compare with. `shell`: whether findings name options of the
    command line.
    """
    named = tables.tables if isinstance(tables, StreamTables) else tables
    known = {} if models is None else models
    checks = {
        name: check_table(table, name=name, detector=detector, model=known.get(name), shell=shell)
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


def summary_of(checks: Mapping[str, Check], worst: int = _WORST) -> StreamsSummary:
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
        tuple((name, checks[name].findings[0].line) for _, name in ranked[:worst]),
    )
