"""Results on disk, under a key made of everything they depend on."""

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import newnormal
from newnormal.errors import StateError
from newnormal_reproduce.engine.arrays import AnyDetector
from newnormal_reproduce.engine.fingerprint import evaluation_code, fitting_code
from newnormal_reproduce.engine.fit import TrialFit
from newnormal_reproduce.engine.streams import DataStream
from newnormal_reproduce.engine.trial import SampleVerdicts, Trial, TrialOutcome
from newnormal_reproduce.engine.variants import variant_named

_SCORES = ".scores.npz"  # ends the name of what a fit keeps beside the detector


@dataclass(frozen=True)
class ResultStore:
    """A folder of fitted detectors and of outcomes.

    A file is written beside its place and moved there when it is complete, so that a run may be
    killed at any time and several may write at once. A file that cannot be read counts as absent.
    """

    folder: Path

    def fit_path(self, trial: Trial, stream: DataStream) -> Path:
        """Return the path of the trial's fitted detector, which several trials share."""
        key = _key({**trial.fit_facts(), "data": stream.train_digest}, fitting_code(trial.model))
        owner = trial.dataset.partition("/")[0]  # streams of one data set may share their history
        return self.folder / "fits" / f"{_plain(owner, trial.model, trial.seed)}-{key}.nn"

    def path(self, trial: Trial, stream: DataStream) -> Path:
        """Return the path of the trial's outcome."""
        variant = variant_named(trial.variant)
        facts = trial.facts() | trial.fit_facts()
        del facts["options"]
        if variant.detrend:  # γ and η count only where they are used
            facts["decay"] = trial.options.decay
        if variant.adapt:
            facts["lr"] = trial.options.lr
        else:
            del facts["steady"]
        key = _key({**facts, "data": stream.digest}, fitting_code(trial.model), evaluation_code())
        name = _plain(trial.dataset, trial.model, trial.variant, trial.rule, trial.seed)
        return self.folder / "trials" / f"{name}-{key}.npz"

    # The outcome's own path is not in the file: the folder may have been moved.
    @staticmethod
    def read(path: Path) -> TrialOutcome | None:
        """Return an outcome, or None if there is no complete one."""
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                return TrialOutcome.from_json(str(file["facts"]), path)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return None

    @staticmethod
    def write(outcome: TrialOutcome, judgement: SampleVerdicts) -> None:
        """Write an outcome with the verdict of each sample."""
        facts = np.array(outcome.to_json())
        _write_arrays(outcome.path, {"facts": facts, **judgement._asdict()})

    @staticmethod
    def has_fit(path: Path) -> bool:
        """Return whether a fitted detector was written."""
        return path.is_file() and _beside(path).is_file()

    @staticmethod
    def read_fit(path: Path, model: str) -> TrialFit | None:
        """Return a fitted detector, or None if there is no complete one."""
        if not ResultStore.has_fit(path):
            return None
        try:
            with _beside(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                scores, seconds = file["scores"], float(file["seconds"])
            # A state file does not choose what is imported: the trial names the class.
            detector = newnormal.load(path, model if ":" in model else None)
            assert isinstance(detector, AnyDetector)
            return TrialFit(detector, scores, seconds)
        except (StateError, OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return None

    @staticmethod
    def write_fit(path: Path, fit: TrialFit) -> None:
        """Write a fitted detector, unless its model cannot be saved."""
        _write_arrays(
            _beside(path), {"scores": fit.history_scores, "seconds": np.array(fit.seconds)}
        )
        try:
            fit.detector.save(path)
        except StateError:
            _beside(path).unlink()


def _beside(path: Path) -> Path:
    return path.with_name(path.name + _SCORES)


def _write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    _make(path.parent)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _make(folder: Path) -> None:
    """Make a folder of the store, and a .gitignore that keeps it out of version control."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / ".gitignore").write_text("*\n", encoding="utf-8")


def _key(facts: dict[str, Any], *digests: str) -> str:
    text = json.dumps([facts, digests], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _plain(*parts: object) -> str:
    """Return a readable file name.

    >>> _plain("SMD/1-4", "a.b:C", "DT+TTA")
    'SMD_1-4-a.b_C-DT+TTA'
    """
    return "-".join(re.sub(r"[^\w.+-]", "_", str(part)) for part in parts)
