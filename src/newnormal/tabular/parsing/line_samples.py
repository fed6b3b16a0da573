"""What lines hold: one sample, or many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.errors import InputError
from newnormal.tabular.parsing.blocks import SampleBlock
from newnormal.tabular.parsing.column_plan import ColumnPlan
from newnormal.types import Floats, Ints, Times


class Sample(NamedTuple):
    """What one line holds: the channels' values (NaN is missing), its time and its label."""

    values: Floats
    time: np.datetime64 | None
    label: int | None = None


@dataclass(frozen=True, eq=False)
class ParsedSamples:
    """What many lines hold.

    Attributes
    ----------
    values, times, labels
        As in a `Table`, the order of the times not checked.
    rows
        The position among the lines of each sample. It is negative for a line that came before
        and was held until it was known what it is.
    errors
        The lines that hold no sample, by position, and why. Blank lines are not errors.
    keys
        The cell that names what each sample is of, or a tuple of cells, where such columns were
        named.
    error_keys
        That of each error, None where it could not be read.
    """

    values: Floats
    times: Times | None
    labels: Ints | None
    rows: Ints
    errors: tuple[tuple[int, InputError], ...]
    keys: Sequence[Any] = ()
    error_keys: Sequence[Any] = ()


def joined(
    blocks: Sequence[tuple[int, SampleBlock]], held: int, width: int, plan: ColumnPlan | None
) -> ParsedSamples:
    """Return the samples of blocks, each with its place among the lines.

    Parameters
    ----------
    blocks
        The blocks in order.
    held
        How many of the lines came before those that positions are counted from.
    width, plan
        The channels and the columns where there are no samples.
    """
    errors = [
        (position + offset - held, key, error)
        for offset, block in blocks
        for position, key, error in block.errors
    ]
    parts = [(offset - held, block) for offset, block in blocks if len(block.rows)]
    wrong = tuple((row, error) for row, _, error in errors)
    error_keys = [key for _, key, _ in errors]
    if not parts:
        none = SampleBlock.of_errors([], width, plan)
        return ParsedSamples(none.values, none.times, none.labels, none.rows, wrong, [], error_keys)
    return ParsedSamples(
        _stacked([block.values for _, block in parts]),
        _together([block.times for _, block in parts]),
        _together([block.labels for _, block in parts]),
        np.concatenate([block.rows + offset for offset, block in parts]),
        wrong,
        [key for _, block in parts for key in block.keys],
        error_keys,
    )


def _stacked(parts: list[Floats]) -> Floats:
    if len(parts) == 1:
        return parts[0]
    width = max(part.shape[1] for part in parts)
    values = np.full((sum(map(len, parts)), width), np.nan)
    start = 0
    for part in parts:
        values[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return values


def _together(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if len(arrays) == len(parts) else None
