"""The one value of all live input."""

from __future__ import annotations

from typing import NamedTuple

from newnormal.types import Floats, Ints


class Arrival(NamedTuple):
    """Samples of one stream that came together.

    Attributes
    ----------
    stream
        The stream's name.
    channels
        The names of the columns of `values`.
    times
        (N,) in ns since 1970, UTC.
    values
        (N, C) float64. NaN: this channel was not given; never infinite.
    """

    stream: str
    channels: tuple[str, ...]
    times: Ints
    values: Floats
