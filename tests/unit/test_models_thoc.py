"""THOC's own formulas against slow obvious twins, and that it learns."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.deep import random_batch, torch, waves
from newnormal import M2N2
from newnormal.models.base import Training
from newnormal.models.deep.base import Batches, WindowBatch
from newnormal.models.deep.thoc import THOC, DilatedGRU
from newnormal.types import Floats

WINDOW, CHANNELS = 11, 3  # not a multiple of the dilations 2 and 4


@pytest.fixture
def batch() -> WindowBatch:
    return random_batch(4, WINDOW)


def gru_step(gru: DilatedGRU, x: Floats, before: Floats) -> Floats:
    """Cho et al. 2014, with the reset gate applied after the product as in PyTorch."""
    W, b = gru.given.weight.detach().double().numpy(), gru.given.bias.detach().double().numpy()
    U, c = gru.weight.detach().double().numpy().T, gru.bias.detach().double().numpy()
    (xr, xz, xn), (hr, hz, hn) = np.split(W @ x + b, 3), np.split(U @ before + c, 3)
    reset, update = 1 / (1 + np.exp(-(xr + hr))), 1 / (1 + np.exp(-(xz + hz)))
    new = np.tanh(xn + reset * hn)
    return np.asarray((1 - update) * new + update * before)


def naive_scales(model: THOC, window: Floats) -> list[Floats]:
    scales, below = [], window
    for layer, dilation in zip(model.network.layers, (1, 2, 4), strict=True):
        assert isinstance(layer, DilatedGRU)
        states: list[Floats] = []
        for t, x in enumerate(below):
            before = states[t - dilation] if t >= dilation else np.zeros(64)
            states.append(gru_step(layer, x, before))
        below = np.array(states)
        scales.append(below)
    return scales


def cosine(a: Floats, b: Floats) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def naive_score(model: THOC, window: Floats) -> float:
    """Return the score of a window, with a model in double precision."""
    network = model.network.double()
    endings = [states[-1] for states in naive_scales(model, window)]
    features, reached, score = [endings[0]], [1.0], 0.0
    for level in range(3):
        centers = network.centers[level].detach().double().numpy()
        cosines = [[cosine(f, c) for c in centers] for f in features]
        assigned = [[math.exp(v) / sum(map(math.exp, row)) for v in row] for row in cosines]
        reached = [sum(r * a[j] for r, a in zip(reached, assigned, strict=True)) for j in range(6)]
        assert sum(reached) == pytest.approx(1)
        parts = [reached[j] * (1 - row[j]) for row in cosines for j in range(6)]
        score += sum(parts) / len(parts) / 3
        if level == 2:
            break
        change: Any = network.maps[level]
        mapped = [np.maximum(change(torch.from_numpy(f)).detach().numpy(), 0) for f in features]
        features = [
            np.sum([a[j] * m for a, m in zip(assigned, mapped, strict=True)], axis=0)
            for j in range(6)
        ]
        joined = [np.concatenate([f, endings[level + 1]]) for f in features]
        features = [network.merge(torch.from_numpy(f)).detach().numpy() for f in joined]
    return score


def test_recurrence_is_pytorchs_gru_where_nothing_is_skipped(batch: WindowBatch) -> None:
    torch.manual_seed(0)
    own, ref = DilatedGRU(CHANNELS, 7), torch.nn.GRU(CHANNELS, 7, batch_first=True)
    with torch.no_grad():
        ref.weight_ih_l0.copy_(own.given.weight)
        ref.bias_ih_l0.copy_(own.given.bias)
        ref.weight_hh_l0.copy_(own.weight.T)
        ref.bias_hh_l0.copy_(own.bias)
    x, twin = batch.windows.clone().requires_grad_(), batch.windows.clone().requires_grad_()
    pull = torch.randn(4, WINDOW, 7)
    states, expected = own(x, 1), ref(twin)[0]
    torch.testing.assert_close(states, expected)
    (states * pull).sum().backward()
    (expected * pull).sum().backward()
    torch.testing.assert_close(x.grad, twin.grad)
    torch.testing.assert_close(own.weight.grad, ref.weight_hh_l0.grad.T)
    torch.testing.assert_close(own.bias.grad, ref.bias_hh_l0.grad)
    torch.testing.assert_close(own.given.weight.grad, ref.weight_ih_l0.grad)


@pytest.mark.parametrize("dilation", [1, 2, 4, 20])
def test_gradient_of_the_dilated_recurrence_is_that_of_its_differences(dilation: int) -> None:
    torch.manual_seed(1)
    gru = DilatedGRU(2, 5)
    x = torch.randn(2, 9, 2)
    pull = torch.randn(2, 9, 5)

    def loss() -> Any:
        return (gru(x, dilation) * pull).sum()

    gradients = torch.autograd.grad(loss(), list(gru.parameters()))
    for parameter, gradient in zip(gru.parameters(), gradients, strict=True):
        flat = parameter.data.view(-1)
        for at in (0, len(flat) // 2, len(flat) - 1):
            kept = flat[at].item()
            flat[at] = kept + 1e-2
            above = loss().item()
            flat[at] = kept - 1e-2
            below = loss().item()
            flat[at] = kept
            slope = (above - below) / 2e-2
            assert gradient.view(-1)[at].item() == pytest.approx(slope, abs=2e-3, rel=2e-2)


def test_each_layer_reaches_back_by_its_dilation(batch: WindowBatch) -> None:
    model = THOC(WINDOW, CHANNELS, latent=4)
    comp = model.network.scales(batch.windows)
    for b in range(2):
        ref = naive_scales(model, batch.windows[b].double().numpy())
        for scale, expected in zip(comp, ref, strict=True):
            np.testing.assert_allclose(scale[b].detach().numpy(), expected, atol=2e-6)


@pytest.mark.parametrize("window", [1, 2, 3, 8, 11, 100])
def test_endings_are_the_last_states_of_all_scales(window: int) -> None:
    network = THOC(window, CHANNELS, latent=4).network
    windows = torch.randn(2, window, CHANNELS, generator=torch.Generator().manual_seed(0))
    for scale, ending in zip(network.scales(windows), network.endings(windows), strict=True):
        torch.testing.assert_close(ending, scale[:, -1])


def test_score_is_the_distance_from_the_centres(batch: WindowBatch) -> None:
    model = THOC(WINDOW, CHANNELS, latent=4)
    with torch.no_grad():
        comp = model.judge(batch).scores
    for b in range(2):
        ref = naive_score(model, batch.windows[b].double().numpy())
        np.testing.assert_allclose(comp[b].numpy(), ref, rtol=1e-5)


def test_assignments_to_clusters_sum_to_one(batch: WindowBatch) -> None:
    network = THOC(WINDOW, CHANNELS, latent=4).network
    levels = list(network.levels(network.endings(batch.windows)))
    assert [tuple(level.cosines.shape) for level in levels] == [(4, 1, 6), (4, 6, 6), (4, 6, 6)]
    for level in levels:
        torch.testing.assert_close(level.reached.sum(-1), torch.ones(4))
        torch.testing.assert_close(level.assigned.sum(-1), torch.ones(level.cosines.shape[:2]))


def test_orthonormal_centres_do_not_overlap() -> None:
    network = THOC(WINDOW, CHANNELS, latent=4).network
    assert network.overlap().item() > 0.1
    for centers in network.centers:
        torch.nn.init.orthogonal_(centers)
    assert network.overlap().item() == pytest.approx(0, abs=1e-5)
    with torch.no_grad():
        network.centers[1].mul_(math.sqrt(2))  # C·Cᵀ - I is then I, whose norm is √6
    assert network.overlap().item() == pytest.approx(math.sqrt(6) / 3, rel=1e-4)


def test_surprise_is_the_error_of_predicting_one_dilation_ahead(batch: WindowBatch) -> None:
    network = THOC(WINDOW, CHANNELS, latent=4).network
    there = batch.there.clone()
    there[0, 5, 1] = 0
    scales = network.scales(batch.windows)
    errors = []
    for scale, ahead, predict in zip(scales, (1, 2, 4), network.predictors, strict=True):
        squares = []
        for b in range(4):
            for t in range(WINDOW - ahead):
                gaps = (predict(scale[b, t]) - batch.windows[b, t + ahead]).square()
                squares += gaps[there[b, t + ahead] > 0].tolist()
        errors.append(np.mean(squares))
    comp = network.surprise(scales, WindowBatch(batch.windows, there)).item()
    assert comp == pytest.approx(np.mean(errors), rel=1e-5)


def test_adaptation_descends_on_the_last_samples_score_alone(batch: WindowBatch) -> None:
    model = THOC(WINDOW, CHANNELS, latent=4)
    errors, judged = model.errors(batch), model.judge(batch)
    assert judged.reconstruction is None
    assert (errors[:, :-1] == 0).all()
    torch.testing.assert_close(errors[:, -1], judged.scores[:, -1])
    before = errors.sum()
    parameters = list(model.network.parameters())
    gradients = torch.autograd.grad(before, parameters, allow_unused=True)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                parameter.sub_(gradient, alpha=1e-2)
    assert model.errors(batch).sum().item() < before.item()


def test_training_moves_every_weight_and_lowers_the_loss() -> None:
    history = waves(120, 0)
    model = THOC(WINDOW, CHANNELS, latent=4)
    training = Training(stride=1, epochs=3, batch=8, seed=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        untrained = dict(model.build().named_parameters())
    _, losses = model.fit(history, training)
    for name, parameter in model.network.named_parameters():
        assert (parameter != untrained[name]).float().mean() > 0.5, name
    assert losses[-1] < 0.6 * losses[0]


def test_trained_beats_untrained() -> None:
    live = waves(300, 1)
    odd = np.arange(20, 300, 30)
    live[odd] += np.random.default_rng(2).normal(0, 3, (len(odd), CHANNELS))
    labels = np.isin(np.arange(300), odd)[WINDOW - 1 :]
    training = Training(stride=1, epochs=3, batch=8, seed=0)
    (batch,) = Batches(live, WINDOW, replace(training, batch=300)).epoch(shuffled=False)

    def pairs_in_order(model: THOC) -> float:
        with torch.no_grad():
            scores = model.judge(batch).scores[:, -1].numpy()
        assert len(np.unique(scores)) > 250
        return float((scores[labels][:, None] > scores[~labels]).mean())

    model = THOC(WINDOW, CHANNELS, latent=4)
    untrained = pairs_in_order(model)
    model.fit(waves(300, 0), training)
    assert pairs_in_order(model) > max(untrained, 0.7)


def test_a_sample_has_the_score_of_the_window_it_ends_and_the_first_ones_the_first_windows() -> (
    None
):
    series = waves(40, 1)
    detector = M2N2(
        window=WINDOW, stride=1, fit_stride=1, model="thoc", epochs=1, detrend=False, adapt=False
    ).fit(waves(60, 0))
    verdicts = detector.score_frozen(series)
    assert verdicts.expected is None
    assert verdicts.shares is None
    assert (verdicts.scores[:WINDOW] == verdicts.scores[0]).all()
    for end in (WINDOW, 25, 40):
        alone = detector.score_frozen(series[end - WINDOW : end]).scores
        np.testing.assert_allclose(verdicts.scores[end - 1], alone, rtol=1e-6)
