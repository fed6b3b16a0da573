"""State files as bytes: taken apart and put together again without newnormal's own code.

Written from docs/guides/state.md, so that a test can make a file of any content with the digest
that belongs to it.
"""

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True)
class Parts:
    """What a state file says."""

    version: Any
    facts: Any
    tensors: Tensors


def canonical(value: object) -> str:
    """Return the one JSON text that a digest is made of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(version: Any, facts: str, tensors: Tensors) -> str:
    """Return the digest that belongs to the facts, given as canonical JSON, and the tensors."""
    covered = f'{{"state":{facts},"version":{version}}}'
    found = hashlib.sha256(covered.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        array = tensors[name]
        found.update(f"{name}{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def parts_of(content: bytes) -> Parts:
    """Take a whole file apart."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    envelope = json.loads(header.pop("__metadata__")["newnormal"])
    body = content[8 + length :]
    tensors = {}
    for name, about in header.items():
        begin, end = about["data_offsets"]
        array = np.frombuffer(body[begin:end], _DTYPES[about["dtype"]])
        tensors[name] = array.reshape(about["shape"]).copy()
    return Parts(envelope["version"], envelope["state"], tensors)


def pack(parts: Parts, gap: tuple[str, str] | None = None) -> bytes:
    """Return the file of these parts, with the right digest.

    `gap` is a text that stands in the facts and one to put in its place: JSON that is too deep or
    too long for `json.dumps`.
    """
    facts = canonical(parts.facts)
    if gap is not None:
        facts = facts.replace(json.dumps(gap[0]), gap[1])
    sha256 = digest(parts.version, facts, parts.tensors)
    envelope = f'{{"sha256":"{sha256}","state":{facts},"version":{json.dumps(parts.version)}}}'
    return file_bytes(envelope, parts.tensors)


def file_bytes(envelope: str, tensors: Tensors, **header: Any) -> bytes:
    """Return a safetensors file with the metadata entry `newnormal` and further header entries."""
    entries: dict[str, Any] = {"__metadata__": {"newnormal": envelope}}
    body, at = [], 0
    for name in sorted(tensors, key=lambda each: (-tensors[each].dtype.itemsize, each)):
        array = np.ascontiguousarray(tensors[name])
        entries[name] = {
            "dtype": _NAMES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
        body.append(array.tobytes())
    entries |= header
    return framed(json.dumps(entries), b"".join(body))


def framed(header: str, body: bytes) -> bytes:
    """Return the length of the header, the header, and the body."""
    text = header.encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body
