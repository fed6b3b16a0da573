"""The detector's alarms: a limit instead of a quantile, ratios, p-values, and events."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Detector, ParameterError
from newnormal.state import codec
from newnormal.types import Floats
from tests.plants import alarms_of

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


def test_the_realised_rate_stands_beside_the_limit(detector: M2N2) -> None:
    assert detector.alarm_rate_.samples == 0
    detector.run(series(1440 * 3, 2))
    realised = detector.alarm_rate_
    assert realised.samples == 1440 * 3
    assert realised.limit_per_day == 3
    assert realised.per_day <= 6


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
    detector.score(live)
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


def test_a_risk_is_a_limit_too() -> None:
    strict = M2N2(**OPTIONS, risk=1e-5).fit(series(2000, 0))
    assert strict.threshold_ > M2N2(**OPTIONS, risk=1e-2).fit(series(2000, 0)).threshold_
