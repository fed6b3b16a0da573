"""A finished file, judged: of one stream or of a fleet's. Pictures and reports are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from newnormal.cli.bars import sample_progress
from newnormal.cli.compiling import prepare
from newnormal.cli.console import say
from newnormal.cli.fleet_reading import fleet_tables, load_fleet, remembered
from newnormal.cli.options import Classes
from newnormal.cli.reading import load, read_table, say_found
from newnormal.cli.reading_options import Given
from newnormal.cli.streams import check_one_stream, check_streams, is_fleet, stream_text
from newnormal.errors import InputError

if TYPE_CHECKING:
    from newnormal.fleet import FleetVerdicts
    from newnormal.reports.contents import Contents
    from newnormal.tabular import StreamTables

__all__ = ["JudgedFile", "judge_file"]

_STANDARD_INPUT = "-"


class JudgedFile(NamedTuple):
    """The verdicts on a file, its name, and what was read of a fleet's streams."""

    found: Any
    name: str
    tables: StreamTables | None = None

    def contents(self, model: Path) -> Contents:
        """Return it as a report shows it."""
        from newnormal.reports.contents import Contents

        return Contents.of(self.found, f"{self.name} judged by {model.name}")


def judge_file(
    model: Path, classes: Classes, source: str, given: Given, frozen: bool
) -> JudgedFile:
    """Judge a file, with its labels where it has them; MODEL stays as it is."""
    name = "standard input" if source == _STANDARD_INPUT else Path(source).name
    if is_fleet(model):
        given = given.after(remembered(model))
        check_streams(model, given.streams, source)
        found, tables = _fleet(model, classes, source, given, frozen)
        return JudgedFile(found, name, tables)
    check_one_stream(model, given.streams)
    return JudgedFile(_stream(model, classes, source, given, frozen), name)


def _stream(model: Path, classes: Classes, source: str, given: Given, frozen: bool) -> Any:
    """Judge a file of one stream."""
    from newnormal.runtime.judging import judge_series

    detector = load(model, classes)
    prepare(detector)
    table = _with_labels(
        lambda own: read_table(source, own, detector.channels_), given, detector.reading_, source
    )
    say_found(table.found)
    say(f"judging {len(table.values):,} samples ...")
    with sample_progress("judging", len(table.values)) as on_samples:
        return judge_series(detector, table, frozen=frozen, on_samples=on_samples).verdicts


def _fleet(
    model: Path, classes: Classes, source: str, given: Given, frozen: bool
) -> tuple[Any, StreamTables]:
    """Judge a file of a fleet's streams."""
    fleet = load_fleet(model, classes)
    tables = _with_labels(
        lambda own: fleet_tables(fleet, source, own), given, remembered(model), source
    )
    if frozen:
        return {name: fleet[name].score(table) for name, table in tables.tables.items()}, tables
    verdicts = fleet.run(tables)
    _say_errors(verdicts, tables)
    return verdicts, tables


def _say_errors(verdicts: FleetVerdicts, tables: StreamTables) -> None:
    """Name the streams whose samples were not taken, and count them as left out."""
    for each in verdicts.errors:
        if each.stream not in tables.errors:
            tables.errors[each.stream] = InputError(each.error.message, hint=each.error.hint)
            say(f"error: {stream_text(each.stream)}: {each.error.message}; skipped")
    if tables.errors and not any(True for _ in verdicts):
        name, error = next(iter(tables.errors.items()))
        raise InputError(f"no stream can be judged; {name}: {error.message}", hint=error.hint)


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
