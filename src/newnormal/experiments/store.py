"""Results on disk, under a key made of everything they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from newnormal import state as state_file
from newnormal.errors import StateError
from newnormal.experiments.fingerprint import fitting_code, judging_code
from newnormal.experiments.rows import Fitted, row_named
from newnormal.experiments.streams import Stream
from newnormal.experiments.unit import Judgement, Outcome, Unit

__all__ = ["Store"]


@dataclass(frozen=True)
class Store:
    """A folder of fitted detectors and of outcomes.

    A file is written beside its place and moved there when it is whole, so that a run may be
    killed at any time and others may write at once. A file that cannot be read is not there.
    """

    folder: Path

    def fit_path(self, unit: Unit, stream: Stream) -> Path:
        """Return where the unit's fitted detector goes: many units share one."""
        key = _key({**unit.fit_facts(), "data": stream.train_digest}, fitting_code(unit.model))
        owner = unit.dataset.partition("/")[0]  # streams of one data set may share their history
        return self.folder / "fits" / f"{_plain(owner, unit.model, unit.seed)}-{key}.nn"

    def path(self, unit: Unit, stream: Stream) -> Path:
        """Return where the unit's outcome goes."""
        row = row_named(unit.row)
        facts = unit.facts() | unit.fit_facts()
        del facts["options"]
        if row.detrend:  # γ and η count only where they are used
            facts["decay"] = unit.options.decay
        if row.adapt:
            facts["lr"] = unit.options.lr
        else:
            del facts["steady"]
        key = _key({**facts, "data": stream.digest}, fitting_code(unit.model), judging_code())
        name = _plain(unit.dataset, unit.model, unit.row, unit.rule, unit.seed)
        return self.folder / "units" / f"{name}-{key}.npz"

    # The outcome's own path is not part of it: the folder may have been moved.
    @staticmethod
    def read(path: Path) -> Outcome | None:
        """Return an outcome, or None where it is not there whole."""
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                return Outcome.from_json(str(file["facts"]), path)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return None

    @staticmethod
    def write(outcome: Outcome, judgement: Judgement) -> None:
        """Keep an outcome, and what was said of each sample."""
        path = outcome.path
        _make(path.parent)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                np.savez_compressed(file, facts=np.array(outcome.to_json()), **judgement._asdict())
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @staticmethod
    def read_fit(path: Path) -> Fitted | None:
        """Return a fitted detector, or None where it is not there whole."""
        try:
            return Fitted.from_state(state_file.read(path))
        except (StateError, KeyError, TypeError, ValueError):
            return None

    @staticmethod
    def write_fit(path: Path, fitted: Fitted) -> None:
        """Keep a fitted detector, if its model can be kept."""
        _make(path.parent)
        with suppress(StateError):
            state_file.write(path, fitted.to_state())


def _make(folder: Path) -> None:
    """Make a folder of the store, which keeps itself out of version control."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / ".gitignore").write_text("*\n", encoding="utf-8")


def _key(facts: dict[str, Any], *digests: str) -> str:
    text = json.dumps([facts, digests], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _plain(*parts: object) -> str:
    """Return a file name a person can read.

    >>> _plain("SMD/1-4", "a.b:C", "DT+TTA")
    'SMD_1-4-a.b_C-DT+TTA'
    """
    return "-".join(re.sub(r"[^\w.+-]", "_", str(part)) for part in parts)
