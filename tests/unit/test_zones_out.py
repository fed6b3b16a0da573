"""Zoned times come out with their zone, in JSON and in frames; inside they are UTC."""

import json
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

from newnormal import M2N2, Change, Detector, Event, Fleet, Incident
from newnormal.alarms.words import in_zone
from newnormal.errors import ParameterError
from newnormal.packing.events import EventReader, event_facts
from newnormal.state.facts import Facts
from newnormal.types import Times, Verdicts, time_text
from newnormal.types.arrays import time_of_text, zone_of_text
from newnormal.types.zones import zoned_texts
from tests.present import present

BERLIN = "Europe/Berlin"
# The clock goes back at 01:00 UTC on 25 October 2026.
NIGHT: Times = np.datetime64("2026-10-24T18:00", "ns") + np.arange(120) * np.timedelta64(5, "m")
HISTORY, LIVE = slice(0, 60), slice(60, 120)


def values(rows: slice = slice(0, 120)) -> Any:
    found = np.random.default_rng(0).normal(size=(120, 2))
    found[100:110] += 40.0
    return found[rows]


def zoned_times(zone: str, rows: slice) -> list[datetime]:
    info = ZoneInfo(zone)
    return [
        datetime.fromtimestamp(int(each.astype(np.int64)) // 10**9, UTC).astimezone(info)
        for each in NIGHT[rows]
    ]


@pytest.fixture(scope="module")
def fitted() -> M2N2:
    return M2N2(window=4, epochs=1, alarms_per_day=20, accept_after=4)


def detector(fitted: M2N2, times: Any) -> M2N2:
    """Return a detector whose history had these times."""
    return fitted.unfitted().fit(values(HISTORY), times=times)


def time_of(line: str) -> Any:
    return json.loads(line)["time"]


def test_a_time_in_a_zone_is_the_same_time() -> None:
    times = np.random.default_rng(1).integers(0, 4 * 10**18, 300).view("datetime64[ns]")
    for zone in ("UTC", "+05:30", "-09:30", BERLIN, "America/St_Johns", "Africa/Monrovia"):
        texts = zoned_texts(times, zone)
        assert (np.array([time_of_text(text) for text in texts]) == times).all()
        for at in range(0, 300, 30):
            assert time_text(times[at], zone) == texts[at]
            info: tzinfo | None = ZoneInfo(zone) if "/" in zone else None
            if info is not None:
                second = int(times[at].astype(np.int64)) // 10**9
                expected = datetime.fromtimestamp(second, UTC).astimezone(info)
                assert texts[at][:19] == expected.isoformat()[:19]


def test_both_hours_of_the_night_on_which_the_clock_goes_back() -> None:
    texts = zoned_texts(NIGHT[72:96:12], BERLIN)
    assert texts == ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("2026-07-01T12:00:00", None),
        ("2026-07-01T12:00:00.5Z", "UTC"),
        ("2026-07-01T12:00:00-03:30", "-03:30"),
        ("2026-07-01T12:00:00.000000001+02:00", "+02:00"),
    ],
)
def test_texts_are_read_back_with_and_without_an_offset(text: str, zone: str | None) -> None:
    time = present(time_of_text(text))
    assert zone_of_text(text) == zone
    assert time_text(time, zone) == text
    assert time_of_text(None) is None


def test_verdicts_have_the_zone_of_history(fitted: M2N2) -> None:
    found = detector(fitted, zoned_times(BERLIN, HISTORY))
    assert found.zone_ == BERLIN
    verdicts = found.run(values(LIVE), times=NIGHT[LIVE])
    assert verdicts.zone == BERLIN
    lines = verdicts.json_lines()
    assert time_of(lines[12]) == "2026-10-25T02:00:00+02:00"
    assert time_of(lines[24]) == "2026-10-25T02:00:00+01:00"
    assert verdicts[12].to_json() == lines[12]
    assert "time=2026-10-25T02:00:00+02:00" in repr(verdicts[12])
    assert verdicts[12].time == NIGHT[72]
    assert verdicts.rows(slice(5, 9)).zone == BERLIN


