"""What each column of an input of lines is: found in its first lines, stored in its snapshot."""

from __future__ import annotations

import json

from newnormal.errors import InputError, StateError
from newnormal.io.sources.base import FRESH, SourceOptions
from newnormal.tabular import LineParser, Sample

__all__ = ["Layout", "LayoutError"]

# A line that does not fit is a bad line, but an input whose every line does not fit is a wrong one.
_PATIENCE = 10


class LayoutError(InputError):
    """The input as a whole does not fit: skipping lines would skip all of them."""


class Layout:
    """Parses lines, once it is known what each column is.

    The columns are known from a CSV header or the first sample; the column of times only from the
    first sample that fits. Both lines go into the snapshot, so that a resumed source parses lines
    exactly as before.
    """

    def __init__(self, options: SourceOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._clear()

    def _clear(self) -> None:
        self._parser: LineParser | None = None
        self._opened_by: str | None = None
        self._settled_by: str | None = None
        self._misfits = 0
        self._misfit: InputError | None = None

    def facts(self) -> dict[str, str | None]:
        """Return the two lines that the layout was found in."""
        return {"opened_by": self._opened_by, "settled_by": self._settled_by}

    def restore(self, facts: object) -> None:
        """Restore what `facts` returned."""
        found = facts if isinstance(facts, dict) else {}
        opened_by, settled_by = found.get("opened_by", 0), found.get("settled_by", 0)
        if not (isinstance(opened_by, str | None) and isinstance(settled_by, str | None)):
            raise StateError(
                f"place: expected layout with the lines opened_by and settled_by, found {facts!r}",
                hint=FRESH,
            )
        self._clear()
        if opened_by is None:
            return
        try:
            self._parser = self._opened(opened_by)
            if settled_by is not None:
                self._parser.settle(settled_by)
        except InputError as error:
            raise self._refusal(error) from None
        self._opened_by, self._settled_by = opened_by, settled_by

    @property
    def zone(self) -> str | None:
        """The zone of the newest time; None if it has none, or there was none yet."""
        return None if self._parser is None else self._parser.zone

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
            if self._parser is None and _is_header(line, self._options.reading.format):
                raise self._refusal(error) from None
            self._misfits += 1
            self._misfit = error
            if self._misfits >= _PATIENCE:
                raise self._refusal(error) from None
            raise
        return self._parser.parse(line)

    def check(self) -> None:
        """Raise a LayoutError if there were lines and none of them fitted."""
        if self._misfit is not None:
            raise self._refusal(self._misfit)

    def _opened(self, line: str) -> LineParser:
        reading = self._options.reading
        return LineParser.open(
            line,
            channels=self._options.channels,
            format=reading.format,  # type: ignore[arg-type]
            time=reading.time[0] if reading.time else None,
            columns=reading.columns,
            drop=reading.drop,
        )

    def _refusal(self, error: InputError) -> LayoutError:
        return LayoutError(f"{self._name}: {error.message}", hint=error.hint)


def _is_header(line: str, given: str | None) -> bool:
    """Whether a line is meant as a CSV header: not JSON, and no number in it."""
    if given == "jsonl" or (given is None and line.lstrip("\ufeff \t").startswith("{")):
        return False
    cells = line.replace(";", ",").replace("\t", ",").split(",")
    return not any(_is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        return isinstance(json.loads(cell), int | float)
    except (ValueError, RecursionError):  # nested too deeply
        return False
