"""Standard input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from newnormal.io.sources.lines import LineSource

__all__ = ["PipeSource"]


class PipeSource(LineSource):
    """Lines from standard input. It has no places: one pipe cannot be told from another."""

    repeats: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return "standard input"

    def snapshot(self) -> dict[str, Any]:
        """Return what each column is."""
        return {"layout": self._layout.facts()}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go on with the next line; a CSV header comes again."""
        del snapshot
        return True
