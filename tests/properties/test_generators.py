"""Every generator, for a thousand seeds, makes data that a detector can be judged by."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from newnormal.datasets import Dataset, neurips_ts_mul, neurips_ts_uni, plant

SEEDS = range(1_000)
ALL_KINDS = ("global", "contextual", "shapelet", "seasonal", "trend")


@pytest.mark.parametrize(
    ("make", "train", "test", "channels"),
    [
        pytest.param(partial(neurips_ts_uni, length=200), 200, 200, 1, id="neurips_ts_uni"),
        pytest.param(
            partial(neurips_ts_uni, length=200, kinds=ALL_KINDS), 200, 200, 1, id="all kinds"
        ),
        pytest.param(partial(neurips_ts_mul, length=200), 200, 200, 5, id="neurips_ts_mul"),
        pytest.param(partial(plant, history=120, live=640, anomalies=8), 120, 640, 6, id="plant"),
    ],
)
def test_a_thousand_seeds_all_have_anomalies_and_normal_samples(
    make: Callable[..., Dataset], train: int, test: int, channels: int
) -> None:
    for seed in SEEDS:
        data = make(seed=seed)
        assert data.train.shape == (train, channels), seed
        assert data.test.shape == (test, channels), seed
        assert np.isfinite(data.train).all(), seed
        assert np.isfinite(data.test).all(), seed
        assert 0 < data.labels.sum() < test / 2, seed
        assert all(0 <= shift < test for shift in data.shifts), seed
        assert np.isin(data.labels, (0, 1)).all(), seed


def test_a_thousand_plants_all_have_anomalies_after_the_last_shift() -> None:
    for seed in SEEDS:
        data = plant(seed=seed, history=120, live=640, anomalies=8)
        assert data.labels[data.shifts[-1] :].any(), seed
        assert data.labels[: data.shifts[0]].any(), seed
