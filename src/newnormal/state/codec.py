"""The file: an ordinary safetensors file whose metadata has one entry, `newnormal`.

That entry is a JSON object with `version`, `state` and `sha256`, the digest of version, state and
every tensor. There is no pickle in the file and nothing that could run. The digest has no key: it
finds damage, not intent, so `newnormal.packing` checks what the file holds before it is used.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from newnormal.errors import StateError
from newnormal.state.facts import AGAIN
from newnormal.state.files import replace_file
from newnormal.state.targets import check_file, resolved, what_is
from newnormal.state.versions import VERSION, check_version, migrated

# Of the JSON header. The largest ones seen have 1,000 undelivered events and take half a megabyte;
# parsing a hostile one of this size takes half a second and 300 MB.
_LONGEST_HEADER = 6_000_000
_LOOKED_AT = 1 << 16  # bytes; the metadata comes first
_WRITERS = "expected a file written by `newnormal fit` or `save`"


@dataclass(frozen=True, eq=False)
class State:
    """A detector as data: `facts` are JSON values, `tensors` are arrays by name."""

    facts: dict[str, Any]
    tensors: Mapping[str, NDArray[Any]]
    version: int = VERSION  # of the file it was read from


def check_target(
    path: str | os.PathLike[str], others: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Raise a StateError if no state file could be written here: ask before long work.

    What is there must be a state file, or empty, and none of `others`.
    """
    check_file(path, others)
    if not _replaceable(Path(path)):
        raise StateError(
            f"cannot write {path}: expected a new file or that of a detector, found another file",
            hint="choose another name, or delete the file first",
        )


def _replaceable(path: Path) -> bool:
    """Whether nothing is lost but a detector, which may be damaged, if a file is replaced."""
    try:
        with path.open("rb") as file:
            start = file.read(_LOOKED_AT)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not start or (start[8:9] == b"{" and b'"newnormal"' in start)


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Write what `encode` returned: to a temporary file beside it, fsynced, renamed into place.

    A link stays one: what it leads to is written.
    """
    target = resolved(path)
    kind = what_is(target)
    if kind not in (None, "a folder"):  # the rename finds a folder
        raise StateError(
            f"cannot write {path}: expected a file, found {kind}", hint="choose another name"
        )
    replace_file(target, content)


def read(path: str | os.PathLike[str]) -> State:
    """Read a state file, of this version or an older one; the file is never changed."""
    path = Path(path)
    kind = what_is(path)
    if kind not in (None, "a folder"):  # a pipe would be waited for
        raise StateError(
            f"cannot read {path}: expected a file, found {kind}",
            hint="give the path of a file, made by `newnormal fit`",
        )
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            envelope, end = _header(file.read(8), file.read(_LONGEST_HEADER), size, str(path))
            file.seek(0)
            content = file.read(end)
    except FileNotFoundError:
        raise StateError(
            f"{path}: no such file", hint="make one with `newnormal fit history.csv -o plant.nn`"
        ) from None
    except OSError as error:
        raise StateError(
            f"cannot read {path}: {error.strerror}", hint="give the path of a file you may read"
        ) from error
    return _decoded(content, envelope, str(path))


def decode(content: bytes, origin: str) -> State:
    """Return the state that `encode` was called on; `origin` is for errors."""
    envelope, _ = _header(content[:8], content[8:], len(content), origin)
    return _decoded(content, envelope, origin)


def _decoded(content: bytes, envelope: dict[str, Any], origin: str) -> State:
    version = envelope["version"]
    try:
        tensors = safetensors.numpy.load(content)
        facts = envelope["state"]
        intact = envelope["sha256"] == _digest(facts, tensors, version)
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError, OverflowError):
        intact = False
    if not intact:
        raise StateError(f"{origin} is truncated or corrupted", hint=AGAIN)
    if not isinstance(facts, dict):
        raise StateError(f"{origin}: expected a JSON object, found another", hint=AGAIN)
    facts, tensors = migrated(facts, tensors, version, origin)
    return State(facts, tensors, version)


def _header(start: bytes, text: bytes, size: int, path: str) -> tuple[dict[str, Any], int]:
    """Return newnormal's part of the header, and where the file must end."""
    length = int.from_bytes(start, "little")
    if len(start) < 8 or text[:1] != b"{":
        raise StateError(f"{path} is not a newnormal state file", hint=_WRITERS)
    if length > _LONGEST_HEADER:
        raise StateError(
            f"{path}: expected a header of at most {_LONGEST_HEADER:,} bytes, found {length:,}",
            hint=AGAIN,
        )
    corrupted = StateError(f"{path} is truncated or corrupted", hint=AGAIN)
    try:
        header = json.loads(text[:length])
        metadata = header.pop("__metadata__", {})
        envelope = json.loads(metadata["newnormal"]) if "newnormal" in metadata else None
        end = 8 + length + max([each["data_offsets"][1] for each in header.values()], default=0)
        whole = end == size
    except (ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError):
        raise corrupted from None
    if envelope is None:
        raise StateError(f"{path} is a safetensors file, but not one of newnormal's", hint=_WRITERS)
    version = envelope.get("version") if isinstance(envelope, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise corrupted
    check_version(version, path)
    if not whole:
        raise corrupted
    return envelope, end


def encode(state: State) -> bytes:
    """Return a state as the content of a file."""
    tensors = {name: np.ascontiguousarray(array) for name, array in sorted(state.tensors.items())}
    envelope = {
        "version": VERSION,
        "sha256": _digest(state.facts, tensors, VERSION),
        "state": state.facts,
    }
    text = _canonical(envelope)
    if len(text) > _LONGEST_HEADER // 2:
        raise StateError(
            f"expected facts of at most {_LONGEST_HEADER // 2:,} characters, found {len(text):,}",
            hint="shorten the names of the channels, or call take_events() more often",
        )
    # One metadata entry only: safetensors writes several in an order that changes from run to run.
    return safetensors.numpy.save(tensors, metadata={"newnormal": text})


def _digest(facts: object, tensors: Mapping[str, NDArray[Any]], version: int) -> str:
    digest = hashlib.sha256(_canonical({"state": facts, "version": version}).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
