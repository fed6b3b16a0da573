"""`Fleet`: its verbs, its results and its errors."""

import gc
import json
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

from newnormal import M2N2, Change, Detector, Fleet, NewnormalWarning
from newnormal.base import BaseDetector
from newnormal.errors import FeedbackError, InputError, NotFittedError, ParameterError, StateError
from newnormal.fleet import FleetVerdicts, group
from newnormal.fleet.fitting import Progress
from newnormal.tabular import Table, to_table
from newnormal.types import Floats
from tests.errors import raised
from tests.fleet_story import Feed, assert_same_state, fitted, rows_of
from tests.present import present

NAMES = ("web-1", "web-2", "web-3")
START = np.datetime64("2026-01-01", "ns")
MINUTE = np.timedelta64(1, "m")


def normal(seed: int, samples: int = 300, channels: int = 2) -> Floats:
    return np.random.default_rng(seed).normal(size=(samples, channels))


def histories(*names: str) -> dict[str, Floats]:
    return {name: normal(at) for at, name in enumerate(names or NAMES)}


def small(**options: Any) -> Fleet:
    """Return a fleet of three streams."""
    return Fleet(epochs=1, **options).fit(histories())


def wide() -> pl.DataFrame:
    """Return a row a sample: `a` has the channels x and y, `b` has x alone."""
    a, b = normal(1), normal(2)
    rows = []
    for at in range(300):
        time = (START + at * MINUTE).astype("datetime64[us]").item()
        rows.append(["a", time, *a[at].tolist()])
        rows.append(["b", time, b[at, 0], None])
    return pl.DataFrame(rows, schema=("host", "time", "x", "y"), orient="row")


# ------------------------------------------------------------------ fit


def test_a_wide_frame_is_fitted_stream_by_stream() -> None:
    frame = wide()
    fleet = Fleet(epochs=1).fit(frame, by="host")
    assert list(fleet) == ["a", "b"] == list(fleet.streams_)
    for name, channels in (("a", ["x", "y"]), ("b", ["x"])):
        own = frame.filter(pl.col("host") == name).select("time", *channels)
        assert_same_state(fleet[name], Detector(epochs=1).fit(own, times="time"))


def test_a_long_frame_is_the_same_as_a_wide_one() -> None:
    long = wide().unpivot(index=["host", "time"], variable_name="tag").drop_nulls("value")
    one, other = Fleet(epochs=1).fit(long, by="host", long=True), Fleet(epochs=1)
    other.fit(wide(), by="host")
    assert_same_state(one["a"], other["a"])
    assert one["b"].channels_ == ("x",)
    live = long.with_columns(pl.col("time") + pl.duration(days=1)).sort("time").head(30)
    verdicts = one.run(live)  # is read as `fit` was told to
    assert sorted(verdicts) == ["a", "b"] and len(verdicts["a"]) == 10


def test_a_mapping_and_a_folder_are_fitted_file_by_file(tmp_path: Path) -> None:
    for name in NAMES:
        pl.DataFrame(histories()[name], schema=("0", "1")).write_csv(tmp_path / f"{name}.csv")
    seen: list[Progress] = []
    fleet = Fleet(epochs=1).fit(str(tmp_path), on_progress=seen.append)
    assert seen[-1].done == seen[-1].total == 3
    for name, history in histories().items():
        assert_same_state(fleet[name], Detector(epochs=1).fit(history))
        assert_same_state(small()[name], fleet[name])


def test_m2n2_and_options_are_taken() -> None:
    fleet = Fleet(M2N2(window=6), epochs=1, stride=2).fit(histories())
    assert fleet["web-1"].get_params() == M2N2(window=6, epochs=1, stride=2).get_params()
    found = fleet.run({"web-2": normal(9, 7)}, flush=False)
    assert rows_of(found["web-2"]) == rows_of(_alone("web-2", 7))
    assert found["web-2"].alarms is not None and found["web-2"].changes is None


