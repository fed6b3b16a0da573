"""Standard input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from newnormal.io.sources.lines import LineSource


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
        """Go on with the next line: a header is taken, else the columns are those of before."""
        layout = snapshot.get("layout")
        if isinstance(layout, Mapping) and layout.get("opened_by") is not None:
            # Samples of long lines that are not complete are sent again.
            own = {name: each for name, each in layout.items() if name not in ("pending", "held")}
            self._layout.restore(own)
        return True
