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
