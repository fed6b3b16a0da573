"""Models that hold objects: each stream has its own copy, and none can be saved."""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Fixed, MissingExtraError, ParameterError, StateError
from newnormal.models import find, river
from newnormal.testing import check_model
from newnormal.testing.expecting import plant
from newnormal.types import Floats
from tests.errors import raised

NAMES = [
    *("tests.strangers.model:Cells", "pyod:PCA", "pyod:IForest", "river:HalfSpaceTrees"),
    *("river:LODA", "river:OneClassSVM"),
]
each_model = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(autouse=True)
def _needs_its_library(request: pytest.FixtureRequest) -> None:
    callspec = getattr(request.node, "callspec", None)
    name = callspec.params.get("name") if callspec else None
    if name is not None:
        try:
            find(name)
        except MissingExtraError as error:
            pytest.skip(error.message)


@cache
def _fitted(name: str) -> M2N2:
    adapt = find(name).learns
    return M2N2(model=name, window=6, adapt=adapt, threshold=1.0).fit(plant(400, 3, 0))


def fitted(name: str) -> M2N2:
    return _fitted(name).with_options()


def live() -> Floats:
    series = plant(120, 3, 1)
    series[50] = series[20, 1] = np.nan
    return series


@each_model
def test_it_passes_the_check(name: str) -> None:
    check_model(name)


@each_model
def test_two_streams_of_one_fit_may_run_in_two_threads(name: str) -> None:
    series = [live(), live() * 0.5]
    ref = [fitted(name).run(each).scores for each in series]
    with ThreadPoolExecutor(2) as threads:
        comp = threads.map(lambda each: fitted(name).run(each).scores, series)
        np.testing.assert_array_equal(list(comp), ref)


@each_model
def test_saving_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    message = (
        r"cannot be saved: it holds objects of its own, and a state file holds nothing that co"
    )
    with pytest.raises(StateError, match=message):
        fitted(name).save(tmp_path / "objects.nn")
    with pytest.raises(StateError, match=message):
        fitted(name).to_state()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["tests.strangers.model:Cells", "river:HalfSpaceTrees"])
def test_it_learns_from_what_is_learnable_alone(name: str) -> None:
    def after(threshold: Any) -> Floats:
        detector = fitted(name).with_options(threshold=threshold, detrend=False)
        for _ in range(4):
            detector.run(plant(120, 3, 3) * 0.4)
        return detector.score_frozen(live()).scores

    untouched = fitted(name).score_frozen(live()).scores
    np.testing.assert_array_equal(after(Fixed(-np.inf)), untouched)
    assert not np.array_equal(after(Fixed(np.inf)), untouched)


@pytest.mark.parametrize("name", ["tests.strangers.model:Cells", "river:HalfSpaceTrees"])
def test_acceptance_is_refused_since_nothing_could_be_put_back(name: str) -> None:
    with pytest.raises(ParameterError, match=r"accept_after: .* holds objects of its own"):
        M2N2(model=name, window=6, accept_after="1d", period="1min").fit(plant(400, 3, 0))
    frozen = M2N2(model=name, window=6, accept_after=60, adapt=False).fit(plant(400, 3, 0))
    assert frozen.run(live()).alarms is not None


@pytest.mark.parametrize("name", ["river:HalfSpaceTrees"])
def test_river_learns_history_in_turn_and_then_the_stream(name: str) -> None:
    anomaly = pytest.importorskip("river.anomaly", reason="needs the extra river")
    history, series = plant(400, 3, 0), plant(60, 3, 1)
    detector = M2N2(model=name, window=6, detrend=False, threshold=1.0, seed=3).fit(history)
    detector = detector.with_options(threshold=Fixed(np.inf))

    low, high = history.min(axis=0), history.max(axis=0)
    twin = anomaly.HalfSpaceTrees(seed=3)

    def features(sample: Floats) -> dict[int, float]:
        return dict(enumerate(((sample - low) / (high - low)).tolist()))

    for sample in history:
        twin.learn_one(features(sample))
    ref: list[float] = []
    for at in range(0, len(series), 6):
        ref += [twin.score_one(features(sample)) for sample in series[at : at + 6]]
        for sample in series[at : at + 6]:
            twin.learn_one(features(sample))
    np.testing.assert_allclose(detector.run(series).scores, ref, rtol=1e-12)
    assert detector.adaptable_ == ("HalfSpaceTrees",)


@pytest.mark.parametrize("name", ["river:HalfSpaceTrees"])
def test_a_river_detector_that_is_none_is_met_with_those_close_to_it(name: str) -> None:
    assert str(raised(ParameterError, lambda: M2N2(model="river:halfspacetree"))) == (
        "model: expected river: and the name of a River anomaly detector, found "
        "'river:halfspacetree'\nhint: did you mean river:HalfSpaceTrees?"
    )
    with pytest.raises(ParameterError, match="one of HalfSpaceTrees, LODA, LocalOutlierFactor"):
        M2N2(model="river:GaussianScorer")  # it wants a target


def test_without_river_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "river.anomaly", None)
    river._detectors.cache_clear()
    river.adapter.cache_clear()
    try:
        with pytest.raises(MissingExtraError) as caught:
            M2N2(model="river:HalfSpaceTrees")
    finally:
        river._detectors.cache_clear()
        river.adapter.cache_clear()
    assert str(caught.value) == (
        'river is needed for this and is not installed\nhint: pip install "newnormal[river]"'
    )
