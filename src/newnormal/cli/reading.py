"""A finished file of one stream or of a fleet's: read, and judged by a detector or a fleet."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from newnormal.cli.bars import prepare, progress
from newnormal.cli.console import FAILED, announce_compiling, say
from newnormal.cli.options import (
    Classes,
    InputOptions,
    check_one_stream,
    check_streams,
    is_fleet,
    stream_text,
)
from newnormal.errors import InputError
from newnormal.texts import counted

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.fleet import Fleet, FleetVerdicts
    from newnormal.reports.writing import Contents
    from newnormal.tabular import InputProfile, StreamTables, Table
    from newnormal.tabular.many.splitting import Channels


def load(path: Path, classes: Classes) -> BaseDetector:
    """Read a detector, of a file or of the folder of a watch."""
    import newnormal

    return newnormal.load(path, *classes)


def load_fleet(path: Path, classes: Classes) -> Fleet:
    """Read a fleet."""
    from newnormal.fleet import Fleet

    announce_compiling()
    return Fleet.load(path, model=classes.model, threshold=classes.threshold)


def remembered(folder: Path) -> dict[str, Any] | None:
    """Return how the history of a fleet was read; None if that is not known."""
    from newnormal.fleet.folder.manifest import read_manifest
    from newnormal.fleet.folder.names import files_of

    return read_manifest(files_of(folder)).reading.get("file")


def read_table(
    source: str, options: InputOptions, channels: tuple[str, ...] | None = None
) -> Table:
    """Read a whole file, or standard input, of one stream."""
    from newnormal.tabular import read

    if options.streams.long is not None:
        streams = read_streams(source, options, None if channels is None else {"": channels})
        for error in streams.errors.values():
            raise error
        return streams.tables[""]
    return read(source, options.reading, channels=channels)


def read_streams(
    source: str, options: InputOptions, channels: Channels | None = None
) -> StreamTables:
    """Read a whole file of many streams, or a folder of files."""
    from newnormal.tabular import read_tables

    folder = source != "-" and Path(source).is_dir()  # a file for each stream
    by = None if folder else options.streams.by or None
    return read_tables(source, options.reading, by=by, long=options.streams.long, channels=channels)


def say_profile(profile: InputProfile | None) -> None:
    """Report what was not as expected in a file: what was skipped, missing and moved."""
    if profile is None:
        return
    if profile.bad_lines:
        lines = counted(profile.bad_lines, "bad line")
        say(f"{lines} of {profile.lines:,} skipped; the first: {profile.first_bad}")
    for column, bad in profile.bad_cells.items():
        cells = counted(bad.count, "cell")
        say(
            f"column {column!r}: {cells} that could not be read, such as {bad.example!r} in line "
            f"{bad.line}: missing"
        )
    for note in profile.notes:
        say(note)


def _fleet_tables(fleet: Fleet, source: str, options: InputOptions) -> StreamTables:
    """Read a file of a fleet's streams; name those that are left out, and why."""
    from newnormal.fleet.streams import unknown_stream

    tables = read_streams(source, options, fleet.channels_)
    for name in [name for name in tables.tables if name not in fleet]:
        del tables.tables[name]
        (tables.rows or {}).pop(name, None)
        tables.errors[name] = unknown_stream(name, fleet.streams_)
    if not tables.tables:
        name, error = next(iter(tables.errors.items()))
        raise InputError(f"no stream can be judged; {name}: {error.message}", hint=error.hint)
    for name, error in tables.errors.items():
        say(f"error: {stream_text(name)}: {error.message}; skipped")
    say_profile(tables.profile)
    samples = sum(len(table.values) for table in tables.tables.values())
    say(f"judging {samples:,} samples of {len(tables.tables):,} streams ...")
    return tables


def exit_if_failed(tables: StreamTables) -> None:
    """Exit with a failure if a stream was left out."""
    if tables.errors:
        sys.exit(FAILED)


def read_for(
    model: Path, classes: Classes, source: str, options: InputOptions, *, labels: bool | None
) -> tuple[Any, Any]:
    """Load a detector or a fleet, and read a finished file for it: a Table, or StreamTables.

    With `labels` it must have the labels that history had, or those that are named; None: it may.
    Standard input, which cannot be read twice, then has those that are named alone.
    """
    if is_fleet(model):
        facts = remembered(model)
        check_streams(model, options.after(facts).streams, source)
        judge: Any = load_fleet(model, classes)
    else:
        check_one_stream(model, options.streams)
        judge = load(model, classes)
        facts = judge.reading_
        prepare(judge)
    read = _fleet_tables if is_fleet(model) else _detector_table
    plain, labelled = options.after(facts), options.after(facts, label=True)
    if labels:
        labelled.check_label()
        return judge, read(judge, source, labelled)
    same = labelled.reading.label == plain.reading.label
    if labels is None and not same and source != "-":
        try:
            return judge, read(judge, source, labelled)
        except InputError:
            pass
    return judge, read(judge, source, plain)


