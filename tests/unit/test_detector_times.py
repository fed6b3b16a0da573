"""Times, the sampling period and memory given as a half-life."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import polars as pl
import pytest

from newnormal import M2N2, InputError, ParameterError
from newnormal.state import codec
from newnormal.types import Floats, Times
from tests.errors import raised
from tests.inside import params
from tests.present import present
from tests.strategies import nasty_series

START = np.datetime64("2026-01-01T00:00:00", "ns")


def clock(begin: int, end: int, seconds: float = 60) -> Times:
    return START + np.arange(begin, end) * np.timedelta64(round(seconds * 1e9), "ns")


@pytest.fixture(scope="module")
def history() -> Floats:
    return nasty_series("none missing", 60, 2)


@pytest.fixture
def detector(history: Floats) -> M2N2:
    return M2N2(window=4, stride=2, epochs=1, latent=2).fit(history, times=clock(0, 60))


def as_bytes(detector: M2N2) -> bytes:
    return codec.encode(detector.to_state())


def test_verdicts_carry_their_samples_times(detector: M2N2, history: Floats) -> None:
    when = clock(60, 71)
    verdicts = detector.run(history[:11], times=when)
    np.testing.assert_array_equal(verdicts.times, when)
    assert [verdict.time for verdict in verdicts] == list(when)
    np.testing.assert_array_equal(verdicts.columns()["time"], when)

    detector.reset()
    stepped = []
    for sample, time in zip(history[:11], when, strict=True):
        stepped += detector.step(sample, time)
    stepped += detector.flush()
    assert [verdict.time for verdict in stepped] == list(when)


def test_late_verdicts_carry_their_own_times_and_pending_times_survive_saving(
    detector: M2N2, history: Floats, tmp_path: Any
) -> None:
    when = clock(0, 12)
    assert detector.run(history[:7], times=when[:7], flush=False).late is None
    part = detector.run(history[7:12], times=when[7:], flush=False)
    assert part.late is not None
    np.testing.assert_array_equal(part.late.times, when[6:7])
    assert part.late.first == 6
    np.testing.assert_array_equal(part.times, when[7:])
    detector.reset().run(history[:7], times=when[:7], flush=False)
    detector.save(tmp_path / "state.nn")
    other = M2N2.load(tmp_path / "state.nn")
    assert other.last_time_ == when[6]
    late = present(other.run(history[7:12], times=when[7:]).late)
    np.testing.assert_array_equal(late.times, when[6:7])


def test_without_times_there_are_none_and_they_may_begin_in_the_middle_of_a_stream(
    detector: M2N2, history: Floats
) -> None:
    verdicts = detector.run(history)
    assert verdicts.times is None
    assert verdicts[0].time is None
    assert "time" not in verdicts.columns()
    assert detector.last_time_ is None
    detector.run(history[:5], flush=False)
    part = detector.run(history[5:8], times=clock(0, 3))
    assert [verdict.time for verdict in present(part.late)] == [None]
    assert [verdict.time for verdict in part] == list(clock(0, 3))


@pytest.mark.parametrize("late", [0, 60, 3600])
def test_a_time_not_later_than_the_last_is_an_error_and_the_sample_is_not_consumed(
    detector: M2N2, history: Floats, late: int
) -> None:
    detector.run(history[:5], times=clock(0, 5), flush=False)
    before = as_bytes(detector)
    wrong = clock(4, 5)[0] - np.timedelta64(late, "s")
    assert str(raised(InputError, lambda: detector.step(history[5], wrong))) == (
        f"sample 5: expected a time after 2026-01-01T00:04:00, found {str(wrong)[:19]}\n"
        "hint: samples come in the order of their times, each time once"
    )
    with pytest.raises(InputError, match="sample 5: expected a time after"):
        detector.run(history[5:7], times=[wrong, clock(9, 10)[0]])
    assert as_bytes(detector) == before
    detector.step(history[5], clock(5, 6)[0])
    assert detector.counters["seen"] == 6


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ([0, 2, 2], "sample 2: expected a time later than the one before"),
        ([0, 3, 1], "sample 2: expected a time later than the one before"),
        ([0, 1], "expected one time a sample, 3 in all, found 2 times"),
        ([0, 1, None], "sample 2: expected a time, found none"),
    ],
)
def test_wrong_times_are_refused_before_anything_changes(
    detector: M2N2, history: Floats, times: list[int | None], text: str
) -> None:
    detector.run(history[:5], times=clock(-5, 0), flush=False)
    before = as_bytes(detector)
    array = np.array(
        [np.datetime64("NaT") if step is None else clock(step, step + 1)[0] for step in times]
    )
    assert text in str(raised(InputError, lambda: detector.run(history[:3], times=array)))
    assert as_bytes(detector) == before


def test_nat_is_no_time_for_a_step(detector: M2N2, history: Floats) -> None:
    before = as_bytes(detector)
    with pytest.raises(InputError):
        detector.step(history[0], np.datetime64("NaT"))
    assert as_bytes(detector) == before


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-01T12:00:00Z",
        "2026-01-01T13:00:00+01:00",
        datetime(2026, 1, 1, 12, tzinfo=UTC),
        datetime(2026, 1, 1, 12),
        np.datetime64("2026-01-01T12:00"),
        pd.Timestamp("2026-01-01T12:00"),
        1767268800,
    ],
)
def test_a_step_takes_a_time_in_any_form(detector: M2N2, history: Floats, time: Any) -> None:
    detector.step(history[0], time)
    assert detector.last_time_ == np.datetime64("2026-01-01T12:00", "ns")


def test_reset_forgets_the_times(detector: M2N2, history: Floats) -> None:
    detector.run(history[:5], times=clock(10, 15))
    detector.reset()
    assert detector.last_time_ is None
    assert detector.run(history[:5], times=clock(0, 5)).times is not None


def test_looking_at_a_series_checks_its_times_against_the_streams_only_where_it_goes_on(
    detector: M2N2, history: Floats
) -> None:
    detector.run(history[:8], times=clock(10, 18))
    # `score_frozen` judges the series by itself; `decision_function` goes on with the stream.
    assert detector.score_frozen(history[:8], times=clock(0, 8)).times is not None
    frame = pl.DataFrame({"time": clock(0, 8), "0": history[:8, 0], "1": history[:8, 1]})
    with pytest.raises(InputError, match="expected a time after"):
        detector.decision_function(frame)


@pytest.mark.parametrize("form", ["times", "pandas index", "pandas column", "polars column"])
def test_the_period_is_the_median_difference_in_history(history: Floats, form: str) -> None:
    when = clock(0, 60)
    when[30:] += np.timedelta64(5, "h")  # a gap
    columns = {"0": history[:, 0], "1": history[:, 1]}
    detector = M2N2(window=4, epochs=1)
    match form:
        case "times":
            detector.fit(history, times=when)
        case "pandas index":
            detector.fit(pd.DataFrame(columns, index=pd.DatetimeIndex(when)))
        case "pandas column":
            detector.fit(pd.DataFrame({"at": when} | columns))
        case "polars column":
            detector.fit(pl.DataFrame({"at": when} | columns))
    assert detector.period_ == np.timedelta64(60, "s")
    assert detector.channels_ == ("0", "1")


def test_a_period_given_goes_before_the_median_and_without_times_it_is_not_known(
    history: Floats,
) -> None:
    detector = M2N2(window=4, epochs=1, period="10s").fit(history, times=clock(0, 60))
    assert detector.period_ == np.timedelta64(10, "s")
    assert M2N2(window=4, epochs=1).fit(history).period_ is None


@pytest.mark.parametrize(
    ("half_life", "decay"), [(4, 0.5), (8, 0.5**0.5), (4.0, 0.5), (np.int64(2), 0.25), (1e-9, 0.0)]
)
def test_a_half_life_in_samples_is_a_decay(history: Floats, half_life: Any, decay: float) -> None:
    detector = M2N2(window=4, half_life=half_life, epochs=1).fit(history)
    assert detector.decay_ == pytest.approx(decay, rel=1e-12)
    assert params(detector).decay == detector.decay_


@pytest.mark.parametrize(
    "half_life", ["16min", "960s", timedelta(minutes=16), np.timedelta64(16, "m")]
)
def test_a_half_life_in_time_needs_the_period(history: Floats, half_life: Any) -> None:
    detector = M2N2(window=4, half_life=half_life, epochs=1)
    detector.fit(history, times=clock(0, 60))
    assert detector.decay_ == pytest.approx(0.5 ** (4 / 16), rel=1e-12)
    detector.set_params(period="30s").fit(history)
    assert detector.decay_ == pytest.approx(0.5 ** (4 / 32), rel=1e-12)
    error = raised(ParameterError, lambda: detector.set_params(period=None).fit(history))
    assert "is a time, and the sampling period is not known" in error.message
    assert error.hint == "fit on data that has times, pass period=, or give half_life in samples"


def test_after_a_half_life_half_of_a_level_is_forgotten(history: Floats) -> None:
    """A stream that leaves history's mean for a level moves the trend half of the way."""
    detector = M2N2(window=4, half_life=40, epochs=1, adapt=False).fit(history)
    detector.run(np.tile(history.mean(axis=0) + 8, (40, 1)))
    np.testing.assert_allclose(detector.trend_, history.mean(axis=0) + 4, rtol=1e-9)


