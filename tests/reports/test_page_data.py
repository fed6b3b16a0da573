"""The data of a page: what the script finds in it is what was judged."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import newnormal
from newnormal import InputError
from newnormal.plots.thinning import extremes, means, starts_every
from newnormal.reports.packing import base_of, packed
from newnormal.reports.writing import SCRIPTS, STYLES, page_of
from newnormal.types import Floats, Timeline
from tests.reports.made import Page, alarm_at, changed, minutes, read_page, timeline
from tests.reports.schema import check_meta

NASTY = st.one_of(st.floats(-10, 10), st.sampled_from([0.0, np.nan, 1e9, -1e9, 1e-9, 1e30]))
SERIES = st.lists(NASTY, min_size=0, max_size=60).map(lambda found: np.array(found, float))


def page(found: object, **options: object) -> Page:
    """Return the data of a page, which are as the schema has them."""
    done = read_page(page_of(found, **options))  # type: ignore[arg-type]
    check_meta(done.meta)
    return done


def naive_buckets(values: Floats, per: int) -> list[tuple[float, float, float]]:
    """Return least, greatest and mean of each bucket, by the obvious loop."""
    found = []
    for start in range(0, len(values), per):
        there = [each for each in values[start : start + per].tolist() if not np.isnan(each)]
        if there:
            found.append((min(there), max(there), sum(there) / len(there)))
        else:
            found.append((np.nan, np.nan, np.nan))
    return found


# ---------------------------------------------------------------------- thinning


@given(SERIES, st.integers(1, 20))
@example(np.array([]), 3)
@example(np.array([np.inf, -np.inf, np.nan, 1.0]), 2)
@example(np.array([np.nan]), 1)
def test_a_bucket_has_the_extremes_of_its_samples(values: Floats, per: int) -> None:
    starts = starts_every(len(values), per)
    low, high = extremes(values, starts)
    twin = naive_buckets(values, per)
    np.testing.assert_array_equal(low, [each[0] for each in twin])
    np.testing.assert_array_equal(high, [each[1] for each in twin])
    there = values[~np.isnan(values)]
    if np.isfinite(there).all():
        most = 1e-12 * np.abs(there).max(initial=1.0)
        np.testing.assert_allclose(means(values, starts), [each[2] for each in twin], atol=most)


# ---------------------------------------------------------------------- packing


@pytest.mark.parametrize(
    ("values", "most"),
    [
        pytest.param([1e9 - 1, 1e9, 1e9 + 1, 1e9 + 0.001], 1e-4, id="huge offset"),
        pytest.param([5.1] * 9, 1e-12, id="constant"),
        pytest.param([0.1, 0.2, 0.4, 1e9], 64.0, id="spike"),
        pytest.param([1e-9, 2e-9, 0.0], 1e-15, id="tiny"),
        pytest.param([7.0], 0.0, id="one sample"),
    ],
)
def test_numbers_keep_their_digits(values: list[float], most: float) -> None:
    own = np.array(values)
    base = base_of(own)
    again = base + packed(own, base).astype(np.float64)
    assert np.abs(again - own).max() <= most
    near = np.abs(own) < 1e6
    np.testing.assert_allclose(again[near], own[near], rtol=1e-6)


@given(SERIES)
def test_a_packed_number_is_near_to_the_number(values: Floats) -> None:
    base = base_of(values)
    again = base + packed(values, base).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(again), np.isnan(values))
    there = ~np.isnan(values)
    error = np.abs(again - values)[there]
    assert (error <= 1e-6 * np.maximum(np.abs(values[there]), abs(base)) + 1e-12).all()


def test_zero_stays_zero_and_infinity_infinite() -> None:
    values = np.array([12345.678] * 9 + [0.0, np.inf, -np.inf, 1e300])
    base = base_of(values)
    assert base != 0
    again = base + packed(values, base).astype(np.float64)
    assert again[9] == 0
    assert again[10] == np.inf and again[11] == -np.inf and np.isfinite(again[12])


# ---------------------------------------------------------------------- levels


def assert_extremes_are_everywhere(found: Page, values: Floats, first: int = 0) -> None:
    """Check that each level has, where it lies, each extreme of what it covers."""
    order = [each["name"] for each in found.meta["streams"][0]["channels"]]
    x = np.arange(first, first + len(values))
    for block in found.blocks[0]:
        rows = (x >= block.start) & (x <= block.end)
        for number, name in enumerate(order):
            own = values[rows, int(name[1:])]
            low, high = extremes(own, starts_every(len(own), block.per))
            shown = block.columns[f"low:{number}"]
            np.testing.assert_allclose(shown, low, rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(
                block.columns.get(f"high:{number}", shown), high, rtol=1e-6, atol=1e-7
            )
        np.testing.assert_array_equal(block.columns["x"], x[rows][:: block.per])


@pytest.mark.parametrize("length", [1, 2, 1999, 2000, 2001, 40_000, 70_000])
def test_every_level_has_every_spike(length: int) -> None:
    rng = np.random.default_rng(length)
    values = rng.normal(size=(length, 2))
    values[rng.random(length) < 0.02] = np.nan
    spikes = rng.integers(0, length, 5)
    values[spikes, 0] = rng.normal(0, 100, 5)
    scores = rng.random(length)
    scores[spikes] = 7.0
    found = page(timeline(values, scores=scores))
    assert_extremes_are_everywhere(found, values)
    for block in found.blocks[0]:
        assert (block.columns["ratio"][np.unique(spikes // block.per)] == 7.0).all()
    assert found.blocks[0][-1].per == 1  # there was room for every sample
    assert [each.per for each in found.blocks[0]] == {
        1: [1],
        2: [1],
        1999: [1],
        2000: [1],
        2001: [2, 1],
        40_000: [20, 1],
        70_000: [35, 4, 1],
    }[length]


def test_little_room_leaves_details_around_alarms() -> None:
    values = np.random.default_rng(3).normal(size=(60_000, 2))
    alarms = (alarm_at(1, 9_000, 9_010), alarm_at(2, 30_000, 30_050, ratio=9.0))
    own = timeline(values, found=alarms, remaining=(alarm_at(3, 59_990, 59_999, reason=None),))
    found = page(own, budget=_shell() + 200_000)
    assert_extremes_are_everywhere(found, values)
    assert found.blocks[0][0].per == 30
    details = [each for each in found.blocks[0] if each.detail]
    # The open one first, then the worst.
    assert [each.start for each in details] == [59_840, 29_850, 8_850]
    assert [each.end for each in details] == [59_999, 30_200, 9_160]


@pytest.mark.parametrize("budget", [60_000, 150_000, 400_000, 2_000_000])
@pytest.mark.parametrize("channels", [1, 5, 120])
def test_a_page_stays_within_its_budget(budget: int, channels: int) -> None:
    values = np.random.default_rng(0).normal(size=(20_000, channels))
    alarms = tuple(alarm_at(n + 1, 9 * n, 9 * n + 3) for n in range(2_000))
    found = page(timeline(values, found=alarms), budget=_shell() + budget)
    assert len(found.text.encode()) <= _shell() + budget
    (stream,) = found.meta["streams"]
    assert len(stream["alarms"]) + stream["more"]["alarms"] == 2_000
    assert len(stream["channels"]) + stream["more"]["channels"] == channels
    assert stream["alarms"] and found.blocks[0][0].columns["x"].size >= 200
    assert stream["channels"][0]["name"] == "c0"  # the one concerned stays


@pytest.mark.cases(100_000, 1_000_000, whole=True)
@pytest.mark.parametrize("channels", [5, 38])
def test_a_long_series_is_below_ten_megabytes(channels: int, cases: range) -> None:
    length = len(cases)
    rng = np.random.default_rng(1)
    values = rng.normal(size=(length, channels))
    spike = length // 3
    values[spike, 0] = 99.0
    alarms = tuple(alarm_at(n + 1, n * 900, n * 900 + 30) for n in range(length // 1_000))
    found = page(timeline(values, scores=rng.random(length), times=minutes(length), found=alarms))
    assert len(found.text.encode()) < 10_000_000
    levels = [each for each in found.blocks[0] if not each.detail]
    assert len(levels) >= 2 and levels[0].per == length // 2_000
    for level in levels:
        shown = level.columns.get("high:0", level.columns["low:0"])
        assert shown[spike // level.per] == shown.max() == 99.0


def test_expectation_and_range() -> None:
    values = np.arange(30_000, dtype=float)[:, None] % 100
    coarse = page(timeline(values), budget=_shell() + 150_000).blocks[0][0]
    starts = starts_every(30_000, coarse.per)
    expected = values[:, 0] * 0.5 + 1.0
    low, high = extremes(expected, starts)
    np.testing.assert_allclose(coarse.columns["expected:0"], means(expected, starts), rtol=1e-6)
    np.testing.assert_allclose(coarse.columns["least:0"], low - 2.0, rtol=1e-6)
    np.testing.assert_allclose(coarse.columns["most:0"], high + 2.0, rtol=1e-6)
    # Of single samples the page knows how far the range reaches.
    (single,) = page(timeline(values[:300])).blocks[0]
    assert set(single.columns) == {"x", "ratio", "low:0", "expected:0", "below:0", "above:0"}


def test_a_model_that_expects_nothing_and_nothing_at_all_have_pages() -> None:
    own = timeline(np.ones((9, 2)), expects=False, margins=False)
    assert set(page(own).blocks[0][0].columns) == {"x", "ratio", "low:0", "low:1"}
    (stream,) = page(timeline(np.empty((0, 2)), times=minutes(0))).meta["streams"]
    assert (stream["samples"], stream["start"], stream["blocks"]) == (0, None, [])


# ---------------------------------------------------------------------- streams


def test_times_are_seconds_and_texts_are_in_the_zone() -> None:
    times = minutes(50)
    alarm = alarm_at(4, 10, 12, times=times)
    found = page(timeline(np.ones((50, 1)), times=times, zone="Europe/Berlin", found=(alarm,)))
    assert found.meta["axis"] == {"kind": "time", "zone": "Europe/Berlin"}
    (stream,) = found.meta["streams"]
    assert (stream["start"], stream["period"]) == (1772366400, 60.0)
    (shown,) = stream["alarms"]
    assert shown["start"] == 1772366400 + 600 and shown["end"] == 1772366400 + 720
    assert shown["since"] == "2026-03-01 13:10+01:00"
    assert shown["lasted"] == "3 min"  # of its three samples, as the sentence says it
    np.testing.assert_array_equal(
        found.blocks[0][0].columns["x"], 1772366400 + 60.0 * np.arange(50)
    )


def test_without_all_times_the_axis_counts_samples() -> None:
    times = minutes(30)
    alarm = alarm_at(1, 103, 104)
    times[7] = "NaT"
    found = page(timeline(np.ones((30, 1)), times=times, first=100, found=(alarm,)))
    assert found.meta["axis"] == {"kind": "sample", "zone": None}
    (stream,) = found.meta["streams"]
    assert (stream["start"], stream["end"], stream["first"]) == (100, 129, 100)
    assert stream["alarms"][0]["start"] == 103
    assert stream["alarms"][0]["since"] == "sample 103"
    assert stream["alarms"][0]["lasted"] == "2 samples"


def test_an_alarm_from_before_begins_before_and_changes_have_their_steps() -> None:
    times = minutes(400)
    alarm = alarm_at(1, 290, 310, times=times)
    own = timeline(np.ones((100, 1)), times=times[300:], first=300, remaining=(alarm,))
    (stream,) = page(own).meta["streams"]
    assert stream["alarms"][0]["start"] == stream["start"] - 600
    pending, accepted = changed(1, 20), changed(1, 20, "accepted")
    (stream,) = page(timeline(np.ones((100, 1)), found=(pending, accepted))).meta["streams"]
    (change,) = stream["changes"]
    assert change["state"] == "accepted"
    assert change["steps"] == [[20, "pending"], [20, "accepted"]]
    waiting = timeline(np.ones((100, 1)), found=(changed(2, 30),), remaining=(changed(2, 30),))
    (stream,) = page(waiting).meta["streams"]
    assert (stream["status"], stream["changes"][0]["end"]) == ("change pending", 99)


def test_many_labelled_stretches_are_joined_and_without_labels_nothing_is_labelled() -> None:
    assert page(timeline(np.ones((9, 1)))).meta["labelled"] is False
    found = page(timeline(np.ones((9, 1)), labels=[0, 1, 1, 0, 0, 0, 0, 0, 1]))
    assert found.meta["labelled"] is True
    assert found.meta["streams"][0]["labels"] == [[1, 2], [8, 8]]
    labels = np.arange(50_000) % 2
    (stream,) = page(timeline(np.ones((50_000, 1)), labels=labels)).meta["streams"]
    assert len(stream["labels"]) <= 2_000
    assert stream["labels"][0][0] <= 1 and stream["labels"][-1][1] >= 49_999


@pytest.mark.parametrize(
    "name",
    ["</script><script>alert(1)</script>", "\"quoted'", "température 🌡", "x" * 5_000, "\ud800"],
    ids=["script", "quotes", "emoji", "long", "surrogate"],
)
def test_names_are_text_and_nothing_else(name: str) -> None:
    own = timeline(
        np.ones((9, 1)), channels=(name,), name=name, found=(alarm_at(1, 2, 3, channel=name),)
    )
    found = page(own)
    (stream,) = found.meta["streams"]
    assert stream["name"] == stream["channels"][0]["name"] == name
    assert stream["alarms"][0]["evidence"][0]["channel"] == name
    assert found.meta["title"] == name
    assert "<script>alert" not in found.text
    found.text.encode()


def test_numbers_that_json_cannot_hold_are_null() -> None:
    alarm = alarm_at(1, 2, 3, ratio=np.inf)
    (stream,) = page(timeline(np.ones((9, 1)), found=(alarm,))).meta["streams"]
    assert stream["alarms"][0]["ratio"] is None


@settings(max_examples=25)
@given(SERIES, SERIES, st.booleans())
def test_any_series_has_a_page(values: Floats, scores: Floats, expects: bool) -> None:
    own = np.resize(values, (len(scores), 1)) if len(values) else np.full((len(scores), 1), np.nan)
    (stream,) = page(timeline(own, scores=scores, expects=expects)).meta["streams"]
    assert stream["samples"] == len(scores)
    assert stream["missing"] == np.isnan(own).sum()


def test_every_file_of_the_page_is_in_it_once_and_in_the_order_that_its_readme_states() -> None:
    folder = Path(newnormal.__file__).parent
    parts = [*STYLES, *SCRIPTS]
    assert len(set(parts)) == len(parts)
    places = ("page", "reports/page")
    own = {f"{at}/{each.name}" for at in places for each in (folder / at).glob("*.[cj]s*")}
    assert own <= set(parts)
    readme = (folder / "reports/page/README.md").read_text(encoding="utf-8")
    stated = re.findall(r"`(?:vendor/uplot/)?([\w.]+\.(?:css|js))`", readme)
    assert stated == [Path(each).name for each in parts]
    text = page_of(_NOTHING)
    for each in parts:
        assert text.count((folder / each).read_text(encoding="utf-8")) == 1, each


def test_the_same_run_is_the_same_page_in_a_file(tmp_path: Path) -> None:
    def again() -> str:
        values = np.random.default_rng(5).normal(size=(3_000, 3))
        return page_of(timeline(values, found=(alarm_at(1, 20, 40),)))

    assert again() == again()
    path = newnormal.report(timeline(np.ones((9, 1))), tmp_path / "here.html", name="plant")
    assert path == tmp_path / "here.html"
    assert [each.name for each in tmp_path.iterdir()] == ["here.html"]
    assert read_page(path.read_text(encoding="utf-8")).meta["title"] == "plant"


# ---------------------------------------------------------------------- files


def test_targets_that_cannot_be_and_what_is_no_run_are_refused(tmp_path: Path) -> None:
    own = timeline(np.ones((9, 1)))
    with pytest.raises(InputError, match=r"expected a page ending in \.html, found '\.png'") as one:
        newnormal.report(own, tmp_path / "here.png")
    assert one.value.hint == "for example here.html"
    with pytest.raises(InputError, match=r"found no folder .*nowhere"):
        newnormal.report(own, tmp_path / "nowhere" / "here.html")
    with pytest.raises(InputError, match="expected verdicts, found list") as one:
        newnormal.report([1, 2], tmp_path / "here.html")
    assert one.value.hint == "take those that detector.run(series) or fleet.run(series) returns"
    assert not list(tmp_path.iterdir())
    labels = [0, 1]
    verdicts = timeline(np.ones((9, 1))).verdicts
    with pytest.raises(InputError, match="labels: expected one for each of 9 samples"):
        newnormal.report(verdicts, tmp_path / "here.html", labels=labels)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match="expected a file, found a folder"):
        newnormal.report(own, tmp_path / "folder.html")


def _shell() -> int:
    return len(page_of(_NOTHING).encode())


_NOTHING: Timeline = timeline(np.empty((0, 1)))


def test_labels_of_a_fleet_are_those_of_its_streams(tmp_path: Path) -> None:
    verdicts = timeline(np.ones((4, 1))).verdicts
    path = tmp_path / "report.html"
    with pytest.raises(InputError, match="labels: expected those of each stream by its name"):
        newnormal.report({"web-1": verdicts}, path, labels=np.zeros(4))
    with pytest.raises(InputError, match="labels: expected names of streams, found 'web-2'"):
        newnormal.report({"web-1": verdicts}, path, labels={"web-2": np.zeros(4)})
    with pytest.raises(InputError, match="expected verdicts by stream, found int of 'web-1'"):
        newnormal.report({"web-1": 3}, path)
    assert not path.exists()
