"""Standard input."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from newnormal.errors import InputError
from newnormal.io.sources.base import SourceOptions
from newnormal.io.sources.lines import POLL_S, READ_BYTES, LineSource, Reader

__all__ = ["PipeSource"]


class PipeSource(LineSource):
    """Lines from standard input. It has no places: one pipe cannot be told from another."""

    repeats: ClassVar[bool] = True

    def __init__(
        self,
        input: str,  # noqa: A002
        options: SourceOptions,
        reader: Reader | None = None,
    ) -> None:
        if sys.stdin is None:
            raise InputError(
                "standard input: expected lines, found it closed",
                hint="pipe lines into the command, or give the path of a file",
            )
        super().__init__(input, options, reader)

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "standard input"

    def snapshot(self) -> dict[str, Any]:
        """Return what each column is."""
        return {"layout": self._layout.facts()}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go on with the next line: a header is taken, else the columns are those of before."""
        layout = snapshot.get("layout")
        if isinstance(layout, Mapping) and layout.get("opened_by") is not None:
            # Samples of long lines that are not complete are sent again.
            own = {name: each for name, each in layout.items() if name not in ("pending", "held")}
            self._layout.restore(own)
        return True

    def _read(self) -> bytes | None:
        chunk = self._received(POLL_S)
        if not chunk:
            return chunk
        parts, size = [chunk], len(chunk)
        # A pipe holds a quarter of what is read at once: many streams are judged best together.
        while size < READ_BYTES and os.name == "posix":
            more = self._received(0)
            if not more:
                break
            parts.append(more)
            size += len(more)
        return b"".join(parts)

    def _received(self, wait: float) -> bytes | None:
        """Return what there is; b"" if nothing came in `wait` seconds, None at the end."""
        handle = sys.stdin.fileno()
        if os.name == "posix":  # elsewhere only sockets can be waited for: the read itself waits
            ready, _, _ = select.select([handle], [], [], wait)
            if not ready:
                return b""
        return os.read(handle, READ_BYTES) or None
