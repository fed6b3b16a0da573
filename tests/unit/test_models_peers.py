"""PyOD's detectors behind the detector's interface."""

from typing import Any

import numpy as np
import pytest

from newnormal import M2N2
from newnormal.errors import MissingExtraError, ParameterError
from newnormal.models import find
from newnormal.models.peers import thinned
from newnormal.types import Bools, Floats
from tests.errors import raised
from tests.naive_metrics import auroc
from tests.processes import python

pytest.importorskip("pyod", reason="needs the extra peers")

CLASSICS = ["ECOD", "IForest", "LOF", "OCSVM", "PCA"]


def plant(samples: int, seed: int) -> Floats:
    """Four channels that are two."""
    rng = np.random.default_rng(seed)
    pair = rng.normal(size=(samples, 2))
    four = np.hstack([pair, pair @ np.array([[1.0, 1.0], [1.0, -1.0]])])
    return (four + 0.2 * rng.normal(size=four.shape)) * 3 + 50


def spoiled(samples: int, seed: int) -> tuple[Floats, Bools]:
    series, labels = plant(samples, seed), np.zeros(samples, dtype=np.bool_)
    labels[7::20] = True
    series[labels] += np.array([14.0, -14.0, 14.0, 14.0])
    return series, labels


def fitted(name: str, **options: Any) -> M2N2:
    options = {"window": 5, "adapt": False, "detrend": False, **options}
    return M2N2(model=f"pyod:{name}", **options).fit(plant(300, 0))


@pytest.mark.parametrize("name", CLASSICS)
def test_a_detector_finds_what_does_not_belong(name: str) -> None:
    series, labels = spoiled(200, 1)
    verdicts = fitted(name).run(series)
    assert auroc(labels, verdicts.scores) > 0.95
    assert verdicts.anomalous[labels].mean() > 0.8 > 0.2 > verdicts.anomalous[~labels].mean()
    assert verdicts.expected is None
    assert verdicts.shares is None


