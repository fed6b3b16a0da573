"""Reading a finished file, and judging one: what several commands do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from newnormal.cli.console import announce_compiling, say
from newnormal.cli.options import Classes, FileFormat, format_name, names
from newnormal.cli.streams import Streams, read_streams

if TYPE_CHECKING:
    from newnormal.detector import BaseDetector
    from newnormal.tabular import Table
    from newnormal.types import Verdicts

__all__ = ["counted", "judge", "load", "read_table", "summary"]


def load(path: Path, classes: Classes) -> BaseDetector:
    """Read a detector."""
    import newnormal

    return newnormal.load(path, *classes)


def read_table(
    source: str,
    time: str | None,
    columns: list[str] | None,
    drop: list[str] | None,
    format: FileFormat | None,  # noqa: A002
    label: str | None = None,
    channels: tuple[str, ...] | None = None,
    streams: Streams | None = None,
) -> Table:
    """Read a whole file, or standard input, with the given options."""
    from newnormal.tabular import read

    if streams is not None and streams.long is not None:
        known = None if channels is None else {"": channels}
        found = read_streams(source, streams, time, columns, drop, format, label, known)
        for error in found.errors.values():
            raise error
        return found.tables[""]
    return read(
        source,
        format=format_name(format),
        time=time,
        columns=names(columns),
        drop=names(drop) or (),
        label=label,
        channels=channels,
    )


def judge(
    path: Path,
    classes: Classes,
    source: str,
    frozen: bool,
    label: str | None,
    time: str | None,
    columns: list[str] | None,
    drop: list[str] | None,
    format: FileFormat | None,  # noqa: A002
    streams: Streams | None = None,
) -> tuple[BaseDetector, Verdicts, Table]:
    """Load a detector, read a file and judge it."""
    announce_compiling()
    detector = load(path, classes)
    table = read_table(source, time, columns, drop, format, label, detector.channels_, streams)
    say(f"judging {len(table.values):,} samples ...")
    verdicts = detector.score(table) if frozen else detector.run(table)
    return detector, verdicts, table


class Counts(Protocol):
    """What a watch has counted."""

    judged: int
    anomalous: int
    alarms: int
    changes: int
    bad: int
    skipped: int


def summary(counts: Counts, alarms_only: bool, incidents: int = 0) -> str:
    """Return in a line what a watch has seen."""
    text = f"judged {counts.judged:,} samples, {counts.anomalous:,} anomalous"
    if alarms_only or counts.alarms:
        text += f", {counted(counts.alarms, 'alarm')}"
    if counts.changes:
        text += f", {counted(counts.changes, 'change')}"
    if incidents:
        text += f", {counted(incidents, 'incident')}"
    text += f"; {counted(counts.bad, 'bad line')} skipped" if counts.bad else ""
    return text + (f"; {counts.skipped:,} judged before" if counts.skipped else "")


def counted(count: int, what: str) -> str:
    """Return a number of things.

    >>> counted(1, "alarm"), counted(2000, "alarm")
    ('1 alarm', '2,000 alarms')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
