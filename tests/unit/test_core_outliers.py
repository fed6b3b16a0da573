"""Values of history that are left out because they are far from all others."""

from __future__ import annotations

import numpy as np
import pytest

from newnormal import M2N2, Detector
from newnormal.core.outliers import ChannelOutliers, find_outliers, without
from newnormal.core.scaling import Scaler
from newnormal.errors import NewnormalWarning
from newnormal.types import Floats

COUNT = 10_080


def normal(seed: int = 0, channels: int = 2, count: int = COUNT) -> Floats:
    return np.random.default_rng(seed).normal(20, 2, (count, channels))


def naive(values: Floats) -> list[int]:
    """The slow twin: which samples of one channel are left out."""
    seen = [(abs(v - np.nanmedian(values)), n) for n, v in enumerate(values) if not np.isnan(v)]
    seen.sort(key=lambda each: -each[0])
    found: list[int] = []
    for j in range(1, max(1, len(seen) // 100) + 1):
        if seen[j][0] > 0 and seen[j - 1][0] >= 10 * seen[j][0]:
            found = sorted(n for _, n in seen[:j])
    return found


@pytest.mark.parametrize(
    ("samples", "value"),
    [([5000], 2e4), ([17], -9999.0), (list(range(100, 2100, 100)), -9999.0)],
    ids=["one at 1e4 standard deviations", "one -9999", "twenty -9999"],
)
def test_a_few_far_values_are_left_out_and_the_scale_stays(
    samples: list[int], value: float
) -> None:
    clean = normal()
    history = clean.copy()
    history[samples, 1] = value
    (found,) = find_outliers(history)
    assert (found.channel, found.samples.tolist(), found.count) == (1, samples, COUNT)
    assert (found.values == value).all()
    assert found.samples.tolist() == naive(history[:, 1])
    cleaned = without(history, [found])
    np.testing.assert_allclose(Scaler.fit(cleaned).scale, Scaler.fit(clean).scale, rtol=0.1)
    assert np.isnan(cleaned).sum() == len(samples)
    assert not np.isnan(history).any()


def test_heavy_tails_are_not_left_out() -> None:
    rng = np.random.default_rng(0)
    assert find_outliers(rng.lognormal(0, 1, (COUNT, 100))) == ()
    assert find_outliers(rng.standard_t(3, (COUNT, 100))) == ()


def test_a_channel_that_is_otherwise_constant_keeps_its_values() -> None:
    history = np.zeros((1000, 1))
    history[500] = 100
    assert find_outliers(history) == ()


def test_more_than_one_in_a_hundred_is_not_left_out() -> None:
    history = normal(channels=1, count=1000)
    history[:11] = -9999
    assert find_outliers(history) == ()
    history[0] = 20
    assert len(find_outliers(history)[0].samples) == 10


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_the_rule_is_that_of_its_twin_at_any_size(size: float) -> None:
    rng = np.random.default_rng(1)
    for scale in (5, 30, 200, 5000):
        history = rng.normal(size=(400, 1))
        history[rng.random(400) < 0.1] = np.nan
        history[rng.choice(400, 3, replace=False)] *= scale
        comp = [each.samples.tolist() for each in find_outliers(history * size)]
        assert (comp or [[]]) == [naive(history[:, 0])]


def test_few_values_are_all_kept_and_nothing_missing_is_found() -> None:
    assert find_outliers(np.array([[1.0]] * 10 + [[2.0], [1e9]])) == ()
    assert find_outliers(np.full((100, 2), np.nan)) == ()
    history = normal()
    assert without(history, ()) is history


def test_the_sentence_names_channel_samples_times_and_values() -> None:
    found = ChannelOutliers(1, np.array([0, 1, 2, 3]), np.array([-9999.0, -9999, -9999, 5e6]), 800)
    times = np.datetime64("2026-01-01", "ns") + np.arange(4) * np.timedelta64(1, "h")
    assert found.sentence(["a", "cpu"], times) == (
        "channel 'cpu': 4 of 800 values left out of history: -9999 to 5e+06 at samples "
        "0 (2026-01-01T00:00:00), 1 (2026-01-01T01:00:00), 2 (2026-01-01T02:00:00) and 1 more"
    )


def test_fit_warns_of_what_it_leaves_out_and_a_step_of_thirty_deviations_is_found() -> None:
    history = normal(3, 2, 1500)
    history[700, 0] = -9999
    with pytest.warns(NewnormalWarning, match="channel '0': 1 of 1,500 values left") as caught:
        detector = Detector(alarms_per_day=1, epochs=2).fit(history)
    assert caught[0].filename == __file__
    assert "-9999 at sample 700\nhint: each is ten times as far" in str(caught[0].message)
    assert "Channel '0': 1 of 1,500 values left out of history" in detector.explain()
    live = normal(4, 2, 400)
    live[200:, 0] += 60
    verdicts = detector.run(live)
    assert verdicts.anomalous[200:205].any()


def test_what_was_left_out_is_in_the_state_file(tmp_path: object) -> None:
    history = normal(3, 1, 300)
    history[100] = 1e6
    with pytest.warns(NewnormalWarning):
        detector = Detector(epochs=1).fit(history)
    twin = type(detector).from_state(detector.to_state())
    assert twin.explain() == detector.explain()


def test_m2n2_takes_history_as_it_is() -> None:
    history = normal(3, 1, 300)
    history[100] = 1e6
    assert M2N2(epochs=1).fit(history)._fitted.step.scale[0] == Scaler.fit(history).scale[0]
