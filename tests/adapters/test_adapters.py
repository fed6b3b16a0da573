"""The adapters pass the checks of aeon and sktime, and give what the detector gives."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from newnormal import Detector, Fixed, ParameterError

pytest.importorskip("aeon", reason="needs the extra aeon, in an environment of its own")
pytest.importorskip("sktime", reason="needs the extra sktime, in an environment of its own")

import pandas as pd  # type: ignore[import-untyped]
from aeon.testing.estimator_checking import parametrize_with_checks as aeons_checks
from sktime.utils.estimator_checks import check_estimator
from sktime.utils.estimator_checks import parametrize_with_checks as sktimes_checks

from newnormal.adapters.aeon import AeonDetector
from newnormal.adapters.sktime import SktimeDetector

DOCS = Path(__file__).parents[2] / "docs"
HISTORY = np.sin(np.arange(300) / 9)[:, None] + np.random.default_rng(0).normal(0, 0.1, (300, 3))
LIVE = HISTORY[:100].copy()
LIVE[60] += 5
LIVE[20] = LIVE[30, 0] = np.nan
FIVE_MINUTES = {"start": "2026-01-01", "periods": 300, "freq": "5min"}


@aeons_checks([AeonDetector])  # type: ignore[untyped-decorator]
def test_aeons_own_check_passes(check: Callable[[], None]) -> None:
    check()


@sktimes_checks([SktimeDetector])  # type: ignore[untyped-decorator]
def test_sktimes_own_check_passes(obj: type[SktimeDetector], test_name: str) -> None:
    check_estimator(obj, tests_to_run=test_name, raise_exceptions=True, verbose=False)


def test_scores_and_labels_are_the_detectors() -> None:
    ref = Detector(epochs=1, seed=3).fit(HISTORY)
    scores, labels = ref.decision_function(LIVE), ref.predict(LIVE)
    assert labels.sum() > 0
    assert np.isnan(scores).sum() == 1  # a sample without any value
    aeon = AeonDetector(epochs=1, seed=3).fit(HISTORY.T)
    np.testing.assert_array_equal(aeon.predict(LIVE.T), scores)
    np.testing.assert_array_equal(aeon.predict(LIVE, axis=0), scores)
    sktime = SktimeDetector(epochs=1, seed=3).fit(pd.DataFrame(HISTORY))
    series = pd.DataFrame(LIVE, index=pd.RangeIndex(500, 600))
    np.testing.assert_array_equal(sktime.predict(series).ilocs, np.flatnonzero(labels))
    np.testing.assert_array_equal(sktime.transform(series).labels, labels)
    assert sktime.transform_scores(series).scores.equals(pd.Series(scores, series.index))
    np.testing.assert_array_equal(sktime.predict_scores(series).scores, scores[labels == 1])


@pytest.mark.parametrize("index", [None, pd.date_range(**FIVE_MINUTES)[:100]])
def test_update_of_sktime_continues_the_stream_and_learns(index: object) -> None:
    series = pd.DataFrame(LIVE, index=index)
    ref = Detector(epochs=1).fit(HISTORY)
    comp = SktimeDetector(epochs=1).fit(pd.DataFrame(HISTORY)).update(series[:40])
    anomalous = ref.run(series[:70]).anomalous
    ilocs = comp.update_predict(series[40:70]).ilocs
    np.testing.assert_array_equal(ilocs, np.flatnonzero(anomalous[40:]))
    scores = comp.transform_scores(series[70:]).scores
    np.testing.assert_array_equal(scores, ref.decision_function(series[70:]))


@pytest.mark.parametrize("index", [pd.date_range(**FIVE_MINUTES), pd.period_range(**FIVE_MINUTES)])
def test_the_index_gives_the_sampling_period(index: pd.Index) -> None:
    series = pd.Series(HISTORY[:, 0], index)
    fitted = [SktimeDetector(epochs=1).fit(series)]
    if isinstance(index, pd.DatetimeIndex):
        fitted += [AeonDetector(epochs=1).fit(each) for each in (series, series.to_frame().T)]
    assert [each.detector_.period_ for each in fitted] == [np.timedelta64(5, "m")] * len(fitted)


def test_options_reach_the_detector_and_are_checked_in_fit() -> None:
    fitted = AeonDetector(epochs=1, threshold=Fixed(4.0)).clone().fit(HISTORY, axis=0)
    assert fitted.detector_.threshold_ == 4.0
    with pytest.raises(ParameterError, match="epochs"):
        SktimeDetector(epochs=-1).fit(pd.DataFrame(HISTORY))


@pytest.mark.parametrize("library", ["aeon", "sktime"])
def test_the_example_of_the_guide_runs(library: str) -> None:
    text = (DOCS / "guides" / "python.md").read_text(encoding="utf-8")
    found = re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (example,) = [each for each in found if f"newnormal.adapters.{library} " in each]
    names = {"history": HISTORY, "live": np.tile(HISTORY, (10, 1))}
    exec(example, names)
    assert len(names["scores"]) > 0
