"""The Anomaly Transformer's own formulas against slow obvious twins, and that it learns."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.deep import random_batch, torch, waves
from newnormal.models.base import Training
from newnormal.models.deep.base import Batches, WindowBatch
from newnormal.models.deep.transformer import AnomalyTransformer, divergence, prior_association
from newnormal.types import Floats

WINDOW, CHANNELS = 10, 3


@pytest.fixture
def model() -> AnomalyTransformer:
    return AnomalyTransformer(WINDOW, CHANNELS, latent=4)


@pytest.fixture
def batch() -> WindowBatch:
    return random_batch(2, WINDOW)


def naive_prior(widths: Floats) -> Floats:
    """Gaussian densities around each sample, each row divided by its sum."""
    L = len(widths)
    rows = np.empty((L, L))
    for i in range(L):
        for j in range(L):
            density = math.exp(-((i - j) ** 2) / (2 * widths[i] ** 2))
            rows[i, j] = density / (math.sqrt(2 * math.pi) * widths[i])
        rows[i] /= rows[i].sum()
    return rows


def naive_divergence(p: Floats, q: Floats) -> float:
    terms = [a * math.log((a + 1e-4) / (b + 1e-4)) for a, b in zip(p, q, strict=True)]
    return math.fsum(terms)


def test_prior_association_is_a_rescaled_gaussian_around_each_sample() -> None:
    widths = np.random.default_rng(0).uniform(0.2, 2, 6)
    comp = prior_association(torch.from_numpy(widths)[None, None])[0, 0].numpy()
    np.testing.assert_allclose(comp, naive_prior(widths), rtol=1e-10, atol=1e-14)


def test_prior_association_of_no_width_is_the_sample_itself() -> None:
    widths = torch.full((1, 1, 4), 1e-5, requires_grad=True)
    prior = prior_association(widths)
    np.testing.assert_array_equal(prior[0, 0].detach().numpy(), np.eye(4))
    (gradient,) = torch.autograd.grad(prior.sum(), widths)
    assert torch.isfinite(gradient).all()


def test_divergence_is_kullback_and_leiblers() -> None:
    p, q = np.random.default_rng(1).dirichlet(np.ones(5), size=2)
    comp = divergence(torch.from_numpy(p), torch.from_numpy(q)).item()
    assert comp == pytest.approx(naive_divergence(p, q))
    assert divergence(torch.from_numpy(p), torch.from_numpy(p)).item() == 0


def test_associations_are_distributions(model: AnomalyTransformer, batch: WindowBatch) -> None:
    made, associations = model.network(batch.windows)
    assert made.shape == batch.windows.shape
    assert len(associations) == 3
    for association in associations:
        for each in association:
            assert each.shape == (2, 8, WINDOW, WINDOW)
            assert (each >= 0).all()
            torch.testing.assert_close(each.sum(-1), torch.ones(2, 8, WINDOW))


def test_score_is_the_error_times_a_softmax(model: AnomalyTransformer, batch: WindowBatch) -> None:
    with torch.no_grad():
        judged = model.judge(batch)
        made, associations = model.network(batch.windows)
    ref = np.empty((2, WINDOW))
    for b in range(2):
        discrepancy = np.zeros(WINDOW)
        for prior, series in associations:
            P, S = prior[b].double().numpy(), series[b].double().numpy()
            for at in range(WINDOW):
                heads = [
                    naive_divergence(P[h, at], S[h, at]) + naive_divergence(S[h, at], P[h, at])
                    for h in range(8)
                ]
                discrepancy[at] += np.mean(heads)
        weights = np.exp(-50 * (discrepancy - discrepancy.min()))
        weights /= weights.sum()
        ref[b] = weights * ((made[b] - batch.windows[b]) ** 2).mean(-1).numpy()
    np.testing.assert_allclose(judged.scores.numpy(), ref, rtol=2e-3, atol=1e-7)
    torch.testing.assert_close(judged.reconstruction, made)


def test_attention_is_drawn_from_the_prior_and_the_prior_to_the_attention(
    model: AnomalyTransformer, batch: WindowBatch
) -> None:
    def discrepancy() -> float:
        _, associations = model.network(batch.windows)
        both = [divergence(p, s) + divergence(s, p) for p, s in associations]
        return float(torch.stack(both).mean().item())

    before = discrepancy()
    loss, _ = model._losses(batch)
    names = [name for name, _ in model.network.named_parameters()]
    gradients = torch.autograd.grad(loss, list(model.network.parameters()))
    by_name = dict(zip(names, gradients, strict=True))
    moves = {"sigma": -1, "query": 1}  # what a step on this part alone does to the discrepancy
    for part, sign in moves.items():
        chosen = {n: p for n, p in model.network.named_parameters() if part in n}
        with torch.no_grad():
            for name, parameter in chosen.items():
                parameter.sub_(by_name[name], alpha=1e-3)
        assert sign * (discrepancy() - before) > 0, part
        with torch.no_grad():
            for name, parameter in chosen.items():
                parameter.add_(by_name[name], alpha=1e-3)


def test_adaptation_descends_on_the_error(model: AnomalyTransformer, batch: WindowBatch) -> None:
    made, _ = model.network(batch.windows)
    expected = (made - batch.windows).square().mean(-1)
    torch.testing.assert_close(model.errors(batch), expected)
    gradients = torch.autograd.grad(
        model.errors(batch).sum(), list(model.network.parameters()), allow_unused=True
    )
    unused = {
        name
        for (name, _), gradient in zip(model.network.named_parameters(), gradients, strict=True)
        if gradient is None
    }
    assert unused == {
        f"layers.{layer}.attention.sigma.{kind}"
        for layer in range(3)
        for kind in ("weight", "bias")
    }


def test_a_missing_value_does_not_count(model: AnomalyTransformer, batch: WindowBatch) -> None:
    there = batch.there.clone()
    there[0, 4, 1] = 0
    windows = batch.windows * there
    made, _ = model.network(windows)
    squares = (made - windows).square()[0, 4].detach()
    comp = model.errors(WindowBatch(windows, there))[0, 4].item()
    assert comp == pytest.approx(float(squares[[0, 2]].mean()))


def test_rate_is_halved_each_epoch_after_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    adam_step = torch.optim.Adam.step

    def noted(self: Any) -> None:
        rates.append(self.param_groups[0]["lr"])
        adam_step(self)

    monkeypatch.setattr(torch.optim.Adam, "step", noted)
    model = AnomalyTransformer(WINDOW, CHANNELS, latent=4)
    model.fit(waves(WINDOW, 0), Training(stride=WINDOW, epochs=4, batch=1, seed=0))
    assert rates == [1e-3, 1e-3, 5e-4, 2.5e-4]


def test_training_moves_every_weight_and_lowers_the_error() -> None:
    history = waves(400, 0)
    training = Training(stride=WINDOW, epochs=4, batch=4, seed=1)
    model = AnomalyTransformer(WINDOW, CHANNELS, latent=4)
    untrained = torch.cat([p.detach().flatten().clone() for p in model.network.parameters()])
    batch = next(Batches(history, WINDOW, training).epoch(shuffled=False))
    before = model.errors(batch).mean().item()
    fitted, losses = model.fit(history, training)
    assert (fitted != untrained.numpy()).mean() > 0.99
    assert losses[-1] < 0.5 * losses[0]
    assert model.errors(batch).mean().item() < 0.5 * before


def test_trained_beats_untrained() -> None:
    live = waves(300, 1)
    rng = np.random.default_rng(2)
    odd = rng.choice(300, 12, replace=False)
    live[odd] += rng.normal(0, 3, (12, CHANNELS))
    normal = np.setdiff1d(np.arange(300), odd)
    training = Training(stride=WINDOW, epochs=6, batch=4, seed=2)
    (batch,) = Batches(live, WINDOW, replace(training, batch=30)).epoch(shuffled=False)

    def pairs_in_order(values: Any) -> float:
        # A tie counts half: the softmax leaves nothing of most scores in single precision.
        ours, others = values.flatten()[odd][:, None], values.flatten()[normal]
        return float((ours > others).mean() + (ours == others).mean() / 2)

    def judged(model: AnomalyTransformer) -> tuple[float, float]:
        with torch.no_grad():
            errors, scores = model.errors(batch).numpy(), model.judge(batch).scores.numpy()
        assert len(np.unique(scores)) > 20
        return pairs_in_order(errors), pairs_in_order(scores)

    model = AnomalyTransformer(WINDOW, CHANNELS, latent=4)
    untrained_errors, untrained_scores = judged(model)
    model.fit(waves(400, 0), training)
    errors, scores = judged(model)
    assert errors > max(untrained_errors, 0.99)
    assert scores > untrained_scores + 0.05
