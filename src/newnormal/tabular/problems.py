"""Records of an input that hold no sample."""

from __future__ import annotations

from dataclasses import dataclass

from newnormal.errors import InputError


@dataclass(frozen=True)
class Problem:
    """A record of the input that holds no sample.

    Attributes
    ----------
    error
        What was expected and what was found.
    number
        The record's number in the input, counted from 1.
    before
        How many samples of the same batch come before it.
    """

    error: InputError
    number: int
    before: int = 0


def at_line(number: int, error: InputError) -> InputError:
    """Return an error that names the line it was found in."""
    return InputError(f"line {number}: {error.message}", hint=error.hint)