def _alone(name: str, samples: int) -> Any:
    alone = M2N2(window=6, epochs=1, stride=2).fit(histories()[name]).track_alarms()
    return alone.run(normal(9, samples), flush=False).rows(slice(0, samples // 2 * 2))


def test_a_stream_that_cannot_be_fitted_is_left_out_and_where_none_can_be_it_is_an_error() -> None:
    data = histories() | {"short": np.zeros((2, 2)), "web-2": np.full((300, 2), np.inf)}
    with pytest.warns(NewnormalWarning) as caught:
        fleet = Fleet(epochs=1, fleet_alarms_per_day=4).fit(data)
    assert list(fleet) == ["web-1", "web-3"]
    assert set(fleet.failures_) == {"web-2", "short"}
    assert str(caught[-1].message) == (
        "2 of 4 streams could not be fitted and are left out: web-2: channel '0', sample 0: "
        "expected a finite number, found inf\nhint: `failures_` has every error by stream"
    )
    assert caught[-1].filename == __file__
    assert fleet["web-1"].get_params()["alarms_per_day"] == 1.0
    assert fleet.fit(histories()).failures_ == {}
    fleet = small()
    with pytest.raises(InputError, match=r"^no stream could be fitted; x: .*expected"):
        fleet.fit({"x": np.zeros((2, 2)), "y": np.zeros((2, 2))})
    assert set(fleet.failures_) == {"x", "y"}
    assert fleet.streams_ == NAMES


def test_the_limit_of_a_fleet_is_divided_among_its_streams() -> None:
    fleet = small(fleet_alarms_per_day=0.6)
    limits = [fleet[name].get_params()["alarms_per_day"] for name in fleet]
    assert limits == pytest.approx([0.2] * 3)
    assert_same_state(fleet["web-1"], Detector(epochs=1, alarms_per_day=0.6 / 3).fit(normal(0)))


@pytest.mark.parametrize("option", ["alarms_per_day", "risk", "threshold"])
def test_two_limits_are_an_error(option: str) -> None:
    error = raised(ParameterError, lambda: Fleet(Detector(**{option: 0.5}), fleet_alarms_per_day=1))  # type: ignore[arg-type]
    assert str(error) == (
        f"fleet_alarms_per_day and {option}: expected one of them, found both\n"
        "hint: fleet_alarms_per_day is divided among the streams, alarms_per_day is of each"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fleet_alarms_per_day": 0}, "fleet_alarms_per_day: expected more than 0, found 0"),
        ({"workers": 0}, "workers: expected at least 1, found 0"),
        ({"detector": "m2n2"}, "detector: expected a Detector or an M2N2, found str"),
    ],
)
def test_options_that_cannot_work_are_errors(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        Fleet(**options)


# ------------------------------------------------------------------ streams


def test_streams_are_added_removed_and_refitted() -> None:
    fleet = small(fleet_alarms_per_day=0.6)
    before = {name: fleet[name] for name in fleet}
    fleet.add("db", normal(7))
    assert list(fleet) == [*NAMES, "db"] and len(fleet) == 4 and "db" in fleet
    assert fleet["db"].get_params()["alarms_per_day"] == pytest.approx(0.15)
    assert_same_state(fleet.remove("web-1"), before["web-1"])
    assert list(fleet) == ["web-2", "web-3", "db"] and "web-1" not in fleet
    for name in ("web-2", "web-3"):  # as they were, limits too
        assert_same_state(fleet[name], before[name])
    fleet.refit({"web-3": normal(8)})
    assert list(fleet) == ["web-2", "web-3", "db"]
    assert fleet["web-3"].get_params()["alarms_per_day"] == pytest.approx(0.2)
    assert_same_state(fleet["web-3"], Detector(epochs=1, alarms_per_day=0.6 / 3).fit(normal(8)))
    assert_same_state(fleet["web-2"], before["web-2"])
    assert fleet.step(normal(1, 3)).streams.tolist() == ["web-2", "web-3", "db"]


def test_a_name_is_taken_once_and_adding_what_cannot_be_fitted_changes_nothing() -> None:
    fleet = small()
    assert str(raised(ParameterError, lambda: fleet.add("web-1", normal(3)))) == (
        "name: expected a new stream, found 'web-1', which there is\n"
        "hint: refit learns it anew, remove takes it out"
    )
    with pytest.raises(InputError, match="expected"):
        fleet.add("short", np.zeros((2, 2)))
    with pytest.raises(NotFittedError):
        fleet.add("new", Detector())
    assert fleet.streams_ == NAMES and fleet.failures_ == {}


def test_a_detector_that_is_added_and_a_copy_of_a_stream_go_on_by_themselves() -> None:
    detector = M2N2(epochs=1).fit(normal(0))
    before = detector.to_state()
    Fleet().add("a", detector).run({"a": normal(1, 50)})
    assert detector.to_state().facts == before.facts
    assert detector.run(normal(1, 50)).alarms is None
    fleet = small()
    copy, twin = fleet["web-1"], fleet["web-1"]
    copy.run(normal(4, 40) + 9)
    assert_same_state(fleet["web-1"], twin)
    with pytest.raises(InputError, match="expected one of the 3 streams"):
        fleet["web-9"]


def test_refit_of_what_is_not_there_or_cannot_be_fitted_changes_nothing() -> None:
    fleet = small()
    before = fleet["web-1"]
    with pytest.raises(InputError, match="expected one of the 3 streams"):
        fleet.refit({"web-1": normal(9), "other": normal(8)})
    assert_same_state(fleet["web-1"], before)
    with pytest.warns(NewnormalWarning, match="1 of 2 streams could not be fitted"):
        fleet.refit({"web-1": np.zeros((2, 2)), "web-2": normal(5)})
    assert list(fleet.failures_) == ["web-1"]
    assert_same_state(fleet["web-1"], before)
    assert_same_state(fleet["web-2"], Detector(epochs=1).fit(normal(5)))


def test_what_was_fitted_of_streams_that_are_gone_is_freed() -> None:
    fleet = Fleet(M2N2(), epochs=1).fit(histories())
    gone = weakref.ref(fleet["web-1"]._fitted)
    fleet.refit({"web-1": normal(9)})
    gc.collect()
    assert gone() is None
    assert fleet.nbytes_ > 0


# ------------------------------------------------------------------ step


def test_results_are_in_the_order_of_the_input() -> None:
    fleet = Fleet(M2N2(stride=1, window=4), epochs=1).fit(histories())
    fleet.add("one", Detector(epochs=1).fit(normal(5, channels=1)))
    fleet.run({name: normal(1, 4) for name in NAMES})
    names = ["web-3", "one", "web-1"]
    found = fleet.step({name: [0.0] if name == "one" else [0.0, 1.0] for name in names})
    assert found.streams.tolist() == names
    assert found.samples.tolist() == [4, 0, 4]
    assert sorted(found) == sorted(names)
    columns = found.columns()
    assert list(columns) == [
        *("stream", "sample", "score", "threshold", "anomalous"),
        *("ratio", "p_value", "alarm", "distance", "change"),
    ]
    assert {len(each) for each in columns.values()} == {3} == {len(found)}
    for at, name in enumerate(names):
        (row,) = found[name]
        assert (row.score, row.threshold) == (found.scores[at], found.thresholds[at])
    assert np.isnan(columns["distance"]).tolist() == [True, False, True]
    with pytest.raises(KeyError):
        found["other"]


def test_names_that_are_numbers_are_texts() -> None:
    fleet = Fleet(epochs=1).fit({7: normal(0), 8: normal(1)})
    assert list(fleet) == ["7", "8"]
    samples: Any = {8: [0.0, 0.0]}
    found = fleet.step(samples, {8: START})
    assert found.streams.tolist() == ["8"] and found.errors == ()
    assert found.times is not None and found.times[0] == START


def test_samples_that_cannot_be_taken_are_rows_with_an_error() -> None:
    fleet = small()
    fleet.step({name: [0.0, 0.0] for name in NAMES}, "2026-01-01T00:01")
    found = fleet.step(
        {
            "web-2": [0.0, np.inf],
            "web-1": [0.1, 0.2],
            "web-33": [0.0, 0.0],
            "web-3": [0.0, 0.0, 0.0],
        },
        {"web-1": "2026-01-01T00:02", "web-3": "2026-01-01T00:02"},
    )
    assert found.streams.tolist() == ["web-2", "web-1", "web-33", "web-3"]
    columns = found.columns()
    assert columns["sample"].tolist() == [-1, 1, -1, -1]
    assert np.isnan(columns["score"]).tolist() == [True, False, True, True]
    assert np.isnat(columns["time"]).tolist() == [True, False, True, True]
    assert columns["error"].tolist() == [
        "sample 1: channel '1' is infinite",
        None,
        "expected one of the 3 streams of this fleet, found 'web-33'",
        "sample 1: expected 2 channels, found an array of shape (3,)",
    ]
    assert [each.rows for each in found.errors] == [(0,), (2,), (3,)]
    assert found.errors[1].as_dict() == {
        "stream": "web-33",
        "error": "expected one of the 3 streams of this fleet, found 'web-33'",
        "hint": "'web-33' may be 'web-3' or 'web-2'",
    }


def test_a_time_twice_is_an_error_of_its_stream() -> None:
    fleet = small()
    times = [START + MINUTE * at for at in (1, 2, 3)]
    fleet.step(normal(0, 3), times)
    before = {name: fleet[name] for name in NAMES}
    found = fleet.step(normal(1, 3), START + 2 * MINUTE)
    assert [each.stream for each in found.errors] == ["web-2", "web-3"]
    assert str(found.errors[0].error) == (
        "sample 1: expected a time after 2026-01-01T00:02:00, found 2026-01-01T00:02:00\n"
        "hint: samples come in the order of their times, each time once"
    )
    assert found.samples.tolist() == [1, -1, -1]
    assert_same_state(fleet["web-2"], before["web-2"])
    again = fleet.run({"web-3": to_table(normal(0, 2), times=[START, START + MINUTE])})
    assert again.samples.tolist() == [-1, -1]
    assert again.errors[0].error.message.endswith("found 2026-01-01T00:00:00")


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (
            np.zeros((2, 2)),
            "expected an array of shape (3, 2), a row a stream in the fleet's order, found shape "
            '(2, 2)\nhint: a part of the streams comes as a mapping: fleet.step({"web-1": sample, '
            "...})",
        ),
        (np.zeros((3, 3)), "found shape (3, 3)"),
        ([["a", "b"]] * 3, "expected an array of numbers, found [['a', 'b'], ['a', 'b']"),
        ([[1.0], [1.0, 2.0], [3.0]], "found lists of different lengths"),
    ],
)
def test_an_array_of_another_shape_is_an_error(samples: Any, text: str) -> None:
    assert text in str(raised(InputError, lambda: small().step(samples)))


