"""Reading a finished file: what several commands do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from newnormal.cli.console import say
from newnormal.cli.options import Classes
from newnormal.cli.reading_options import InputOptions
from newnormal.texts import counted

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.runtime.fleet_watch import FleetWatch
    from newnormal.runtime.watch import Watch
    from newnormal.tabular import InputProfile, StreamTables, Table
    from newnormal.tabular.many.splitting import Channels


def load(path: Path, classes: Classes) -> BaseDetector:
    """Read a detector."""
    import newnormal

    return newnormal.load(path, *classes)


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


def summary(counts: Watch | FleetWatch, alarms_only: bool, incidents: int = 0) -> str:
    """Return in a line what a watch has seen."""
    text = f"judged {counted(counts.judged, 'sample')}, {counts.anomalous:,} anomalous"
    if alarms_only or counts.alarms:
        text += f", {counted(counts.alarms, 'alarm')}"
    if counts.changes:
        text += f", {counted(counts.changes, 'change')}"
    if incidents:
        text += f", {counted(incidents, 'incident')}"
    text += f"; {counted(counts.bad, 'bad line')} skipped" if counts.bad else ""
    return text + (f"; {counts.skipped:,} judged before" if counts.skipped else "")
