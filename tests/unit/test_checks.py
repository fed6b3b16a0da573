"""`newnormal.check`: what it finds in data, and that its plan is what `fit` does."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

import newnormal
from newnormal import M2N2, Check, Detector, InputError, ParameterError
from newnormal.checks import Finding, check_streams, check_table, summary_of
from newnormal.core.history import check_history
from newnormal.datasets.synthetic.plants import plant
from newnormal.tabular import InputProfile, StreamTables, Table, to_table
from newnormal.tabular.reading import BadCells
from newnormal.types import Floats, Times
from tests.present import present

START = np.datetime64("2026-01-01T00:00", "ns")


def minutes(count: int, step: int = 1) -> Times:
    times: Times = START + np.arange(count) * np.timedelta64(step, "m")
    return times


def noise(count: int = 600, channels: int = 2, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(10.0, 1.0, size=(count, channels))


def with_column(name: str, column: Any, count: int = 600) -> pd.DataFrame:
    frame = pd.DataFrame(noise(count), columns=["load", "flow"], index=minutes(count))
    frame[name] = column
    return frame


def found_in(data: Any, **options: Any) -> dict[tuple[str, str | None], Finding]:
    """Return the findings by code and channel."""
    check = newnormal.check(data, **options)
    return {(each.code, each.channel): each for each in check.findings}


def flags(count: int, share: float) -> Floats:
    return (np.random.default_rng(1).random(count) < share).astype(np.float64)


@pytest.mark.parametrize(
    "name",
    ["anomaly", "Label", "changepoint", "is_anomaly", "isFault", "y", "OUTLIER", "attack label"],
)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.4])
def test_a_column_of_0_and_1_that_is_named_so_looks_like_a_label(name: str, share: float) -> None:
    found = found_in(with_column(name, flags(600, share)))
    finding = found["label_like", name]
    assert finding.level == "warning"
    assert finding.sentence.startswith(f"{name!r} looks like a label (")
    assert ("constant", name) not in found


def test_options_answer_a_label_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    with_column("is bad anomaly", flags(600, 0.0)).to_csv(path, index_label="time")
    assert found_in(path)["label_like", "is bad anomaly"].line == (
        "'is bad anomaly' looks like a label (always 0 here): "
        "--label 'is bad anomaly' or --drop 'is bad anomaly'"
    )
    assert all(each.level == "note" for each in found_in(path, drop="is bad anomaly").values())


def test_classes_and_signs_are_labels_that_can_only_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    frame = with_column("fault class", np.random.default_rng(2).integers(0, 5, 600))
    frame["attack"] = np.where(flags(600, 0.1) == 1, -1, 1)
    frame.to_csv(path, index_label="time")
    found = found_in(path)
    assert found["label_like", "fault class"].option == "--drop 'fault class'"
    assert found["label_like", "attack"].option == "--drop attack"


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("target", np.linspace(20, 21.5, 600).round(1)),  # a set point
        ("anomaly", noise(600)[:, 0]),  # measured
        ("pump", flags(600, 0.5)),
        ("class_a_bearing", noise(600)[:, 1]),
    ],
)
def test_what_is_measured_is_no_label(name: str, column: Floats) -> None:
    assert ("label_like", name) not in found_in(with_column(name, column))


def test_a_rare_flag_may_be_a_label() -> None:
    finding = found_in(with_column("valve", flags(600, 0.01)))["label_like", "valve"]
    assert finding.level == "note"
    assert "may be a label (0 or 1, " in finding.sentence


def counter(count: int = 600) -> Floats:
    return np.cumsum(np.random.default_rng(3).integers(0, 9, count)).astype(np.float64)


def test_a_counter_only_rises_and_starts_again_near_its_start(tmp_path: Path) -> None:
    reset = counter() + 5
    reset[400:] -= reset[400] - 6
    for column, words in ((counter(), "it only rises"), (reset, "it only rises, with a reset")):
        path = tmp_path / "history.csv"
        with_column("bytes_total", column).to_csv(path, index_label="time")
        finding = found_in(path)["counter_like", "bytes_total"]
        assert finding.line == f"'bytes_total' looks like a counter: {words}: --rates bytes_total"
        assert finding.level == "warning"


@pytest.mark.parametrize(
    "column",
    [
        np.linspace(0, 50, 600) + np.random.default_rng(4).normal(0, 1, 600),  # a trend
        np.arange(600) % 40.0,  # a saw
        np.sin(np.arange(600) / 20) + 2,
        np.where(np.arange(600) < 300, np.arange(600), np.arange(600) - 100.0),  # falls halfway
    ],
)
def test_a_trend_and_a_saw_are_no_counters(column: Floats) -> None:
    assert ("counter_like", "x") not in found_in(with_column("x", column))


def test_numbers_of_rows_and_unix_times_are_found() -> None:
    unix = (minutes(600) - np.datetime64(0, "ns")).astype(np.int64)
    frame = with_column("no", np.arange(600)).assign(ms=unix // 10**6, created=unix / 1e9)
    found = found_in(frame)
    assert found["row_number", "no"].sentence == "'no' is a number of rows (0, 1, ...)"
    assert found["time_like", "ms"].sentence == "'ms' looks like Unix time in ms"
    assert found["time_like", "created"].sentence == "'created' looks like Unix time in s"
    assert not any(code == "counter_like" for code, _ in found)
    unix = (minutes(600) - np.datetime64(0, "ns")).astype(np.int64) // 10**9
    frame = pd.DataFrame({"moment": unix, "load": noise(600)[:, 0]})
    assert found_in(frame)["time_like", "moment"].option == "pass times='moment'"
    table = to_table(frame)
    finding = {each.code: each for each in check_table(table).findings}["time_like"]
    assert finding.option == "--time moment"


def test_a_counter_of_bytes_as_large_as_unix_time_is_a_counter() -> None:
    column = 1_700_000_000 + 1_000 * counter()
    assert ("counter_like", "bytes") in found_in(with_column("bytes", column))


def test_empty_near_empty_constant_and_missing_channels() -> None:
    frame = with_column("gone", np.nan)
    frame["rare"] = np.where(np.arange(600) % 40 == 0, 1.5, np.nan)
    frame["still"] = 7.0
    frame["holes"] = np.where(np.arange(600) % 3 == 0, np.nan, noise(600)[:, 0])
    check = newnormal.check(frame)
    found = {(each.code, each.channel): each for each in check.findings}
    assert found["empty", "gone"].level == "error"
    assert found["near_empty", "rare"].sentence == (
        "'rare' has a value in only 2.5 % of the samples"
    )
    assert found["constant", "still"].level == "note"
    assert found["missing", "holes"].level == "warning"
    assert found["missing", "holes"].sentence == "'holes' misses 33 % of its values"
    assert not check.ok
    assert check.plan is None
    with pytest.raises(InputError, match="'gone' is never observed"):
        check_history(frame.to_numpy(), tuple(frame.columns), 5)


def test_the_same_channel_again_is_found_also_on_a_line() -> None:
    frame = with_column("again", 0.0)
    frame["again"] = frame["load"]
    frame["fahrenheit"] = frame["flow"] * 1.8 + 32
    frame["other"] = frame["flow"] ** 3
    found = found_in(frame)
    assert found["duplicate_of", "again"].sentence == "'again' has the values of 'load'"
    assert (
        found["duplicate_of", "fahrenheit"].sentence == "'fahrenheit' is 1.8 times 'flow' plus 32"
    )
    assert ("duplicate_of", "other") not in found


def test_far_values_few_values_and_clipped_ones() -> None:
    load = noise(600)[:, 0]
    far = load.copy()
    far[[5, 90]] = -9999
    frame = with_column("far", far)
    frame["state"] = np.random.default_rng(5).choice([1.0, 2.5, 4.0], 600)
    frame["clipped"] = np.minimum(load, 10.9)
    found = found_in(frame)
    assert found["far_values", "far"].sentence == (
        "'far': 2 of 600 values are far from all others: -9,999 at samples "
        "5 (2026-01-01T00:05:00), 90 (2026-01-01T01:30:00)"
    )
    assert found["far_values", "far"].option == "write NaN for -9999"
    assert found["few_values", "state"].sentence == "'state' has only 3 different values"
    assert "of its values are its highest, 10.9" in found["saturated", "clipped"].sentence


def test_a_clean_plant_has_nothing_to_mend() -> None:
    made = plant(0)
    check = newnormal.check(made.train, times=minutes(len(made.train)))
    assert check.findings == ()
    assert check.facts is not None and check.facts.rhythm is not None
    assert "Nothing is suspicious." in str(check)


def test_gaps_are_counted_and_the_largest_named() -> None:
    keep = np.r_[0:200, 260:400, 401:1000]
    check = newnormal.check(noise(len(keep)), times=minutes(1000)[keep])
    sampling = present(present(check.facts).sampling)
    assert (sampling.gaps, sampling.lost, sampling.largest[0].sample) == (2, 61, 199)
    found = {each.code: each for each in check.findings}["gaps"]
    assert found.level == "warning"
    assert found.sentence == (
        "2 gaps in the times, in which 61 samples are missing; "
        "the largest is 1h1m after 2026-01-01T03:19:00"
    )


def test_irregular_times_are_a_warning() -> None:
    steps = np.random.default_rng(6).exponential(60e9, 600).astype(np.int64) + 1
    times = START + np.cumsum(steps).astype("timedelta64[ns]")
    found = found_in(noise(600), times=times)["irregular", None]
    assert found.level == "warning"
    assert found.option is not None and found.option.startswith("resample the data to ")
    values = np.full((600, 15), np.nan)  # of a historian: a tag every four seconds, each a minute
    values[np.arange(600), np.arange(600) % 15] = noise(600)[:, 0]
    times = START + np.arange(600) * np.timedelta64(4, "s")
    assert found_in(values, times=times)["apart", None].option == "resample the data to 1m"


def test_times_of_python_data_that_fit_refuses_are_errors() -> None:
    times = minutes(600)
    shuffled = np.r_[times[:10], times[20:30], times[10:20], times[30:]]
    found = found_in(noise(600), times=shuffled)
    assert found["out_of_order", None].level == "error"
    assert found["out_of_order", None].sentence == "10 samples are out of order"
    twice = np.sort(np.r_[times[:300], times[:300]])
    assert found_in(noise(600), times=twice)["duplicates", None].sentence == (
        "300 samples have the time of another"
    )


def test_a_daily_rhythm_is_found_and_how_much_it_takes() -> None:
    day = 96
    wave = np.sin(2 * np.pi * np.arange(14 * day) / day)[:, None] + noise(14 * day, 1) / 20
    check = newnormal.check(wave, times=minutes(14 * day, 15))
    assert check.facts is not None
    assert check.as_dict()["facts"]["rhythm"]["by"] == "time"
    needs = {need.what: need for need in check.needs}
    assert needs["fit"].samples == 10
    assert needs["daily_rhythm"].samples == 7 * day and needs["daily_rhythm"].enough
    assert needs["weekend_rhythm"].enough and not needs["weekday_rhythm"].enough
    short = newnormal.check(wave[: 3 * day], times=minutes(3 * day, 15))
    assert "short_history" in {each.code for each in short.findings}
    assert short.ok


@pytest.mark.parametrize(("count", "level"), [(9, "error"), (10, "warning"), (199, "warning")])
def test_short_history(count: int, level: str) -> None:
    check = newnormal.check(noise(count))
    assert {each.code: each for each in check.findings}["short_history"].level == level
    assert check.ok is (level != "error")


def test_a_limit_that_the_period_rules_out_is_an_error_before_the_training() -> None:
    times = START + np.arange(600) * np.timedelta64(1, "D")
    assert found_in(noise(600), times=times)["limit", None].line == (
        "alarms_per_day: expected less than the 1 samples a day, found 1.0: pass alarms_per_day=0.1"
    )


@pytest.mark.parametrize(("count", "timed"), [(150, False), (400, True), (700, False)])
def test_the_plan_is_what_fit_does(count: int, timed: bool) -> None:
    data = to_table(noise(count), times=minutes(count) if timed else None, channels=["a", "b"])
    plan = present(newnormal.check(data).plan)
    detector = Detector(epochs=1).fit(data)
    assert plan.channels == detector.channels_
    assert plan.period == detector.period_
    assert plan.window == detector.window_
    choice = detector.to_parts().fitted.choice
    assert plan.samples == choice.samples
    assert plan.held_out == choice.held_out
    reasons = {each.kind: each.dropped for each in choice.members}
    for kind, why in plan.not_used:
        assert reasons[kind] == why
    assert len(plan.members) + len(plan.not_used) == len(choice.members)
    assert plan.alarms_per_day == 1.0 == detector.alarm_rate_.limit_per_day
    assert plan.accept_after == 1440


def test_the_plan_of_the_papers_method_has_its_options() -> None:
    table = to_table(noise(30))
    detector = M2N2(window=12, stride=4)
    plan = present(check_table(table, detector=detector).plan)
    assert (plan.method, plan.window, plan.stride, plan.members) == ("m2n2", 12, 4, ("mlp",))
    assert plan.accept_after is None and plan.alarms_per_day is None
    short = check_table(to_table(noise(23)), detector=detector)
    assert [each.code for each in short.findings if each.level == "error"] == ["short_history"]


def test_the_time_that_a_frame_has_is_named() -> None:
    check = newnormal.check(pl.DataFrame({"load": noise(600)[:, 0], "when": minutes(600)}))
    assert check.plan is not None and check.plan.time == ("when",)
    assert check.lines()[0] == "time: 'when'; 1 channel: load"


def read_table(**found: Any) -> Table:
    """Return a table as a reader gives it."""
    table = Table(noise(600), ("load", "flow"), minutes(600))
    return replace(
        table, profile=InputProfile(header=("when", "load", "flow"), time=("when",), **found)
    )


def test_what_was_found_while_reading_comes_first() -> None:
    check = check_table(read_table(written={"dates": "day-first", "delimiter": "semicolon"}))
    assert check.lines()[0] == "time: 'when' (day-first); 2 channels: load and flow"
    assert check.as_dict()["facts"]["reading"]["written"]["delimiter"] == "semicolon"
    assert check.plan is not None and check.plan.time == ("when",)


def test_bad_lines_bad_cells_and_columns_of_text_are_findings() -> None:
    values = noise(600)
    values[:, 1] = np.nan
    table = replace(
        read_table(
            lines=602,
            bad_lines=2,
            first_bad="line 7: expected 3 cells, found 1",
            bad_cells={"load": BadCells(4, 9, "Bad"), "flow": BadCells(600, 2, "x\x1b[31m")},
            duplicates=3,
            notes=["3 samples have the time of another: the last counts", "a preamble of 2 lines"],
        ),
        values=values,
    )
    check = check_table(table)
    found = {(each.code, each.channel): each for each in check.findings}
    assert found["bad_lines", None].sentence == (
        "2 lines hold no sample, of 602; the first: line 7: expected 3 cells, found 1"
    )
    assert found["bad_cells", "load"].line == (
        "'load' has 4 cells that are no number, such as 'Bad' in line 9: --na=Bad"
    )
    assert found["text", "flow"].level == "error"
    assert ("empty", "flow") not in found
    assert found["duplicates", None].sentence.endswith("the last counts")
    assert [each.sentence for each in check.findings if each.code == "reading"] == [
        "a preamble of 2 lines"
    ]
    assert "\x1b" not in str(check)


def test_a_file_that_is_not_there_is_an_input_error_and_one_that_cannot_be_read_a_finding(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match=r"no\.csv"):
        newnormal.check(tmp_path / "no.csv")
    path = tmp_path / "history.csv"
    path.write_text("")
    check = newnormal.check(path)
    assert [(each.level, each.code) for each in check.findings] == [("error", "unreadable")]
    assert check.findings[0].sentence == "expected samples, found an empty file"
    assert (check.facts, check.plan, check.ok) == (None, None, False)


def test_options_of_reading_belong_to_files() -> None:
    with pytest.raises(ParameterError, match="drop: expected only with the path of a file"):
        newnormal.check(noise(), drop="a")
    with pytest.raises(ParameterError, match="times: expected none with a file"):
        newnormal.check("a.csv", times="t")


def fitted(**options: Any) -> M2N2:
    table = to_table(noise(300), times=minutes(300), channels=["load", "flow"])
    return M2N2(epochs=1).fit(table)


def test_live_data_at_another_rate_or_with_other_channels(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "plant.nn")
    live = to_table(noise(300), times=minutes(300, 5), channels=["load", "flwo"])
    for given in (model, tmp_path / "plant.nn"):
        found = found_in(live, model=given)
        assert found["rate_differs", None].sentence == (
            "samples are 5m apart here, and 1m in the model's history"
        )
        differ = found["channels_differ", None]
        assert differ.sentence == (
            "of the model's channels 'flow' are not here; the model does not know 'flwo'"
        )
        assert differ.option == "'flow' may be 'flwo'"
    same = to_table(noise(300), times=minutes(300), channels=["flow", "load"])
    assert not {code for code, _ in found_in(same, model=model)} & {
        "rate_differs",
        "channels_differ",
    }
    assert found_in(noise(300, 3), model=model)["channels_differ", None].level == "error"


def test_at_most_five_lines_the_worst_first() -> None:
    frame = with_column("anomaly", 0.0)
    for at in range(9):
        frame[f"n{at}"] = counter() * (at + 1) + np.arange(600) ** (at / 9)
    frame["far"] = np.r_[1e9, noise(599)[:, 0]]
    frame["rare"] = np.where(np.arange(600) % 40 == 0, 1.5, np.nan)
    frame["holes"] = np.where(np.arange(600) % 3 == 0, np.nan, noise(600)[:, 0])
    frame["row"] = np.arange(600)
    lines = newnormal.check(frame).lines()
    assert len(lines) == 5
    assert (
        lines[0] == "time: from 2026-01-01T00:00:00; 16 channels: load, flow, anomaly and 13 more"
    )
    assert lines[1].startswith("'anomaly' looks like a label")
    assert lines[2].startswith("'row' is a number of rows")
    assert lines[3].startswith("9 channels ('n0', 'n1', 'n2' and 6 more) look like counters")
    assert lines[4] == "and 4 more: newnormal check shows them"
    assert len(newnormal.check(frame).lines(3)) == 3


def test_two_labels_share_a_line_with_options_that_work_together(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    frame = with_column("anomaly", 0)
    frame["changepoint"] = 0
    frame.to_csv(path, index_label="time")
    assert newnormal.check(path).lines()[1] == (
        "'anomaly' and 'changepoint' look like labels: --label anomaly --drop changepoint"
    )


def test_names_are_shown_and_never_interpreted() -> None:
    check = newnormal.check(with_column("vfs.fs.size[/var,free]\x1b[2J", 7.0))
    for text in (str(check), *check.lines()):
        assert "\x1b" not in text
    assert "vfs.fs.size[/var,free]\\x1b[2J" in str(check)


def odd_data() -> Iterator[tuple[str, Any, Any]]:
    rng = np.random.default_rng(0)
    yield "all missing", np.full((100, 2), np.nan), None
    yield "one sample", [[1.0, 2.0]], ["2026-01-01"]
    yield "no samples", np.zeros((0, 3)), None
    yield "no channels", np.zeros((3, 0)), None
    yield "infinite", np.where(rng.random((300, 2)) < 0.01, np.inf, 1.5), None
    yield "text", np.array([["a", "b"]]), None
    yield "lists of lengths", [[1], [1, 2]], None
    yield "too many axes", np.zeros((3, 3, 3)), None
    yield "no time", noise(300), np.r_[minutes(299), np.datetime64("NaT")]
    yield "too few times", noise(300), minutes(100)
    yield "nothing", None, None
    yield "a number", 5, None
    yield "text columns", pd.DataFrame({"a": noise(300)[:, 0], "host": "x"}), None
    yield "empty frame", pl.DataFrame(), None
    yield (
        "two columns of times",
        pd.DataFrame({"a": noise(300)[:, 0], "t": minutes(300), "u": minutes(300)}),
        None,
    )
    yield "two of a name", pd.DataFrame(noise(30), columns=["a", "a"]), None


@pytest.mark.parametrize(
    ("data", "times"), [pytest.param(data, times, id=name) for name, data, times in odd_data()]
)
def test_odd_data_is_a_finding_where_fit_refuses_it(data: Any, times: Any) -> None:
    check = newnormal.check(data, times=times)
    assert type(check) is Check
    assert not check.ok
    assert check.plan is None
    json.dumps(check.as_dict(), allow_nan=False)
    assert str(check).endswith("fit would refuse this.")
    assert 1 <= len(check.lines()) <= 5
    with pytest.raises((ValueError, newnormal.NewnormalError)):
        Detector(epochs=1).fit(data, times=times)


def test_values_at_the_ends_of_floats_pass() -> None:
    largest = np.finfo(np.float64).max
    data = np.random.default_rng(0).choice([-largest, largest, 0.0, 5e-324], (300, 2))
    check = newnormal.check(data)
    json.dumps(check.as_dict(), allow_nan=False)
    assert check.ok


def test_json_has_numbers_and_keys_for_programs() -> None:
    found = newnormal.check(with_column("anomaly", 0.0)).as_dict()
    assert found["ok"] is True
    assert found["facts"]["sampling"]["period_seconds"] == 60.0
    assert found["facts"]["channels"]["anomaly"]["distinct"] == 1
    assert found["history"]["daily_rhythm"]["seconds"] == 7 * 86_400
    assert found["plan"]["accept_after_samples"] == 1440
    assert found["findings"][0]["code"] == "label_like"

    def keys(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                yield from keys(inner)

    assert all(key == key.lower() for key in keys({**found, "plan": found["facts"]["sampling"]}))


def test_zoned_times_are_shown_in_their_zone() -> None:
    index = pd.DatetimeIndex(minutes(600)).tz_localize("Europe/Berlin")
    check = newnormal.check(pd.DataFrame(noise(600), columns=["a", "b"], index=index))
    assert check.as_dict()["facts"]["sampling"]["first"] == "2026-01-01T00:00:00+01:00"


def test_streams_are_checked_one_by_one_and_summed_up() -> None:
    bad = to_table(with_column("anomaly", 0.0))
    good = to_table(noise(600), times=minutes(600), channels=["load", "flow"])
    tables = StreamTables({"a": good, "b": bad, "c": bad}, errors={"d": InputError("no times")})
    found = check_streams(tables)
    assert [each.level for each in found.values()] == ["note", "warning", "warning", "error"]
    summary = summary_of(found)
    assert summary.by_level == {"error": 1, "warning": 2, "note": 1}
    assert summary.by_code["warning", "label_like"] == 2
    assert summary.lines(3) == [
        "4 streams: 1 with errors, 2 with warnings, 1 with notes",
        "d: no times",
        "b: 'anomaly' looks like a label (always 0 here): --label anomaly or --drop anomaly",
    ]
    assert summary.as_dict()["worst_streams"] == ["d", "b", "c"]
    assert list(check_streams({"a": good})) == ["a"]


def test_a_long_history_takes_little_time() -> None:
    values = np.random.default_rng(0).normal(size=(100_000, 10))
    started = time.process_time()
    newnormal.check(values, times=minutes(100_000))
    assert time.process_time() - started < 5  # 0.4 s where this was written


def test_skab_as_it_is_has_two_labels(data_root: Path) -> None:
    path = data_root / "SKAB" / "valve1" / "0.csv"
    if not path.exists():
        pytest.skip("SKAB is not under NEWNORMAL_DATA")
    check = newnormal.check(path)
    assert check.ok
    labels = [each.channel for each in check.findings if each.level == "warning"]
    assert labels == ["anomaly", "changepoint"]
    lines = check.lines()
    assert "10 channels: Accelerometer1RMS, Accelerometer2RMS, Current and 7 more" in lines[0]
    assert lines[1] == (
        "'anomaly' and 'changepoint' look like labels: --label anomaly --drop changepoint"
    )
    left = newnormal.check(path, label="anomaly", drop="changepoint")
    assert all(each.level == "note" for each in left.findings)


def test_nab_files_have_no_suspicious_channel(data_root: Path) -> None:
    paths = sorted((data_root / "NAB" / "data").glob("*/*.csv"))
    if not paths:
        pytest.skip("NAB is not under NEWNORMAL_DATA")
    suspicious = {"label_like", "counter_like", "time_like", "row_number"}
    for path in paths[:6]:
        assert not {code for code, _ in found_in(path)} & suspicious
