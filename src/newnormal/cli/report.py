"""`newnormal report`: judge a finished file, and write what happened as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newnormal.cli.bars import sample_progress
from newnormal.cli.console import announce_compiling, say
from newnormal.cli.fleet_reading import exit_if_failed, fleet_tables, load_fleet, remembered
from newnormal.cli.options import Classes, Frozen, Input, Loading, Model, Rule
from newnormal.cli.reading import load, read_table, say_found
from newnormal.cli.reading_options import Given, reads_input
from newnormal.cli.streams import check_one_stream, check_streams, is_fleet
from newnormal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from newnormal.reports.shown import Shown
    from newnormal.tabular import StreamTables

__all__ = ["report"]

_STANDARD_INPUT = "-"


@reads_input
def report(
    model: Model,
    input: Input,  # noqa: A002
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page: .html.")
    ] = Path("report.html"),
    frozen: Frozen = False,
    loading: Loading = None,
    rule: Rule = None,
    *,
    given: Given,
) -> None:
    """Judge a finished file, and write a page to look at: zoom, hover, jump to an alarm.

    newnormal report plant.nn live.csv -o report.html

    newnormal report plant.fleet metrics.csv --by host

    One HTML file that needs no network, below 10 MB. Labels are shown where the file has them:
    --label COLUMN, or the column that `fit` was given. Nothing is written to MODEL.
    """
    from newnormal.reports.writing import check_target
    from newnormal.reports.writing import report as write

    classes = Classes.of(loading, rule)
    check_target(output, [model, input])
    if is_fleet(model):
        given = given.after(remembered(model))
        check_streams(model, given.streams, input)
        shown, tables = _fleet(model, classes, input, given, frozen)
    else:
        check_one_stream(model, given.streams)
        shown, tables = _stream(model, classes, input, given, frozen), None
    write(shown, output)
    say(f"wrote {output} ({_size_text(output.stat().st_size)}): {shown.summary()}")
    if tables is not None:
        exit_if_failed(tables)


def _stream(model: Path, classes: Classes, source: str, given: Given, frozen: bool) -> Shown:
    """Judge a file of one stream."""
    from newnormal.reports.shown import Shown
    from newnormal.runtime.judging import judge_series

    announce_compiling()
    detector = load(model, classes)
    table = _with_labels(
        lambda own: read_table(source, own, detector.channels_), given, detector.reading_, source
    )
    say_found(table.found)
    say(f"judging {len(table.values):,} samples ...")
    with sample_progress("judging", len(table.values)) as on_samples:
        judged = judge_series(detector, table, frozen=frozen, on_samples=on_samples)
    return Shown.of(judged.verdicts, _title(source, model))


def _fleet(
    model: Path, classes: Classes, source: str, given: Given, frozen: bool
) -> tuple[Shown, StreamTables]:
    """Judge a file of a fleet's streams."""
    from newnormal.reports.shown import Shown

    fleet = load_fleet(model, classes)
    tables = _with_labels(
        lambda own: fleet_tables(fleet, source, own), given, remembered(model), source
    )
    found: Any
    if frozen:
        found = {name: fleet[name].score(table) for name, table in tables.tables.items()}
    else:
        found = fleet.run(tables)
    return Shown.of(found, _title(source, model)), tables


def _with_labels(
    read: Callable[[Given], Any], given: Given, facts: Mapping[str, Any] | None, source: str
) -> Any:
    """Read a file with the labels that history had, too, if this file has them.

    Standard input, which cannot be read twice, is read with the labels that are named alone.
    """
    plain = given.after(facts)
    labelled = given.after(facts, label=True)
    if source == _STANDARD_INPUT or labelled.reading.label == plain.reading.label:
        return read(plain)
    try:
        return read(labelled)
    except InputError:
        return read(plain)


def _title(source: str, model: Path) -> str:
    name = "standard input" if source == _STANDARD_INPUT else Path(source).name
    return f"{name} judged by {model.name}"


def _size_text(size: int) -> str:
    """Return a size in kB or MB.

    >>> _size_text(51_200), _size_text(1_234_567)
    ('51 kB', '1.2 MB')
    """
    return f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{size / 1e3:.0f} kB"
