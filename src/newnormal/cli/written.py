"""The state of a stream or of a fleet as it was written, and how long ago."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from newnormal.cli.options import Classes
from newnormal.cli.reading import load, load_fleet
from newnormal.texts import seconds_text

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.state import State

_RUNNING, _KILLED, _ENDED = "running", "killed", "ended"


@dataclass(frozen=True)
class Written:
    """When a state was written, and by whom."""

    seconds: float  # seconds since 1970
    # ``"running"``, ``"killed"`` or ``"ended"``: the process that wrote it, or uses it. None: no
    # folder of one.
    process: str | None = None
    behind: int | None = None  # samples that it has taken since; None where that is not known
    waiting: int = 0  # decisions that it has not applied yet
    input_position: Mapping[str, Any] | None = None  # of a `watch`

    @classmethod
    def of(cls, path: Path) -> Written:
        """Look at a state file, at the files of a fleet, or at the folder of an engine."""
        from newnormal.engine.folder import is_engine_folder, look
        from newnormal.fleet.folder.names import MANIFEST

        if not is_engine_folder(path):
            return cls((path / MANIFEST if path.is_dir() else path).stat().st_mtime)
        seen = look(path)
        how = _RUNNING if seen.is_used else _KILLED if seen.behind else _ENDED
        return cls(seen.saved, how, seen.behind, seen.waiting, seen.input_position)

    @property
    def age(self) -> float:
        """Seconds since it was written."""
        return max(time.time() - self.seconds, 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "written": datetime.fromtimestamp(self.seconds, UTC).isoformat(timespec="seconds"),
            "age_seconds": round(self.age, 3),
            "process": self.process,
            "samples_since": self.behind,
        }

    def __str__(self) -> str:
        text = f"{seconds_text(self.age)} ago"
        if self.process is None:
            return text
        how = {_RUNNING: "is running", _KILLED: "was killed", _ENDED: "has ended"}[self.process]
        text += f" by a process that {how}"
        if self.behind:
            return f"{text}; {self.behind:,} sample{'' if self.behind == 1 else 's'} since"
        return text

    @property
    def place(self) -> dict[str, Any]:
        """Where a `watch` is in its input: `input`, and `line` where there are lines."""
        position = self.input_position or {}
        if not position:
            return {"input": None, "line": None}
        return {"input": position.get("path", position.get("kind")), "line": position.get("line")}


class WrittenStream(NamedTuple):
    """One stream of a state file or of a folder."""

    detector: BaseDetector
    state: State  # of the detector
    written: Written

    @classmethod
    def read(cls, path: Path, stream: str | None, classes: Classes) -> WrittenStream:
        """Read it; `stream` is the name where `path` is the folder of a fleet."""
        detector = load(path, classes) if stream is None else load_fleet(path, classes)[stream]
        return cls(detector, detector.to_state(), Written.of(path))
