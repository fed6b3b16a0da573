"""One sample: rows, mappings, and rows of pandas frames, matched by name."""

import numpy as np
import pytest

from newnormal import M2N2, Fleet
from newnormal.errors import InputError
from newnormal.tabular import to_sample

pd = pytest.importorskip("pandas", reason="pandas is not installed")

CHANNELS = ("a", "b", "c")


def test_a_row_of_a_frame_is_matched_by_name_in_any_order() -> None:
    (_, row), *_ = pd.DataFrame({"c": [3.0], "a": [1.0], "b": [None]}).iterrows()
    np.testing.assert_array_equal(to_sample(row, CHANNELS, 0), [[1, np.nan, 3]])


def test_a_row_without_names_is_taken_in_its_order() -> None:
    np.testing.assert_array_equal(to_sample(pd.Series([1, 2, 3]), CHANNELS, 0), [[1, 2, 3]])


def test_a_row_with_other_names_is_refused() -> None:
    with pytest.raises(InputError, match="sample 7: unknown channel 'd'"):
        to_sample(pd.Series({"a": 1, "b": 2, "d": 3}), CHANNELS, 7)
    with pytest.raises(InputError, match="sample 7: no channel 'c'"):
        to_sample({"a": 1, "b": 2}, CHANNELS, 7)


def test_a_masked_value_is_missing_in_step_as_in_run() -> None:
    rng = np.random.default_rng(0)
    history = np.sin(np.arange(300) / 9)[:, None] + rng.normal(0, 0.1, (300, 3))
    stepping = M2N2(window=4, stride=1, epochs=1).fit(history)
    running, fleet = load_copy(stepping), Fleet(stepping).add("a", load_copy(stepping))
    values, mask = history[:20].copy(), np.zeros((20, 3), dtype=bool)
    values[9], mask[9] = (1e9, 1.0, np.inf), (True, False, True)
    live = np.ma.array(values, mask=mask)
    whole = running.run(live).scores
    stepped = [verdict.score for row in live for verdict in stepping.step(row)]
    ticked = [score for row in live for score in fleet.step(row[None]).scores]
    np.testing.assert_array_equal(stepped, whole)
    np.testing.assert_array_equal(ticked, whole)


def test_a_masked_value_of_a_mapping_is_missing() -> None:
    sample = {"a": np.ma.masked, "b": 1.0, "c": None}
    np.testing.assert_array_equal(to_sample(sample, CHANNELS, 0), [[np.nan, 1, np.nan]])


def load_copy(detector: M2N2) -> M2N2:
    return M2N2.from_state(detector.to_state())