def test_an_array_is_for_streams_of_one_shape() -> None:
    fleet = small().add("one", normal(5, channels=1))
    with pytest.raises(InputError, match="expected a mapping from names to samples"):
        fleet.step(np.zeros((4, 2)))
    fleet.remove("one")
    assert len(fleet.step(np.zeros((3, 2)))) == 3


def test_a_fleet_without_streams_says_so() -> None:
    with pytest.raises(InputError, match="expected a fleet with streams, found none\nhint: fleet"):
        Fleet().step([[1.0]])
    assert len(Fleet().flush()) == 0
    assert Fleet().step({"a": [1.0]}).errors[0].stream == "a"
    assert len(Fleet()) == 0 and list(Fleet()) == []


@pytest.mark.parametrize(
    "times",
    [
        "2026-01-01T00:05",
        pd.Timestamp("2026-01-01T00:05"),
        [START + 5 * MINUTE] * 3,
        pd.Series([START + 5 * MINUTE] * 3),
        dict.fromkeys(NAMES, START + 5 * MINUTE),
    ],
)
def test_times_are_one_for_all_or_one_each_or_by_name(times: Any) -> None:
    fleet = small()
    for samples in (np.zeros((3, 2)), {name: [0.0, 0.0] for name in NAMES}):
        assert (present(small().step(samples, times).times) == START + 5 * MINUTE).all()
    with pytest.raises(InputError, match="times: expected one for all, or one for each of 3"):
        fleet.step(np.zeros((3, 2)), [START])
    with pytest.raises(InputError, match="expected a time, found 'soon'"):
        fleet.step(np.zeros((3, 2)), "soon")


