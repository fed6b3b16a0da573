"""Values beyond all bounds: scores and expected values stay numbers, and accepting mends them."""

from contextlib import suppress

import numpy as np
import pytest

from newnormal import M2N2, Detector, FeedbackError
from newnormal.base import BaseDetector
from newnormal.types import Floats
from tests.present import present

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore:no autoencoder learned anything"),
]


def waves(samples: int = 1200) -> Floats:
    noise = np.random.default_rng(0).normal(size=(samples, 3))
    values: Floats = np.sin(np.arange(samples)[:, None] / [9.0, 13.0, 17.0]) + 0.1 * noise
    return values


def fitted(kind: str, history: Floats) -> BaseDetector:
    made: dict[str, BaseDetector] = {
        "quantile": Detector(epochs=2, accept_after=100),
        "budget": Detector(epochs=2, accept_after=100, alarms_per_day=3),
        "m2n2": M2N2(window=5, epochs=2, accept_after=100),
    }
    return made[kind].fit(history)


KINDS = ("quantile", "budget", "m2n2")


@pytest.fixture(scope="module")
def detectors() -> dict[str, BaseDetector]:
    return {kind: fitted(kind, waves()) for kind in KINDS}


@pytest.mark.parametrize("shift", [1e10, 1e16, 1e100, -1e300])
@pytest.mark.parametrize("kind", KINDS)
def test_accepting_a_shift_of_any_size_mends_the_scores(
    detectors: dict[str, BaseDetector], kind: str, shift: float
) -> None:
    detector = detectors[kind].reset()
    live = waves()
    live[200:, 0] += shift
    detector.run(live[:300])
    detector.accept()
    for begin, end in ((300, 700), (700, 1200)):
        verdicts = detector.run(live[begin:end])
        assert np.isfinite(verdicts.scores).all()
        assert np.isfinite(present(verdicts.expected)).all()
    assert verdicts.anomalous.mean() < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_spikes_of_any_size_leave_numbers(detectors: dict[str, BaseDetector], kind: str) -> None:
    detector = detectors[kind].reset()
    rng = np.random.default_rng(1)
    live = waves()
    for _ in range(40):
        at, channel = rng.integers(100, 1100), rng.integers(3)
        size = 10.0 ** rng.uniform(3, 308) * rng.choice([-1, 1])
        live[at : at + rng.integers(1, 30), channel] = size
    for begin in range(0, 1200, 100):
        verdicts = detector.run(live[begin : begin + 100])
        assert np.isfinite(verdicts.scores).all()
        assert np.isfinite(present(verdicts.expected)).all()
        with suppress(FeedbackError):
            detector.accept()


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e300, 1.7e308])
@pytest.mark.parametrize("kind", KINDS)
def test_channels_next_to_nothing_or_infinity_are_like_others(kind: str, size: float) -> None:
    history = waves(600)
    history[:, 1] *= size / 2
    detector = fitted(kind, history)
    live = history.copy()
    live[200:, 0] += 5
    live[300:, 1] = live[300:, 1] + (1.0 if size < 1 else size * 0.4)
    detector.run(live[:400])
    with suppress(FeedbackError):
        detector.accept()
    verdicts = detector.run(live[400:])
    assert np.isfinite(verdicts.scores).all()
    assert np.isfinite(present(verdicts.expected)).all()
