"""What every model owes the detector, whatever it is inside."""

import dataclasses
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Fixed, ParameterError, StateError
from newnormal.errors import MissingExtraError
from newnormal.kernels.step import StepParams
from newnormal.models import river
from newnormal.models.base import Training, scores
from newnormal.models.registry import BUILT_IN, find
from newnormal.testing import check_model
from newnormal.types import Bools, Floats, Floats32
from tests.errors import raised
from tests.naive_metrics import auroc

SETTINGS = {
    "frozen": (False, False),
    "DT": (True, False),
    "TTA": (False, True),
    "both": (True, True),
}
CHANNELS = 4
RECONSTRUCTION_ERROR = {"mlp", "torch-mlp", "lstm", "lstm-diagonal"}  # is what they score by
BOUNDED = {"usad"}  # however large its weights, what it makes lies between 0 and 1


def named(names: Iterable[str]) -> list[Any]:
    """Models by name; one whose extra is missing is skipped, with the reason."""
    found: list[Any] = []
    for name in sorted(names):
        try:
            find(name)
        except MissingExtraError as error:
            found.append(pytest.param(name, marks=pytest.mark.skip(reason=error.message)))
        else:
            found.append(name)
    return found


# Each stream has a copy of their objects, and no file can hold them.
OBJECTS = {
    *("tests.strangers.model:Cells", "pyod:PCA", "pyod:IForest", "river:HalfSpaceTrees"),
    *("river:LODA", "river:OneClassSVM"),
}
LEARNERS = set(BUILT_IN) - {"pca"}
each_model = pytest.mark.parametrize("name", named(LEARNERS))
each_with_objects = pytest.mark.parametrize("name", named(OBJECTS))
of_both_kinds = pytest.mark.parametrize("name", named(LEARNERS | OBJECTS))
objects_that_learn = pytest.mark.parametrize(
    "name", named({"tests.strangers.model:Cells", "river:HalfSpaceTrees"})
)
half_space_trees = pytest.mark.parametrize("name", named({"river:HalfSpaceTrees"}))


@pytest.fixture(autouse=True, scope="module")
def _small_and_on_one_thread() -> Iterator[None]:
    """A narrow LSTM owes the same as a wide one; more threads never help at these sizes."""
    try:
        import torch
    except ImportError:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("newnormal.models.deep.lstm.LSTM.hidden", 16)
        yield
    torch.set_num_threads(before)


def plant(samples: int, seed: int) -> Floats:
    """One slow wave seen by four sensors, two of them upside down."""
    rng = np.random.default_rng(seed)
    wave = np.sin((np.arange(samples) + rng.integers(1000)) / 8)[:, None]
    return np.asarray(wave * np.array([1, -1, 1, -1]) + 0.05 * rng.normal(size=(samples, CHANNELS)))


