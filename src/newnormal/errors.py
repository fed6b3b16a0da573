"""Every error newnormal raises on purpose.

::

    NewnormalError                     catch this to catch them all
    ├── ParameterError (ValueError)    an option has a value that cannot work
    ├── InputError     (ValueError)    the data handed in is not what was expected
    ├── NotFittedError (ValueError, AttributeError)   used before `fit`
    ├── FeedbackError  (ValueError)    there is nothing to accept, reject or undo
    ├── StateError                     a state file cannot be read or written
    ├── DatasetError   (FileNotFoundError)            a benchmark file is missing or malformed
    └── MissingExtraError (ImportError)               an optional dependency is not installed

Each message states what was expected and what was found; the hint, on its own line, what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "DatasetError",
    "FeedbackError",
    "InputError",
    "MissingExtraError",
    "NewnormalError",
    "NewnormalWarning",
    "NotFittedError",
    "ParameterError",
    "StateError",
]


class NewnormalError(Exception):
    """Base of all errors raised on purpose.

    Parameters
    ----------
    message
        What was expected and what was found.
    hint
        What to do about it; printed on its own line.

    Examples
    --------
    >>> print(NewnormalError("expected 3 channels, found 2", hint="pass all three"))
    expected 3 channels, found 2
    hint: pass all three
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class ParameterError(NewnormalError, ValueError):
    """An option has a value that cannot work."""


class InputError(NewnormalError, ValueError):
    """The data handed in is not what was expected."""


class NotFittedError(NewnormalError, ValueError, AttributeError):
    """The detector was used before it was fitted."""


class FeedbackError(NewnormalError, ValueError):
    """There is nothing to accept, to reject or to undo."""


class StateError(NewnormalError):
    """A state file cannot be read or written."""


class DatasetError(NewnormalError, FileNotFoundError):
    """A benchmark file is missing or not in the form its owners hand out."""


class MissingExtraError(NewnormalError, ImportError):
    """An optional dependency is not installed.

    Examples
    --------
    >>> print(MissingExtraError.of("plot", "matplotlib"))
    matplotlib is needed for this and is not installed
    hint: pip install "newnormal[plot]"
    """

    @classmethod
    def of(cls, extra: str, package: str) -> MissingExtraError:
        """Return the error for `package`, which the extra `extra` brings."""
        return cls(
            f"{package} is needed for this and is not installed",
            hint=f'pip install "newnormal[{extra}]"',
        )


@contextmanager
def extra(name: str, package: str) -> Iterator[None]:
    """Raise a MissingExtraError where `package`, which the extra `name` brings, is not imported."""
    try:
        yield
    except ImportError:
        raise MissingExtraError.of(name, package) from None


class NewnormalWarning(UserWarning):
    """Something was not done, without being an error."""
