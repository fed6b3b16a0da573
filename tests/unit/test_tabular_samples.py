"""One sample: rows, mappings, and rows of pandas frames, matched by name."""

from __future__ import annotations

import numpy as np
import pytest

from newnormal.errors import InputError
from newnormal.tabular import to_sample

pd = pytest.importorskip("pandas", reason="pandas is not installed")

CHANNELS = ("a", "b", "c")


def test_a_row_of_a_frame_is_matched_by_name_in_any_order() -> None:
    frame = pd.DataFrame({"c": [3.0], "a": [1.0], "b": [None]})
    (_, row), *_ = frame.iterrows()
    np.testing.assert_array_equal(to_sample(row, CHANNELS, 0), [[1, np.nan, 3]])


def test_a_row_without_names_is_taken_in_its_order() -> None:
    np.testing.assert_array_equal(to_sample(pd.Series([1, 2, 3]), CHANNELS, 0), [[1, 2, 3]])


def test_a_row_with_other_names_is_refused() -> None:
    with pytest.raises(InputError, match="sample 7: unknown channel 'd'"):
        to_sample(pd.Series({"a": 1, "b": 2, "d": 3}), CHANNELS, 7)
    with pytest.raises(InputError, match="sample 7: no channel 'c'"):
        to_sample({"a": 1, "b": 2}, CHANNELS, 7)