@pytest.mark.parametrize("name", ["DeepSVDD", "LUNAR", "SO_GAAL"])
def test_the_neural_ones_learn_from_their_seed_alone_and_print_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra deep")
    import pyod.models.deep_svdd
    import pyod.models.lunar
    import pyod.models.so_gaal

    for kind, epochs in (
        (pyod.models.deep_svdd.DeepSVDD, "epochs"),
        (pyod.models.lunar.LUNAR, "n_epochs"),
        (pyod.models.so_gaal.SO_GAAL, "stop_epochs"),
    ):
        fewer_epochs(monkeypatch, kind, epochs)
    series, _ = spoiled(100, 1)
    before = torch.get_rng_state(), repr(np.random.get_state())  # noqa: NPY002
    one, same, other = (fitted(name, seed=seed).run(series).scores for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert repr(np.random.get_state()) == before[1]  # noqa: NPY002
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert np.unique(one).size > 50
    assert capsys.readouterr().out == ""


def fewer_epochs(monkeypatch: pytest.MonkeyPatch, kind: Any, epochs: str) -> None:
    """Let a detector train for two epochs."""
    fit = kind.fit

    def shorter(self: Any, X: Floats, y: object = None) -> Any:
        setattr(self, epochs, 2)
        return fit(self, X, y)

    monkeypatch.setattr(kind, "fit", shorter)


def test_scores_are_pyods_of_the_scaled_samples() -> None:
    from pyod.models.pca import PCA

    history, series = plant(300, 0), plant(53, 1)
    mean, scale = history.mean(axis=0), history.std(axis=0)
    ref = PCA(random_state=0).fit((history - mean) / scale)
    comp = fitted("PCA").run(series).scores
    np.testing.assert_allclose(comp, ref.decision_function((series - mean) / scale), rtol=1e-9)


def test_pca_of_channels_that_are_constant_or_say_the_same_has_finite_scores() -> None:
    history, series = plant(300, 0), plant(40, 1)
    for each in (history, series):
        each[:, 2] = 7.0
        each[:, 3] = each[:, 0]
    series[20, 0] += 40
    verdicts = M2N2(model="pyod:PCA", window=5, adapt=False).fit(history).run(series)
    assert verdicts.scores.max() < 1e6
    assert verdicts.scores.argmax() == 20


def test_the_trend_is_subtracted_before_the_detector_sees_anything() -> None:
    series = plant(400, 1)
    series[100:] += 30  # a new normal
    assert not fitted("PCA", detrend=True, decay=0.5).run(series).anomalous[-200:].mean() > 0.2
    assert fitted("PCA").run(series).anomalous[-200:].all()


def test_a_missing_value_is_historys_mean_and_an_empty_sample_has_no_score() -> None:
    detector = fitted("PCA")
    series = plant(10, 1)
    filled = series.copy()
    filled[3, 1] = plant(300, 0)[:, 1].mean()
    series[3, 1] = np.nan
    series[6] = np.nan
    comp, ref = detector.run(series), fitted("PCA").run(filled)
    assert np.flatnonzero(np.isnan(comp.scores)).tolist() == [6]
    assert not comp.anomalous[6]
    np.testing.assert_allclose(comp.scores[:6], ref.scores[:6], rtol=1e-9)


def test_history_may_miss_values_and_whole_samples() -> None:
    history = plant(300, 0)
    history[5, 2] = history[17] = np.nan
    detector = M2N2(model="pyod:PCA", window=5, adapt=False).fit(history)
    assert len(detector._model.objects.decision_scores_) == 299
    assert np.isfinite(detector.run(plant(20, 1)).scores).all()


@pytest.mark.parametrize("rows", [0, 1, 7, 8])
def test_nothing_is_thinned_up_to_the_limit(rows: int) -> None:
    history = np.arange(rows, dtype=np.float64)[:, None]
    assert thinned(history, 8) is history


@pytest.mark.parametrize("rows", [9, 15, 16, 17, 1000])
def test_thinning_keeps_both_ends_and_as_many_rows_as_it_may_evenly_spaced(rows: int) -> None:
    kept = thinned(np.arange(rows, dtype=np.float64), 8)
    gaps = np.diff(kept)
    assert (len(kept), kept[0], kept[-1]) == (8, 0, rows - 1)
    assert gaps.min() >= 1
    assert gaps.max() - gaps.min() <= 1
    np.testing.assert_array_equal(kept, thinned(np.arange(rows, dtype=np.float64), 8))


@pytest.mark.parametrize(("name", "seen"), [("LOF", 50), ("OCSVM", 50), ("KNN", 50), ("PCA", 299)])
def test_only_a_detector_that_compares_all_rows_sees_fewer_of_a_long_history(
    name: str, seen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newnormal.models.peers.MOST_ROWS", 50)
    history = plant(300, 0)
    history[17] = np.nan
    detector = M2N2(model=f"pyod:{name}", window=5, adapt=False).fit(history)
    assert len(detector._model.objects.decision_scores_) == seen
    series, labels = spoiled(200, 1)
    assert auroc(labels, detector.run(series).scores) > 0.9


def test_every_detector_that_is_thinned_is_one_of_pyods() -> None:
    from newnormal.models.peers import _COMPARE_ALL, _detectors

    assert set(_detectors()) >= _COMPARE_ALL


def test_adapting_and_a_detector_that_wants_more_than_history_are_refused() -> None:
    assert str(raised(ParameterError, lambda: M2N2(model="pyod:PCA").fit(plant(300, 0)))) == (
        "adapt: pyod:PCA cannot learn from the stream, found adapt=True\n"
        "hint: pass adapt=False; detrend=True works with any model"
    )
    assert fitted("PCA").adaptable_ == ()
    with pytest.raises(ParameterError, match=r"pyod:LSCP could not be fitted on history alone"):
        fitted("LSCP")


def test_an_unknown_name_is_met_with_those_close_to_it() -> None:
    assert str(raised(ParameterError, lambda: M2N2(model="pyod:iforest"))) == (
        "model: expected pyod: and the name of a PyOD detector, found 'pyod:iforest'\n"
        "hint: did you mean pyod:IForest?"
    )
    with pytest.raises(ParameterError, match=r"hint: one of ABOD, .*IForest"):
        find("pyod:")


def test_every_class_of_rows_is_found_and_no_class_of_series_or_graphs() -> None:
    from newnormal.models.peers import _detectors

    found = _detectors()
    assert {*CLASSICS, "DeepSVDD", "LUNAR", "SO_GAAL", "AutoEncoder", "KNN"} <= set(found)
    assert found["SO_GAAL"] == "so_gaal"
    assert not {"BaseDetector", "TimeSeriesOD", "KShape", "CoLA", "EmbeddingOD"} & set(found)


def test_without_pyod_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from newnormal.models import peers

    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    peers._detectors.cache_clear()
    peers.adapter.cache_clear()
    assert str(raised(MissingExtraError, lambda: find("pyod:ECOD"))) == (
        'pyod is needed for this and is not installed\nhint: pip install "newnormal[peers]"'
    )


_WITHOUT_TORCH = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Without())
import numpy as np
from newnormal import M2N2, Detector
from newnormal.errors import MissingExtraError

history = np.random.default_rng(0).normal(size=(60, 3))
M2N2(model="pyod:PCA", adapt=False).fit(history)
try:
    M2N2(model="pyod:DeepSVDD", adapt=False).fit(history)
except MissingExtraError as error:
    print(error)
"""


def test_without_pytorch_a_neural_detector_says_what_to_install() -> None:
    assert python("-c", _WITHOUT_TORCH, check=True).stdout == (
        "pyod:DeepSVDD needs a package that is not installed: No module named 'torch'\n"
        'hint: PyTorch comes with pip install "newnormal[deep]", others by themselves\n'
    )
