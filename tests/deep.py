"""What tests of the deep models share; they are skipped without PyTorch."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra deep")

from newnormal import M2N2  # noqa: E402 - after the check that PyTorch is there
from newnormal.models import find  # noqa: E402
from newnormal.models.deep.base import WindowBatch  # noqa: E402
from newnormal.types import Bools, Floats  # noqa: E402
from tests.naive_metrics import auroc  # noqa: E402

# Two threads never help at these sizes, and on a busy machine they wait for each other.
torch.set_num_threads(1)


def waves(samples: int, seed: int) -> Floats:
    """Three noisy sines."""
    noise = np.random.default_rng(seed).normal(0, 0.05, (samples, 3))
    return np.sin(np.arange(samples)[:, None] / 4 + np.arange(3)) + noise


def random_batch(count: int, window: int) -> WindowBatch:
    """Windows of three channels, with nothing missing."""
    values = np.random.default_rng(3).normal(size=(count, window, 3)).astype(np.float32)
    windows = torch.from_numpy(values)
    return WindowBatch(windows, torch.ones_like(windows))


def assert_it_learns(
    model: str,
    history: Floats,
    live: tuple[Floats, Bools],
    *,
    batch: int,
    less_loss: float,
    found: float,
) -> None:
    """Train a model: weights move, the loss falls, and it finds what it did not before."""
    series, labels = live
    trained = M2N2(model=model, window=5, adapt=False, detrend=False, epochs=8, batch=batch)
    trained.fit(history)
    judged = trained.run(series).scores
    untrained = find(model)(5, series.shape[1], 16)._packed()  # type: ignore[attr-defined]
    assert trained.losses_[-1] < less_loss * trained.losses_[0]
    assert (trained._fitted.step.fitted != untrained).mean() > 0.9
    assert np.unique(judged).size > 0.6 * len(series)
    step = trained._fitted.step._replace(fitted=untrained)
    trained._fitted = replace(trained._fitted, step=step)
    before = trained.reset().run(series).scores
    assert auroc(labels, judged) > max(found, auroc(labels, before) + 0.1)
