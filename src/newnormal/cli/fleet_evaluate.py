"""`newnormal evaluate` of a fleet: every metric of each stream, and of all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from newnormal.cli.console import print_table
from newnormal.cli.measuring import Measured, measure, openings
from newnormal.errors import InputError

if TYPE_CHECKING:
    from newnormal.fleet import Fleet
    from newnormal.tabular import StreamTables

__all__ = ["evaluate_fleet"]

_SUMS = ("samples", "labelled", "events", "tp", "fp", "fn", "tn", "detected", "missed")
_MEANS = ("auroc", "auprc", "vus_roc", "vus_pr", "affiliation_f1", "best_f1")
_SHOWN = ("samples", "events", "detected", "precision", "recall", "f1", "vus_pr", "openings_false")


def evaluate_fleet(
    fleet: Fleet, tables: StreamTables, title: str, frozen: bool, as_json: bool
) -> None:
    """Judge labelled streams, each by its own detector, and print what was measured."""
    found: dict[str, Measured] = {}
    for name, table in tables.tables.items():
        if table.labels is None:
            raise InputError(f"stream {name!r}: expected labels, found none")
        detector = fleet[name]
        verdicts = detector.score(table) if frozen else detector.run(table)
        found[name] = measure(detector, verdicts, table.labels, frozen)
    total = _total(list(found.values()))
    facts = {name: each.as_dict() for name, each in found.items()}
    if as_json:
        typer.echo(json.dumps({"streams": facts, "total": total}, indent=2))
        return
    shown = [*_SHOWN[:-1], *(_SHOWN[-1:] if "openings_false" in total else ())]
    rows = {**facts, f"all {len(facts)}": total}
    print_table(title, "stream", shown, rows)


def _total(found: list[Measured]) -> dict[str, float | None]:
    """Return sums of counts, ratios made of these, and the mean over streams of what has none."""
    from newnormal.metrics import AlarmCounts, Confusion

    facts = [each.report.as_dict() for each in found]
    total: dict[str, float | None] = {
        name: sum(int(each[name] or 0) for each in facts) for name in (*_SUMS, "false_alarms")
    }
    counts = Confusion(*(int(total[name] or 0) for name in ("tp", "fp", "fn", "tn")))
    for name in ("accuracy", "precision", "recall", "f1"):
        total[name] = getattr(counts, name)
    for name in _MEANS:
        known = [value for each in facts if (value := each[name]) is not None]
        total[name] = sum(known) / len(known) if known else None
    alarms = [each.counts for each in found if each.counts is not None]
    if len(alarms) == len(found):
        total |= openings(AlarmCounts.pooled(alarms))
    return total
