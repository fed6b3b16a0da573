"""State as data: one safetensors file with a versioned JSON header, written atomically.

The file is an ordinary safetensors file. Its metadata has one entry, `newnormal`, a JSON object
with `version`, `sha256` (of the state and every tensor) and `state`. There is no pickle in it and
nothing that could run.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from newnormal.errors import StateError

__all__ = ["VERSION", "State", "check_target", "read", "under", "write"]

VERSION = 3


def _from_1(state: dict[str, Any]) -> dict[str, Any]:
    """Version 1 did not keep what was given apart, chose nothing, and had no alarms."""
    given = {**state["config"], "alarms_per_day": None, "risk": None}
    return {**state, "given": given, "choice": None, "alarms": None}


def _from_2(state: dict[str, Any]) -> dict[str, Any]:
    """Version 2 kept no normal, and alarms had neither cause nor state."""
    alarms = state["alarms"]
    if alarms is not None:
        added = {"cause": "score", "state": "in alarm"}
        tracker, events = alarms["tracker"], alarms["events"]
        found = tracker["alarm"]
        alarms = {
            **alarms,
            "tracker": {**tracker, "alarm": None if found is None else {**found, **added}},
            "events": [{**each, "alarm": {**each["alarm"], **added}} for each in events],
        }
    given = {**state["given"], "accept_after": None}
    return {**state, "given": given, "alarms": alarms, "keeper": None}


# How to bring the `state` of version k to version k + 1, by k.
_MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1, 2: _from_2}


@dataclass(frozen=True, eq=False)
class State:
    """A detector as data: `facts` are JSON values, `tensors` are arrays by name."""

    facts: dict[str, Any]
    tensors: Mapping[str, NDArray[Any]]
    version: int = VERSION  # of the file it was read from


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise a StateError if no state file could be written here: ask before long work."""
    folder = Path(path).parent
    if not folder.is_dir() or Path(path).is_dir():
        found = "a folder" if folder.is_dir() else f"no folder {folder}"
        raise StateError(
            f"cannot write {path}: found {found}",
            hint="choose a file in a folder that exists and can be written to",
        )


def under(prefix: str, tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the tensors whose names begin with a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in tensors.items()
        if name.startswith(prefix)
    }


def write(path: str | os.PathLike[str], state: State) -> None:
    """Write a state file: to a temporary file beside it, fsynced, then renamed into place.

    A link stays one: what it leads to is written.
    """
    path = Path(path).resolve()
    content = _encode(state)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as error:
        raise StateError(
            f"cannot write {path}: {error.strerror}",
            hint="choose a folder that exists and can be written to",
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(path))
        os.replace(name, path)
        _sync_folder(path.parent)
    except OSError as error:
        _remove(name)
        raise StateError(f"cannot write {path}: {error.strerror}") from error
    except BaseException:
        _remove(name)
        raise


def read(path: str | os.PathLike[str]) -> State:
    """Read a state file, of this version or an older one; the file is never changed."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise StateError(
            f"{path}: no such file", hint="make one with `newnormal fit history.csv -o plant.nn`"
        ) from None
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from error
    return _decode(content, path)


def _encode(state: State) -> bytes:
    tensors = {name: np.ascontiguousarray(array) for name, array in sorted(state.tensors.items())}
    envelope = {
        "version": VERSION,
        "sha256": _digest(state.facts, tensors),
        "state": state.facts,
    }
    # One metadata entry only: safetensors writes several in an order that changes from run to run.
    return safetensors.numpy.save(tensors, metadata={"newnormal": _canonical(envelope)})


def _decode(content: bytes, path: Path) -> State:
    again = "restore it from a backup, or fit again with `newnormal fit`"
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or content[8:9] != b"{" or length > 100_000_000:
        raise StateError(
            f"{path} is not a newnormal state file",
            hint="expected a file written by `newnormal fit` or Detector.save",
        )
    try:
        header = json.loads(content[8 : 8 + length])
        metadata = header.get("__metadata__", {})
        envelope = json.loads(metadata["newnormal"]) if "newnormal" in metadata else None
    except (ValueError, AttributeError, TypeError):
        raise StateError(f"{path} is truncated or corrupted", hint=again) from None
    if envelope is None:
        raise StateError(
            f"{path} is a safetensors file, but not one of newnormal's",
            hint="expected a file written by `newnormal fit` or Detector.save",
        )
    version = envelope.get("version") if isinstance(envelope, dict) else None
    if not isinstance(version, int) or version < 1:
        raise StateError(f"{path} is truncated or corrupted", hint=again)
    if version > VERSION:
        raise StateError(
            f"{path} has state version {version}; this newnormal reads up to version {VERSION}",
            hint="pip install --upgrade newnormal",
        )
    try:
        tensors = safetensors.numpy.load(content)
        facts = envelope["state"]
        intact = envelope["sha256"] == _digest(facts, tensors)
    except (SafetensorError, KeyError, TypeError, ValueError):
        intact = False
    if not intact:
        raise StateError(f"{path} is truncated or corrupted", hint=again)
    for old in range(version, VERSION):
        facts = _MIGRATIONS[old](facts)
    return State(facts, tensors, version)


def _digest(facts: dict[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(_canonical(facts).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _mode(path: Path) -> int:
    """Return the mode of the file replaced, or what a new file would get."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where folders can be opened and synced."""
    with suppress(OSError):  # the new file is in place already
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove(name: str) -> None:
    with suppress(OSError):
        os.unlink(name)
