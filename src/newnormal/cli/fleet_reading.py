"""Reading a fleet, and a finished file of its streams: what several commands do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newnormal.cli.console import FAILED, announce_compiling, say
from newnormal.cli.options import Classes
from newnormal.cli.reading import read_streams, say_profile
from newnormal.cli.reading_options import InputOptions
from newnormal.cli.streams import stream_text
from newnormal.cli.written import Written
from newnormal.errors import InputError

if TYPE_CHECKING:
    from newnormal.fleet import Fleet
    from newnormal.runtime.fleet_resume import InputPosition
    from newnormal.tabular import StreamTables
    from newnormal.types import Bools


def load_fleet(path: Path, classes: Classes) -> Fleet:
    """Read a fleet."""
    from newnormal.fleet import Fleet

    announce_compiling()
    return Fleet.load(path, model=classes.model, threshold=classes.threshold)


def written_of(folder: Path) -> Written:
    """Return how old a fleet's folder is, and what its `watch` does."""
    position = input_position(folder)
    return Written.of_folder(folder, None if position is None else position.clean)


def input_position(folder: Path) -> InputPosition | None:
    """Return where the last watch of it was, None without one."""
    from newnormal.fleet.folder.replaying import last_marker
    from newnormal.runtime.fleet_resume import InputPosition

    marker = last_marker(folder)
    return None if marker is None else InputPosition.parse(marker)


def remembered(folder: Path) -> dict[str, Any] | None:
    """Return how the history of a fleet was read; None if that is not known."""
    from newnormal.fleet.folder.manifest import read_manifest

    return read_manifest(folder).reading.get("file")


def fleet_tables(fleet: Fleet, source: str, options: InputOptions) -> StreamTables:
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


class FrozenLines:
    """The verdicts of a fleet's streams, each judged without learning, in the input's order."""

    def __init__(self, fleet: Fleet, tables: StreamTables) -> None:
        import numpy as np

        lines: list[str] = []
        anomalous: list[Bools] = []
        for name, table in tables.tables.items():
            verdicts = fleet[name].score(table)
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
