"""The detector among scikit-learn's estimators, without depending on it."""

import pickle
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Detector, Fixed, ParameterError
from newnormal.base import BaseDetector
from newnormal.errors import InputError, NewnormalWarning
from newnormal.metrics import average_precision
from newnormal.types import Floats, Ints
from tests.strategies import nasty_series

pytest.importorskip("sklearn", reason="needs the extra eval")

from sklearn.base import clone, is_outlier_detector
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

OPTIONS: dict[str, Any] = {"window": 6, "stride": 3, "epochs": 2, "lr": 0.05, "half_life": 30}
BOTH = [(M2N2, OPTIONS), (Detector, {"epochs": 1})]


@pytest.fixture(scope="module")
def history() -> Floats:
    return nasty_series("some missing", 90, 3)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (M2N2, {}),
        (M2N2, OPTIONS),
        (M2N2, {"decay": 0.99}),
        (M2N2, {"threshold": Fixed(3.0)}),
        (Detector, {}),
        (Detector, {"threshold": Fixed(3.0), "epochs": 1}),
        (Detector, {"alarms_per_day": 2.0, "accept_after": 30, "seed": 4, "epochs": 1}),
    ],
)
def test_a_clone_is_unfitted_and_has_the_same_parameters(
    kind: type[Detector | M2N2], options: dict[str, Any], history: Floats
) -> None:
    detector = kind(**options)
    detector.fit(history)
    twin = clone(detector)
    assert type(twin) is kind
    assert twin is not detector
    assert twin.get_params() == detector.get_params()
    assert repr(twin) == repr(detector)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(twin)
    check_is_fitted(detector)
    np.testing.assert_array_equal(
        twin.fit(history)._fitted.step.fitted, detector._fitted.step.fitted
    )


def test_a_clones_default_decay_still_gives_way_to_half_life() -> None:
    clone(M2N2()).set_params(half_life="6h")
    with pytest.raises(ParameterError, match="found both"):
        clone(M2N2(decay=0.99)).set_params(half_life="6h")


def test_parameters_can_be_set_and_take_effect_at_the_next_fit(history: Floats) -> None:
    detector = M2N2(**OPTIONS).fit(history)
    ref = detector.run(history).scores
    assert detector.set_params(window=4, stride=None) is detector
    np.testing.assert_array_equal(detector.reset().run(history).scores, ref)
    assert len(detector.fit(history)._state.model.step.samples) == 4


def test_a_parameter_that_cannot_work_changes_none(history: Floats) -> None:
    detector = M2N2(**OPTIONS)
    before = detector.get_params()
    with pytest.raises(ParameterError, match="stride: expected a divisor of window=10, found 3"):
        detector.set_params(lr=0.5, window=10)
    with pytest.raises(ParameterError) as caught:
        detector.set_params(windows=10)
    assert caught.value.message == "unknown parameter 'windows'"
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("the parameters are window, stride, ")
    assert detector.get_params() == before


@pytest.mark.parametrize(("kind", "options"), BOTH)
def test_a_pipeline_scales_fits_and_judges(
    kind: type[Detector | M2N2], options: dict[str, Any], history: Floats
) -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("detect", kind(**options))])
    pipeline.fit(history)
    live = history.copy()
    live[50] += 20
    scaled = StandardScaler().fit(history).transform(live)
    ref = kind(**options).fit(StandardScaler().fit_transform(history))
    np.testing.assert_array_equal(pipeline.decision_function(live), ref.decision_function(scaled))
    labels = pipeline.predict(live)
    np.testing.assert_array_equal(labels, ref.predict(scaled))
    assert labels[50] == 1
    assert set(labels) == {0, 1}
    assert pipeline.set_params(detect__epochs=5).get_params()["detect__epochs"] == 5


def test_fit_takes_and_ignores_a_target(history: Floats) -> None:
    ref = M2N2(**OPTIONS).fit(history)
    assert M2N2(**OPTIONS).fit(history, np.ones(len(history))).threshold_ == ref.threshold_
    make_pipeline(StandardScaler(), M2N2(**OPTIONS)).fit(history, np.ones(len(history)))


