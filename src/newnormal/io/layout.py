"""What each column of an input of lines is: found in its first lines, stored in its snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from newnormal.errors import InputError, StateError
from newnormal.io.sources.base import FRESH, SourceOptions
from newnormal.tabular import Found, LineParser, Samples


class LayoutError(InputError):
    """The input as a whole does not fit: skipping lines would skip all of them."""


class Layout:
    """Parses lines, once it is known what each column is.

    The columns are known from the header and the first line of data; lines before that are held.
    Both lines go into the snapshot, so that a resumed source parses lines exactly as before. A
    pipe that goes on without its header is read by the columns of the snapshot; one whose sender
    begins anew has a header again, which is taken.
    """

    def __init__(self, options: SourceOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._parser = self._new()
        self._goes_on = False  # whether lines were read before an earlier end

    def _new(self) -> LineParser:
        return LineParser(
            self._options.reading,
            channels=self._options.channels,
            strict=self._options.strict,
            report=self._options.report,
        )

    @property
    def found(self) -> Found:
        """What was found out about the input so far."""
        return self._parser.found

    @property
    def zone(self) -> str | None:
        """The zone of the newest time; None if it has none."""
        return self._parser.zone

    def facts(self) -> dict[str, Any]:
        """Return the lines that the layout was found in, and how cells are written."""
        return self._parser.facts()

    def restore(self, facts: object) -> None:
        """Restore what `facts` returned, also in versions that had the two lines alone."""
        found = facts if isinstance(facts, dict) else {}
        lines = found.get("opened_by", 0), found.get("settled_by", 0)
        if not all(isinstance(line, str | None) for line in lines):
            raise StateError(
                f"place: expected layout with the lines opened_by and settled_by, found {facts!r}",
                hint=FRESH,
            )
        parser = self._new()
        try:
            parser.restore(found)
        except InputError as error:
            raise self._refusal(error) from None
        except (TypeError, ValueError, AttributeError) as error:
            raise StateError(f"place: expected a layout, found {facts!r}", hint=FRESH) from error
        self._parser = parser
        self._goes_on = lines[0] is not None

    def parse(self, lines: Sequence[str], first: int) -> Samples:
        """Return the samples of the next lines, the first of which has the number `first`.

        Raises
        ------
        LayoutError
            If every line would be a bad one.
        """
        try:
            return self._parser.parse_many(lines, first)
        except InputError as error:
            raise self._refusal(error) from None

    def check(self) -> None:
        """Raise a LayoutError if there were lines and none of them fitted.

        Lines that are held stay so: an input that grows goes on with them.
        """
        parser = deepcopy(self._parser)
        try:
            parser.parse_many([], final=True)
        except InputError as error:
            raise self._refusal(error) from None
        found = parser.found
        if not self._goes_on and found.lines and found.bad_lines == found.lines:
            raise LayoutError(
                f"{self._name}: expected samples, found none among {found.lines:,} lines; "
                f"{found.first_bad}"
            )

    def _refusal(self, error: InputError) -> LayoutError:
        return LayoutError(f"{self._name}: {error.message}", hint=error.hint)
