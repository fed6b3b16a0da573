"""What a fleet is made of: positions in arrays, clocks, streams in blocks."""

from dataclasses import replace

import numpy as np
import pytest

from newnormal.acceptance import review
from newnormal.base import Parts
from newnormal.core.phases import SampleClock, TimeClock
from newnormal.core.state import Fitted, StreamState, copied
from newnormal.fleet.clocks import Clocks
from newnormal.fleet.stream import _ALWAYS, FitBlock, Shape, Stream, always, fit_arrays
from newnormal.fleet.streams import FleetStreams
from newnormal.kernels import alarm
from newnormal.kernels.stream import FitArrays, Shadow
from newnormal.types import NO_TIME
from newnormal.types.tables import declared, flatten
from tests.fleet_story import Feed, assert_same_state, fitted
from tests.house import write_blocks


def test_what_the_kernel_keeps_of_quiet_levels_is_what_a_review_keeps() -> None:
    kept = [alarm.LOCATION, alarm.HEIGHT, alarm.START_HEIGHT, alarm.START_LOCATION]
    assert kept == review.KEPT_LEVELS and len(kept) == review.MOVED_WEIGHTS


def test_the_file_of_views_is_what_the_lines_of_the_arrays_give() -> None:
    if not write_blocks.RUFF.exists():
        pytest.skip("ruff is not installed")
    assert write_blocks.PATH.read_text() == write_blocks.written()


def test_the_views_of_a_block_are_the_arrays_that_were_placed_there() -> None:
    parts = {
        StreamState: always(fitted("learning")._fitted.initial()),
        FitArrays: fit_arrays(fitted("learning")._fitted),
    }
    for name, kind, path in write_blocks.VIEWS:
        if kind is Shadow:
            continue
        names = [each for each in declared(kind) if f"{each}.".startswith(f"{path}.")]
        assert names, name
        assert set(names) <= {each for each, _ in flatten(parts[kind])}, name


# ------------------------------------------------------------------ clocks


def clocked(clock: TimeClock | SampleClock | None) -> Fitted:
    fit = fitted("daily")._fitted
    return replace(fit, rhythm=None if clock is None else fit.rhythm._replace(clock=clock))


HOUR = 3600 * 10**9
CLOCKS = [
    TimeClock(48, 1, 0, "Europe/Berlin"),
    TimeClock(24, 2, -900 * 10**9, "Europe/Berlin"),
    None,
    TimeClock(96, 7, HOUR, "America/New_York"),
    SampleClock(48, 48, 700),
    TimeClock(24, 7, 0, "Asia/Kathmandu"),
    TimeClock(24, 2, 0, "+05:30"),
    SampleClock(5, 17, 3),
    TimeClock(288, 1, 12 * HOUR, None),
    TimeClock(48, 7, 0, "Australia/Lord_Howe"),  # its summer time is half an hour
]


def test_clocks_of_many_streams_are_those_of_each() -> None:
    rng = np.random.default_rng(0)
    fits = [clocked(each) for each in CLOCKS]
    nights = ["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04"]
    days = np.array([*nights, "1970-01-01", "1969-12-30", "1901-05-05", "2260-01-01"])
    count = 4000
    streams = rng.integers(0, len(fits), count)
    when = rng.choice(days.astype("datetime64[ns]").astype(np.int64), count)
    when += rng.integers(-12 * HOUR, 36 * HOUR, count)
    when[rng.random(count) < 0.1] = NO_TIME
    numbers = rng.integers(0, 10**6, count)
    found = Clocks(fits).phases(streams, when, numbers)
    for row in range(count):
        fit, one = fits[streams[row]], slice(row, row + 1)
        ref = fit.phases(when[one].view("datetime64[ns]"), int(numbers[row]), 1)
        np.testing.assert_array_equal(found[one], [np.nan] if ref is None else ref)
    for at, fit in enumerate(fits):  # many at once are another way through a clock
        own = np.flatnonzero(streams == at)
        if not isinstance(CLOCKS[at], SampleClock | None):
            ref = fit.phases(when[own].view("datetime64[ns]"), 0, len(own))
            np.testing.assert_array_equal(found[own], ref)


def test_without_a_rhythm_no_phase_is_known() -> None:
    clocks = Clocks([clocked(None)] * 2)
    zeros = np.zeros(3, np.int64)
    assert np.isnan(clocks.phases(zeros, zeros, zeros)).all()


# ------------------------------------------------------------------ streams


def test_a_stream_gives_back_the_detector_it_was_made_of() -> None:
    detector = fitted("learning")
    detector.run(Feed("learning", 1, 900).take(900))
    detector.take_events()
    parts = detector.to_parts()
    stream = Stream("a", detector.unfitted(), FitBlock.of(parts.fitted), Shape.of(parts.state))
    stream.put(parts.state, parts.past)
    assert_same_state(stream.detector(), detector)
    assert_same_state(stream.live(), detector)
    assert stream.nbytes >= len(stream.block) > 0


def test_what_a_stream_opens_is_its_own_memory() -> None:
    detector = fitted("daily")
    parts = detector.to_parts()
    stream = Stream("a", detector, FitBlock.of(parts.fitted), Shape.of(parts.state))
    stream.put(parts.state)
    stream.open().learn_threshold[0] = 7.0
    assert stream.open().learn_threshold[0] == 7.0
    state = stream.open()
    assert state.last_quiet is not None
    trend = state.last_quiet.trend + 1
    state.last_quiet = copied(state.last_quiet._replace(trend=trend))
    state.model = copied(state.model)
    state.model.step.trend[:] = 3.0
    stream.close(state)
    again = stream.open()
    assert again.last_quiet is not None and (again.last_quiet.trend == trend).all()
    assert (again.model.step.trend == 3.0).all()
    assert again.learn_threshold[0] == 7.0


def test_streams_of_one_shape_are_in_one_group() -> None:
    streams = FleetStreams()
    for at, kind in enumerate(["learning", "daily", "learning", "risky", "counted", "paper"]):
        streams.add(f"{kind}-{at}", fitted(kind))
    groups = {name: streams.where(name)[0] for name in streams.names}
    assert groups["learning-0"] is groups["learning-2"]
    assert groups["learning-0"] is not groups["daily-1"]
    assert groups["counted-4"] is not groups["paper-5"]
    assert streams["learning-0"].fit is streams["learning-2"].fit
    copy = streams.add("copy", streams["learning-0"].detector())
    assert_same_state(copy.detector(), streams["learning-0"].detector())
    copy.open().learn_threshold[0] = 0.0
    assert streams["learning-0"].open().learn_threshold[0] != 0.0


def test_the_last_stream_takes_the_place_of_one_that_is_removed() -> None:
    streams = FleetStreams()
    for name in "abcd":
        streams.add(name, fitted("daily"))
    group, at = streams.where("b")
    streams.remove("b")
    assert streams.where("d") == (group, at)
    assert streams.names == ("a", "c", "d")
    assert [group.streams[place].name for place in streams.places(group)] == ["a", "c", "d"]
    streams.replace("a", fitted("counted"))
    assert streams.names == ("a", "c", "d")
    assert [group.streams[place].name for place in streams.places(group)] == ["c", "d"]


def test_live_parts_are_all_that_every_stream_has() -> None:
    state = fitted("daily").to_parts().state
    assert {*_ALWAYS} | {"accepted", "undo", "shadow"} == {*state.__slots__}
    assert Parts._fields == ("fitted", "state", "past", "zone")