@pytest.mark.parametrize("detector", [Detector(), M2N2()], ids=repr)
def test_scikit_learn_knows_what_it_is(detector: BaseDetector) -> None:
    assert is_outlier_detector(detector)
    tags = get_tags(detector)
    assert tags.input_tags.allow_nan
    assert not tags.target_tags.required
    assert clone(detector).fit(nasty_series("zero", 30, 3)).n_features_in_ == 3


@pytest.mark.parametrize(("kind", "options"), BOTH)
def test_higher_scores_are_more_anomalous_and_agree_with_the_labels(
    kind: type[Detector | M2N2], options: dict[str, Any], history: Floats
) -> None:
    detector, live = kind(**options).fit(history), history.copy()
    live[50] += 20
    scores, labels = detector.decision_function(live), detector.predict(live)
    assert labels.dtype == np.int64
    assert labels[50] == 1
    assert int(np.nanargmax(scores)) == 50
    verdicts = detector.run(live)
    np.testing.assert_array_equal(labels, verdicts.anomalous)
    judged = ~np.isnan(scores)
    if verdicts.channel_ratios is None:
        np.testing.assert_array_equal(labels[judged], scores[judged] >= detector.threshold_)


@pytest.mark.parametrize(("kind", "options"), BOTH)
def test_a_fitted_detector_can_go_to_another_process(
    kind: type[Detector | M2N2], options: dict[str, Any], history: Floats
) -> None:
    detector = kind(**options).fit(history)
    detector.run(history[:20], flush=False)
    other = pickle.loads(pickle.dumps(detector))
    np.testing.assert_array_equal(other.run(history).scores, detector.run(history).scores)
    assert other.get_params() == detector.get_params()


def labelled(samples: int = 600) -> tuple[Floats, Ints]:
    rng = np.random.default_rng(0)
    series = np.sin(np.arange(samples) / 9)[:, None] + rng.normal(0, 0.1, (samples, 2))
    labels = np.zeros(samples, dtype=np.int64)
    for at in range(50, samples, 100):
        series[at : at + 5] += 3
        labels[at : at + 5] = 1
    return series, labels


SMALL = M2N2(window=6, epochs=1)


@pytest.mark.parametrize("estimator", [SMALL, make_pipeline(StandardScaler(), SMALL)])
def test_cross_val_score_works_with_labels(estimator: Any) -> None:
    series, labels = labelled()
    found = cross_val_score(estimator, series, labels, cv=TimeSeriesSplit(3))
    assert np.isfinite(found).all()
    assert found.min() > 0.8
    named = cross_val_score(
        estimator, series, labels, cv=TimeSeriesSplit(3), scoring="average_precision"
    )
    assert np.isfinite(named).all()


def test_grid_search_finds_a_best_one() -> None:
    series, labels = labelled()
    search = GridSearchCV(SMALL, {"window": [4, 6]}, cv=TimeSeriesSplit(2)).fit(series, labels)
    assert search.best_score_ > 0.8
    assert search.best_params_["window"] in (4, 6)


def test_a_fold_without_an_anomaly_is_0_and_without_labels_it_is_an_error() -> None:
    series, labels = labelled()
    with pytest.warns(NewnormalWarning, match=r"cv=TimeSeriesSplit\(n_splits=2\)"):
        found = cross_val_score(SMALL, series, np.zeros_like(labels), cv=TimeSeriesSplit(2))
    assert found.tolist() == [0.0, 0.0]
    series, _ = labelled()
    message = r"expected labels to score against, found none: pass y=labels, 0 or 1 a sample"
    with pytest.raises(TypeError, match=message):
        cross_val_score(SMALL, series, cv=TimeSeriesSplit(2))


def test_score_takes_labels_and_times() -> None:
    series, labels = labelled(300)
    detector = clone(SMALL).fit(series)
    times = np.datetime64("2026-01-01") + np.arange(300) * np.timedelta64(1, "m")
    verdicts = detector.score(series, times=times)
    np.testing.assert_array_equal(verdicts.times, times.astype(verdicts.times.dtype))
    with pytest.raises(InputError, match="labels"):
        detector.score(series, times)
    figure = detector.score(series, labels, times=times)
    assert figure == average_precision(labels, detector.decision_function(series))
    np.testing.assert_array_equal(verdicts.scores, detector.run(series).scores)  # it had not moved
