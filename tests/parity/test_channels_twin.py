"""Channels judged by themselves: the compiled judge beside its slow twin, after every sample."""

import numpy as np
import pytest

from newnormal.kernels.channels import ChannelState, HomeState, advance, blank_out, blank_work
from newnormal.models.channels import fit_channels
from newnormal.types import Floats
from newnormal.types.tables import first
from tests.naive_channels import NaiveChannels


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
