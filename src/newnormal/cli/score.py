"""`newnormal score`: judge a finished file."""

from __future__ import annotations

import sys

from newnormal.cli.console import say
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

__all__ = ["score"]

_LINES = 4096  # of output at once


def score(
    model: Model,
    input: Input,  # noqa: A002
    frozen: Frozen = False,
    loading: Loading = None,
    rule: Rule = None,
    time: Time = None,
    columns: Columns = None,
    drop: Drop = None,
    format: Format = None,  # noqa: A002
) -> None:
    """Judge a finished file: JSON lines out, one per sample. Nothing is written to MODEL."""
    classes = Classes.of(loading, rule)
    _, verdicts, _ = judge(model, classes, input, frozen, None, time, columns, drop, format)
    for start in range(0, len(verdicts), _LINES):
        lines = verdicts.json_lines(start, min(start + _LINES, len(verdicts)))
        sys.stdout.writelines(line + "\n" for line in lines)
    sys.stdout.flush()
    say(f"judged {len(verdicts):,} samples, {int(verdicts.anomalous.sum()):,} anomalous")
