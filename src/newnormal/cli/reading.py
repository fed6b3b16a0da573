"""Reading a finished file, and judging one: what several commands do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from newnormal.cli.console import announce_compiling, say
from newnormal.cli.options import Classes, FileFormat, format_name, names

if TYPE_CHECKING:
    from newnormal.detector import BaseDetector
    from newnormal.tabular import Table
    from newnormal.types import Verdicts

__all__ = ["judge", "load", "read_table"]


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
) -> Table:
    """Read a whole file, or standard input, with the given options."""
    from newnormal.tabular import read

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
) -> tuple[BaseDetector, Verdicts, Table]:
    """Load a detector, read a file and judge it."""
    announce_compiling()
    detector = load(path, classes)
    table = read_table(source, time, columns, drop, format, label, detector.channels_)
    say(f"judging {len(table.values):,} samples ...")
    verdicts = detector.score(table) if frozen else detector.run(table)
    return detector, verdicts, table
