"""`newnormal check`: look at data before it is fitted."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from newnormal.cli.console import FAILED, broken, print_text, put, put_json
from newnormal.cli.options import (
    InputOptions,
    argument,
    check_streams,
    is_fleet,
    option,
    with_shared,
)
from newnormal.cli.reading import read_streams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from newnormal.base import BaseDetector
    from newnormal.checks import Check

WARNED = 4  # the exit code of --strict where there is a warning


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
        check_streams(model, options.streams, file)
    _report(newnormal.check(file, model=model, reading=options.reading), as_json, strict)


def _report(check: Check, as_json: bool, strict: bool) -> None:
    if as_json:
        put_json(check.as_dict())
    else:
        put(broken(str(check), sys.stdout))
    _exit([check], strict)


def _check_streams(
    file: str, model: Path | None, as_json: bool, strict: bool, options: InputOptions
) -> None:
    from newnormal import checks as streams

    tables = read_streams(file, options)
    checks = streams.check_streams(tables, models=_models(model, list(tables.tables)))
    if list(checks) == [""] and options.streams.long is not None:  # long lines of one stream
        _report(replace(checks[""], name=file), as_json, strict)
        return
    if as_json:
        streams_found = {name: check.as_dict() for name, check in checks.items()}
        report = {"summary": streams.summary_of(checks).as_dict(), "streams": streams_found}
        put_json(report)
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


def _show_streams(checks: Mapping[str, Check]) -> None:
    from newnormal.checks import summary_of

    summary = summary_of(checks)
    print_text(summary.lines(1)[0], bold=True)
    for (level, code), count in summary.by_code.items():
        print_text(f"  {level:7}  {code.replace('_', ' ')}: {count:,} of {len(checks):,} streams")
    if summary.worst:
        print_text("worst streams", bold=True)
    for name, line in summary.worst:
        print_text(f"  {name or '(no stream)'}  {line}")
