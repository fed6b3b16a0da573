"""Given nothing, the detector ranks anomalies about as well as the best model that stays as it is.

The figures on many streams are those of `newnormal reproduce drift`; this fails where one commit
loses much of them.
"""

import pytest

from newnormal import M2N2, Detector, metrics
from newnormal.datasets import Dataset, plant

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return plant(seed=1, history=4320, live=5760)


@pytest.fixture(scope="module")
def given_nothing(data: Dataset) -> float:
    return metrics.auprc(data.labels, Detector().fit(data.train).run(data.test).scores)


def test_given_nothing_it_is_not_below_a_frozen_model(data: Dataset, given_nothing: float) -> None:
    frozen = M2N2(window=5, latent=16, detrend=False, adapt=False).fit(data.train)
    assert given_nothing > metrics.auprc(data.labels, frozen.run(data.test).scores) - 0.02


def test_given_nothing_it_is_far_better_than_chance(data: Dataset, given_nothing: float) -> None:
    assert given_nothing > 3 * data.labels.mean()
