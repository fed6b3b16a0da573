"""The compiled loop and the training equal PyTorch's autograd and optimisers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from newnormal.kernels.step import LEARNED, StepParams, blank_out
from newnormal.models.base import Training
from newnormal.models.mlp import MLP
from newnormal.types import Floats, Floats32

torch = pytest.importorskip("torch", reason="PyTorch is not installed: see CONTRIBUTING.md")

torch.set_num_threads(1)

SHAPES = [(5, 38, 16), (12, 7, 8)]


def network(model: MLP, packed: Floats32) -> Any:
    """Return the same autoencoder as a PyTorch module."""
    parts: list[Any] = []
    for matrix, bias in model.layers(packed):
        linear = torch.nn.Linear(*matrix.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(np.ascontiguousarray(matrix.T)))
            linear.bias.copy_(torch.from_numpy(bias.copy()))
        parts += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def packed_parameters(model: MLP, module: Any) -> Floats32:
    packed = np.zeros(model.size, dtype=np.float32)
    linears = [part for part in module if isinstance(part, torch.nn.Linear)]
    for (matrix, bias), linear in zip(model.layers(packed), linears, strict=True):
        matrix[:] = linear.weight.detach().numpy().T
        bias[:] = linear.bias.detach().numpy()
    return packed


def plant(samples: int, channels: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    t = np.arange(samples)[:, None]
    wave = np.sin(t / rng.uniform(3, 30, channels) + rng.uniform(0, 6, channels))
    drift = np.linspace(0, 2, samples)[:, None]
    return np.asarray(wave + drift + 0.3 * rng.normal(size=(samples, channels)))


def torch_loop(
    module: Any, series: Floats, window: int, decay: float, lr: float, tau: float
) -> tuple[Floats, Floats]:
    """Return scores and the final trend of Algorithm 1, written with autograd, float32."""
    optimiser = torch.optim.SGD(module.parameters(), lr=lr)
    trend = torch.zeros(series.shape[1], dtype=torch.float64)
    scores = []
    for at in range(0, len(series), window):
        x = torch.from_numpy(series[at : at + window])
        seen = ~torch.isnan(x)
        count = seen.sum(dim=0)
        mean = torch.where(seen, x, 0.0).sum(dim=0) / count.clamp(min=1)
        trend = torch.where(count > 0, decay * trend + (1 - decay) * mean, trend)
        entering = torch.where(seen, x - trend, 0.0).float()
        residual = module(entering.reshape(1, -1)).reshape(x.shape) - entering
        observed = seen.sum(dim=1)
        score = (torch.where(seen, residual**2, 0.0)).sum(dim=1) / observed.clamp(min=1)
        learnable = (observed > 0) & (score < tau)
        loss = (score * learnable).sum() / window
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        scores.append(torch.where(observed > 0, score, torch.nan).detach().double().numpy())
    return np.concatenate(scores), trend.numpy()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("threshold", [np.inf, 5.0])
def test_a_thousand_adapting_steps_equal_autograd(
    shape: tuple[int, int, int], missing: float, threshold: float
) -> None:
    window, channels, _ = shape
    model = MLP(*shape)
    start = model.initial_weights(np.random.default_rng(1))
    series = plant(1000 * window, channels)
    if threshold < np.inf:
        series[::7] += 6  # far above the threshold, as the others are far below
    if missing:
        series[np.random.default_rng(2).random(series.shape) < missing] = np.nan
        series[3 * window : 5 * window] = np.nan  # whole windows
        series[7 * window : 9 * window, 0] = np.nan  # a channel for whole windows
        series[::97] = np.nan  # whole samples
    decay, lr = 0.95, 0.05

    state = model.initial(start)
    params = StepParams(
        np.zeros(channels),
        np.ones(channels),
        start,
        window,
        threshold,
        threshold,
        decay,
        np.float32(lr),
    )
    out = blank_out(len(series), channels)
    model.advance(series, True, state, params, out)

    module = network(model, start)
    ref, trend = torch_loop(module, series, window, decay, lr, threshold)

    if threshold < np.inf:
        assert 0.1 < out.anomalous.mean() < 0.2  # both sides of the mask are in play
    assert state.step.counts[LEARNED] >= 900
    np.testing.assert_array_equal(np.isnan(out.scores), np.isnan(ref))
    np.testing.assert_allclose(out.scores, ref, rtol=1e-4)
    np.testing.assert_allclose(state.step.trend, trend, rtol=1e-9)
    weights = packed_parameters(model, module)
    moved = np.linalg.norm(weights - start)
    assert moved > 0.1
    assert np.linalg.norm(state.step.weights - weights) < 1e-4 * moved


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_training_equals_adamw_epoch_by_epoch(shape: tuple[int, int, int], missing: float) -> None:
    window, channels, _ = shape
    model = MLP(*shape)
    series = plant(60 * window + 2, channels)
    series -= series.mean(axis=0)
    if missing:
        series[np.random.default_rng(2).random(series.shape) < missing] = np.nan
    training = Training(stride=window, epochs=8, batch=16, seed=5)
    comp, losses = model.fit(series, training)

    rng = np.random.default_rng(training.seed)
    start = model.initial_weights(rng)
    module = network(model, start)
    optimiser = torch.optim.AdamW(module.parameters(), lr=training.lr, weight_decay=0)
    begins = [*range(0, len(series) - window + 1, window), len(series) - window]
    x = torch.from_numpy(np.stack([series[at : at + window] for at in begins]))
    seen = ~torch.isnan(x)
    entering = torch.where(seen, x, 0.0).float()
    ref_losses = []
    for _ in range(training.epochs):
        total = 0.0
        order = rng.permutation(len(begins))
        for at in range(0, len(order), training.batch):
            chosen = torch.from_numpy(order[at : at + training.batch])
            batch, there = entering[chosen], seen[chosen]
            residual = module(batch.reshape(len(batch), -1)).reshape(batch.shape) - batch
            squares = torch.where(there, residual**2, 0.0)
            loss = (squares.sum(dim=2) / there.sum(dim=2).clamp(min=1)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(batch)
        ref_losses.append(total / len(begins))

    np.testing.assert_allclose(losses, ref_losses, rtol=1e-4)
    assert losses[-1] == min(losses)  # so the weights kept are the last ones
    ref = packed_parameters(model, module)
    assert np.linalg.norm(comp - ref) < 1e-3 * np.linalg.norm(ref - start)


def test_untrained_weights_are_drawn_as_pytorch_draws_them() -> None:
    """Uniform within 1/sqrt(fan-in), matrices and biases alike."""
    model = MLP(12, 7, 8)
    packed = model.initial_weights(np.random.default_rng(0))
    torch.manual_seed(0)
    for matrix, bias in model.layers(packed):
        linear = torch.nn.Linear(*matrix.shape)
        bound = 1 / np.sqrt(matrix.shape[0])
        for comp, ref in ((matrix, linear.weight), (bias, linear.bias)):
            drawn = ref.detach().numpy()
            assert np.abs(comp).max() <= bound
            assert np.abs(drawn).max() <= bound
            assert abs(comp.std() - bound / np.sqrt(3)) < 4 * bound / np.sqrt(comp.size)
