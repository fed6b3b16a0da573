"""Channels judged by themselves, and places moved back: beside slow twins, sample by sample."""

from __future__ import annotations

import numpy as np
import pytest

from newnormal.kernels.accepted import PLACES, AcceptedState, move_back
from newnormal.kernels.channels import ChannelState, HomeState, advance, blank_out, blank_work
from newnormal.models.channels import fit_channels
from newnormal.types import Floats
from newnormal.types.tables import first
from tests.naive_channels import NaiveChannels
from tests.naive_places import NaivePlaces


def stream(rng: np.random.Generator, samples: int, channels: int) -> Floats:
    """Return scaled noise that remembers, with a shared part."""
    noise = rng.normal(size=(samples, channels)) + rng.normal(size=(samples, 1))
    for t in range(1, samples):
        noise[t] = 0.7 * noise[t - 1] + 0.5 * noise[t]
    return np.asarray(noise / noise.std(axis=0))


def spoilt(rng: np.random.Generator, live: Floats) -> Floats:
    """Return live values with faults of every kind: steps, spikes, gaps, values without end."""
    live = live.copy()
    T, C = live.shape
    for _ in range(6):
        start, length, c = int(rng.integers(T)), int(rng.integers(1, 60)), int(rng.integers(C))
        live[start : start + length, c] += rng.choice([-30.0, -8, -5, 5, 8, 1e4, 1e12])
        start, c = int(rng.integers(T)), int(rng.integers(C))
        live[start : start + int(rng.integers(1, 20)), c] = np.nan
        start, c = int(rng.integers(T - 40)), int(rng.integers(C))
        live[start : start + 40, c] += np.linspace(0, rng.choice([-9.0, 6, 9]), 40)
    for start in range(100, 260, 17):  # on 5, off 12
        live[start : start + 5, 0] += 9
    return live


@pytest.mark.parametrize("seed", range(20))
def test_each_sample_is_judged_as_by_the_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    C = int(rng.integers(1, 6))
    noise = stream(rng, 1_600, C)
    noise[:, rng.random(C) < 0.3] **= 3  # tails so heavy that a fault may be within them
    noise[1_100:1_130] += 3
    history, noise = noise[:900], noise[900:]
    if C > 2:
        history[:, 1] = history[:, 1] > 2.5  # a flag
    bins = np.sin(np.arange(48) / 48 * 2 * np.pi)[:, None].astype(np.float32) * np.ones(C, "f4")
    rhythmic, phases = rng.random(C) < 0.5, (np.arange(700) % 48).astype(np.float64)
    params = fit_channels(
        history, 1 / 1440, 1440.0, rhythmic, bins[np.arange(900) % 48].astype(np.float64), 10.0
    )
    live = spoilt(rng, noise)
    base = np.where(params.rhythmic != 0, bins[np.arange(700) % 48], 0.0)
    times = 10 * np.arange(700) + 30 * (np.arange(700) > 350) + 9_000 * (np.arange(700) > 600)
    twin = NaiveChannels(params, np.clip(live[0], -2e6, 2e6), base[0])
    twin.each[0].homes[1] = 6.0  # accepted before
    rows = [twin.judge(*each) for each in zip(live, base, times.tolist(), strict=True)]
    ref = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    normal = first(HomeState, {"C": C}, lows=params.lows.copy(), highs=params.highs.copy())
    normal.homes[1, 0] = 6.0
    state = first(ChannelState, {"C": C}, normal=normal)
    comp, zeros, ones = blank_out(700, C), np.zeros(C), np.ones(C)
    for t in range(700):
        part = type(comp)._make(column[t : t + 1] for column in comp)
        row = slice(t, t + 1)
        rest = phases[row], state, params, zeros, ones, bins, part
        advance(blank_work(C), live[row], times[row], *rest)
    np.testing.assert_array_equal(comp.hidden, ref["hidden"])
    np.testing.assert_allclose(comp.expected, ref["expected"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(comp.clean, ref["clean"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(comp.ratios, ref["ratio"], rtol=1e-5, atol=1e-5)
    flags = params.flags != 0
    width = (comp.highs - comp.lows)[:, ~flags] / 2
    np.testing.assert_allclose(width, ref["width"][:, ~flags], rtol=1e-5)
    assert ref["hidden"].any(axis=1).mean() > 0.05


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
