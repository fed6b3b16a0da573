"""Training and adaptation do something, the same each time; the alarms that follow."""

import json
import logging
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Detector, Fixed, NewnormalError, ParameterError, Quantile
from newnormal.kernels.step import StepParams
from newnormal.models import base
from newnormal.models.base import Training
from newnormal.models.mlp import MLP
from newnormal.state import codec
from newnormal.types import Bools, Floats
from tests.inside import params, set_params, stream
from tests.naive_metrics import auroc
from tests.plants import alarms_of
from tests.strategies import nasty_series


def plant(samples: int, seed: int) -> Floats:
    """Four channels that move together, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples)[:, None] + rng.integers(1000)
    waves = np.sin(t / np.array([4.0, 4.0, 9.0, 9.0]) + np.array([0.0, 1.0, 0.0, 2.0]))
    return np.asarray(waves + 0.05 * rng.normal(size=(samples, 4)))


def with_anomalies(series: Floats) -> tuple[Floats, Bools]:
    """Freeze single channels at a value within their usual range, now and then."""
    spoiled, labels = series.copy(), np.zeros(len(series), dtype=np.bool_)
    for at in range(40, len(series) - 10, 60):
        spoiled[at : at + 4, (at // 60) % 4] *= -1
        labels[at : at + 4] = np.abs(series[at : at + 4, (at // 60) % 4]) > 0.5
    return spoiled, labels


def as_bytes(detector: M2N2) -> bytes:
    return codec.encode(detector.to_state())


def untrained(detector: M2N2) -> M2N2:
    """Return the same detector with the weights training started from."""
    other = M2N2.from_state(detector.to_state())
    start = MLP(other.window_, 4, other.latent_).initial_weights(np.random.default_rng(other.seed))
    set_params(other, fitted=start)
    return other.reset()


def test_training_changes_every_layer_and_its_loss_falls() -> None:
    model = MLP(6, 4, 8)
    start = model.initial_weights(np.random.default_rng(0))
    fitted, losses = model.fit(plant(1200, 0), Training(stride=3, epochs=15, batch=16, seed=0))
    for (matrix, bias), (old_matrix, old_bias) in zip(
        model.layers(fitted), model.layers(start), strict=True
    ):
        assert (matrix != old_matrix).mean() > 0.5
        assert (bias != old_bias).mean() > 0.5
    assert losses[-1] < 0.5 * losses[0]
    assert min(losses) < losses[0]


def test_a_trained_model_beats_an_untrained_one_on_data_it_has_not_seen() -> None:
    trained = M2N2(window=6, fit_stride=2, epochs=20, batch=16).fit(plant(1500, 0))
    live_series, labels = with_anomalies(plant(1200, 1))
    fresh = untrained(trained)

    scores, ref = trained.score_frozen(live_series).scores, fresh.score_frozen(live_series).scores
    assert scores[~labels].mean() < 0.5 * ref[~labels].mean()
    assert auroc(labels, scores) > 0.9
    assert auroc(labels, scores) > auroc(labels, ref) + 0.1
    assert np.unique(scores).size > 1000  # they are not constant


def test_the_epoch_with_the_lowest_loss_is_kept() -> None:
    model, series = MLP(4, 2, 2), nasty_series("none missing", 80, 2)
    wild = Training(stride=4, epochs=12, batch=4, seed=1, lr=1.0)  # so that losses go up and down
    fitted, losses = model.fit(series, wild)
    best = int(np.argmin(losses))
    assert 0 < best < 11
    ref, _ = model.fit(series, Training(stride=4, epochs=best + 1, batch=4, seed=1, lr=1.0))
    np.testing.assert_array_equal(fitted, ref)


def test_epochs_are_reported_one_by_one() -> None:
    seen: list[tuple[int, float]] = []
    _, losses = MLP(4, 2, 2).fit(
        nasty_series("none missing", 80, 2),
        Training(
            stride=4,
            epochs=5,
            batch=4,
            seed=0,
            on_epoch=lambda done, loss: seen.append((done, loss)),
        ),
    )
    assert seen == [(done + 1, loss) for done, loss in enumerate(losses)]


@pytest.mark.parametrize("kind", [Detector, M2N2])
def test_a_fit_tells_of_its_phases_and_never_goes_back(kind: Any) -> None:
    phases: list[str] = []
    shares: list[float] = []
    epochs: list[int] = []

    def on_phase(what: str, share: float) -> None:
        phases.append(what)
        shares.append(share)

    detector = kind(epochs=2).fit(
        plant(400, 0), on_epoch=lambda done, _: epochs.append(done), on_phase=on_phase
    )
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    names = ["learning history", "scoring history"]
    if kind is Detector:
        names = ["learning early history", "testing on the rest", "learning all of history"]
    assert list(dict.fromkeys(phases)) == [*names, "done"]
    assert len(shares) > len(epochs) > 0
    assert kind(epochs=2).fit(plant(400, 0)).threshold_ == detector.threshold_


def test_more_training_windows_come_of_a_smaller_fit_stride() -> None:
    series = plant(300, 0)
    wide, narrow = (
        M2N2(window=6, fit_stride=stride, epochs=5).fit(series).losses_[-1] for stride in (6, 1)
    )
    assert narrow < wide  # six times the steps


def test_training_that_diverges_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: MLP, *_: Any) -> tuple[Any, list[float]]:
        return np.full(self.size, np.nan, dtype=np.float32), [math.nan]

    monkeypatch.setattr(MLP, "fit", broken)
    with pytest.raises(NewnormalError, match="training did not converge"):
        M2N2(window=4).fit(plant(100, 0))


def test_the_widths_are_halved_twice_then_the_latent_and_back() -> None:
    assert MLP(12, 55, 128).widths.tolist() == [660, 330, 165, 128, 165, 330, 660]
    assert MLP(5, 1, 2).widths.tolist() == [5, 2, 1, 2, 1, 2, 5]
    assert MLP(1, 1, 3).widths.tolist() == [1, 1, 1, 3, 1, 1, 1]


def test_packed_layers_cover_every_weight_once() -> None:
    model = MLP(5, 3, 4)
    packed = np.zeros(model.size, dtype=np.float32)
    for matrix, bias in model.layers(packed):
        for part in (matrix, bias):
            np.add(part, 1, out=part)
    assert (packed == 1).all()


def test_long_series_are_scored_in_parts_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    series, model = nasty_series("some missing", 101, 2), MLP(4, 2, 2)
    weights = model.initial_weights(np.random.default_rng(0))
    settings = StepParams(
        np.zeros(2), np.ones(2), weights, 2, math.inf, math.inf, 0.9, np.float32(0.01)
    )
    ref = base.scores(model, settings, series)
    assert len(ref) == 101
    for chunk in (1, 3, 10):
        monkeypatch.setattr(base, "_CHUNK", chunk)
        np.testing.assert_array_equal(base.scores(model, settings, series), ref)


def test_adapting_follows_a_new_normal_where_a_frozen_model_never_stops_its_alarm() -> None:
    history, after = plant(1500, 0), plant(2000, 1)
    after[200:] = after[200:] * 1.2 + 3.0  # the new normal
    options: dict[str, Any] = {"window": 6, "epochs": 10, "batch": 16, "lr": 0.01, "decay": 0.9}
    adapting = M2N2(**options).fit(history)
    frozen = M2N2(**options, adapt=False, detrend=False).fit(history)
    late = slice(1000, None)
    assert frozen.run(after).anomalous[late].mean() > 0.5
    assert adapting.run(after).anomalous[late].mean() < 0.2


def test_anomalous_samples_are_not_learned_from() -> None:
    """Windows judged normal, with one anomalous sample, teach nothing about that sample."""
    detector = M2N2(window=6, epochs=5, lr=0.05, detrend=False).fit(plant(600, 0))
    weights = []
    for size in (30.0, 60.0):
        live_series = plant(6, 1)
        live_series[2] = size
        detector.reset()
        set_params(detector, threshold=1e-9)  # nothing is learnable ...
        detector.run(live_series)
        weights.append(stream(detector).weights.copy())
        assert np.array_equal(weights[-1], params(detector).fitted)
        # ... and with a threshold in between, the others are.
        detector.reset()
        set_params(detector, threshold=80.0)
        verdicts = detector.run(live_series)
        assert verdicts.anomalous.tolist() == [False, False, True, False, False, False]
        assert not np.array_equal(stream(detector).weights, params(detector).fitted)


def test_the_same_seed_and_a_second_fit_give_the_same_detector_and_other_seeds_others() -> None:
    history, after = plant(300, 0), plant(100, 1)
    one, other = (M2N2(window=6, epochs=3, seed=5).fit(history) for _ in range(2))
    assert as_bytes(one) == as_bytes(other)
    np.testing.assert_array_equal(one.run(after).scores, other.run(after).scores)
    assert as_bytes(one) == as_bytes(other)
    history = plant(300, 0)
    detector = M2N2(window=6, epochs=3).fit(history)
    first = as_bytes(detector)
    detector.run(plant(50, 1))
    assert as_bytes(detector.fit(history)) == first
    found = {M2N2(window=6, epochs=3, seed=seed).fit(history).threshold_ for seed in range(4)}
    assert len(found) == 4


def test_fitting_leaves_numpys_own_generator_alone() -> None:
    np.random.seed(3)  # noqa: NPY002 - the user's
    ref = np.random.random(3)  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    M2N2(window=6, epochs=1).fit(plant(100, 0))
    np.testing.assert_array_equal(np.random.random(3), ref)  # noqa: NPY002


_FIT_AND_SAVE = """
import sys
import numpy as np
from newnormal import M2N2
t = np.arange(400)[:, None]
history = np.sin(t / np.arange(3, 41)) + 0.1 * np.cos(t * np.arange(1, 39))
detector = M2N2(window=5, epochs=2, batch=32).fit(history)
detector.run(history[:203] * 1.1, flush=False)
detector.save(sys.argv[1])
"""


def test_two_processes_give_the_same_file_bit_for_bit(tmp_path: Path) -> None:
    contents = set()
    for number in range(2):
        path = tmp_path / f"{number}.nn"
        subprocess.run(
            [sys.executable, "-c", _FIT_AND_SAVE, str(path)],
            check=True,
            env=os.environ | {"PYTHONHASHSEED": str(number)},
        )
        contents.add(path.read_bytes())
    assert len(contents) == 1


@pytest.mark.parametrize("lr", [1e6, 1e20, 3e38])
@pytest.mark.parametrize("stride", [6, 1])
def test_a_learning_rate_that_diverges_never_leaves_anything_that_is_not_finite(
    lr: float, stride: int, caplog: pytest.LogCaptureFixture
) -> None:
    detector = M2N2(window=6, stride=stride, epochs=2, lr=lr, threshold=Fixed(math.inf))
    detector.fit(plant(200, 0))
    after = plant(600, 1) * 10
    with caplog.at_level(logging.WARNING, logger="newnormal"):
        for at in range(0, 600, 50):
            verdicts = detector.run(after[at : at + 50], flush=False)
            judged = ~np.isnan(np.asarray(verdicts.expected)).all(axis=1)
            assert np.isfinite(verdicts.scores[judged]).all()
            assert np.isfinite(stream(detector).weights).all()
            assert np.isfinite(stream(detector).good).all()
    restored = detector.counters["restored"]
    assert restored > 0
    counts = re.findall(r"the weights went back to a good copy, (\d+) time", caplog.text)
    assert sum(map(int, counts)) == restored
    assert "a smaller lr would avoid it" in caplog.text


def test_the_guards_count_and_copy_are_part_of_the_state(tmp_path: Path) -> None:
    detector = M2N2(window=6, epochs=2, lr=1e20, threshold=Fixed(math.inf)).fit(plant(200, 0))
    detector.run(plant(100, 1) * 10, flush=False)
    detector.save(tmp_path / "state.nn")
    other = M2N2.load(tmp_path / "state.nn")
    assert other.counters == detector.counters
    assert other.counters["restored"] > 0
    np.testing.assert_array_equal(stream(other).good, stream(detector).good)
    assert as_bytes(other) == as_bytes(detector)


def test_a_learning_rate_that_works_and_looking_never_wake_the_guard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    detector = M2N2(window=6, epochs=2, lr=0.01, threshold=Fixed(math.inf)).fit(plant(200, 0))
    detector.run(plant(1000, 1))
    assert detector.counters["restored"] == 0
    assert detector.counters["learned"] == 167
    assert caplog.records == []
    detector = M2N2(window=6, epochs=2, lr=1e20, threshold=Fixed(math.inf)).fit(plant(200, 0))
    assert np.isfinite(detector.decision_function(plant(100, 1) * 10)).all()
    assert detector.counters == {"seen": 0, "pending": 0, "learned": 0, "restored": 0}


def test_the_threshold_is_the_quantile_of_scores_of_history_judged_at_the_same_stride() -> None:
    history = plant(300, 0)
    for stride in (6, 3, 2, 1):
        detector = M2N2(window=6, stride=stride, epochs=2, threshold=Quantile(0.9)).fit(history)
        set_params(detector, decay=1.0, lr=np.float32(0))
        ref = np.quantile(detector.run(history).scores, 0.9)
        assert detector.threshold_ == pytest.approx(ref, rel=1e-12)


def test_about_one_in_a_hundred_of_history_is_anomalous_at_the_default() -> None:
    history = plant(1200, 0)
    detector = M2N2(window=6, epochs=2, adapt=False, detrend=False).fit(history)
    assert detector.predict(history).mean() == pytest.approx(0.01, abs=0.002)


OPTIONS: dict[str, Any] = {"window": 4, "latent": 2, "epochs": 2}


def series(length: int, seed: int) -> Floats:
    t = np.arange(length)[:, None]
    noise = np.random.default_rng(seed).normal(0, 0.2, size=(length, 3))
    return np.asarray(np.sin(t / np.array([9.0, 13.0, 20.0])) + noise)


@pytest.fixture(scope="module")
def fitted() -> M2N2:
    return M2N2(**OPTIONS, alarms_per_day=3).fit(series(2000, 0))


@pytest.fixture
def detector(fitted: M2N2) -> M2N2:
    return M2N2.from_state(fitted.to_state()).reset()


def faulty() -> Floats:
    live = series(1500, 1)
    live[700:760, 1] += 4
    return live


def test_a_fault_is_one_alarm_that_names_its_channel(detector: M2N2) -> None:
    verdicts = detector.run(faulty())
    assert verdicts.alarms is not None
    number = verdicts.alarms[710]
    assert number > 0
    assert (verdicts.alarms[705:755] == number).all()
    events = detector.take_events()
    kinds = [event.kind for event in events if event.alarm and event.alarm.number == number]
    assert [kinds[0], kinds[-1]] == ["opened", "closed"]
    (closed,) = [each for each in alarms_of(events, "closed") if each.number == number]
    assert 698 <= closed.start <= 705
    assert 755 <= closed.end <= 830  # the trend had followed the fault, and has to come back
    assert next(iter(closed.channels)) == "1"
    assert closed.reason == "back to normal"
    assert detector.alarm_ is None


def test_anomalous_is_a_ratio_of_at_least_1_and_the_threshold_moves(detector: M2N2) -> None:
    verdicts = detector.run(faulty())
    assert verdicts.ratios is not None
    assert verdicts.p_values is not None
    np.testing.assert_array_equal(verdicts.anomalous, verdicts.scores >= verdicts.thresholds)
    clear = np.abs(verdicts.ratios - 1) > 1e-9
    np.testing.assert_array_equal(verdicts.anomalous[clear], verdicts.ratios[clear] >= 1)
    assert np.unique(verdicts.thresholds).size > 100
    assert (np.diff(verdicts.p_values[np.argsort(verdicts.ratios)]) <= 1e-12).all()
    assert ((verdicts.p_values >= 0) & (verdicts.p_values <= 1)).all()


def test_a_limit_or_a_risk_has_its_realised_rate_beside_it(detector: M2N2) -> None:
    assert detector.alarm_rate_.samples == 0
    detector.run(series(1440 * 3, 2))
    realised = detector.alarm_rate_
    assert realised.samples == 1440 * 3
    assert realised.limit_per_day == 3
    assert realised.per_day <= 6
    strict = M2N2(**OPTIONS, risk=1e-5).fit(series(2000, 0))
    assert strict.threshold_ > M2N2(**OPTIONS, risk=1e-2).fit(series(2000, 0)).threshold_


def test_samples_a_day_come_from_the_period() -> None:
    every_second = M2N2(**OPTIONS, alarms_per_day=3, period="1s").fit(series(400, 0))
    every_minute = M2N2(**OPTIONS, alarms_per_day=3).fit(series(400, 0))
    assert every_second.threshold_ > every_minute.threshold_
    every_second.run(series(300, 1))
    assert every_second.alarm_rate_.per_day == every_second.alarm_rate_.alarms / 300 * 86_400


def test_alarms_go_on_after_saving_in_the_middle_of_one(detector: M2N2, tmp_path: Path) -> None:
    live = faulty()
    detector.run(live[:730], flush=False)
    assert detector.alarm_ is not None
    detector.save(tmp_path / "plant.nn")
    again = M2N2.load(tmp_path / "plant.nn")
    assert again.get_params() == detector.get_params()
    assert again.alarm_ == detector.alarm_
    assert again.alarm_rate_ == detector.alarm_rate_
    ref, comp = detector.run(live[730:]), again.run(live[730:])
    np.testing.assert_array_equal(ref.ratios, comp.ratios)
    assert again.take_events() == detector.take_events()


def test_looking_changes_no_alarm(detector: M2N2) -> None:
    live = faulty()
    detector.run(live[:730], flush=False)
    before = codec.encode(detector.to_state())
    detector.score_frozen(live)
    detector.predict(live)
    detector.decision_function(live)
    assert codec.encode(detector.to_state()) == before


def test_without_a_limit_alarms_are_tracked_when_asked_for() -> None:
    detector = M2N2(**OPTIONS, threshold=0.999).fit(series(2000, 0))
    plain = detector.run(faulty())
    assert (plain.ratios, plain.p_values, plain.alarms) == (None, None, None)
    assert plain[710].ratio == plain[710].score / plain[710].threshold
    assert (plain[710].p_value, plain[710].alarm) == (None, None)
    assert detector.take_events() == []

    tracked = detector.reset().track_alarms().run(faulty())
    np.testing.assert_array_equal(tracked.scores, plain.scores)
    np.testing.assert_array_equal(tracked.anomalous, plain.anomalous)
    np.testing.assert_allclose(tracked.ratios, plain.scores / plain.thresholds)  # type: ignore[arg-type]
    assert any(alarm.start >= 700 for alarm in alarms_of(detector.take_events(), "opened"))


def test_a_detector_that_chooses_for_itself_tracks_alarms() -> None:
    assert Detector(epochs=1).fit(series(150, 0)).run(series(50, 1)).alarms is not None


def test_what_is_known_of_alarms_is_in_the_json(detector: M2N2) -> None:
    verdict = detector.run(faulty())[710]
    fields = json.loads(verdict.to_json())
    assert list(fields)[-3:] == ["ratio", "p_value", "alarm"]
    assert (fields["ratio"], fields["p_value"], fields["alarm"]) == (
        verdict.ratio,
        verdict.p_value,
        verdict.alarm,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alarms_per_day": 1, "risk": 1e-4}, "expected either alarms_per_day or risk, found both"),
        ({"alarms_per_day": 0}, "alarms_per_day: expected a number above 0, found 0"),
        ({"alarms_per_day": "1"}, "alarms_per_day: expected a number above 0"),
        ({"risk": 1.0}, "risk: expected a chance a sample between 0 and 1"),
    ],
)
def test_a_wrong_limit_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        M2N2(**options)
