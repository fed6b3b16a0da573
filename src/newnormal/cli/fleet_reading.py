"""Reading a fleet, how old it is, and a finished file of its streams: what several commands do."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newnormal.cli.console import FAILED, announce_compiling, say
from newnormal.cli.options import Classes
from newnormal.cli.reading import read_streams, say_profile
from newnormal.cli.reading_options import InputOptions
from newnormal.cli.streams import stream_text
from newnormal.errors import InputError, StateError
from newnormal.texts import seconds_text

if TYPE_CHECKING:
    from newnormal.fleet import Fleet
    from newnormal.runtime.fleet_resume import InputPosition
    from newnormal.runtime.lock import WatchProgress
    from newnormal.tabular import StreamTables
    from newnormal.types import Bools


_RUNNING, _KILLED, _ENDED = "running", "killed", "ended"


@dataclass(frozen=True)
class Written:
    """When a state was written, and by whom."""

    seconds: float  # seconds since 1970
    # ``"running"``, ``"killed"`` or ``"ended"``: the `watch` that wrote it, or holds it. None: no
    # `watch` has, or it cannot be known.
    watch: str | None = None
    # Samples that this `watch` has judged since; None where that is not known.
    behind: int | None = None
    fresh: bool = False  # whether the `watch` that holds it has not written to it yet

    @classmethod
    def of_file(cls, state: Path, seen: int, watched: bool) -> Written:
        """Look at a state file, `watched` if a `watch` wrote it, after `seen` samples."""
        from newnormal.runtime.lock import look

        held, progress = look(state)
        seconds = state.stat().st_mtime
        if held is None or not (held or watched):
            return cls(seconds)
        behind = None if progress is None else max(progress.seen - seen, 0)
        if held:
            return cls(seconds, _RUNNING, behind, fresh=not watched)
        return cls(seconds, _KILLED if behind else _ENDED, behind)

    @classmethod
    def of_folder(cls, folder: Path, clean: bool | None) -> Written:
        """Look at a fleet's folder; `clean` is how its last `watch` ended, None without one."""
        from newnormal.fleet.folder.names import LOCK
        from newnormal.locks import is_held

        files = [path for path in folder.iterdir() if path.name != LOCK]
        seconds = max(
            (modified for path in files if (modified := _modified(path)) is not None), default=0.0
        )
        if is_held(folder / LOCK):
            return cls(seconds, _RUNNING)
        return cls(seconds, None if clean is None else _ENDED if clean else _KILLED)

    @property
    def age(self) -> float:
        """Seconds since it was written."""
        return max(time.time() - self.seconds, 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "written": datetime.fromtimestamp(self.seconds, UTC).isoformat(timespec="seconds"),
            "age_seconds": round(self.age, 3),
            "watch": self.watch,
            "samples_since": self.behind,
        }

    def __str__(self) -> str:
        text = f"{seconds_text(self.age)} ago"
        if self.fresh:
            return f"{text}; a `newnormal watch` is running and has not written to it yet"
        if self.watch is None:
            return text
        how = {_RUNNING: "is running", _KILLED: "was killed", _ENDED: "has ended"}[self.watch]
        text += f" by a `newnormal watch` that {how}"
        if self.behind:
            return f"{text}; {self.behind:,} sample{'' if self.behind == 1 else 's'} since"
        return text


def check_written(state: Path) -> None:
    """Raise a StateError if a `watch` has not written a state file yet, which says so."""
    from newnormal.runtime.lock import look

    if state.exists():
        return
    held, progress = look(state)
    if held is False and progress is None:
        return  # there is no `watch`: the reader names the file that is missing
    progress_text = "" if progress is None else f" at sample {progress.seen:,}"
    if held is False:
        raise StateError(
            f"{state}: the `newnormal watch` of it was killed{progress_text}, before it wrote it",
            hint="start it again: it begins anew; until then inspect the detector it starts with",
        )
    raise StateError(
        f"{state}: a `newnormal watch` is running{_now(progress)} and has not written it yet",
        hint="it writes at an alarm, at a change, after every 1,000 samples (--every) and at its "
        "end; until then inspect the detector it was started with",
    )


def _now(progress: WatchProgress | None) -> str:
    return "" if progress is None else f", {progress.seen:,} samples so far,"


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:  # a running watch may remove it meanwhile
        return None


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
