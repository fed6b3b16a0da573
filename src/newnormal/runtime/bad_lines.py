"""What is reported of lines that hold no sample: each, but not thousands of them in a row."""

from collections.abc import Callable

_MOST = 10  # reported in a row


class BadLineReporter:
    """Reports lines that hold no sample; of many in a row the first ones, each hint once.

    `report`: called with a line for the user.

    Examples
    --------
    >>> reporter = BadLineReporter(print)
    >>> for line in range(2, 15):
    ...     reporter.bad(line, f"line {line}: expected 3 cells, found 1")  # doctest: +ELLIPSIS
    line 2: expected 3 cells, found 1; skipped
    ...
    line 11: expected 3 cells, found 1; skipped
    more bad lines follow: they are counted and not shown, up to the next good one
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._last = 0
        self._row = 0
        self._hints: set[str] = set()

    def bad(self, number: int, text: str, hint: str | None = None) -> None:
        """Report the line of that number: what is wrong with it, and what to do."""
        self._row = self._row + 1 if number == self._last + 1 else 1
        self._last = number
        if self._row <= _MOST:
            self._report(f"{text}; skipped")
        elif self._row == _MOST + 1:
            self._report(
                "more bad lines follow: they are counted and not shown, up to the next good one"
            )
        if hint is not None and hint not in self._hints:
            self._hints.add(hint)
            self._report(f"hint: {hint}")
