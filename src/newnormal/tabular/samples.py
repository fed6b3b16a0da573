"""One sample, as a row of values or a mapping by channel; and records that hold none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from newnormal.errors import InputError
from newnormal.types import Floats


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


def to_sample(sample: Any, channels: tuple[str, ...], number: int) -> Floats:
    """Return a sample as a (1, C) array, or raise an error that names sample `number`.

    >>> to_sample({"b": 2, "a": None}, ("a", "b"), 0)
    array([[nan,  2.]])
    >>> to_sample(np.ma.masked_equal([1.0, -999.0], -999.0), ("a", "b"), 0)
    array([[ 1., nan]])
    """
    if not isinstance(sample, np.ndarray | list | tuple):
        sample = _by_name(sample, channels, number)
    elif isinstance(sample, np.ma.MaskedArray):
        sample = unmasked(sample)
    try:
        # A copy: a read-only or strided array would be another type to the compiled loop, which
        # would be compiled again for it, in the middle of the stream.
        values = np.array(sample, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"sample {number}: expected numbers, found {sample!r}",
            hint="pass NaN for a missing value",
        ) from None
    if values.ndim > 1 or values.size != len(channels):
        raise InputError(
            f"sample {number}: expected {len(channels)} channels, "
            f"found an array of shape {values.shape}",
            hint="step takes one sample; run takes a series",
        )
    # A sum is the cheapest check of every value: it is finite only if they all are. Python's,
    # unlike NumPy's, does not warn where it overflows.
    if not math.isfinite(sum(values.ravel().tolist())) and np.isinf(values).any():
        channel = channels[int(np.flatnonzero(np.isinf(values))[0])]
        raise InputError(
            f"sample {number}: channel {channel!r} is infinite", hint="pass NaN for a missing value"
        )
    return values.reshape(1, -1)


def unmasked(values: Any) -> Any:
    """Return an array with NaN where it is masked: a plain copy has what is below the mask."""
    if isinstance(values, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(values), np.nan, values.data)
    return values


def _by_name(sample: Any, channels: tuple[str, ...], number: int) -> Any:
    if hasattr(sample, "index") and hasattr(sample, "to_dict"):  # a row of a pandas frame
        named = sample.to_dict()
        if all(isinstance(name, str) for name in named):
            sample = named
    return _row(sample, channels, number) if isinstance(sample, Mapping) else sample


def _row(sample: Mapping[str, Any], channels: tuple[str, ...], number: int) -> list[Any]:
    unknown = [name for name in sample if name not in channels]
    absent = [name for name in channels if name not in sample]
    if unknown or absent:
        wrong = f"unknown channel {unknown[0]!r}" if unknown else f"no channel {absent[0]!r}"
        raise InputError(
            f"sample {number}: {wrong}",
            hint=f"the channels are {', '.join(channels)}; pass NaN for a missing value",
        )
    values = (sample[name] for name in channels)
    return [math.nan if value is None or value is np.ma.masked else value for value in values]