# ------------------------------------------------------------------ run


def test_a_stream_of_a_frame_that_is_wrong_does_not_hold_up_the_others() -> None:
    fleet = Fleet(epochs=1).fit(wide(), by="host")
    frame = pl.DataFrame(
        {
            "host": ["b", "a", "c", "b", "a"],
            "x": [0.0, 1.0, 2.0, np.inf, 3.0],
            "y": [None, 1.0, 2.0, None, 3.0],
        }
    )
    before = fleet["b"]
    found = fleet.run(frame)
    assert found.streams.tolist() == ["b", "a", "c", "b", "a"]
    assert found.samples.tolist() == [-1, 0, -1, -1, 1]
    assert {each.stream: each.rows for each in found.errors} == {"b": (0, 3), "c": (2,)}
    assert_same_state(fleet["b"], before)
    assert len(fleet.run({"a": [[0.0, 1.0]]})) == 1  # a mapping after a frame


def test_a_run_in_any_order_of_streams_is_the_same() -> None:
    tables = {"web-3": normal(1, 5), "web-1": normal(2, 3)}
    found = small().run(tables)
    assert found.streams.tolist() == ["web-3"] * 5 + ["web-1"] * 3
    turned = small().run(dict(reversed(tables.items())))
    for name in tables:
        assert rows_of(found[name]) == rows_of(turned[name])