def test_the_zone_of_the_input_now_comes_first(fitted: M2N2) -> None:
    found = detector(fitted, zoned_times(BERLIN, HISTORY))
    texts = [f"{each}+02:00" for each in (NIGHT[60:80] + np.timedelta64(2, "h")).astype("M8[s]")]
    assert found.run(values(slice(60, 80)), times=texts).zone == "+02:00"
    assert found.run(values(slice(80, 100)), times=NIGHT[80:100]).zone == BERLIN
    for at, time in (
        (100, f"{NIGHT[100].astype('M8[s]')}Z"),
        (101, pd.Timestamp(NIGHT[101], tz="UTC")),
    ):
        for verdict in found.step(values()[at], time=time):
            assert verdict.zone == "UTC"
            assert time_of(verdict.to_json()).endswith("Z")
    assert found.zone_ == "UTC"


def test_times_without_a_zone_have_no_suffix(fitted: M2N2) -> None:
    found = detector(fitted, NIGHT[HISTORY])
    verdicts = found.run(values(LIVE), times=NIGHT[LIVE])
    assert (found.zone_, verdicts.zone) == (None, None)
    assert time_of(verdicts.json_lines()[0]) == "2026-10-24T23:00:00"
    without = M2N2(window=4, epochs=1).fit(values(HISTORY)).run(values(LIVE))
    assert time_of(without.json_lines()[0]) is None


def moved(zone: str | None) -> M2N2:
    """Return a detector of a stream that moves for good in the night."""
    times = np.datetime64("2026-10-23T20:00", "ns") + np.arange(3_000) * np.timedelta64(60, "s")
    series = np.sin(np.arange(3_000)[:, None] / [7, 11])
    series += np.random.default_rng(0).normal(0, 0.1, series.shape)
    series[1_800:] += 5.0
    index = pd.DatetimeIndex(times)
    if zone is not None:
        index = index.tz_localize("UTC").tz_convert(zone)
    found = M2N2(window=5, half_life=60, lr=0.01, threshold=1.0, accept_after="200min")
    found.fit(series[:1_500], times=index[:1_500]).track_alarms()
    found.run(series[1_500:2_000], times=times[1_500:2_000])
    return found


def test_alarms_changes_and_their_events_have_the_zone() -> None:
    zoned, plain = moved(BERLIN), moved(None)
    assert zoned.past_
    opened = [*zoned.alarms_, *zoned.changes_, *zoned.past_]
    assert {each.zone for each in opened} == {BERLIN}
    events, expected = zoned.take_events(), plain.take_events()
    assert len(events) == len(expected) > 0
    for event, other in zip(events, expected, strict=True):
        assert event.zone == BERLIN
        assert event.time == other.time
        assert event.as_dict()["time"].endswith(("+01:00", "+02:00"))
        assert not other.as_dict()["time"].endswith(("+01:00", "+02:00"))
        assert time_of_text(event.as_dict()["time"]) == other.time
        for own in (event.alarm, event.change):
            if own is not None:
                assert own.as_dict()["start_time"].endswith(("+01:00", "+02:00"))
        assert Event.from_dict(json.loads(event.to_json())).time == event.time
    changes = [event.change for event in events if event.change is not None]
    assert changes
    assert all("+0" in change.sentence.partition(" since ")[2] for change in changes)


