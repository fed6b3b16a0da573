"""Lines whose samples have a name: of the stream they are of, or of the channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from newnormal.errors import InputError
from newnormal.tabular.columns import Selection
from newnormal.tabular.parsing.lines import LineParser
from newnormal.tabular.reading import Reading
from newnormal.tabular.times import parse_times
from newnormal.types import Floats, Ints, Times


@dataclass(frozen=True, eq=False)
class KeyedSamples:
    """What many lines hold.

    Attributes
    ----------
    keys
        The name's cell of each sample, or a tuple of cells if the name is in several columns.
    values, times
        As in a `Table`, the order of the times not checked.
    rows
        The position among the lines of each sample, negative for lines that were held before.
    errors
        The lines that hold no sample: their position, the name's cell (None where it could not
        be read), and why.
    """

    keys: list[Any]
    values: Floats
    times: Times | None
    rows: Ints
    errors: list[tuple[int, Any, InputError]]


class KeyedLines(LineParser):
    """Reads lines as `LineParser` does, and keeps the cells that name what a sample is of.

    JSON lines may differ in their keys, as those of different streams do: a key that is not there
    is a missing value, and a new key is one more channel, unless the columns were named.

    Parameters
    ----------
    reading
        How the input is written.
    selection
        The columns; `by` are those of the names.
    strict, report, texts
        As in `LineParser`.
    """

    def __init__(
        self,
        reading: Reading,
        selection: Selection,
        *,
        strict: bool = False,
        report: Callable[[str], None] | None = None,
        texts: bool = False,
    ) -> None:
        super().__init__(
            reading, selection=selection, strict=strict, report=report, texts=texts, grows=True
        )

    def read_many(
        self, lines: Sequence[str], first: int | None = None, *, final: bool = False
    ) -> KeyedSamples:
        """Return the samples of many lines, and what is wrong with the others.

        Raises
        ------
        InputError
            If every line would be wrong.
        """
        samples = self.parse_many(lines, first, final=final)
        pairs = zip(samples.errors, samples.error_keys, strict=True)
        errors = [(row, key, error) for (row, error), key in pairs]
        return KeyedSamples(list(samples.keys), samples.values, samples.times, samples.rows, errors)


def unique_times(cells: Sequence[Any]) -> Times:
    """Return times as `parse_times` does, each different one parsed once.

    Streams have their times in common, so that most times of an input are there many times.
    """
    kinds = set(map(type, cells))
    # Numbers that are equal would be one key, whatever their types.
    if len(kinds) != 1 or not kinds <= {str, int, float}:
        return parse_times(cells)
    different = {cell: codes for codes, cell in enumerate(dict.fromkeys(cells))}
    if len(different) == len(cells):
        return parse_times(cells)
    parsed = parse_times(list(different))
    codes = np.fromiter(map(different.__getitem__, cells), dtype=np.int64, count=len(cells))
    times: Times = parsed[codes]
    return times
