"""Times and values of a pushed body: many at once where they are plain, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from newnormal.errors import InputError
from newnormal.tabular.times import parse_time, plain_texts
from newnormal.types import Floats, Ints

_MISSING = frozenset({"", "nan", "na", "null", "none"})
_NUMBERS = {int, float, type(None)}
_SECONDS = 1e11  # Unix time in s is below, as `parse_time` has it


def times_of(values: Sequence[Any], place: Callable[[int], str]) -> Ints:
    """Return times in ns since 1970.

    Parameters
    ----------
    values
        ISO 8601 texts or Unix times, as `newnormal.tabular.parse_time` takes them.
    place
        Where one is, for errors.
    """
    kinds = set(map(type, values))
    if kinds == {str} and _are_seconds(values):
        values, kinds = [int(each) for each in values], {int}
    if kinds == {str}:
        texts = values
        if all(each.endswith("Z") for each in values):
            texts = [each[:-1] for each in values]
        plain = plain_texts(list(texts))
        if plain is not None:
            return plain.astype(np.int64)
    elif kinds == {int}:
        try:
            whole = np.array(values, np.int64)
        except OverflowError:
            whole = np.array([2**62])
        if np.abs(whole).max() <= _SECONDS:
            return whole * 10**9
    found = np.empty(len(values), np.int64)
    for at, value in enumerate(values):
        try:
            found[at] = parse_time(value).astype(np.int64)
        except InputError as error:
            raise InputError(f"{place(at)}: time: {error.message}", hint=error.hint) from None
    return found


def _are_seconds(texts: Sequence[str]) -> bool:
    """Whether texts are Unix times in s, as a CSV has them."""
    joined = "".join(texts)
    plain = joined.isascii() and joined.isdigit()
    return plain and all(0 < len(each) <= 11 for each in texts)


def numbers_of(values: Sequence[Any], place: Callable[[int], str]) -> Floats:
    """Return values as float64, NaN where one is missing.

    Numbers, texts of numbers, and None, empty or NaN for missing ones are taken.

    Parameters
    ----------
    place
        Where one is and which channel it is of, for errors.
    """
    found = _plain(values)
    if found is None:
        each = [_number(value, place, at) for at, value in enumerate(values)]
        found = np.array(each, np.float64)
    endless = np.isinf(found)
    if endless.any():
        at = int(endless.argmax())
        raise _not_a_number(values[at], place(at))
    return found


def _plain(values: Sequence[Any]) -> Floats | None:
    """Return values that are all numbers, or all texts of them; None if one is something else."""
    kinds = set(map(type, values))
    try:
        if kinds <= _NUMBERS:
            return np.array(values, np.float64)
        if kinds == {str}:
            text = "".join(values)
            if text.isascii() and "_" not in text:  # as `_number` has it
                return np.array([float(each or "nan") for each in values])
    except (OverflowError, ValueError):  # a whole number of hundreds of digits, or no number
        pass
    return None


def _number(value: Any, place: Callable[[int], str], at: int) -> float:
    if value is None:
        return np.nan
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in _MISSING:
            return np.nan
        if "_" in text or not text.isascii():  # Python takes 1_000 and other scripts' digits
            raise _not_a_number(value, place(at))
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise _not_a_number(value, place(at))
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise _not_a_number(value, place(at)) from None


def _not_a_number(value: Any, place: str) -> InputError:
    shown = ascii(value)
    return InputError(
        f"{place}: expected a finite number, found "
        f"{shown if len(shown) <= 60 else shown[:57] + '...'}",
        hint="leave a missing value out, or send null",
    )
