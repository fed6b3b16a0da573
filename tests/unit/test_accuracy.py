"""Given nothing, the detector finds more than at fixed settings, on a plant that changes."""

from __future__ import annotations

from typing import Any

import pytest

from newnormal import M2N2, Detector, metrics
from newnormal.datasets import Dataset, plant

pytest.importorskip("sklearn")

# Rows of `newnormal reproduce drift`.
FIXED: dict[str, dict[str, Any]] = {
    "frozen": {"detrend": False, "adapt": False},
    "short memory": {"decay": 0.8, "lr": 0.1},
    "longer memory": {"decay": 0.99, "lr": 0.05},
    "long memory": {"decay": 0.999, "lr": 0.005},
}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return plant(seed=1, history=4320, live=5760)


@pytest.fixture(scope="module")
def given_nothing(data: Dataset) -> float:
    verdicts = Detector().fit(data.train).run(data.test)
    return metrics.auprc(data.labels, verdicts.scores)


@pytest.mark.parametrize("name", FIXED)
def test_given_nothing_it_ranks_anomalies_higher_than_at_any_fixed_setting(
    data: Dataset, given_nothing: float, name: str
) -> None:
    detector = M2N2(window=5, latent=16, threshold=0.99, **FIXED[name]).fit(data.train)
    assert given_nothing > metrics.auprc(data.labels, detector.run(data.test).scores) + 0.05


def test_given_nothing_it_is_far_better_than_chance(data: Dataset, given_nothing: float) -> None:
    assert given_nothing > 4 * data.labels.mean()