def test_a_zone_is_no_part_of_what_an_alarm_is() -> None:
    sentence = "a from 1 to 2 since 2026-10-25T00:00:00"
    change = Change(1, 7, NIGHT[72], ("a",), {"a": 1.0}, {"a": 2.0}, sentence=sentence)
    moved = in_zone(change, BERLIN)
    assert moved.sentence == "a from 1 to 2 since 2026-10-25T02:00:00+02:00"
    assert "zone" not in moved.as_dict()
    assert in_zone(moved, BERLIN) is moved
    incident = Incident(1, 7, NIGHT[72], 8, NIGHT[84], {"a": 1}, zone=BERLIN)
    assert incident.as_dict()["end_time"] == "2026-10-25T02:00:00+01:00"
    assert "zone" not in incident.as_dict()
    assert Incident.from_dict(incident.as_dict()) == incident


def test_state_files_have_utc(fitted: M2N2) -> None:
    found = detector(fitted, zoned_times(BERLIN, HISTORY))
    found.run(values(LIVE), times=NIGHT[LIVE])
    facts = found.to_state().facts
    assert facts["zone"] == BERLIN
    assert facts["events"]
    for event in facts["events"]:
        assert zone_of_text(event["time"]) is None
    again = M2N2.from_state(found.to_state())
    assert [each.to_json() for each in again.take_events()] == [
        each.to_json() for each in found.take_events()
    ]
    assert [each.as_dict() for each in again.past_] == [each.as_dict() for each in found.past_]


def test_facts_with_an_offset_are_read_too() -> None:
    facts = event_facts(Event("undone", 7, NIGHT[0]))
    reader = EventReader(["a"], 0)
    for text in ("2026-10-24T18:00:00", "2026-10-24T20:00:00+02:00", "2026-10-24T18:00:00Z"):
        assert reader.event(Facts({**facts, "time": text})).time == NIGHT[0]


def test_each_stream_of_a_fleet_has_its_own_zone(fitted: M2N2) -> None:
    zones = {"berlin": BERLIN, "delhi": "Asia/Kolkata", "utc": "UTC", "plain": None}
    fleet = Fleet(fitted)
    for name, zone in zones.items():
        times = NIGHT[HISTORY] if zone is None else zoned_times(zone, HISTORY)
        fleet.add(name, detector(fitted, times))
    assert fleet.zones_ == {name: zone for name, zone in zones.items() if zone is not None}
    live = {name: pd.DataFrame(values(LIVE), index=pd.DatetimeIndex(NIGHT[LIVE])) for name in zones}
    for each in live.values():
        each.columns = ["0", "1"]
    verdicts = fleet.run(live)
    seen = dict.fromkeys(zones, 0)
    for line in verdicts.json_lines():
        found = json.loads(line)
        assert zone_of_text(found["time"]) is None or found["stream"] != "plain"
        expected = time_text(NIGHT[60 + seen[found["stream"]]], zones[found["stream"]])
        assert found["time"] == expected
        seen[found["stream"]] += 1
    assert set(seen.values()) == {60}
    assert {name: verdicts[name].zone for name in zones} == zones
    assert verdicts.events
    for event in (*verdicts.events, *fleet.take_events()):
        assert event.event.zone == zones[event.stream]
        assert event.as_dict()["time"] == time_text(event.event.time, zones[event.stream])  # type: ignore[arg-type]
    for incident in (*fleet.incidents_, *(each.incident for each in verdicts.incidents)):
        assert incident.zone == "UTC"  # its streams have different ones


def test_a_step_of_a_fleet_has_the_zone_of_its_time(fitted: M2N2) -> None:
    fleet = Fleet(Detector(epochs=1), workers=1)
    one = Detector(epochs=1).fit(values(HISTORY), times=NIGHT[HISTORY])
    fleet.add("a", one).add("b", one)
    samples = {"a": values()[60], "b": values()[60]}
    lines = fleet.step(
        samples, times=pd.Timestamp(NIGHT[60], tz="UTC").tz_convert(BERLIN)
    ).json_lines()
    assert [time_of(line) for line in lines] == ["2026-10-25T01:00:00+02:00"] * 2
    lines = fleet.step(samples, times=NIGHT[61]).json_lines()
    assert [time_of(line) for line in lines] == ["2026-10-24T23:05:00"] * 2
    text = f"{NIGHT[62].astype('M8[s]')}Z"
    lines = fleet.step(samples, times={"a": text, "b": text}).json_lines()
    assert [time_of(line) for line in lines] == ["2026-10-24T23:10:00Z"] * 2


