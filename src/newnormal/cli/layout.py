"""What each column of a watched input is: told by its first lines, kept in its checkpoint."""

from __future__ import annotations

import json
from typing import Any

from newnormal.errors import InputError
from newnormal.tabular import LineParser, Sample

__all__ = ["Layout", "LayoutError"]

# A line that does not fit is a bad line, but an input whose every line does not fit is a wrong one.
_PATIENCE = 10


class LayoutError(Exception):
    """The input as a whole does not fit, so that no line of it is skipped."""

    def __init__(self, error: InputError, name: str) -> None:
        super().__init__(error.message)
        self.error = InputError(f"{name}: {error.message}", hint=error.hint)


class Layout:
    """Takes lines apart, once it knows how.

    The columns are known from a CSV header or the first sample; which of them holds the time only
    from the first sample that fits. Both lines go into the checkpoint, so that a resumed watch
    takes lines apart exactly as before.
    """

    def __init__(self, channels: tuple[str, ...], options: dict[str, Any], name: str) -> None:
        self._channels = channels
        self._options = options  # format, time, columns, drop
        self._name = name
        self._parser: LineParser | None = None
        self._opened_by: str | None = None
        self._settled_by: str | None = None
        self._misfits = 0
        self._misfit: InputError | None = None

    def facts(self) -> dict[str, str | None]:
        """Return the lines that told the layout."""
        return {"opened_by": self._opened_by, "settled_by": self._settled_by}

    def restore(self, facts: dict[str, str | None]) -> None:
        """Take back what `facts` returned."""
        opened_by, settled_by = facts["opened_by"], facts["settled_by"]
        if opened_by is None:
            return
        try:
            self._parser = self._opened(opened_by)
            if settled_by is not None:
                self._parser.settle(settled_by)
        except InputError as error:
            raise LayoutError(error, self._name) from None
        self._opened_by, self._settled_by = opened_by, settled_by

    def sample(self, line: str) -> Sample | None:
        """Return a line's sample, None for a header or a blank line.

        Raises
        ------
        InputError
            If it is a bad line.
        LayoutError
            If every line would be one.
        """
        if not line.strip():
            return None
        try:
            if self._parser is None:
                parser = self._opened(line)
                self._parser, self._opened_by = parser, line
                if parser.header_consumed:
                    return None
            if self._settled_by is None and self._parser.settle(line):
                self._settled_by = line
                self._misfit = None
        except InputError as error:
            if self._parser is None and _is_header(line, self._options["format"]):
                raise LayoutError(error, self._name) from None
            self._misfits += 1
            self._misfit = error
            if self._misfits >= _PATIENCE:
                raise LayoutError(error, self._name) from None
            raise
        return self._parser.parse(line)

    def check(self) -> None:
        """Raise a LayoutError if lines came and none fitted."""
        if self._misfit is not None:
            raise LayoutError(self._misfit, self._name)

    def _opened(self, line: str) -> LineParser:
        return LineParser.open(line, channels=self._channels, **self._options)


def _is_header(line: str, given: str | None) -> bool:
    """Whether a line is meant as a CSV header: not JSON, and no number in it."""
    if given == "jsonl" or (given is None and line.lstrip("\ufeff \t").startswith("{")):
        return False
    cells = line.replace(";", ",").replace("\t", ",").split(",")
    return not any(_is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        return isinstance(json.loads(cell), int | float)
    except ValueError:
        return False