# ------------------------------------------------------------------ alarms and changes


def test_events_alarms_and_changes_are_those_of_the_streams() -> None:
    fleet = small()
    found = fleet.step({"web-1": [0.0, 0.0], "web-3": [50.0, 50.0]})
    assert [(each.stream, each.event.kind) for each in found.events] == [("web-3", "opened")]
    assert found.events[0].as_dict()["stream"] == "web-3"
    assert list(fleet.alarms_) == ["web-3"] and fleet.changes_ == {}
    assert fleet.alarms_["web-3"] == fleet["web-3"].alarms_
    assert fleet.take_events() == list(found.events) and fleet.take_events() == []
    fleet.accept("web-3")
    assert [each.event.kind for each in fleet.take_events()] == ["closed"]
    assert fleet.alarms_ == {}
    with pytest.raises(FeedbackError, match="expected an open change or alarm to reject"):
        fleet.reject("web-1")
    with pytest.raises(InputError, match="expected one of the 3 streams"):
        fleet.undo("web-4")
    assert fleet.take_events() == []


def test_events_of_a_stream_stay_in_order_where_times_are_missing() -> None:
    """Two samples are judged together, the first with a time, the second without."""
    detector = fitted("strides")
    live = Feed("strides", 1, 60, calm=True).take(60).values
    live[58] += 0.5  # an alarm opens, and is critical with the next
    live[59] += 8.0
    fleet = Fleet().add("a", detector)
    for row in range(60):
        time = {"a": START + row * MINUTE} if row < 59 else None
        found = fleet.step({"a": live[row]}, time)
    assert [each.event.sample for each in found.events] == [58, 59]


def test_flush_of_what_nothing_is_pending_of_changes_nothing() -> None:
    """Also right after a review has moved what the stream is judged from."""
    alone, fleet = fitted("learning"), Fleet().add("a", fitted("learning"))
    table = Feed("learning", 5, 400, calm=True).take(400)
    table.values[100:] += 4.0
    for row, time in zip(table.values, present(table.times), strict=True):
        alone.step(row, time)
        fleet.step({"a": row}, time)
        before = alone.to_parts().state.model.step.trend
        alone.flush()
        assert np.array_equal(alone.to_parts().state.model.step.trend, before)
    alone.take_events()
    assert_same_state(fleet["a"], alone)