def test_a_frame_of_many_streams_joins(fitted: M2N2) -> None:
    times = pd.DatetimeIndex(NIGHT).tz_localize("UTC").tz_convert(BERLIN)
    parts = [
        pd.DataFrame(values(), columns=["a", "b"]).assign(host=host, when=times)
        for host in ("web", "db")
    ]
    frame = pd.concat(parts, ignore_index=True).sort_values(
        "when", ignore_index=True, kind="stable"
    )
    fleet = Fleet(fitted, workers=1).fit(frame.iloc[:120], by="host")
    live = frame.iloc[120:]
    verdicts = fleet.run(live)
    assert verdicts.zone == BERLIN
    found = verdicts.to_frame()
    assert found["when"].dtype == live["when"].dtype
    merged = live.merge(found.rename(columns={"stream": "host"}), on=["host", "when"])
    assert len(merged) == len(live)
    pd.testing.assert_index_equal(found.index, live.index)
    polars = pl.DataFrame({name: live[name].to_list() for name in live.columns})
    found = fleet.run(polars.with_columns(pl.col("when") + pl.duration(days=1))).to_frame()
    assert found.schema["when"] == polars.schema["when"]
    assert found.schema["stream"] == pl.String


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [BERLIN, "UTC", timezone(timedelta(hours=2)), None])
def test_a_pandas_frame_joins_by_its_index(fitted: M2N2, unit: Any, zone: Any) -> None:
    index = pd.DatetimeIndex(NIGHT, name="when").as_unit(unit)
    if zone is not None:
        index = index.tz_localize("UTC").tz_convert(zone)
    frame = pd.DataFrame(values(), index=index, columns=["a", "b"])
    found = fitted.unfitted().fit(frame.iloc[HISTORY])
    live = frame.iloc[LIVE]
    verdicts = found.run(live).to_frame()
    assert isinstance(verdicts, pd.DataFrame)
    assert verdicts.index.dtype == live.index.dtype
    pd.testing.assert_index_equal(verdicts.index, live.index, check_exact=True, exact=True)
    assert live.join(verdicts, how="inner").shape == (60, 2 + verdicts.shape[1])
    assert "time" not in verdicts.columns


def test_a_pandas_frame_joins_by_its_column(fitted: M2N2) -> None:
    frame = pd.DataFrame(values(), columns=["a", "b"])
    frame["when"] = pd.DatetimeIndex(NIGHT).tz_localize("UTC").tz_convert(BERLIN)
    found = fitted.unfitted().fit(frame.iloc[HISTORY])
    live = frame.iloc[LIVE]
    verdicts = found.run(live).to_frame()
    assert verdicts["when"].dtype == live["when"].dtype
    assert len(live.merge(verdicts, on="when")) == 60
    pd.testing.assert_index_equal(verdicts.index, live.index)  # it counts from 60
    later = found.reset().run(live).rows(slice(10, 20)).to_frame()
    pd.testing.assert_index_equal(later.index, live.index[10:20])