def with_anomalies(series: Floats) -> tuple[Floats, Bools]:
    """Turn one sensor upside down, now and then: no value is unusual, only their company."""
    spoiled, labels = series.copy(), np.zeros(len(series), dtype=np.bool_)
    for at in range(40, len(series) - 10, 40):
        spoiled[at : at + 5, (at // 40) % CHANNELS] *= -1
        labels[at : at + 5] = np.abs(series[at : at + 5, 0]) > 0.5
    return spoiled, labels


@cache
def _fitted(name: str) -> M2N2:
    stride = 1 if name.startswith("thoc") else None  # it judges a window's last sample alone
    options: dict[str, Any] = {"epochs": 2, "batch": 16, "lr": 0.01, "decay": 0.9, "latent": 3}
    options["adapt"] = find(name).learns
    return M2N2(model=name, window=6, stride=stride, **options).fit(plant(200, 0))


def fitted(name: str, **options: Any) -> M2N2:
    """Return a fitted detector, with some options other than when it was fitted."""
    return _fitted(name).with_options(**options)


def after(samples: int = 100) -> Floats:
    """A live series: a new normal, missing values, and a sample with nothing observed."""
    series = plant(samples, 1)
    series[30:] += 0.5
    series[5, 2] = series[40:43, 0] = series[50] = np.nan
    return series


@of_both_kinds
def test_it_passes_the_check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "transformer":  # two epochs are too few for its softmax to rank far samples first
        monkeypatch.setattr("newnormal.testing.models._ModelCheck.scoring", lambda _: None)
    check_model(name)


@each_model
def test_a_saved_and_loaded_detector_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    series, detector = after(), fitted(name)
    detector.run(series[:45], flush=False)
    detector.save(tmp_path / "detector.nn")
    other = M2N2.load(tmp_path / "detector.nn")
    ref, comp = detector.run(series[45:]).scores, other.run(series[45:]).scores
    np.testing.assert_array_equal(comp, ref)


@of_both_kinds
def test_two_streams_of_one_fit_may_run_in_two_threads(name: str) -> None:
    series = [after(60), plant(60, 3) * 0.5]
    ref = [fitted(name).run(each).scores for each in series]
    with ThreadPoolExecutor(2) as threads:
        comp = threads.map(lambda each: fitted(name).run(each).scores, series)
        np.testing.assert_array_equal(list(comp), ref)


@each_model
@pytest.mark.parametrize("setting", SETTINGS)
def test_each_switch_moves_what_it_names_and_nothing_else(name: str, setting: str) -> None:
    detrend, adapt = SETTINGS[setting]
    detector = fitted(name, detrend=detrend, adapt=adapt)
    assert np.isfinite(detector.run(plant(60, 1) + 0.2).scores).all()
    assert bool((detector._state.model.step.trend != 0).all()) is detrend
    assert (
        np.array_equal(detector._state.model.step.weights, detector._fitted.step.fitted)
        is not adapt
    )
    assert (detector.counters["learned"] > 0) is adapt
    assert bool(detector.adaptable_) is adapt


@each_model
def test_a_learning_rate_of_zero_leaves_every_weight(name: str) -> None:
    detector = fitted(name, lr=0.0)
    detector.run(after())
    np.testing.assert_array_equal(detector._state.model.step.weights, detector._fitted.step.fitted)
    ref = fitted(name, adapt=False).run(after()).scores
    np.testing.assert_array_equal(detector.reset().run(after()).scores, ref)


@each_model
def test_nothing_is_learned_from_what_is_anomalous(name: str) -> None:
    detector = fitted(name, threshold=Fixed(-math.inf))
    assert detector.run(plant(60, 1)).anomalous.all()
    np.testing.assert_array_equal(detector._state.model.step.weights, detector._fitted.step.fitted)


@each_model
def test_every_parameter_that_may_change_has_a_name(name: str) -> None:
    names = fitted(name).adaptable_
    assert len(set(names)) == len(names) > 3


@each_model
def test_adaptation_lowers_the_scores_of_what_it_learns_from(name: str) -> None:
    detector = fitted(name, detrend=False, lr=0.003, threshold=Fixed(math.inf))
    series = plant(120, 1) * 0.5
    frozen = detector.score_frozen(series).scores.mean()
    for _ in range(3):
        detector.run(series)
    learned = detector.score_frozen(series).scores.mean()
    if name.startswith("lstm"):  # descends on squared errors, and scores by their distances
        assert learned != frozen
    else:
        assert learned < frozen


@each_model
@pytest.mark.parametrize("lr", [1e6, 1e20, 3e38])
def test_a_rate_that_diverges_leaves_nothing_that_is_not_finite(name: str, lr: float) -> None:
    detector = fitted(name, lr=lr, threshold=Fixed(math.inf))
    for part in np.split(plant(120, 1) * 10, 4):
        assert np.isfinite(detector.run(part).scores).all()
        assert np.isfinite(detector._state.model.step.weights).all()
        assert np.isfinite(detector._state.model.step.good).all()
    if lr > 1e6 and name not in BOUNDED:
        assert detector.counters["restored"] > 0


@each_model
def test_a_sample_with_nothing_observed_has_no_score_and_the_others_have_one(name: str) -> None:
    verdicts = fitted(name).run(after())
    assert np.flatnonzero(np.isnan(verdicts.scores)).tolist() == [50]
    assert not verdicts.anomalous[50]
    if verdicts.expected is not None and verdicts.shares is not None:
        assert np.isfinite(verdicts.expected).all()
        assert np.isnan(verdicts.shares[50]).all()
        assert verdicts.shares[5, 2] == 0


@each_model
def test_a_missing_value_is_not_read(name: str) -> None:
    """Whatever stood there, the detector cannot know: two ways to say NaN give one result."""
    series = plant(60, 1)
    series[7, 1] = np.nan
    ref = fitted(name).run(series).scores
    comp = fitted(name).run(np.where(np.isnan(series), -np.nan, series)).scores
    np.testing.assert_array_equal(comp, ref)
    assert not np.array_equal(fitted(name).run(plant(60, 1)).scores, ref)


@each_model
def test_history_may_miss_values_and_hold_a_channel_that_never_moves(name: str) -> None:
    history = plant(150, 0)
    history[3, 1] = history[20:30, 0] = history[77] = np.nan
    history[:, 3] = 7.0
    detector = M2N2(model=name, window=6, epochs=1, batch=16).fit(history)
    assert math.isfinite(detector.threshold_)
    moved = plant(60, 1)
    moved[:, 3] = 7.0
    moved[40:, 3] = 8.0
    assert np.isfinite(detector.run(moved).scores).all()


@each_model
def test_verdicts_say_what_was_expected_or_say_that_nothing_was(name: str) -> None:
    detector = fitted(name)
    series = plant(60, 1)
    verdicts = detector.run(series)
    if not detector._model.reconstructs:
        assert verdicts.expected is None
        assert verdicts.shares is None
        return
    assert verdicts.expected is not None
    assert verdicts.shares is not None
    assert verdicts.expected.shape == verdicts.shares.shape == series.shape
    np.testing.assert_allclose(verdicts.shares.sum(axis=1), 1, atol=1e-5)
    assert np.abs(verdicts.expected - series).mean() < 2  # in the user's units


def trained(name: str, epochs: int) -> tuple[Floats, Floats32, list[float], Bools]:
    """Train for so many epochs, 0 for not at all, and score a series with known anomalies."""
    window = 5
    model = find(name)(window, CHANNELS, 8)
    history = plant(500, 0)
    scaler = model.scaler(history)
    training = Training(stride=2, epochs=epochs, batch=16, seed=0, lr=3e-3)
    weights, losses = model.fit(scaler.apply(history), training)
    stride = 1 if name.startswith("thoc") else window
    params = StepParams(
        scaler.mean, scaler.scale, weights, stride, math.inf, math.inf, 1.0, np.float32(0)
    )
    series, labels = with_anomalies(plant(600, 1))
    return scores(model, params, series), weights.copy(), losses, labels


@each_model
def test_training_moves_the_weights_and_lowers_the_loss(name: str) -> None:
    judged, weights, losses, _ = trained(name, 3)
    _, start, none, _ = trained(name, 0)
    assert none == []
    assert (weights != start).mean() > 0.3
    assert min(losses) < losses[0]
    assert np.unique(judged).size > 20


@pytest.mark.parametrize("name", named(RECONSTRUCTION_ERROR))
def test_training_finds_what_an_untrained_model_does_not(name: str) -> None:
    """The others' scores want other tasks, which their own tests have."""
    judged, _, losses, labels = trained(name, 8)
    before, *_ = trained(name, 0)
    assert losses[-1] < 0.5 * losses[0]
    assert auroc(labels, judged) > 0.9
    assert auroc(labels, judged) > auroc(labels, before) + 0.1


def test_the_mlp_in_pytorch_equals_the_compiled_one() -> None:
    pytest.importorskip("torch", reason="needs the extra deep")
    compiled, comp = fitted("mlp"), fitted("torch-mlp")
    weights = [
        part.ravel()
        for matrix, bias in compiled._model.layers(compiled._fitted.step.fitted)  # type: ignore[attr-defined]
        for part in (matrix.T, bias)
    ]
    comp = comp.with_options(threshold=Fixed(compiled.threshold_))
    step = comp._fitted.step._replace(fitted=np.concatenate(weights))
    comp._fitted = dataclasses.replace(comp._fitted, step=step)
    series = after(600)
    ref, judged = compiled.run(series), comp.reset().run(series)
    assert compiled.counters == comp.counters
    assert compiled.counters["learned"] > 50
    np.testing.assert_allclose(judged.scores, ref.scores, rtol=1e-4)
    np.testing.assert_allclose(np.asarray(judged.expected), np.asarray(ref.expected), atol=1e-4)
    np.testing.assert_allclose(np.asarray(judged.shares), np.asarray(ref.shares), atol=1e-3)
    np.testing.assert_array_equal(judged.anomalous, ref.anomalous)
    np.testing.assert_allclose(comp.trend_, compiled.trend_, rtol=1e-12)


_WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from newnormal.errors import MissingExtraError
from newnormal.models.registry import BUILT_IN, find
find("mlp")
find("pca")
for name in set(BUILT_IN) - {"mlp", "pca"}:
    try:
        find(name)
    except MissingExtraError as error:
        assert str(error) == (
            'torch is needed for this and is not installed\\nhint: pip install "newnormal[deep]"'
        ), error
    else:
        raise AssertionError(name)
"""


def test_without_pytorch_each_of_its_models_says_what_to_install() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_TORCH], check=True)


# ------------------------------------------------------------------ models that hold objects


@each_with_objects
def test_saving_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    message = (
        r"cannot be saved: it holds objects of its own, and a state file holds nothing that co"
    )
    with pytest.raises(StateError, match=message):
        fitted(name).save(tmp_path / "objects.nn")
    with pytest.raises(StateError, match=message):
        fitted(name).to_state()
    assert not list(tmp_path.iterdir())


@objects_that_learn
def test_it_learns_from_what_is_learnable_alone(name: str) -> None:
    def learned(threshold: Any) -> Floats:
        detector = fitted(name, threshold=threshold, detrend=False)
        for _ in range(4):
            detector.run(plant(120, 3) * 0.4)
        return detector.score_frozen(after()).scores

    untouched = fitted(name).score_frozen(after()).scores
    np.testing.assert_array_equal(learned(Fixed(-np.inf)), untouched)
    assert not np.array_equal(learned(Fixed(np.inf)), untouched)


@objects_that_learn
def test_acceptance_is_refused_since_nothing_could_be_put_back(name: str) -> None:
    with pytest.raises(ParameterError, match=r"accept_after: .* holds objects of its own"):
        M2N2(model=name, window=6, accept_after="1d", period="1min").fit(plant(400, 0))
    frozen = M2N2(model=name, window=6, accept_after=60, adapt=False).fit(plant(400, 0))
    assert frozen.run(after()).alarms is not None


@half_space_trees
def test_river_learns_history_in_turn_and_then_the_stream(name: str) -> None:
    anomaly = pytest.importorskip("river.anomaly", reason="needs the extra river")
    history, series = plant(400, 0), plant(60, 1)
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


@half_space_trees
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
