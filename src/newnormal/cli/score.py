"""`newnormal score`: judge a finished file."""

from __future__ import annotations

import sys

from newnormal.cli.console import say
from newnormal.cli.fleet_reading import (
    FrozenLines,
    Scored,
    exit_if_failed,
    fleet_tables,
    load_fleet,
)
from newnormal.cli.options import (
    Classes,
    Columns,
    Drop,
    Format,
    Frozen,
    Input,
    Loading,
    Model,
    Rule,
    Time,
)
from newnormal.cli.reading import judge
from newnormal.cli.streams import (
    By,
    LongLines,
    Streams,
    Tag,
    Value,
    check_one_stream,
    check_streams,
    is_fleet,
)

__all__ = ["score"]

_LINES = 4096  # of output at once


def score(
    model: Model,
    input: Input,  # noqa: A002
    frozen: Frozen = False,
    by: By = None,
    long: LongLines = False,
    tag: Tag = None,
    value: Value = None,
    loading: Loading = None,
    rule: Rule = None,
    time: Time = None,
    columns: Columns = None,
    drop: Drop = None,
    format: Format = None,  # noqa: A002
) -> None:
    """Judge a finished file: JSON lines out, one per sample. Nothing is written to MODEL.

    newnormal score plant.fleet metrics.csv --by host
    """
    classes = Classes.of(loading, rule)
    streams = Streams.of(by, long, tag, value)
    if is_fleet(model):
        check_streams(model, streams, input)
        fleet = load_fleet(model, classes)
        tables = fleet_tables(fleet, input, streams, time, columns, drop, format)
        _write(FrozenLines(fleet, tables) if frozen else fleet.run(tables))
        exit_if_failed(tables)
        return
    check_one_stream(model, streams)
    _, verdicts, _ = judge(
        model, classes, input, frozen, None, time, columns, drop, format, streams
    )
    _write(verdicts)


def _write(verdicts: Scored) -> None:
    for start in range(0, len(verdicts), _LINES):
        lines = verdicts.json_lines(start, min(start + _LINES, len(verdicts)))
        sys.stdout.writelines(line + "\n" for line in lines)
    sys.stdout.flush()
    say(f"judged {len(verdicts):,} samples, {int(verdicts.anomalous.sum()):,} anomalous")