def test_an_index_of_other_things_is_taken_from_the_frame(fitted: M2N2) -> None:
    frame = pd.DataFrame(values(), columns=["a", "b"], index=[f"row {at}" for at in range(120)])
    found = fitted.unfitted().fit(frame.iloc[HISTORY])
    live = frame.iloc[LIVE]
    verdicts = found.run(live)
    assert live.join(verdicts.to_frame(like=live), how="inner").shape[0] == 60
    assert list(verdicts.to_frame().index) == list(range(60))
    assert present(verdicts.frame).index is None  # nothing of the user's data is held


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [BERLIN, "UTC", None])
def test_a_polars_frame_joins_by_its_column(fitted: M2N2, unit: Any, zone: str | None) -> None:
    times = pl.Series("when", NIGHT).dt.cast_time_unit(unit)
    if zone is not None:
        times = times.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    frame = pl.DataFrame({"a": values()[:, 0], "b": values()[:, 1]}).with_columns(times)
    found = fitted.unfitted().fit(frame[HISTORY])
    live = frame[LIVE]
    judged = found.run(live)
    verdicts = judged.to_frame()
    assert isinstance(verdicts, pl.DataFrame)
    assert verdicts.schema["when"] == frame.schema["when"]
    joined = live.join(verdicts, on="when", how="inner")
    assert joined.height == 60
    assert joined["when"].equals(live["when"])
    assert judged.to_frame(like="polars").schema["time"] == frame.schema["when"]


def test_arrays_become_a_frame_of_the_library_that_is_named(fitted: M2N2) -> None:
    found = detector(fitted, zoned_times(BERLIN, HISTORY))
    verdicts = found.run(values(LIVE), times=zoned_times(BERLIN, LIVE))
    assert verdicts.frame is None
    assert verdicts.to_frame(like="polars").schema["time"] == pl.Datetime("ns", BERLIN)
    assert str(verdicts.to_frame(like=pd)["time"].dtype) == f"datetime64[ns, {BERLIN}]"
    with pytest.raises(ParameterError, match=r"not made from a frame\nhint: such as to_frame"):
        verdicts.to_frame()
    with pytest.raises(ParameterError, match="expected a library of frames that is installed"):
        verdicts.to_frame(like="nonsense")
    with pytest.raises(ParameterError, match="expected a frame, or the name of its library"):
        verdicts.to_frame(like=3)
    frame = found.reset().score_frozen(pd.DataFrame(values(LIVE), columns=["0", "1"])).to_frame()
    assert list(frame.columns)[:4] == ["sample", "score", "threshold", "anomalous"]


def test_verdicts_without_times_and_late_ones_become_frames(fitted: M2N2) -> None:
    frame = pd.DataFrame(values(), columns=["a", "b"])
    found = fitted.unfitted().fit(frame.iloc[HISTORY])
    first = found.run(frame.iloc[60:66], flush=False)
    second = found.run(frame.iloc[66:80], flush=False)
    assert second.late is not None
    for part, start in ((first, 60), (second, 66)):
        assert part.to_frame().index[0] == start
    assert second.to_frame()["sample"].iloc[0] == 6


def test_a_file_whose_times_have_an_offset(fitted: M2N2, tmp_path: Any) -> None:
    from newnormal.tabular import read

    path = tmp_path / "live.csv"
    local = (NIGHT + np.timedelta64(2, "h")).astype("M8[s]")
    rows = [f"{t}+02:00,{a},{b}" for t, (a, b) in zip(local, values(), strict=True)]
    path.write_text("\n".join(["time,0,1", *rows]) + "\n")
    found = detector(fitted, NIGHT[HISTORY])
    table = read(path)
    verdicts = found.reset().run(table)
    assert verdicts.zone == "+02:00"
    assert time_of(verdicts.json_lines()[0]) == "2026-10-24T20:00:00+02:00"


def test_a_line_without_a_zone_is_what_it_was() -> None:
    times = np.array(["2026-01-01", "NaT", "2026-01-01T00:00:00.25"], "datetime64[ns]")
    zeros = np.zeros(3)
    for zone, ends in ((None, ""), ("UTC", "Z"), ("+00:30", "+00:30")):
        found = Verdicts(zeros, zeros, zeros > 0, None, None, times, ("a",), zone=zone)
        shift = "00:30:00" if zone == "+00:30" else "00:00:00"
        assert [time_of(line) for line in found.json_lines()] == [
            f"2026-01-01T{shift}{ends}",
            None,
            f"2026-01-01T{shift}.25{ends}",
        ]
