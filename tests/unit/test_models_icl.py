"""Internal contrastive learning: its loss, its parts, and that it learns."""

import math
from typing import Any

import numpy as np
import pytest

from tests.deep import assert_it_learns, torch
from newnormal import M2N2
from newnormal.errors import ParameterError
from newnormal.models.base import Training
from newnormal.models.deep.base import Batches, WindowBatch
from newnormal.models.deep.icl import ICL, part
from newnormal.types import Bools, Floats

CHANNELS = 6


def plant(samples: int, seed: int) -> Floats:
    """Two waves seen by six sensors, each in its own mixture."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples)[:, None] + rng.integers(1000)
    waves = np.hstack([np.sin(t / 7), np.cos(t / 7), np.sin(t / 11), np.cos(t / 11)])
    mixture = np.random.default_rng(9).normal(size=(4, CHANNELS))
    return np.asarray(waves @ mixture + 0.05 * rng.normal(size=(samples, CHANNELS)))


def spoiled(samples: int, seed: int) -> tuple[Floats, Bools]:
    """Now and then the channels are in another order: no value is unusual by itself."""
    series, labels = plant(samples, seed), np.zeros(samples, dtype=np.bool_)
    labels[9::15] = True
    series[labels] = series[labels][:, [3, 5, 0, 4, 1, 2]]
    return series, labels


def naive(network: Any, sample: Any) -> float:
    """The score of one sample, part by part."""
    C = len(sample)
    k = part(C)
    m = C - k + 1
    G = [network.part(sample[j : j + k]) for j in range(m)]
    F = [network.rest(torch.cat([sample[:j], sample[j + k :]])) for j in range(m)]

    def on_sphere(vectors: list[Any]) -> list[Any]:
        lengths = torch.stack(vectors).square().sum(0).sqrt().clamp(min=1e-12)
        across = [vector / lengths for vector in vectors]
        return [vector / vector.norm().clamp(min=1e-12) for vector in across]

    G, F = on_sphere(G), on_sphere(F)
    total = 0.0
    for j in range(m):
        alike = [float(F[j] @ G[i]) / 0.01 for i in range(m)]
        top = max(alike)
        total -= alike[j] - top - math.log(sum(math.exp(each - top) for each in alike))
    return total / m


@pytest.mark.parametrize("channels", [2, 3, 7, 43])
def test_the_score_is_the_papers_contrastive_loss(channels: int) -> None:
    model = ICL(3, channels, latent=5)
    windows = torch.randn(2, 3, channels, generator=torch.Generator().manual_seed(1))
    batch = WindowBatch(windows, torch.ones_like(windows))
    with torch.no_grad():
        comp = model.judge(batch).scores
        ref = [[naive(model.network, sample) for sample in window] for window in windows]
    np.testing.assert_allclose(comp.numpy(), ref, rtol=1e-3, atol=1e-4)


def test_parts_have_the_papers_sizes_and_always_leave_a_rest() -> None:
    sizes = {1000: 850, 161: 11, 160: 10, 41: 10, 40: 2, 3: 2, 2: 1}
    assert {channels: part(channels) for channels in sizes} == sizes


def test_one_channel_has_no_rest_to_fit() -> None:
    with pytest.raises(ParameterError, match="model: icl needs at least 2 channels, found 1"):
        M2N2(model="icl", window=4).fit(plant(60, 0)[:, :1])


def test_adaptation_descends_on_the_score() -> None:
    model = ICL(4, CHANNELS, latent=5)
    windows = torch.randn(3, 4, CHANNELS, generator=torch.Generator().manual_seed(1))
    batch = WindowBatch(windows, torch.ones_like(windows))
    errors = model.errors(batch)
    assert errors.shape == (3, 4)
    assert errors.requires_grad
    assert torch.equal(errors.detach(), model.judge(batch).scores.detach())


def test_samples_with_nothing_observed_are_not_learned_from() -> None:
    training = Training(stride=4, epochs=2, batch=8, seed=0)
    history = plant(40, 0)
    history[8:12] = np.nan
    model, other = ICL(4, CHANNELS, 5), ICL(4, CHANNELS, 5)
    batch = next(Batches(history, 4, training).epoch(shuffled=False))
    batch.windows[2] = 7.0  # whatever stands where nothing was observed
    ref = model.errors(batch)[[0, 1, 3, 4, 5, 6, 7]].mean().item()

    assert other.loss(batch).item() == pytest.approx(ref, rel=1e-5)


def test_it_learns() -> None:
    live = spoiled(200, 1)
    assert_it_learns("icl", plant(500, 0), live, batch=16, less_loss=0.5, found=0.9)
