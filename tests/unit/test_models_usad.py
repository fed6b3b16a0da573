"""USAD: its losses, its score, and that it learns."""

from typing import Any

import numpy as np
import pytest

from tests.deep import torch
from newnormal import M2N2
from newnormal.models.base import Training
from newnormal.models.deep.base import Batches, WindowBatch
from newnormal.models.deep.usad import USAD
from newnormal.types import Floats

WINDOW, CHANNELS = 4, 3


@pytest.fixture
def model() -> USAD:
    return USAD(WINDOW, CHANNELS, latent=5)


@pytest.fixture
def batch() -> WindowBatch:
    windows = torch.rand(6, WINDOW, CHANNELS, generator=torch.Generator().manual_seed(0))
    return WindowBatch(windows, torch.ones_like(windows))


def parts(model: USAD, x: Any) -> tuple[Any, Any, Any]:
    """AE1(x), AE2(x) and AE2(AE1(x)), spelled out."""
    network: Any = model.network
    encoder, one, two = (network[name] for name in ("encoder", "decoder1", "decoder2"))
    flat = x.flatten(1)
    first, second = one(encoder(flat)), two(encoder(flat))
    again = two(encoder(first))
    return first.view_as(x), second.view_as(x), again.view_as(x)


def levels(samples: int, seed: int) -> Floats:
    """Sensors that are at the top of their range, all but a tenth of the time."""
    rng = np.random.default_rng(seed)
    up = rng.random(samples // 10) > 0.1
    level = np.repeat(up, 10)[:, None] + 0.03 * rng.normal(size=(samples, CHANNELS))
    return np.asarray(level)


def test_widths_are_the_mlps_and_the_decoders_end_in_a_sigmoid() -> None:
    network = USAD(12, 55, latent=128).network
    shapes = {name: tuple(each.shape) for name, each in network.named_parameters()}
    assert [shapes[f"encoder.{at}.weight"][::-1] for at in (0, 2, 4)] == [
        (660, 330),
        (330, 165),
        (165, 128),
    ]
    for decoder in ("decoder1", "decoder2"):
        widths = [shapes[f"{decoder}.{at}.weight"][::-1] for at in (0, 2, 4)]
        assert widths == [(128, 165), (165, 330), (330, 660)]
    assert sum(each.numel() for each in network.parameters()) == 883_043  # the paper's 3.53 MB


def test_score_weighs_both_residuals(model: USAD, batch: WindowBatch) -> None:
    first, _, again = parts(model, batch.windows)
    x = batch.windows
    ref = 0.1 * ((x - first) ** 2).mean(-1) + 0.9 * ((x - again) ** 2).mean(-1)
    judged = model.judge(batch)
    torch.testing.assert_close(judged.scores, ref)
    assert judged.reconstruction is not None
    torch.testing.assert_close(judged.reconstruction, first)
    assert ((judged.reconstruction > 0) & (judged.reconstruction < 1)).all()


@pytest.mark.parametrize("epoch", [1, 2, 10])
def test_losses_move_towards_the_contest(model: USAD, batch: WindowBatch, epoch: int) -> None:
    x = batch.windows
    one, two, contest = (((x - made) ** 2).mean() for made in parts(model, x))
    first, second = model._losses(batch, epoch)
    torch.testing.assert_close(first, one / epoch + (1 - 1 / epoch) * contest)
    torch.testing.assert_close(second, two / epoch - (1 - 1 / epoch) * contest)


def test_adaptation_descends_on_both_reconstructions(model: USAD, batch: WindowBatch) -> None:
    x = batch.windows
    first, second, _ = parts(model, x)
    ref = (((x - first) ** 2).mean(-1) + ((x - second) ** 2).mean(-1)) / 2
    torch.testing.assert_close(model.errors(batch), ref)


def test_a_missing_value_does_not_count(model: USAD, batch: WindowBatch) -> None:
    there = batch.there.clone()
    there[0, 1, 2] = 0
    partly = WindowBatch(batch.windows * there, there)
    first, _, again = parts(model, partly.windows)
    seen = partly.windows[0, 1, :2]
    ref = (
        0.1 * ((seen - first[0, 1, :2]) ** 2).mean() + 0.9 * ((seen - again[0, 1, :2]) ** 2).mean()
    )
    torch.testing.assert_close(model.judge(partly).scores[0, 1], ref)


def test_history_is_scaled_to_between_0_and_1_and_the_trend_counts_from_its_mean() -> None:
    history = levels(200, 0) * 50 + 1000
    detector = M2N2(model="usad", window=WINDOW, epochs=1, decay=0.0, lr=0.0).fit(history)
    scaled = (history - detector._fitted.step.mean) / detector._fitted.step.scale
    np.testing.assert_allclose(scaled.min(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.max(axis=0), 1)
    # A stream that stands at history's mean has no trend to subtract.
    detector.run(np.repeat(history.mean(axis=0)[None], 8, axis=0))
    np.testing.assert_allclose(detector._state.model.step.trend, 0, atol=1e-12)


def test_detrending_takes_out_a_lasting_shift_that_freezing_alarms_at() -> None:
    history, later = levels(400, 0), levels(400, 1) + 2.0
    options: dict[str, Any] = {"model": "usad", "window": WINDOW, "epochs": 5, "adapt": False}
    frozen = M2N2(**options, detrend=False).fit(history).run(later)
    following = M2N2(**options, decay=0.5).fit(history).run(later)
    assert frozen.anomalous[100:].mean() > 0.9
    assert following.anomalous[100:].mean() < 0.5


def test_the_last_epoch_is_kept() -> None:
    history = levels(200, 0)
    short, long = (
        USAD(WINDOW, CHANNELS, 5).fit(history, Training(stride=4, epochs=epochs, batch=8, seed=0))
        for epochs in (2, 3)
    )
    assert long[1][:2] == short[1]
    assert not np.array_equal(long[0], short[0])


def test_trained_beats_untrained() -> None:
    """A sensor half-way: untrained decoders give one half everywhere, and find it perfect."""
    series, labels = levels(400, 1), np.zeros(400, dtype=np.bool_)
    series[17::25, 1] = 0.5
    labels[17::25] = True

    def pairs_in_order(epochs: int) -> float:
        model = USAD(WINDOW, CHANNELS, 5)
        training = Training(stride=2, epochs=epochs, batch=16, seed=0, lr=0.01)
        scaler = model.scaler(levels(400, 0))
        model.fit(scaler.apply(levels(400, 0)), training)
        (batch,) = Batches(scaler.apply(series), WINDOW, Training(4, 1, 1000, 0)).epoch(False)
        with torch.no_grad():
            scores = model.judge(batch).scores.flatten().numpy()
        return float((scores[labels][:, None] > scores[~labels]).mean())

    assert pairs_in_order(0) < 0.3
    assert pairs_in_order(10) > 0.8
