"""The timeline of a run: what a picture shows of it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from newnormal import InputError
from newnormal.types import Alarm, Change, Event, Evidence, Observed, Peak, Timeline, Verdicts


def _alarm(number: int, start: int, end: int, reason: str | None = None) -> Alarm:
    peak = Peak(start, None, 2.0, 2.0, 1e-3, {"b": 0.7, "a": 0.3})
    return Alarm(number, start, None, end, None, peak, reason=reason)


def _change(number: int, start: int, state: str = "pending") -> Change:
    return Change(number, start, None, ("c",), {"c": 1.0}, {"c": 2.0}, state)


def _verdicts(rows: int = 100, first: int = 50, **observed: object) -> Verdicts:
    ones = np.ones(rows)
    seen = Observed(np.zeros((rows, 3)), **observed)  # type: ignore[arg-type]
    return Verdicts(
        ones, 2 * ones, ones > 1, None, None, None, ("a", "b", "c"), first, observed=seen
    )


def test_an_alarm_is_as_it_was_last_reported() -> None:
    events = (
        Event("opened", 60, None, _alarm(1, 60, 60)),
        Event("updated", 62, None, _alarm(1, 60, 62)),
        Event("closed", 70, None, _alarm(1, 60, 66, "back to normal")),
        Event("opened", 140, None, _alarm(2, 140, 140)),
    )
    found = Timeline.of(_verdicts(events=events, remaining=(_alarm(2, 140, 149),)))
    assert [(each.number, each.start, each.end) for each in found.alarms] == [
        (1, 60, 66),
        (2, 140, 149),
    ]
    assert found.status == "in alarm"


def test_an_alarm_open_all_the_time_is_there_and_what_does_not_reach_into_it_is_left_out() -> None:
    found = Timeline.of(_verdicts(remaining=(_alarm(7, 3, 149),)))
    assert [each.number for each in found.alarms] == [7]
    events = (Event("closed", 52, None, _alarm(1, 10, 49, "back to normal")),)
    assert Timeline.of(_verdicts(events=events)).alarms == ()
    reaching = (Event("closed", 52, None, _alarm(1, 10, 50, "back to normal")),)
    assert len(Timeline.of(_verdicts(events=reaching)).alarms) == 1


def test_the_states_of_a_change_have_the_samples_from_which_on_they_held() -> None:
    events = (
        Event("changed", 70, None, change=_change(1, 60)),
        Event("changed", 72, None, change=_change(2, 71)),
        Event("accepted", 90, None, change=_change(1, 60, "accepted")),
        Event("rejected", 95, None, change=_change(2, 71, "rejected")),
    )
    found = Timeline.of(_verdicts(events=events, remaining=(_change(2, 71, "rejected"),)))
    first, second = found.changes
    assert first.steps == ((60, "pending"), (90, "accepted"))
    assert first.end == 90
    assert second.steps == ((71, "pending"), (95, "rejected"))
    assert second.end == 149  # the last sample: it is open
    assert [each.change.number for each in found.accepted] == [1]
    assert found.status == "change rejected"


def test_a_change_from_before_is_in_its_present_state_and_was_never_pending_in_it() -> None:
    found = Timeline.of(_verdicts(remaining=(_change(4, 2),)))
    assert found.changes[0].steps == ((2, "pending"),)
    assert found.status == "change pending"
    events = (Event("reverted", 90, None, change=_change(4, 2, "reverted")),)
    found = Timeline.of(_verdicts(events=events, rejected=frozenset({4})))
    assert found.changes[0].steps == ((2, "rejected"), (90, "reverted"))


def test_channels_concerned_and_that_of_an_alarms_sentence_come_first() -> None:
    events = (
        Event("closed", 70, None, _alarm(1, 60, 66, "back to normal")),
        Event("changed", 90, None, change=_change(1, 80)),
    )
    found = Timeline.of(_verdicts(events=events))
    assert found.order.tolist() == [2, 1, 0]
    np.testing.assert_allclose(found.concern, [0.3, 0.7, 1.0])
    assert Timeline.of(_verdicts()).order.tolist() == [0, 1, 2]
    alarm = replace(_alarm(1, 60, 66, "back to normal"), evidence=(Evidence("a", 9.0),))
    change = replace(_change(1, 80), channels=("c", "b"))
    found = Timeline.of(
        _verdicts(events=(Event("closed", 70, None, alarm),), remaining=(alarm, change))
    )
    assert found.order.tolist() == [1, 0, 2]  # what is open first
    found = Timeline.of(_verdicts(events=(Event("closed", 70, None, alarm),), remaining=(change,)))
    assert found.order.tolist() == [2, 0, 1]  # c leads what is open, a the sentence
    silent = replace(
        _alarm(1, 60, 66),
        peak=Peak(60, None, 0.0, 0.0, 1.0, {}),
        cause="silence",
        evidence=(Evidence("c", None),),
    )
    assert Timeline.of(_verdicts(remaining=(silent,))).order[0] == 2


def test_labels_are_given_or_those_of_the_input() -> None:
    labels = np.arange(100) % 2
    own = Timeline.of(_verdicts(labels=labels > 0)).labels
    given = Timeline.of(_verdicts(), labels=labels).labels
    assert own is not None and given is not None
    assert (own == given).all()
    assert Timeline.of(_verdicts()).labels is None
    with pytest.raises(InputError, match=r"one for each of 100 samples, found shape \(3,\)"):
        Timeline.of(_verdicts(), labels=[0, 1, 0])


@pytest.mark.parametrize("wrong", [2, math.nan, "0", None], ids=str)
def test_a_label_that_is_neither_0_nor_1_is_not_taken_for_a_fault(wrong: object) -> None:
    with pytest.raises(InputError, match=f"labels: expected 0 and 1, found {wrong!r}"):
        Timeline.of(_verdicts(), labels=np.array([wrong] * 100))


def test_of_some_rows_what_begins_after_them_is_not_open() -> None:
    verdicts = _verdicts(remaining=(_change(1, 100),))
    assert Timeline.of(verdicts).status == "change pending"
    assert Timeline.of(verdicts.rows(slice(0, 50))).status == "normal"
    assert Timeline.of(verdicts.rows(slice(0, 51))).status == "change pending"


def test_verdicts_from_elsewhere_have_no_timeline() -> None:
    with pytest.raises(InputError, match="verdicts that know the samples"):
        Timeline.of(replace(_verdicts(), observed=None))


def test_times_with_a_hole_are_no_axis() -> None:
    times = np.arange("2026-01-01T00:00", "2026-01-01T01:40", dtype="datetime64[m]")
    verdicts = replace(_verdicts(), times=times.astype("datetime64[ns]"))
    assert Timeline.of(verdicts).times is verdicts.times
    broken = times.astype("datetime64[ns]").copy()
    broken[5] = np.datetime64("NaT")
    assert Timeline.of(replace(verdicts, times=broken)).times is None


def test_observed_is_cut_and_joined_with_the_verdicts() -> None:
    verdicts = _verdicts(labels=np.arange(100) > 90, remaining=(_alarm(1, 140, 149),))
    parts = [verdicts.rows(slice(0, 40)), verdicts.rows(slice(40, 100))]
    assert parts[0].observed is not None and parts[0].observed.values.shape == (40, 3)
    joined = Verdicts.joined(parts)
    assert joined.observed is not None and verdicts.observed is not None
    np.testing.assert_array_equal(np.array(joined.observed.labels), np.arange(100) > 90)
    assert joined.observed.remaining == verdicts.observed.remaining
    assert Verdicts.joined([parts[0], replace(parts[1], observed=None)]).observed is None
