"""`newnormal score`: judge a finished file."""

import sys
from typing import TYPE_CHECKING

from newnormal.cli.compiling import prepare
from newnormal.cli.console import say
from newnormal.cli.fleet_reading import (
    FrozenLines,
    exit_if_failed,
    fleet_tables,
    load_fleet,
    remembered,
)
from newnormal.cli.options import Classes, Frozen, Input, Loading, Model, Rule
from newnormal.cli.reading import load, read_table, say_profile
from newnormal.cli.reading_options import InputOptions, reads_input
from newnormal.cli.streams import check_one_stream, check_streams, is_fleet
from newnormal.texts import counted

if TYPE_CHECKING:
    from newnormal.fleet import FleetVerdicts
    from newnormal.types import Verdicts

_LINES = 4096  # of output at once


@reads_input
def score(
    model: Model,
    input: Input,  # noqa: A002
    frozen: Frozen = False,
    loading: Loading = None,
    rule: Rule = None,
    *,
    options: InputOptions,
) -> None:
    """Judge a finished file: JSON lines out, one per sample. Nothing is written to MODEL.

    newnormal score plant.fleet metrics.csv --by host
    """
    classes = Classes.of(loading, rule)
    if is_fleet(model):
        options = options.after(remembered(model))
        check_streams(model, options.streams, input)
        fleet = load_fleet(model, classes)
        tables = fleet_tables(fleet, input, options)
        _write(FrozenLines(fleet, tables) if frozen else fleet.run(tables))
        exit_if_failed(tables)
        return
    check_one_stream(model, options.streams)
    detector = load(model, classes)
    prepare(detector)
    table = read_table(input, options.after(detector.reading_), detector.channels_)
    say_profile(table.profile)
    say(f"judging {len(table.values):,} samples ...")
    _write(detector.score_frozen(table) if frozen else detector.score(table))


def _write(verdicts: "Verdicts | FleetVerdicts | FrozenLines") -> None:
    for start in range(0, len(verdicts), _LINES):
        lines = verdicts.json_lines(start, min(start + _LINES, len(verdicts)))
        sys.stdout.writelines(line + "\n" for line in lines)
    sys.stdout.flush()
    anomalous = int(verdicts.anomalous.sum())
    say(f"judged {counted(len(verdicts), 'sample')}, {anomalous:,} anomalous")