@pytest.mark.parametrize("decay", [0.5, 0.99])
def test_decay_and_half_life_together_are_an_error_also_at_the_defaults_value(decay: float) -> None:
    assert str(raised(ParameterError, lambda: M2N2(decay=decay, half_life="6h"))) == (
        f"expected decay or half_life, found both: decay={decay}, half_life='6h'\n"
        "hint: leave one out; decay = 0.5 ** (window / half-life in samples)"
    )
    M2N2(half_life="6h")
    M2N2(decay=decay)
    with pytest.raises(ParameterError, match="found both"):
        M2N2(decay=decay).set_params(half_life=5)


def test_the_default_decay_stays_a_default_when_parameters_are_handed_on() -> None:
    assert M2N2(**M2N2(half_life=5).get_params()).half_life == 5
    M2N2(**M2N2().get_params()).set_params(half_life=5)


def test_dropped_samples_sent_again_change_nothing(detector: M2N2, history: Floats) -> None:
    when = clock(0, 20)
    ref = detector.run(history[:20], times=when)
    detector.reset()
    detector.run(history[:15], times=when[:15], flush=False)
    assert detector.counters["pending"] == 1
    assert detector.drop_pending() == 1
    assert detector.counters == {"seen": 14, "pending": 0, "learned": 3, "restored": 0}
    assert detector.last_time_ == when[13]
    comp = detector.run(history[14:20], times=when[14:])
    assert comp.first == 14
    np.testing.assert_array_equal(comp.scores, ref.scores[14:])


def test_dropping_pending_since_a_time_keeps_what_came_before(history: Floats) -> None:
    detector = M2N2(window=4, epochs=1).fit(history)
    when = clock(0, 20)
    ref = detector.run(history[:20], times=when)
    detector.reset()
    detector.run(history[:7], times=when[:7], flush=False)
    assert detector.drop_pending(since=when[6]) == 1
    assert detector.drop_pending(since="2030-01-01") == 0
    assert detector.counters["pending"] == 2
    comp = detector.run(history[6:20], times=when[6:])
    np.testing.assert_array_equal(present(comp.late).scores, ref.scores[4:6])
    np.testing.assert_array_equal(comp.scores, ref.scores[6:])
