"""The state of a stream or of a fleet as it was written, by whom and how long ago."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from newnormal.cli.options import Classes, from_state
from newnormal.cli.reading import load_fleet
from newnormal.errors import StateError
from newnormal.texts import seconds_text

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.runtime.fleet_resume import InputPosition
    from newnormal.runtime.lock import WatchProgress
    from newnormal.state import State

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


class WrittenStream(NamedTuple):
    """One stream of a state file or of a fleet."""

    detector: BaseDetector
    state: State
    written: Written
    position: dict[str, Any]  # of its `watch` in the input, empty where that is not known

    @classmethod
    def read(cls, path: Path, stream: str | None, classes: Classes) -> WrittenStream:
        """Read it; `stream` is the name where `path` is the folder of a fleet."""
        from newnormal import state as state_file
        from newnormal.runtime.checkpoint import input_position as position_of

        if stream is not None:
            detector = load_fleet(path, classes)[stream]
            return cls(detector, detector.to_state(), written_of(path), {})
        check_written(path)
        state = state_file.read(path)
        detector = from_state(state, str(path), classes)
        position = position_of(state, path)
        written = Written.of_file(path, detector.counters["seen"], position is not None)
        return cls(detector, state, written, position or {})