def _detector_table(detector: BaseDetector, source: str, options: InputOptions) -> Table:
    table = read_table(source, options, detector.channels_)
    say_profile(table.profile)
    say(f"judging {len(table.values):,} samples ...")
    return table


class JudgedFile(NamedTuple):
    """The verdicts on a file, its name, and what was read of a fleet's streams."""

    verdicts: Any
    name: str
    tables: StreamTables | None = None
    as_fitted: bool = False  # MODEL had seen these times, and was judged with as it was fitted

    def contents(self, model: Path) -> Contents:
        """Return it as a report shows it."""
        from newnormal.reports.writing import Contents

        how = " as it was fitted" if self.as_fitted else ""
        return Contents.of(self.verdicts, f"{self.name} judged by {model.name}{how}")


def judge_file(
    model: Path, classes: Classes, source: str, options: InputOptions, frozen: bool
) -> JudgedFile:
    """Judge a file, with its labels where it has them; MODEL stays as it is.

    What a `watch` wrote has mostly seen the very file that is to be shown. Times do not come twice,
    so such a file is judged from where MODEL was fitted.
    """
    judge, data = read_for(model, classes, source, options, labels=None)
    judged = (_judged_streams if is_fleet(model) else _judged_stream)(model, judge, data, frozen)
    return judged._replace(name="standard input" if source == "-" else Path(source).name)


def _judged_stream(model: Path, detector: BaseDetector, table: Table, frozen: bool) -> JudgedFile:
    from newnormal.runtime.judging import judge_series
    from newnormal.types import Observed

    decided = Observed.decided_of(detector.past_)
    again = back_to_fit(model, detector, table, frozen)
    with progress("judging", len(table.values)) as on_samples:
        verdicts = judge_series(detector, table, frozen=frozen, on_samples=on_samples).verdicts
    if verdicts.observed is not None:
        verdicts = replace(verdicts, observed=replace(verdicts.observed, decided=decided))
    return JudgedFile(verdicts, "", as_fitted=again)


def back_to_fit(model: Path, detector: BaseDetector, table: Table, frozen: bool) -> bool:
    """Bring MODEL back to where it was fitted if it has seen these times; return whether."""
    again = not frozen and _has_seen(detector, table)
    if again:
        _say_again(model)
        detector.reset()
    return again


def _has_seen(detector: BaseDetector, table: Table) -> bool:
    """Whether a detector would take no sample of a table, since their times do not come after."""
    from newnormal.core.times import is_late

    newest = detector.last_time_
    if table.times is None or newest is None:
        return False
    return bool(is_late(table.times[:1], newest).any())


def _say_again(model: Path) -> None:
    say(
        f"{model} has seen these times: they are judged from where it was fitted, without what it "
        "learned and what was accepted since"
    )


def _judged_streams(model: Path, fleet: Fleet, tables: StreamTables, frozen: bool) -> JudgedFile:
    if frozen:
        scored = {name: fleet[name].score_frozen(table) for name, table in tables.tables.items()}
        return JudgedFile(scored, "", tables)
    fresh = fleet_back_to_fit(model, fleet, tables)
    verdicts = fresh.run(tables)
    if verdicts.observed is not None:
        decided = fleet.opened(tables.tables, past=True)
        verdicts.observed = replace(verdicts.observed, decided=decided)
    _say_errors(verdicts, tables)
    return JudgedFile(verdicts, "", tables, fresh is not fleet)


def fleet_back_to_fit(model: Path, fleet: Fleet, tables: StreamTables) -> Fleet:
    """Return a fleet whose streams are where they were fitted, if one has seen these times."""
    from newnormal.fleet import Fleet

    if not any(_has_seen(fleet[name], table) for name, table in tables.tables.items()):
        return fleet
    _say_again(model)
    fresh = Fleet(fleet.detector, fleet_alarms_per_day=fleet.fleet_alarms_per_day)
    for name in fleet:
        fresh.add(name, fleet[name].reset())
    return fresh


def _say_errors(verdicts: FleetVerdicts, tables: StreamTables) -> None:
    for failure in verdicts.errors:
        if failure.stream not in tables.errors:
            tables.errors[failure.stream] = InputError(
                failure.error.message, hint=failure.error.hint
            )
            say(f"error: {stream_text(failure.stream)}: {failure.error.message}; skipped")
    if tables.errors and not any(True for _ in verdicts):
        name, error = next(iter(tables.errors.items()))
        raise InputError(f"no stream can be judged; {name}: {error.message}", hint=error.hint)
