"""Columns of numbers as text inside a page: float32 beside a base, deflated, base64.

A page reads a number as ``base + float32``. The base is what most values of a column are near to,
if they all are: then what is left has the digits that a float32 would lose.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.types import Floats

_LEVEL = 6
_LOOKED_AT = 100_000  # values of a column that its base is taken from
_FAR = 16  # interquartile ranges from 0, from which on values are kept as differences
_LARGEST = float(np.finfo(np.float32).max)


def base_of(values: Floats) -> float:
    """Return what the numbers of a column are kept as differences from; 0 where that is as good.

    `values`: any shape; what is not finite has no part in it.

    Returns: a number that float32 holds exactly, so that a value of 0 stays 0.

    >>> base_of(np.array([1e9 - 1, 1e9, 1e9 + 1])), base_of(np.array([0.1, 0.4, 0.2]))
    (1000000000.0, 0.0)
    """
    flat = values.reshape(-1)
    flat = flat[:: max(1, len(flat) // _LOOKED_AT)]
    flat = flat[np.isfinite(flat)]
    if not len(flat):
        return 0.0
    low, middle, high = np.percentile(flat, [25, 50, 75])
    if abs(middle) <= _FAR * (high - low) or abs(middle) >= _LARGEST:
        return 0.0
    return float(np.float32(middle))


def packed(values: Floats, base: float) -> NDArray[np.float32]:
    """Return values as differences from a base; a finite one too large for float32 is the largest.

    >>> packed(np.array([1e9 + 0.25, 1e60, np.inf]), 1e9).tolist()
    [0.25, 3.4028234663852886e+38, inf]
    """
    with np.errstate(over="ignore"):  # of infinities of both signs, too
        differences = values - base
    clipped = np.clip(differences, -_LARGEST, _LARGEST)
    return np.where(np.isinf(values), values, clipped).astype("<f4")


def text_of(value: Any) -> str:
    r"""Return a value as JSON that may stand inside a script element.

    >>> text_of({"name": "</script>\ud800"})
    '{"name":"\\u003c/script>\\ud800"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").encode("utf-8", "backslashreplace").decode()


class Packer:
    """The columns of a stream, block after block, while there is room for them.

    `room`: how many bytes of the page blocks may take: their numbers, and their description.
    """

    def __init__(self, room: float) -> None:
        # what each block that was added is, as the page's data describe it
        self.blocks: list[dict[str, Any]] = []
        self.ratio = 1.0  # by how much the newest block became smaller
        self._room = room
        self._used = 0.0
        self._deflate = zlib.compressobj(_LEVEL)
        self._done: list[bytes] = []
        self._at = 0

    @property
    def left(self) -> float:
        """The bytes of the page that are left."""
        return self._room - self._used

    def add(
        self,
        block: Mapping[str, Any],
        columns: Mapping[str, tuple[NDArray[Any], float]],
        spare: float = 0.0,
    ) -> bool:
        """Add a block, if there is room for it; return whether there was.

        `block`: its description, without its columns. `columns`: numbers as they are kept, and
        their base, by the column's name. `spare`: bytes that must be left after it.
        """
        offsets: dict[str, dict[str, float]] = {}
        end = self._at
        for name, (numbers, base) in columns.items():
            offsets[name] = {"at": end, "base": base or 0}
            end += numbers.nbytes
        described = {**block, "columns": offsets}
        deflate = self._deflate.copy()
        parts = [deflate.compress(numbers.tobytes()) for numbers, _ in columns.values()]
        parts.append(deflate.flush(zlib.Z_SYNC_FLUSH))
        deflated = sum(map(len, parts))
        size = deflated * 4 / 3 + len(text_of(described)) + 1
        if size > self.left - spare:
            return False
        self.ratio = deflated / max(end - self._at, 1)
        self._used += size
        self._deflate, self._at = deflate, end
        self._done += parts
        self.blocks.append(described)
        return True

    def text(self) -> str:
        """Return the bytes of all columns, deflated, as base64; nothing of no block."""
        if not self.blocks:
            return ""
        return base64.b64encode(b"".join(self._done) + self._deflate.copy().flush()).decode()
