"""`kernels.accepted.move_back` beside its slow twin, sample by sample."""

from __future__ import annotations

import numpy as np
import pytest

from newnormal.kernels.accepted import PLACES, AcceptedState, move_back
from newnormal.types.tables import first
from tests.naive_places import NaivePlaces


@pytest.mark.parametrize("seed", range(30))
def test_samples_are_moved_back_as_by_the_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    C = int(rng.integers(1, 5))
    mixing = rng.normal(size=(C, C)) + 2 * np.eye(C)
    inverse = np.linalg.inv(mixing @ mixing.T).astype(np.float32)
    mean = rng.normal(size=C).astype(np.float32)
    state = first(AcceptedState, {"C": C, "V": 3})
    places = rng.choice(PLACES, size=int(rng.integers(1, 6)), replace=False)
    state.used[places] = 1
    state.shifts[places] = rng.normal(size=(len(places), C)) * 8
    state.at[places] = rng.integers(0, 2, size=len(places))
    twin = NaivePlaces(
        state.shifts,
        [bool(each) for each in state.used],
        [bool(each) for each in state.at],
        mean.astype(np.float64),
        inverse.astype(np.float64),
    )
    limit = float(rng.uniform(4, 16)) * C
    goal, start = np.zeros(C), np.zeros(C)
    ways = set()
    for t in range(300):
        if t % 20 == 0:  # to another place, or to none, within twenty samples or at once
            start, goal = goal, state.shifts[rng.choice(places)] * rng.integers(0, 2)
        part = min((t % 20) / 15, 1.0) if seed % 2 else 1.0
        sample = mean + start + part * (goal - start) + rng.normal(size=C) * 0.5
        sample[rng.random(C) < 0.05] = np.nan
        ref = twin.move_back(sample.copy(), limit)
        comp, moved = sample.copy(), np.empty(C)
        move_back(comp, state, mean, inverse, limit, moved)
        np.testing.assert_allclose(moved, ref, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(comp, sample - ref, rtol=1e-6, atol=1e-6)
        assert state.at.astype(bool).tolist() == twin.at
        ways.add(tuple(np.round(moved, 3)))
    assert len(ways) > 1


@pytest.mark.parametrize("size", [3.0, 6.0, 20.0])
def test_what_goes_slowly_between_two_levels_is_moved_back_without_a_jump(size: float) -> None:
    state = first(AcceptedState, {"C": 1, "V": 3})
    state.used[PLACES - 1], state.shifts[PLACES - 1, 0] = 1, size
    one, moved, seen = np.ones((1, 1), np.float32), np.empty(1), []
    for level in np.concatenate([np.linspace(0, size, 400), np.linspace(size, 0, 400)]):
        sample = np.array([level])
        move_back(sample, state, np.zeros(1, np.float32), one, 9.0, moved)
        seen.append(sample[0])
    assert np.abs(np.diff(seen)).max() < size / 100
    assert np.abs(seen).max() <= 1.6
