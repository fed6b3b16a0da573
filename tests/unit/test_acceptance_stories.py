"""Changes as users meet them: reported once, pending, then accepted, rejected or over."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Detector, Event, FeedbackError, Fixed, ParameterError
from newnormal.acceptance import TimedAcceptance
from newnormal.acceptance.review import MOVED_WEIGHTS
from newnormal.acceptance.shadow import Timing
from newnormal.base import BaseDetector
from newnormal.kernels.stream import MOVED, ReviewState
from newnormal.tabular import to_table
from newnormal.types import Floats, Floats32
from tests.errors import raised
from tests.inside import params, stream
from tests.plants import (
    ACCEPT_AFTER,
    AT,
    SIGMA,
    alarms_of,
    changes_of,
    events_of,
    fresh,
    minutes,
    plant,
)
from tests.present import present

FLOW, LEVEL, POWER = range(3)
SHIFT = np.array([6.0, 5.0, -4.0]) * SIGMA


def shifted(length: int = 3_000) -> Floats:
    live = plant(1, length)
    live[AT:] += SHIFT
    return live


def failed(kind: str, length: int = 3_000) -> Floats:
    """A plant whose flow fails, and stays so."""
    live = plant(1, length)
    if kind == "dead":
        live[AT:, FLOW] = live[:AT, FLOW].mean() - 6 * SIGMA[FLOW]
    elif kind == "offset":
        live[AT:, FLOW] += 6 * SIGMA[FLOW]
    elif kind == "stuck":
        live[AT:, FLOW] = live[AT, FLOW]
    return live


def drifting(length: int, channel: int = LEVEL) -> Floats:
    """A plant with a channel that moves by a standard deviation in 1,000 samples."""
    live = plant(1, length)
    live[AT:, channel] += 0.001 * SIGMA[channel] * np.arange(length - AT)
    return live


def known(events: list[Event], kind: str) -> list[int]:
    """The samples at which events of a kind were known."""
    return [event.sample for event in events if event.kind == kind]


def timing(detector: BaseDetector) -> Timing:
    acceptance = detector._fitted.acceptance
    assert isinstance(acceptance, TimedAcceptance)
    return acceptance.timing


def reviewed(detector: BaseDetector) -> ReviewState:
    return present(detector._state.review)


def learned(detector: BaseDetector) -> tuple[Floats32, Floats]:
    return detector._model.snapshot(detector._state.model)


@pytest.fixture
def detector() -> Detector:
    return fresh()


def test_level_shift_is_one_change_with_the_alarm_it_began_with(detector: Detector) -> None:
    events = events_of(detector, failed("offset", AT + 200))
    (changed,) = [event for event in events if event.kind == "changed"]
    assert len(alarms_of(events, "opened")) == 1
    change = present(changed.change)
    assert (change.number, change.start, change.alarm) == (1, AT, present(changed.alarm).number)
    assert (change.state, change.open, change.channels) == ("pending", True, ("flow",))
    assert AT < changed.sample <= AT + 60
    (pending,) = detector.changes_
    mean = plant(1, AT)[:, FLOW].mean()
    assert pending.before["flow"] == pytest.approx(mean, abs=SIGMA[FLOW])
    assert pending.after["flow"] == pytest.approx(mean + 6 * SIGMA[FLOW], abs=SIGMA[FLOW])
    assert detector.change_ == pending


def test_shift_of_all_channels_at_once_is_one_change(detector: Detector) -> None:
    changes = changes_of(events_of(detector, shifted(AT + 300)), "changed")
    assert [set(change.channels) for change in changes] == [{"flow", "level", "power"}]


def test_shift_is_accepted_between_one_and_two_accept_after(detector: Detector) -> None:
    events = events_of(detector, shifted())
    (at,) = known(events, "accepted")
    assert ACCEPT_AFTER <= at - AT <= 2 * ACCEPT_AFTER
    assert len(known(events, "changed")) == 1
    (change,) = changes_of(events, "accepted")
    assert (change.state, change.open) == ("accepted", False)
    assert (detector.status_, detector.changes_, detector.change_) == ("normal", [], None)
    assert detector.distance_ < 1


def test_slow_drift_is_a_change_without_an_alarm() -> None:
    detector = fresh(alarms_per_day=1e-6)  # a threshold that no score of a drift reaches
    events = events_of(detector, drifting(AT + 3_000))
    assert alarms_of(events, "opened") == []
    (first, *_) = [event for event in events if event.kind == "changed"]
    assert first.alarm is None and first.change is not None
    assert (first.change.channels, first.change.alarm) == (("level",), None)
    assert 0 < 0.001 * (first.sample - AT) < 3, "known before it has gone far"
    moved = first.change.after["level"] - first.change.before["level"]
    assert moved > 0.5 * SIGMA[LEVEL], "from the border of what was normal"


def test_stuck_sensor_is_a_change(detector: Detector) -> None:
    events = events_of(detector, failed("stuck", AT + 200))
    (change,) = changes_of(events, "changed")
    assert change.channels == ("flow",)
    assert known(events, "changed")[0] <= AT + 60


def test_stream_that_goes_back_has_reverted(detector: Detector) -> None:
    live = failed("offset", 2_500)
    live[AT + 200 :] = plant(1, 2_500)[AT + 200 :]
    events = events_of(detector, live)
    assert known(events, "accepted") == []
    (change,) = changes_of(events, "reverted")
    assert (change.number, change.state, change.open) == (1, "reverted", False)
    assert AT + 200 < known(events, "reverted")[0] <= AT + 200 + ACCEPT_AFTER
    assert detector.status_ == "normal"


@pytest.mark.parametrize(("length", "onset"), [(60, 1), (200, 1), (200, 30)])
def test_reverted_change_tells_where_it_was(detector: Detector, length: int, onset: int) -> None:
    """Not where it stood on its way back."""
    live = plant(1, 2_500)
    fault = np.minimum(np.arange(1, length + 1) / onset, 1)
    live[AT : AT + length, FLOW] += 30 * SIGMA[FLOW] * fault
    (change,) = changes_of(events_of(detector, live), "reverted")
    moved = change.after["flow"] - change.before["flow"]
    assert moved == pytest.approx(30 * SIGMA[FLOW], rel=0.1)


def test_change_of_a_channel_with_a_daily_rhythm_is_told_of_the_hour_at_which_it_began() -> None:
    """And it is not over when the rhythm brings its values back to where they were."""
    a_day, fitted, step = 288, 14 * 288, 15.0
    sample = np.arange(fitted + 3 * a_day)
    times = np.datetime64("2026-01-01T00:00", "ns") + sample * np.timedelta64(5, "m")
    rhythm = 50 + 20 * np.sin(2 * np.pi * sample / a_day)
    values = rhythm[:, None] + np.random.default_rng(0).normal(0, 1, (len(sample), 1))
    at = fitted + 100
    values[at:] += step
    parts = [
        to_table(values[rows], times=times[rows], channels=["requests"])
        for rows in [slice(fitted), *(slice(k, k + 24) for k in range(fitted, len(values), 24))]
    ]
    detector = Detector(accept_after=10 * a_day).fit(parts[0])
    levels = set()
    for part in parts[1:]:
        detector.run(part)
        for change in detector.changes_:
            assert change.before["requests"] == pytest.approx(rhythm[at], abs=1)
            assert change.after["requests"] == pytest.approx(rhythm[at] + step, abs=1)
            levels.add(round(change.after["requests"]))
    assert len(levels) == 1, "told, and the same at each hour"
    assert known(detector.take_events(), "reverted") == []


def test_ramp_that_goes_on_is_no_new_normal(detector: Detector) -> None:
    live = plant(1, AT + 3 * ACCEPT_AFTER)
    live[AT:, FLOW] += 0.02 * SIGMA[FLOW] * np.arange(3 * ACCEPT_AFTER)
    assert known(events_of(detector, live), "accepted") == []
    assert [change.channels for change in detector.changes_] == [("flow",)]


def test_two_channels_that_shift_at_different_times_are_two_changes() -> None:
    live = failed("offset", 3_000)
    live[AT + 150 :, LEVEL] -= 6 * SIGMA[LEVEL]
    for first in (True, False):
        detector = fresh()
        detector.run(live[: AT + 250])
        assert [change.channels for change in detector.changes_] == [("flow",), ("level",)]
        # The second joined the alarm of the first, which goes on until that stands.
        assert [each.alarm for each in detector.changes_] == [1, 1]
        assert [each.start for each in detector.changes_] == [AT, AT + 150]
        detector.take_events()
        if first:
            detector.reject(change=1)
            detector.accept(change=2)
        else:
            detector.accept(change=1)
            detector.reject(change=2)
        (left,) = detector.changes_
        assert (left.number, left.state) == (1 if first else 2, "rejected")
        events = events_of(detector, live[AT + 250 :])
        assert [each.number for each in changes_of(events, "accepted")] == [2 if first else 1]
        assert detector.changes_[0].number == left.number


@pytest.mark.parametrize("rejected", [False, True])
@pytest.mark.parametrize("channel", range(3))
def test_second_fault_opens_an_alarm_while_a_change_is_open(rejected: bool, channel: int) -> None:
    live = failed("offset", 2_000)
    live[AT + 250, channel] += 10 * SIGMA[channel]
    detector = fresh()
    detector.run(live[: AT + 220])  # the change stands, and its alarm is over
    if rejected:
        detector.reject()
    status = "change rejected" if rejected else "change pending"
    assert detector.status_ == status
    detector.take_events()
    detector.run(live[AT + 220 : AT + 260])
    assert [alarm.start for alarm in alarms_of(detector.take_events(), "opened")] == [AT + 250]
    assert detector.status_ == "in alarm"


@pytest.mark.parametrize("kind", ["dead", "offset", "stuck"])
def test_failed_sensor_is_reported_until_accept_after(detector: Detector, kind: str) -> None:
    verdicts = detector.run(failed(kind))
    reported = (present(verdicts.alarms) > 0) | (present(verdicts.changes) > 0)
    noticed = AT + int(np.flatnonzero(reported[AT:])[0])
    assert noticed < AT + 60
    assert reported[noticed + 60 : noticed + ACCEPT_AFTER].all()
    assert all(at >= AT + ACCEPT_AFTER for at in known(detector.take_events(), "accepted"))


@pytest.mark.parametrize("kind", ["dead", "offset", "stuck"])
@pytest.mark.parametrize("after", [100, 300])
def test_nothing_of_a_rejected_change_is_learned(detector: Detector, kind: str, after: int) -> None:
    live = failed(kind, AT + 4 * ACCEPT_AFTER)
    detector.run(live[: AT + after])
    assert detector.reject(present(detector.change_)) is detector
    (event,) = [event for event in detector.take_events() if event.kind == "rejected"]
    assert (event.sample, present(event.change).state) == (AT + after - 1, "rejected")
    before = stream(detector).weights.copy()
    assert known(events_of(detector, live[AT + after :]), "accepted") == []
    assert [each.state for each in detector.changes_] == ["rejected"]
    assert detector.status_ in ("change rejected", "in alarm")
    np.testing.assert_array_equal(before, stream(detector).weights)


def test_alarm_that_is_rejected_before_its_change_rejects_it(detector: Detector) -> None:
    live = failed("offset", AT + 4 * ACCEPT_AFTER)
    detector.run(live[: AT + 5])
    assert detector.changes_ == []
    (alarm,) = detector.alarms_
    detector.reject(alarm)
    events = events_of(detector, live[AT + 5 :])
    assert [change.alarm for change in changes_of(events, "rejected")] == [alarm.number]
    assert known(events, "rejected")[0] <= AT + 120
    assert known(events, "accepted") == []
    assert detector.status_ == "change rejected"


def test_rejection_goes_back_to_the_weights_before_the_change(detector: Detector) -> None:
    live = failed("offset")
    length = timing(detector).review_length
    detector.run(live[: AT - AT % length])
    before = learned(detector)[0]
    detector.run(live[AT - AT % length : AT + 200])
    detector.reject()
    np.testing.assert_array_equal(before, learned(detector)[0])


def test_rejected_change_is_over_when_the_sensor_is_mended(detector: Detector) -> None:
    live = failed("offset")
    live[2_000:] = plant(1, 3_000)[2_000:]
    detector.run(live[: AT + 100])
    detector.reject()
    events = events_of(detector, live[AT + 100 :])
    (change,) = changes_of(events, "reverted")
    assert 2_000 <= known(events, "reverted")[0] <= 2_000 + 2 * ACCEPT_AFTER
    assert change.number == 1
    assert detector.status_ == "normal"


def test_nothing_is_learned_while_a_rejected_change_lasts_and_again_when_it_is_over() -> None:
    detector = M2N2(window=5, lr=0.05, half_life=60, threshold=0.999, accept_after=ACCEPT_AFTER)
    detector.fit(plant(0, 2_000))
    live = failed("offset")
    live[2_000:] = plant(1, 3_000)[2_000:]
    detector.run(live[: AT + 100], flush=False)
    detector.reject()
    weights = stream(detector).weights.copy()
    assert detector.counters["learned"] > 0
    detector.run(live[AT + 100 : 1_990], flush=False)
    np.testing.assert_array_equal(weights, stream(detector).weights)
    detector.run(live[1_990:], flush=False)
    assert detector.changes_ == []
    assert not np.array_equal(weights, stream(detector).weights)


def test_rejected_change_stays_though_its_channel_is_missing(detector: Detector) -> None:
    live = failed("dead")
    detector.run(live[: AT + 150])
    detector.reject()
    live[AT + 300 : AT + 400, FLOW] = np.nan
    events = events_of(detector, live[AT + 150 :])
    assert known(events, "accepted") == known(events, "reverted") == []
    assert [change.state for change in detector.changes_] == ["rejected"]


def test_rejected_drift_is_unlearned() -> None:
    detector = M2N2(window=5, lr=0.05, threshold=Fixed(np.inf), accept_after=ACCEPT_AFTER)
    detector.fit(plant(0, 2_000))
    live = drifting(6_000)
    for part in np.split(live, range(100, len(live), 100)):
        detector.run(part)
        if detector.changes_:
            break
    assert detector.changes_[0].alarm is None
    detector.reject()
    np.testing.assert_array_equal(stream(detector).weights, params(detector).fitted)


def test_person_can_accept_at_once_and_by_the_alarm_of_a_change() -> None:
    for by_alarm in (False, True):
        detector = fresh()
        detector.run(shifted(AT + 100))
        (change,) = detector.changes_
        detector.accept(change.alarm if by_alarm else change)
        assert detector.status_ == "normal"
        assert known(detector.take_events(), "accepted") == [AT + 99]


def test_undo_restores_weights_and_reaches_three_acceptances(detector: Detector) -> None:
    live = plant(1, 5_000)
    for number in range(4):
        live[AT + 800 * number :] += SHIFT
    length = timing(detector).review_length
    detector.run(live[: AT - AT % length])
    before = learned(detector)[0]
    assert len(known(events_of(detector, live[AT - AT % length : AT + 600]), "accepted")) == 1
    detector.undo()
    np.testing.assert_array_equal(before, learned(detector)[0])
    assert len(known(events_of(detector, live[AT + 600 :]), "accepted")) >= 3
    for _ in range(3):
        detector.undo()
    with pytest.raises(FeedbackError, match="found none since `fit`"):
        detector.undo()


def test_reset_goes_back_to_what_fit_left_whatever_was_accepted(detector: Detector) -> None:
    live = shifted()
    start = detector.to_state()
    ref = detector.run(live)
    detector.reset()
    after = detector.to_state()
    assert start.facts == after.facts
    for name, array in start.tensors.items():
        np.testing.assert_array_equal(array, after.tensors[name], err_msg=name)
    np.testing.assert_array_equal(ref.scores, detector.run(live).scores)
    assert detector.reset().past_ == []


def test_never_leaves_acceptance_to_a_person() -> None:
    detector = Detector(accept_after="never").fit(plant(0, 3_000))
    assert known(events_of(detector, shifted(5_000)), "accepted") == []
    assert [change.state for change in detector.changes_] == ["pending"]
    detector.accept()
    assert detector.status_ == "normal"


def test_m2n2_follows_the_paper_unless_asked() -> None:
    detector = M2N2(window=5, epochs=1).fit(plant(0, 600))
    assert np.isnan(detector.distance_)
    assert detector.changes_ == []
    assert str(raised(FeedbackError, detector.undo)) == (
        "expected a detector with acceptance, found one that learns as in the paper, or that an "
        "older newnormal fitted\n"
        'hint: use Detector, or M2N2(accept_after="1d")'
    )


@pytest.mark.parametrize("value", [0, -5, 0.5, float("nan"), "soon", True])
def test_accept_after_must_be_samples_or_a_time(value: Any) -> None:
    with pytest.raises(ParameterError, match="accept_after"):
        Detector(accept_after=value)


def test_accept_after_as_a_time_needs_times() -> None:
    with pytest.raises(ParameterError, match=r"accept_after='2h' is a time, and the sampling"):
        Detector(accept_after="2h", epochs=1).fit(plant(0, 400))


def test_accept_after_is_a_day_or_1440_samples_and_reviews_are_an_hour_apart_at_most() -> None:
    history = plant(0, 400)
    times = minutes(400) + np.arange(400) * np.timedelta64(4, "m")
    detectors = [
        Detector(epochs=1).fit(history),
        Detector(epochs=1).fit(history, times=times),
        Detector(epochs=1, accept_after="2h").fit(history, times=times),
        Detector(epochs=1, accept_after=np.timedelta64(1, "h"), period="30s").fit(history),
    ]
    assert [timing(each).accept_after for each in detectors] == [1440, 288, 24, 120]
    lengths = [TimedAcceptance(value).timing.review_length for value in (np.inf, 1_440, 60, 7, 1)]
    assert lengths == [60, 60, 10, 1, 1]


def test_rate_that_spoils_the_weights_is_a_change_and_can_be_undone() -> None:
    history, live = plant(0, 2_000), plant(1, 3_000)
    detector = M2N2(window=5, lr=50, threshold=1.0, accept_after=400).fit(history)
    fitted = stream(detector).weights.copy()
    for part in np.split(live, range(100, len(live), 100)):
        detector.run(part, flush=False)
        if detector.changes_:
            break
    assert detector.distance_ > 1
    (change,) = detector.changes_
    assert change.channels == ()
    assert change.sentence.startswith("the model's weights have moved far from the accepted ones")
    detector.reject()
    np.testing.assert_array_equal(stream(detector).weights, fitted)
    assert detector.distance_ < 1
    assert known(detector.take_events(), "reverted")


def test_weights_that_leave_all_bounds_can_still_be_saved(tmp_path: Path) -> None:
    live = plant(1, 900)
    live[300:] += 8 * SIGMA
    live[500] = 1e6
    detector = M2N2(window=12, half_life=60, threshold=Fixed(np.inf), accept_after=100)
    detector.fit(plant(0, 1_000))
    for part in np.split(live, range(20, 900, 20)):
        detector.run(part, flush=False)
        detector.save(tmp_path / "state.nn")
    assert M2N2.load(tmp_path / "state.nn").distance_ == detector.distance_


def test_weights_that_were_accepted_are_kept_with_what_can_be_gone_back_to() -> None:
    detector = M2N2(window=5, half_life=60, lr=0.5, threshold=1.0, accept_after=ACCEPT_AFTER)
    detector.fit(plant(0, 2_000))
    live = plant(1, 3_000)
    live[600:] += 6 * SIGMA
    live[1_800:] += 6 * SIGMA
    detector.run(live)
    kept = detector._state.undo[::-1]
    assert kept
    for back in kept:
        detector.undo()
        assert reviewed(detector).levels[MOVED] == back.levels[MOVED_WEIGHTS]


def test_predict_and_decision_function_see_what_run_would_see(detector: Detector) -> None:
    live = shifted()
    before = detector.to_state()
    scores, flags = detector.decision_function(live), detector.predict(live)
    assert detector.to_state().facts == before.facts
    ref = detector.run(live)
    np.testing.assert_array_equal(scores, ref.scores)
    np.testing.assert_array_equal(flags, ref.anomalous.astype(int))


def test_times_of_events_are_those_of_their_samples_in_pieces_too() -> None:
    live, times = shifted(1_600), minutes(1_600)
    ref: list[str] = []
    for size in (1_600, 29):
        detector = fresh(timed=True)
        events: list[Event] = []
        for at in range(0, len(live), size):
            detector.run(live[at : at + size], times=times[at : at + size])
            events += detector.take_events()
        for event in events:
            assert event.time == times[event.sample]
        assert known(events, "accepted")
        lines = [event.to_json() for event in events]
        ref = ref or lines
        assert lines == ref


def test_missing_samples_and_values_do_no_harm(detector: Detector) -> None:
    live = shifted()
    live[np.random.default_rng(3).random(live.shape) < 0.05] = np.nan
    live[1_100:1_140] = np.nan
    assert known(events_of(detector, live), "accepted")


def test_m2n2_accepts_too_where_asked(tmp_path: Path) -> None:
    detector = M2N2(window=5, half_life=60, lr=0.01, threshold=1.0, accept_after=ACCEPT_AFTER)
    detector.fit(plant(0, 3_000))
    live = shifted()
    detector.run(live[: AT + 200])
    assert detector.changes_
    detector.save(tmp_path / "state.nn")
    detector = M2N2.load(tmp_path / "state.nn")
    accepted = known(events_of(detector, live[AT + 200 :]), "accepted")
    assert ACCEPT_AFTER <= accepted[0] - AT <= 2 * ACCEPT_AFTER


def test_model_that_cannot_follow_leaves_acceptance_to_a_person() -> None:
    detector = M2N2(window=5, detrend=False, adapt=False, accept_after=ACCEPT_AFTER)
    detector.fit(plant(0, 3_000))
    live = shifted()
    live[AT:] += 4 * SHIFT
    assert known(events_of(detector, live), "accepted") == []
    assert detector.changes_
    for _ in detector.changes_:
        detector.accept()
    assert detector.changes_ == []


@pytest.mark.parametrize("size", [30.0, 100.0, 1e3, 1e6])
def test_large_shift_is_accepted_in_time_too(detector: Detector, size: float) -> None:
    live = plant(1, 2_000)
    live[AT:, LEVEL] += size
    accepted = known(events_of(detector, live), "accepted")
    assert accepted
    assert ACCEPT_AFTER <= accepted[0] - AT <= 2 * ACCEPT_AFTER


def test_setting_that_was_constant_in_history_can_change() -> None:
    history = np.column_stack([plant(0, 3_000), np.full(3_000, 1_500.0)])
    detector = Detector(accept_after=ACCEPT_AFTER).fit(history)
    live = np.column_stack([plant(1, 2_000), np.full(2_000, 1_500.0)])
    live[AT:, 3] = 1_800.0
    events = events_of(detector, live)
    assert changes_of(events, "changed")[0].channels == ("3",)
    assert ACCEPT_AFTER <= known(events, "accepted")[0] - AT <= 2 * ACCEPT_AFTER


def test_stream_that_begins_elsewhere_is_accepted_in_time(detector: Detector) -> None:
    events = events_of(detector, plant(1, 1_500) + 8 * SIGMA)
    assert known(events, "accepted")[0] <= 2 * ACCEPT_AFTER + 60


def test_one_absurd_value_is_over_soon(detector: Detector) -> None:
    live = plant(1, 3_000)
    live[AT, FLOW] = 1e12
    events = events_of(detector, live)
    assert known(events, "opened")[0] == AT
    assert (detector.status_, known(events, "accepted")) == ("normal", [])
    assert max(event.sample for event in events) < AT + 500


def test_a_series_judged_by_itself_inherits_no_alarm(detector: Detector) -> None:
    detector.run(shifted(AT + 10))
    alarm = present(detector.alarm_)
    assert alarm.number not in present(detector.score_frozen(plant(2, 300)).alarms)
    assert detector.alarm_ == alarm
