"""Files of results: texts in a folder, and tables as CSV."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np


def write_texts(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write files into a folder, made if it does not exist, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return tuple(folder / name for name in texts)


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    r"""Return a table as CSV: six digits of a float, 0 or 1 for a flag, nothing for NaN and None.

    Values of a row that are in no column are left out.

    >>> csv_text(["a", "b", "c"], [{"a": 1 / 3, "c": True}, {"a": math.nan, "b": "x"}])
    'a,b,c\n0.333333,,1\n,x,\n'
    """
    text = io.StringIO()
    table = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    table.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float | np.floating):
        return "" if math.isnan(value) else f"{value:.6g}"
    return value
