"""Messages over a pipe: facts, which are JSON values, and arrays by name.

A message is two lengths, the facts as JSON, and the arrays as safetensors. There is nothing in it
that could run.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

_LENGTHS = struct.Struct("<QQ")


class Message(NamedTuple):
    """Facts, and arrays by name."""

    facts: dict[str, Any]
    tensors: Mapping[str, NDArray[Any]]


def send(file: IO[bytes], message: Message) -> None:
    """Write a message.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> send(file, Message({"name": "web-1"}, {"values": np.zeros(2)}))
    >>> _ = file.seek(0)
    >>> receive(file)
    Message(facts={'name': 'web-1'}, tensors={'values': array([0., 0.])})
    """
    text = json.dumps(message.facts, allow_nan=False).encode()
    body = safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in message.tensors.items()}
    )
    for part in (_LENGTHS.pack(len(text), len(body)), text, body):
        file.write(part)
    file.flush()


def receive(file: IO[bytes]) -> Message | None:
    """Read a message; None where the other side has ended, also in the middle of one."""
    start = file.read(_LENGTHS.size)
    if len(start) < _LENGTHS.size:
        return None
    lengths = _LENGTHS.unpack(start)
    text, body = (file.read(length) for length in lengths)
    if (len(text), len(body)) != lengths:
        return None
    return Message(json.loads(text), safetensors.numpy.load(body))