def test_changes_are_accepted_and_rejected_by_number() -> None:
    fleet = Fleet().add("a", fitted("learning")).add("b", fitted("learning"))
    for name in ("a", "b"):
        table = Feed("learning", 5, 300, calm=True).take(300)
        table.values[100:] += 4.0
        fleet.run({name: table})
    (change,) = fleet.changes_["a"]
    fleet.accept("a", change=change.number)
    fleet.reject("b", change=change)
    assert list(fleet.changes_) == ["b"]
    assert fleet.changes_["b"][0].state == "rejected"
    kinds = [(each.stream, each.event.kind) for each in fleet.take_events()]
    assert ("a", "accepted") in kinds and ("b", "rejected") in kinds
    fleet.undo("a")
    past = [each.number for each in fleet["a"].past_ if isinstance(each, Change)]
    assert "a" in fleet.changes_ or past[-1] == change.number


# ------------------------------------------------------------------ threads


def test_calls_of_two_threads_take_turns() -> None:
    fleet, samples = small(), normal(3, 400)
    found: list[FleetVerdicts] = []

    def work(rows: Floats) -> None:
        found.extend(fleet.step({"web-1": row, "web-2": row}) for row in rows)

    threads = [threading.Thread(target=work, args=(samples[at::2],)) for at in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    numbers = [int(each["web-1"].first) for each in found]
    assert sorted(numbers) == list(range(400))
    assert fleet["web-1"].counters["seen"] == 400 and fleet["web-3"].counters["seen"] == 0
    ordered = sorted(found, key=lambda each: int(each["web-1"].first))
    assert all(each["web-1"].first == each["web-2"].first for each in ordered)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_threads_change_no_bit(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "cores", lambda: threads)
    fleet = Fleet()
    alone = {f"s{at}": fitted("learning") for at in range(7)}
    feeds = {name: Feed("learning", at, 500).take(500) for at, name in enumerate(alone)}
    for name in alone:
        fleet.add(name, fitted("learning"))
    found = fleet.run(feeds)
    for name, detector in alone.items():
        assert rows_of(found[name]) == rows_of(detector.run(feeds[name]))
        detector.take_events()
        assert_same_state(fleet[name], detector)


def test_models_with_objects_have_their_own_in_each_stream() -> None:
    pytest.importorskip("river")
    detector = M2N2(model="river:HalfSpaceTrees", window=4, threshold=0.9999).fit(normal(0))
    alone = {name: detector.unfitted().with_parts(detector.to_parts()) for name in ("a", "b")}
    fleet = Fleet().add("a", detector).add("b", detector)
    live = {"a": normal(1, 200), "b": normal(2, 200) / 3}
    found = fleet.run(live)
    for name, series in live.items():
        ref = alone[name].track_alarms().run(series)
        assert alone[name].counters["learned"] > 0
        assert rows_of(found[name]) == rows_of(ref)
        assert found[name].expected is None


# ------------------------------------------------------------------ verdicts of a fleet as lines


def series(seed: int, count: int, channels: tuple[str, ...], start: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    at = np.arange(start, start + count)
    values = np.sin(at[:, None] / [7, 11]) + rng.normal(0, 0.1, (count, 2))
    values[values > 1.2] = np.nan
    times = np.datetime64("2026-01-01", "ns") + at * np.timedelta64(60, "s")
    return Table(values, channels, times.astype("datetime64[ns]"))


@pytest.mark.parametrize(
    "detector",
    [Detector(epochs=1), M2N2(window=6, stride=3, epochs=1)],
    ids=["compiled", "one by one"],
)
def test_a_line_is_that_of_its_own_detector_with_its_name_first(detector: BaseDetector) -> None:
    channels = {'we"b': ("a", "b"), "db": ("ä%", "d")}
    histories = {name: series(at, 300, own) for at, (name, own) in enumerate(channels.items())}
    fleet = Fleet(detector, workers=1).fit(histories)
    twins = {name: fleet[name] for name in fleet}
    live = {name: series(at + 7, 41, own, 300) for at, (name, own) in enumerate(channels.items())}
    lines = fleet.run(live, flush=False).json_lines()
    expected = []
    for name, table in live.items():
        verdicts = twins[name].run(table, flush=False)
        final = len(verdicts) - twins[name].counters["pending"]
        start = f'{{"stream": {json.dumps(name)}, '
        expected += [start + line[1:] for line in verdicts.json_lines(0, final)]
    assert lines == expected
    assert next(iter(json.loads(lines[0]))) == "stream"


def test_a_sample_that_is_not_taken_is_a_line_with_its_error() -> None:
    channels = ("a", "b")
    fleet = Fleet(epochs=1, workers=1).fit({name: series(1, 300, channels) for name in ("x", "y")})
    lines = fleet.step({"x": [0.1, np.inf], "y": [0.1, 0.2]}).json_lines()
    first, second = map(json.loads, lines)
    assert list(first) == ["stream", "error", "hint"]
    assert first["error"] == "sample 0: channel 'b' is infinite"
    assert (second["stream"], second["sample"]) == ("y", 0)


# ------------------------------------------------------------------ a fleet whose caller keeps t


BEGIN = np.datetime64("2026-01-01", "ns")


@pytest.fixture(scope="module")
def detector() -> Detector:
    rng = np.random.default_rng(0)
    return Detector(epochs=1).fit(rng.normal(size=(300, 2)))


def samples(first: int, count: int, names: list[str]) -> dict[str, Table]:
    rng = np.random.default_rng(first)
    times = BEGIN + np.arange(first, first + count) * MINUTE
    return {name: Table(rng.normal(size=(count, 2)), ("0", "1"), times) for name in names}


def test_a_folder_that_is_not_there_is_an_empty_fleet_and_one_in_use_is_refused(
    tmp_path: Path,
) -> None:
    fleet = Fleet.attach(tmp_path / "fleet")
    assert (len(fleet), fleet.position) == (0, 0)
    fleet.detach()
    fleet = Fleet.attach(tmp_path)
    with pytest.raises(StateError, match="in use by this process"):
        Fleet.attach(tmp_path)
    fleet.detach()


def test_it_goes_on_from_the_last_checkpoint(tmp_path: Path, detector: Detector) -> None:
    names = ["one", "two"]
    fleet = Fleet.attach(tmp_path)
    for name in names:
        fleet.add(name, detector)
    fleet.consume(samples(0, 30, names))
    fleet.checkpoint(7)
    later = fleet.consume(samples(30, 30, names))
    fleet.detach()  # as a kill would
    again = Fleet.attach(tmp_path)
    assert again.position == 7
    comp = again.consume(samples(30, 30, names))
    np.testing.assert_array_equal(comp.scores, later.scores)
    np.testing.assert_array_equal(comp.thresholds, later.thresholds)
    again.detach()


def test_a_checkpoint_has_streams_added_and_removed(tmp_path: Path, detector: Detector) -> None:
    fleet = Fleet.attach(tmp_path)
    for name in ("one", "two"):
        fleet.add(name, detector)
    fleet.checkpoint(1)
    fleet.remove("one")
    fleet.add("three", detector)
    fleet.consume(samples(0, 5, ["two", "three"]))
    fleet.detach()
    fleet = Fleet.attach(tmp_path)
    assert list(fleet) == ["one", "two"]
    fleet.remove("one")
    fleet.remove("two")
    fleet.checkpoint(2)
    fleet.detach()
    empty = Fleet.attach(tmp_path)
    assert (len(empty), empty.position) == (0, 2)
    empty.detach()


def test_consuming_equals_running(detector: Detector) -> None:
    names = ["one", "two"]
    one, other = Fleet(), Fleet()
    for name in names:
        one.add(name, detector)
        other.add(name, detector)
    ref = one.run(samples(0, 40, names), flush=False)
    for first in range(0, 40, 8):
        comp = other.consume(
            {
                name: Table(
                    each.values[first : first + 8], each.channels, each.times[first : first + 8]
                )
                for name, each in samples(0, 40, names).items()
                if each.times is not None
            }
        )
        for name in names:
            np.testing.assert_array_equal(comp[name].scores, ref[name].scores[first : first + 8])
