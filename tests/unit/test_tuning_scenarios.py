"""Scenarios: what is planted is what is labelled, and changes that are no faults are not."""

from itertools import pairwise

import numpy as np
import pytest

from newnormal.tuning.scenarios import _APART, _SHARE, change, plant_faults, scenarios
from newnormal.types import Bools, Floats
from tests.strategies import nasty_series

KINDS = (
    *("none missing", "some missing", "most missing", "every third sample missing"),
    *("a channel always missing", "all missing for long", "a constant channel", "zero"),
)


def differs(one: Floats, other: Floats) -> Bools:
    """Whether anything of a sample is another; missing equals missing."""
    return np.asarray(~((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1))


def stretches(faulty: Bools) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], faulty, [False]]).astype(int)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_labels_are_where_the_series_differs(kind: str, seed: int) -> None:
    series = nasty_series(kind, 600, 4)
    before = series.copy()
    planted, faulty = plant_faults(series, np.random.default_rng(seed))
    np.testing.assert_array_equal(series, before)
    changed = differs(planted, series)
    assert not changed[~faulty].any()
    found = stretches(faulty)
    assert found
    for begin, end in found:
        assert changed[begin:end].any()
        assert end - begin <= 60
    for (_, end), (begin, _) in pairwise(found):
        assert begin - end >= _APART


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_missing_stays_missing_and_nothing_else_goes(kind: str, seed: int) -> None:
    series = nasty_series(kind, 400, 4)
    rng = np.random.default_rng(seed)
    for made in (change(series, rng), plant_faults(series, rng)[0]):
        np.testing.assert_array_equal(np.isnan(made), np.isnan(series))


@pytest.mark.parametrize("length", [60, 200])
def test_for_a_thousand_seeds_there_are_faults_and_not_too_many(length: int) -> None:
    series = nasty_series("none missing", length, 2)
    for seed in range(1000):
        _, faulty = plant_faults(series, np.random.default_rng(seed))
        assert 1 <= faulty.sum() < _SHARE * length + length // 10


def test_channels_that_stand_still_are_not_made_faulty_while_others_move() -> None:
    series = nasty_series("none missing", 400, 4)
    series[:, 2] = 0.0
    for seed in range(20):
        planted, _ = plant_faults(series, np.random.default_rng(seed))
        np.testing.assert_array_equal(planted[:, 2], 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_begins_somewhere_and_stays_and_is_no_fault(kind: str) -> None:
    series = nasty_series(kind, 400, 4)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        before = series.copy()
        changed = change(series, rng)
        np.testing.assert_array_equal(series, before)
        assert not differs(changed, series)[:80].any()
        planted, faulty = plant_faults(changed, rng)
        ((comp, labels),) = scenarios(series, 1, seed)
        np.testing.assert_array_equal(comp, planted)
        np.testing.assert_array_equal(labels, faulty)
        assert not differs(comp, changed)[~labels].any()


def test_changes_are_of_level_scale_and_dynamics() -> None:
    series = nasty_series("none missing", 400, 1)
    found = set()
    for seed in range(40):
        changed = change(series, np.random.default_rng(seed))
        if not differs(changed, series).any():
            found.add("none")  # half of the channels change, and here there is one
            continue
        since = int(np.argmax(differs(changed, series)))
        old, new = series[since + 1 :, 0], changed[since + 1 :, 0]
        if np.ptp(new - old) < 1e-9:
            found.add("level")
        elif abs(np.corrcoef(old, new)[0, 1]) > 1 - 1e-9:
            found.add("scale")
        else:
            found.add("dynamics")
            assert np.abs(np.diff(new)).mean() < np.abs(np.diff(old)).mean()
    assert found == {"none", "level", "scale", "dynamics"}


def test_the_same_seed_gives_the_same_scenarios_and_each_round_is_another() -> None:
    series = nasty_series("none missing", 300, 3)
    one, other = scenarios(series, 3, 5), scenarios(series, 3, 5)
    for (series_1, faulty_1), (series_2, faulty_2) in zip(one, other, strict=True):
        np.testing.assert_array_equal(series_1, series_2)
        np.testing.assert_array_equal(faulty_1, faulty_2)
    assert not np.array_equal(one[0][1], one[1][1])
    assert not np.array_equal(one[0][1], scenarios(series, 3, 6)[0][1])
