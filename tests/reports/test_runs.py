"""Reports of runs as detectors and fleets make them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from newnormal import M2N2, Detector, Fleet, InputError
from newnormal.base import BaseDetector
from newnormal.plots.overview import attention
from newnormal.reports.overview import sparkline
from newnormal.reports.writing import Contents, page_of
from newnormal.runtime.judging import judge_series
from newnormal.tabular import Table
from newnormal.types import Floats, Incident, IncidentEvent, Timeline
from tests.fleets import mixed_fleet
from tests.reports.made import Page, alarm_at, changed, minutes, read_page, timeline
from tests.reports.schema import check_meta
from tests.strangers.model import Cells

ZONE = "Europe/Berlin"


def page(found: object, **options: object) -> Page:
    done = read_page(page_of(found, **options))  # type: ignore[arg-type]
    check_meta(done.meta)
    return done


def samples(count: int, channels: int = 2, start: int = 0) -> Floats:
    """Return noisy sines."""
    rng = np.random.default_rng(start)
    waves = np.sin((start + np.arange(count))[:, None] / np.arange(7, 7 + channels))
    return np.asarray(waves + rng.normal(0, 0.1, (count, channels)))


@cache
def fitted(kind: str) -> BaseDetector:
    channels = 1 if kind == "single" else 2
    detectors: dict[str, BaseDetector] = {
        "auto": Detector(epochs=1, accept_after=40),
        "single": Detector(epochs=1),
        "paper": M2N2(window=8, stride=4, epochs=1),
        "stranger": M2N2(model=Cells, window=4),
    }
    return detectors[kind].fit(samples(500, channels))


def judged(kind: str, live: Floats) -> Timeline:
    detector = fitted(kind).with_options()
    table = Table(live, None, minutes(len(live)), zone=ZONE)
    return Timeline.of(judge_series(detector, table).verdicts, kind)


def test_a_fault_is_an_alarm_with_its_channel_first() -> None:
    live = samples(300, start=500)
    live[100:120, 1] += 5.0
    own = judged("auto", live)
    found = page(own)
    (stream,) = found.meta["streams"]
    assert found.meta["axis"] == {"kind": "time", "zone": ZONE}
    assert stream["channels"][0]["name"] == "1" and stream["channels"][0]["concern"] > 0
    alarm = next(each for each in stream["alarms"] if "1" in each["shares"])
    assert alarm["since"].endswith("+01:00") and own.verdicts.ratios is not None
    np.testing.assert_allclose(found.blocks[0][0].columns["low:0"], live[:, 1], rtol=1e-6)
    np.testing.assert_allclose(found.blocks[0][0].columns["ratio"], own.verdicts.ratios, rtol=1e-6)


def test_nothing_happened() -> None:
    (stream,) = page(judged("single", samples(60, 1, start=500))).meta["streams"]
    assert (stream["alarms"], stream["changes"], stream["status"]) == ([], [], "normal")
    assert [each["concern"] for each in stream["channels"]] == [0]


def test_one_run_and_pieces_of_it_are_the_same_page() -> None:
    """`judge_series` judges in pieces; M2N2 leaves samples pending between them."""
    live = samples(2_500, start=500)
    live[1_200:1_230] += 4.0
    whole = fitted("paper").with_options().track_alarms()
    verdicts = whole.run(Table(live, None, minutes(len(live)), zone=ZONE))
    assert page_of(Timeline.of(verdicts, "paper")) == page_of(judged("paper", live))


def test_m2n2_alone_has_no_alarms_and_its_tail_may_be_pending() -> None:
    detector = fitted("paper").with_options()
    live = samples(202, start=500)
    live[:2] = np.nan
    found = page(detector.run(live, flush=False), name="tail")
    (stream,) = found.meta["streams"]
    assert (stream["alarms"], stream["changes"]) == ([], [])
    assert stream["missing"] == 4
    scores = found.blocks[0][0].columns["ratio"]
    assert np.isnan(scores[-2:]).all() and not np.isnan(scores[2:-4]).any()


def test_a_model_that_does_not_reconstruct() -> None:
    live = samples(100, start=500)
    live[50] += 9.0
    found = page(judged("stranger", live))
    assert not any(name.startswith("expected") for name in found.blocks[0][0].columns)
    assert found.meta["streams"][0]["alarms"]


def test_frozen_changes_nothing_and_shows_the_alarms() -> None:
    live = samples(300, start=500)
    live[100:120] += 5.0
    detector = fitted("auto").with_options()
    before = detector.to_state()
    table = Table(live, None, minutes(300))
    own = Timeline.of(judge_series(detector, table, frozen=True).verdicts)
    assert len(own.alarms) >= 1
    assert page_of(own) == page_of(detector.score_frozen(table))
    assert detector.to_state().facts == before.facts


# ---------------------------------------------------------------------- fleets


def fleet_run() -> tuple[Fleet, dict[str, Table]]:
    """Return a fleet of three shapes, and series for it: one goes wrong and stays wrong."""
    fleet = mixed_fleet(3, 2, 2)
    tables = {}
    for at, name in enumerate(fleet.streams_):
        channels = 3 if name.startswith("wide") else 2
        live = np.random.default_rng(at).normal(size=(90 + at, channels))
        if name == "wide-1":
            live[-9:] += 30.0
        labels = (np.arange(len(live)) % 50 == 7).astype(np.int64)
        tables[name] = Table(live, None, minutes(len(live)), labels=labels, zone=ZONE)
    return fleet, tables


def test_a_stream_of_a_fleet_has_the_timeline_of_a_detector() -> None:
    fleet, tables = fleet_run()
    alone = {name: fleet[name] for name in fleet.streams_}
    verdicts = fleet.run(tables)
    for name, table in tables.items():
        own = Timeline.of(verdicts[name], name)
        twin = Timeline.of(alone[name].run(table), name)
        np.testing.assert_array_equal(own.values, twin.values)
        np.testing.assert_array_equal(own.labels, twin.labels)
        np.testing.assert_array_equal(own.observed.margins, twin.observed.margins)
        assert own.observed.events == twin.observed.events
        assert own.observed.remaining == twin.observed.remaining
        assert page_of(own) == page_of(twin)
    assert verdicts["wide-1"].observed is not None
    assert verdicts["wide-1"].observed.remaining


def test_ticks_keep_nothing_for_pictures() -> None:
    fleet, tables = fleet_run()
    assert fleet.step({"wide-0": [0.0, 0.0, 0.0]}).observed is None
    later = {
        name: Table(each.values, None, minutes(9_000)[-len(each.values) :])
        for name, each in tables.items()
    }
    verdicts = fleet.run(later, flush=False)
    assert verdicts["wide-0"].observed is None
    with pytest.raises(InputError, match="expected verdicts of series that are over") as one:
        page_of(verdicts)
    assert one.value.hint == "take those that fleet.run(series) returns, without flush=False"


def test_streams_without_samples_have_no_picture() -> None:
    fleet, tables = fleet_run()
    nothing = Table(np.empty((0, 2)), None, None)
    assert len(fleet.run({"narrow-0": nothing})["narrow-0"]) == 0
    verdicts = fleet.run({"narrow-0": nothing, "narrow-1": tables["narrow-1"]})
    assert len(verdicts["narrow-0"]) == 0
    found = page(verdicts)
    assert [each["name"] for each in found.meta["streams"]] == ["narrow-1"]
    assert page(fleet.run({"narrow-0": nothing})).meta["fleet"]["streams"] == 0


def test_what_was_pending_before_has_no_values_here() -> None:
    fleet, _ = fleet_run()
    first, rest = samples(11), samples(30, start=11)
    fleet.run({"paper-0": first}, flush=False)
    own = Timeline.of(fleet.run({"paper-0": rest})["paper-0"])
    late = len(own) - len(rest)
    assert late > 0
    assert np.isnan(own.values[:late]).all()
    np.testing.assert_array_equal(own.values[late:], rest)


def test_a_fleets_page_has_the_worst_first() -> None:
    fleet, tables = fleet_run()
    found = page(fleet.run(tables), name="plant")
    assert found.meta["title"] == "plant"
    assert found.meta["axis"] == {"kind": "time", "zone": ZONE}
    assert found.meta["fleet"]["streams"] == found.meta["fleet"]["shown"] == 7
    streams = found.meta["streams"]
    assert streams[0]["name"] == "wide-1" and streams[0]["status"] == "in alarm"
    assert streams[0]["sparkline"]["alarms"][-1][1] == len(streams[0]["sparkline"]["ratio"]) - 1
    assert all(each["blocks"] for each in streams)
    assert found.meta["labelled"] and streams[0]["labels"]


def test_a_sparkline_has_the_worst_and_every_alarm() -> None:
    scores = np.full(1_000, 0.25)
    scores[617] = 3.14159
    scores[:40] = np.nan
    silence = alarm_at(1, 0, 39)
    found = sparkline(timeline(np.ones((1_000, 1)), scores=scores, found=(silence,)), 50)
    assert len(found["ratio"]) == 50
    assert found["ratio"][:3] == [None, None, 0.25] and found["ratio"][30] == 3.1
    assert found["alarms"] == [[0, 1], [30, 30]]
    assert sparkline(timeline(np.ones((3, 1))), 50) == {"ratio": [0.5] * 3, "alarms": []}
    assert sparkline(timeline(np.ones((0, 1))), 50) == {"ratio": [], "alarms": []}


def test_an_alarm_of_a_sparkline_is_as_long_as_on_the_page_of_its_stream() -> None:
    own = timeline(np.ones((100, 1)), found=(alarm_at(1, 20, 39),))
    until_closed = np.zeros(100, dtype=np.int64)
    until_closed[20:80] = 1  # the samples after its last one, until it was closed, are quiet
    own = replace(own, verdicts=replace(own.verdicts, alarms=until_closed))
    assert sparkline(own, 100)["alarms"] == [[20, 39]]


def test_streams_without_times_count_samples() -> None:
    fleet, tables = fleet_run()
    untimed = {name: each.values for name, each in tables.items() if name != "wide-0"}
    found = page(fleet.run({**untimed, "wide-0": tables["wide-0"]}))
    assert found.meta["axis"] == {"kind": "sample", "zone": None}
    assert {each["start"] for each in found.meta["streams"]} == {0}


def some(name: str, **options: object) -> Timeline:
    return timeline(np.ones((200, 1)), name=name, **options)  # type: ignore[arg-type]


def test_the_order_of_attention() -> None:
    ordered = [
        some("worse", remaining=(alarm_at(1, 190, 199, ratio=9.0, reason=None),)),
        some("bad", remaining=(alarm_at(1, 190, 199, reason=None), changed(2, 3))),
        some("pending", remaining=(changed(1, 150),)),
        some("rejected", remaining=(changed(1, 10, "rejected"),)),
        some("recent", found=(alarm_at(1, 10, 20), alarm_at(2, 150, 180))),
        some("earlier", found=(alarm_at(1, 10, 40, ratio=99.0),)),
        some("changed", found=(changed(1, 30, "accepted"),)),
        some("near", scores=np.full(200, 0.9)),
        some("quiet"),
    ]
    backwards = ordered[::-1]
    again = sorted(backwards, key=attention)
    assert [each.name for each in again] == [each.name for each in ordered]


def test_a_fleet_beyond_the_budget_shows_those_that_matter() -> None:
    streams = [some(f"s{at}") for at in range(300)]
    streams[250] = some("s250", remaining=(alarm_at(1, 190, 199, reason=None),))
    shown = Contents("plant", tuple(streams), (), fleet=True)
    size = len(page_of(Contents("", (), (), fleet=True)).encode())
    found = page(shown, budget=size + 300_000)
    assert len(found.text.encode()) <= size + 300_000
    assert found.meta["fleet"]["shown"] == 300
    assert found.meta["streams"][0]["name"] == "s250" and found.blocks[0]
    assert not found.blocks[-1]
    few = page(shown, budget=size + 60_000)
    assert len(few.text.encode()) <= size + 60_000
    assert 0 < few.meta["fleet"]["shown"] < 300
    assert few.meta["streams"][0]["name"] == "s250"


def test_incidents_as_they_were_last_reported() -> None:
    first = Incident(1, 5, None, 6, None, {"a": 1, "b": 1}, sentence="2 of 9")
    over = Incident(1, 5, None, 8, None, {"a": 1, "b": 1, "c": 2}, open=False, sentence="3 of 9")
    when = np.datetime64("2026-01-01", "ns")
    other = Incident(2, 0, when, 0, when, {f"s{at}": 1 for at in range(900)})
    events = [
        IncidentEvent("incident", first),
        IncidentEvent("incident", other),
        IncidentEvent("incident_ended", over),
    ]
    found = page(Contents("plant", (some("a"),), events, fleet=True)).meta["fleet"]["incidents"]
    assert [(each["number"], each["open"], each["count"]) for each in found] == [
        (2, True, 900),
        (1, False, 3),
    ]
    assert found[0]["start"] == 1767225600 and len(found[0]["streams"]) == 200
    assert found[1]["end"] == 8


def test_verdicts_by_stream_are_a_fleet_too() -> None:
    fleet, tables = fleet_run()
    found = page({name: fleet[name].score_frozen(each) for name, each in tables.items()})
    assert found.meta["fleet"] == {"streams": 7, "shown": 7, "incidents": []}
