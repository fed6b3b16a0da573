"""The LSTM encoder-decoder: its network, and its two scores."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.deep import torch
from newnormal import M2N2
from newnormal.models.base import Training
from newnormal.models.deep.base import Batches, WindowBatch
from newnormal.models.deep.lstm import LSTM, DiagonalLSTM
from newnormal.types import Floats

WINDOW, CHANNELS = 4, 3
ONE_EPOCH = Training(stride=WINDOW, epochs=1, batch=16, seed=0)


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "full_size" not in request.fixturenames:
        monkeypatch.setattr(LSTM, "hidden", 8)


@pytest.fixture
def full_size() -> None:
    """Leave the network as wide as it is."""


def series(samples: int, seed: int) -> Floats:
    """Three channels, the errors of two of which go together."""
    values = np.random.default_rng(seed).normal(size=(samples, CHANNELS))
    values[:, 1] = values[:, 0] + 0.3 * values[:, 1]
    return values


def all_of(values: Floats) -> WindowBatch:
    (batch,) = Batches(values, WINDOW, Training(WINDOW, 1, 10_000, 0)).epoch(shuffled=False)
    return batch


def residuals(model: LSTM, values: Floats) -> Floats:
    """Residuals (T, C) of a series without a remainder, NaN where missing."""
    batch = all_of(values)
    with torch.no_grad():
        made = model.network(batch.windows).flatten(0, 1).numpy()
    return np.asarray(np.where(np.isnan(values), np.nan, made.astype(float) - values))


def judged(model: LSTM, values: Floats) -> Floats:
    with torch.no_grad():
        return np.asarray(model.judge(all_of(values)).scores.flatten().numpy())


def test_size_is_the_papers(full_size: None) -> None:
    model = LSTM(12, 55, latent=16)
    assert model.size == 724_919  # the paper's 2.90 MB
    network: Any = model.network
    assert network.encoder.num_layers == network.decoder.num_layers == 3
    assert network.encoder.dropout == network.decoder.dropout == 0.1


def test_decoder_writes_the_window_backwards_from_nothing_but_the_encoders_state() -> None:
    network: Any = LSTM(WINDOW, CHANNELS, 1).network
    windows = torch.randn(2, WINDOW, CHANNELS, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        made = network(windows)
        _, state = network.encoder(windows)
        given = torch.zeros(2, 1, CHANNELS)
        for at in reversed(range(WINDOW)):
            hidden, state = network.decoder(given, state)
            given = network.output(hidden)
            torch.testing.assert_close(made[:, at : at + 1], given)


def test_score_is_the_mahalanobis_distance_of_the_absolute_errors() -> None:
    history, later = series(200, 0), series(40, 1)
    model = LSTM(WINDOW, CHANNELS, 1)
    model.fit(history, ONE_EPOCH)
    errors, new = np.abs(residuals(model, history)), np.abs(residuals(model, later))
    deviations = new - errors.mean(axis=0)
    inverse = np.linalg.inv(np.cov(errors.T, bias=True))
    ref = np.einsum("tc,cd,td->t", deviations, inverse, deviations) / CHANNELS
    np.testing.assert_allclose(judged(model, later), ref, rtol=1e-2, atol=1e-3)  # but for the ridge


def test_score_of_the_errors_of_history_is_one_on_average() -> None:
    history = series(400, 0)
    model = LSTM(WINDOW, CHANNELS, 1)
    model.fit(history, ONE_EPOCH)
    assert judged(model, history).mean() == pytest.approx(1, abs=0.01)


def test_errors_that_break_their_company_score_higher_than_larger_ones_that_keep_it() -> None:
    model = LSTM(WINDOW, CHANNELS, 1)
    model.error_covariance = torch.tensor([[1.0, 0.9, 0], [0.9, 1, 0], [0, 0, 1]]).double()
    errors = torch.tensor([[2.0, 2.0, 0.0], [1.5, 0.0, 0.0]]).double()
    together, alone = model._distances(errors, torch.ones_like(errors)).tolist()
    assert alone > together
    diagonal = DiagonalLSTM(WINDOW, CHANNELS, 1)
    diagonal.error_covariance = model.error_covariance
    together, alone = diagonal._distances(errors, torch.ones_like(errors)).tolist()
    assert alone < together


def test_missing_channels_leave_the_distance_of_the_others() -> None:
    history, later = series(200, 0), series(40, 1)
    model = LSTM(WINDOW, CHANNELS, 1)
    model.fit(history, ONE_EPOCH)
    later[5, 1] = later[6, :2] = np.nan
    new = np.abs(residuals(model, later))
    scores = judged(model, later)
    for row, seen in ((5, [0, 2]), (6, [2]), (7, [0, 1, 2])):
        deviations = (new[row] - model.error_mean.numpy())[seen]
        inverse = np.linalg.inv(model.error_covariance.numpy()[np.ix_(seen, seen)])
        ref = deviations @ inverse @ deviations / len(seen)
        assert scores[row] == pytest.approx(ref, rel=2e-2, abs=1e-3)


def test_a_channel_that_never_moved_and_one_that_repeats_another_give_finite_scores() -> None:
    history = series(200, 0)
    history[:, 1], history[:, 2] = 0.0, history[:, 0]
    for kind in (LSTM, DiagonalLSTM):
        model = kind(WINDOW, CHANNELS, 1)
        model.fit(history, ONE_EPOCH)
        moved = history[:40].copy()
        moved[30, 1] = 1.0
        scores = judged(model, moved)
        assert np.isfinite(scores).all()
        assert scores[30] > 2 * np.delete(scores, 30).max()


def test_missing_values_in_history_do_not_enter_mean_and_covariance() -> None:
    history = series(400, 0)
    history[::7, 0] = np.nan
    model = LSTM(WINDOW, CHANNELS, 1)
    model.fit(history, ONE_EPOCH)
    errors = np.abs(residuals(model, history))
    np.testing.assert_allclose(model.error_mean.numpy(), np.nanmean(errors, axis=0), rtol=1e-6)
    variances = model.error_covariance.diagonal().numpy()
    np.testing.assert_allclose(variances, np.nanvar(errors, axis=0), rtol=1e-5)


def test_the_diagonal_score_is_the_reference_codes() -> None:
    history, later = series(200, 0), series(40, 1)
    model = DiagonalLSTM(WINDOW, CHANNELS, 1)
    model.fit(history, ONE_EPOCH)
    errors, new = residuals(model, history) ** 2, residuals(model, later) ** 2
    inverse = np.linalg.pinv(np.cov(errors.T, bias=True))
    ref = ((new - errors.mean(axis=0)) ** 2 * np.diag(inverse)).mean(axis=1)
    np.testing.assert_allclose(judged(model, later), ref, rtol=1e-4, atol=1e-6)


def test_both_scores_are_of_the_same_network() -> None:
    history = series(200, 0)
    (one, _), (other, _) = (
        kind(WINDOW, CHANNELS, 1).fit(history, ONE_EPOCH) for kind in (LSTM, DiagonalLSTM)
    )
    np.testing.assert_array_equal(one, other)


def test_mean_and_covariance_of_the_errors_are_in_the_state_file(tmp_path: Path) -> None:
    detector = M2N2(model="lstm", window=WINDOW, epochs=1).fit(series(100, 0))
    detector.save(tmp_path / "detector.nn")
    model, loaded = detector._model, M2N2.load(tmp_path / "detector.nn")._model
    assert isinstance(model, LSTM)
    assert isinstance(loaded, LSTM)
    torch.testing.assert_close(loaded.error_mean, model.error_mean, rtol=0, atol=0)
    torch.testing.assert_close(loaded.error_covariance, model.error_covariance, rtol=0, atol=0)
    assert model.error_mean.abs().sum() > 0


def test_there_is_dropout_in_training_and_none_afterwards() -> None:
    model = LSTM(WINDOW, CHANNELS, 1)
    model.fit(series(100, 0), ONE_EPOCH)
    batch = all_of(series(40, 1))
    torch.testing.assert_close(model.errors(batch), model.errors(batch), rtol=0, atol=0)
    model.network.train()
    assert not torch.equal(model.errors(batch), model.errors(batch))
