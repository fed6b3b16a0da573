"""`newnormal score`: judge a finished file."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from newnormal.cli.console import say
from newnormal.cli.options import Classes, Frozen, Input, InputOptions, Model, is_fleet, with_shared
from newnormal.cli.reading import exit_if_failed, read_for
from newnormal.texts import counted

if TYPE_CHECKING:
    from newnormal.fleet import Fleet, FleetVerdicts
    from newnormal.tabular import StreamTables
    from newnormal.types import Bools, Verdicts

_LINES = 4096  # of output at once


@with_shared
def score(
    model: Model,
    input: Input,  # noqa: A002
    frozen: Frozen = False,
    *,
    classes: Classes,
    options: InputOptions,
) -> None:
    """Judge a finished file: JSON lines out, one per sample. Nothing is written to MODEL.

    newnormal score plant.fleet metrics.csv --by host
    """
    judge, data = read_for(model, classes, input, options, labels=False)
    if not is_fleet(model):
        judge.track_alarms()  # as a `watch` does
        _write(judge.score_frozen(data) if frozen else judge.score(data))
        return
    _write(FrozenLines(judge, data) if frozen else judge.run(data))
    exit_if_failed(data)


def _write(verdicts: Verdicts | FleetVerdicts | FrozenLines) -> None:
    for start in range(0, len(verdicts), _LINES):
        lines = verdicts.json_lines(start, min(start + _LINES, len(verdicts)))
        sys.stdout.writelines(line + "\n" for line in lines)
    sys.stdout.flush()
    anomalous = int(verdicts.anomalous.sum())
    say(f"judged {counted(len(verdicts), 'sample')}, {anomalous:,} anomalous")


class FrozenLines:
    """The verdicts of a fleet's streams, each judged without learning, in the input's order."""

    def __init__(self, fleet: Fleet, tables: StreamTables) -> None:
        import numpy as np

        lines: list[str] = []
        anomalous: list[Bools] = []
        for name, table in tables.tables.items():
            verdicts = fleet[name].score_frozen(table)
            start = f'{{"stream": {json.dumps(name, ensure_ascii=False)}, '
            lines += [start + line[1:] for line in verdicts.json_lines()]
            anomalous.append(verdicts.anomalous)
        self._lines = lines
        self.anomalous = np.concatenate(anomalous)
        if tables.rows is not None:
            rows = np.concatenate([tables.rows[name] for name in tables.tables])
            self._lines = [lines[row] for row in np.argsort(rows, kind="stable").tolist()]

    def __len__(self) -> int:
        return len(self._lines)

    def json_lines(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Return some of them as lines of JSON."""
        return self._lines[start:stop]
