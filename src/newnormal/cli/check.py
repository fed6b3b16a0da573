"""`newnormal check`: look at data before it is fitted."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from newnormal.cli.console import FAILED, put
from newnormal.cli.options import InputOptions, argument, is_fleet, option, with_shared
from newnormal.cli.reading import read_streams
from newnormal.errors import ParameterError
from newnormal.texts import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from newnormal.base import BaseDetector
    from newnormal.checks import Check, Finding

WARNED = 4  # the exit code of --strict where there is a warning
_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}
_NARROWEST = 60  # columns of a terminal


@with_shared
def check(
    file: str = argument(
        "CSV, JSON lines, Excel, ...; - is stdin. A folder has a file for each stream.",
        metavar="FILE",
        default=...,
    ),
    model: Path | None = option(
        "A fitted detector: show what differs from its history too.", metavar="MODEL"
    ),
    as_json: bool = option("Print JSON instead of a table.", "--json", default=False),
    strict: bool = option("Exit with 4 if there is a warning.", "--strict", default=False),
    *,
    options: InputOptions,
) -> None:
    """Look at a file before it is fitted: what there is, what is suspicious, what fit would do.

    newnormal check history.csv --drop comment

    newnormal check live.csv --model plant.nn

    Exit codes: 0 fit would go on, 1 it would refuse, 4 with --strict if there is a warning.
    """
    many = bool(options.streams.by) or options.streams.long is not None
    if many or (file != "-" and Path(file).is_dir()):
        _check_streams(file, model, as_json, strict, options)
        return
    import newnormal

    if model is not None and is_fleet(model):
        raise ParameterError(
            f"{model} is a fleet: expected --by with the column that names the stream, found none",
            hint="add --by COLUMN, such as --by host",
        )
    _report(newnormal.check(file, model=model, reading=options.reading), as_json, strict)


def _report(check: Check, as_json: bool, strict: bool) -> None:
    if as_json:
        typer.echo(json.dumps(check.as_dict(), indent=2))
    else:
        _show(check)
    _exit([check], strict)


def _check_streams(
    file: str, model: Path | None, as_json: bool, strict: bool, options: InputOptions
) -> None:
    from newnormal.checks import check_streams, summary_of

    tables = read_streams(file, options)
    checks = check_streams(tables, models=_models(model, list(tables.tables)))
    if list(checks) == [""] and options.streams.long is not None:  # long lines of one stream
        _report(replace(checks[""], name=file), as_json, strict)
        return
    if as_json:
        streams_found = {name: check.as_dict() for name, check in checks.items()}
        report = {"summary": summary_of(checks).as_dict(), "streams": streams_found}
        typer.echo(json.dumps(report, indent=2))
    else:
        _show_streams(checks)
    _exit(list(checks.values()), strict)


def _models(path: Path | None, streams: Sequence[str]) -> Mapping[str, BaseDetector] | None:
    """Return the detectors of streams: those of a fleet, or the same for each."""
    if path is None:
        return None
    if not is_fleet(path):
        import newnormal

        return dict.fromkeys(streams, newnormal.load(path))
    from newnormal.fleet import Fleet

    fleet = Fleet.load(path)
    return {name: fleet[name] for name in streams if name in fleet}


def _exit(checks: Sequence[Check], strict: bool) -> None:
    if not all(check.ok for check in checks):
        sys.exit(FAILED)
    if strict and any(check.level == "warning" for check in checks):
        sys.exit(WARNED)


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width, _NARROWEST)
    return console


def _show(check: Check) -> None:
    from newnormal.checks.report import fact_rows, plan_rows

    console = _console()
    if not console.is_terminal:
        put(str(check))
        return
    _heading(console, shown(check.name or "standard input"))
    if check.facts is not None:
        _grid(console, [(name, text, "cyan") for name, text in fact_rows(check.facts, check.needs)])
    _findings(console, check.findings)
    if check.plan is None:
        _heading(console, "fit would refuse this")
        return
    _heading(console, "fit would")
    _grid(console, [(name, text, "cyan") for name, text in plan_rows(check.plan)])


def _findings(console: Console, findings: Sequence[Finding]) -> None:
    from newnormal.checks.report import grouped

    if not findings:
        _heading(console, "nothing is suspicious")
        return
    _heading(console, "found")
    _grid(console, [(level, line, _STYLES[level]) for level, line in grouped(findings)])


def _show_streams(checks: Mapping[str, Check]) -> None:
    from newnormal.checks import summary_of

    console = _console()
    summary = summary_of(checks)
    _heading(console, summary.lines(1)[0])
    rows = [
        (level, f"{code.replace('_', ' ')}: {count:,} of {len(checks):,} streams", _STYLES[level])
        for (level, code), count in summary.by_code.items()
    ]
    if rows:
        _grid(console, rows)
    if summary.worst:
        _heading(console, "worst streams")
        worst = [(shown(name) or "(no stream)", line, "cyan") for name, line in summary.worst]
        _grid(console, worst)


def _heading(console: Console, text: str) -> None:
    from rich.text import Text

    console.print(Text(text, style="bold"))


def _grid(console: Console, rows: Sequence[tuple[str, str, str]]) -> None:
    """Print names and texts in two columns; no text is read as markup, nor any escape sent."""
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, max_width=24, overflow="ellipsis")
    grid.add_column(overflow="fold")
    for name, text, style in rows:
        grid.add_row(Text(f"  {name}", style=style), Text(shown(text)))
    console.print(grid)
