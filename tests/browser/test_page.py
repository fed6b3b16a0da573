"""The page of a stream in a real browser: what is seen, hovered, zoomed, picked and pressed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from newnormal.reports.writing import page_of
from newnormal.texts import number_texts
from tests.browser import made
from tests.browser.conftest import SPIKE, Visit, run_of
from tests.present import present
from tests.unit.test_texts import NUMBERS
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MINUTE = 60.0


def view(page: Page) -> tuple[float, float]:
    x0, x1 = page.evaluate("NN.state.picture.view")
    return x0, x1


def settled(page: Page) -> None:
    """Wait until what was asked for is drawn."""
    page.wait_for_function("() => !NN.state.picture.waiting")


def box(page: Page, selector: str) -> dict[str, float]:
    found = present(page.locator(selector).first.bounding_box())
    return {"x": found["x"], "y": found["y"], "width": found["width"], "height": found["height"]}


def hover(page: Page, panel: str, x: float) -> None:
    """Move the mouse to a place of the axis, over a panel."""
    area = box(page, f"{panel} .u-over")
    x0, x1 = view(page)
    at = area["x"] + (x - x0) / (x1 - x0) * area["width"]
    page.mouse.move(at, area["y"] + 20)
    page.mouse.move(at, area["y"] + 30)


def look_at(page: Page, sample: int) -> None:
    """Zoom in, so that a sample is several pixels wide, and move the mouse to it."""
    start, _ = page.evaluate("NN.state.picture.full")
    x = start + sample * MINUTE
    page.evaluate("([a, b]) => NN.state.picture.show(a, b)", [x - 20 * MINUTE, x + 20 * MINUTE])
    settled(page)
    hover(page, channel(page, "sensor 2"), x)


def channel(page: Page, name: str) -> str:
    """Return the selector of a channel's panel."""
    at = page.evaluate(
        "name => NN.state.picture.stream.channels.findIndex(c => c.name === name)", name
    )
    return f"[data-channel='{at}']"


def test_the_headline_says_what_happens_where_and_since_when(visit: Visit) -> None:
    page = visit("open")
    assert page.locator("h1").inner_text().startswith("In alarm since 2026-03-02 15:40+01:00")
    assert "T15:40" not in page.locator("main").inner_text()  # one way to write a time
    text = page.locator(".nn-headline").inner_text()
    assert re.search(r"sensor 1 \d\d\.\d, expected", text)
    assert "Change pending: sensor 1 from 20 to 29" in text
    assert "1 alarm (1 open)" in text
    assert "3 channels" in text
    assert "600 samples" in text
    assert page.title() == "open.csv"


def test_without_alarms_the_page_says_so(visit: Visit) -> None:
    page = visit("quiet")
    assert page.locator("h1").inner_text() == "Normal throughout: no alarms, no changes"
    assert page.locator(".nn-lane").count() == 0
    assert page.locator(".nn-where").inner_text() == "samples 0 to 799"


def test_without_labels_nothing_is_called_false_or_outside(visit: Visit) -> None:
    text = visit("many").locator("body").inner_text().lower()
    assert "false" not in text
    assert "label" not in text


def test_samples_beyond_the_range_of_a_channel_are_marked(visit: Visit, tmp_path: Path) -> None:
    own = run_of("labelled").verdicts
    ratios = np.zeros(own.expected.shape, np.float32)
    ratios[[300, 305], 1] = 2.5
    edges = {"lows": own.expected - 3, "highs": own.expected + 3, "channel_ratios": ratios}
    path = tmp_path / "beyond.html"
    path.write_text(page_of(replace(own, **edges)), encoding="utf-8")
    page = visit(str(path))
    panel = "NN.state.picture.panels.find((each) => each.name === 'sensor 2')"
    columns = page.evaluate(f"[{panel}.ratio, {panel}.data[1], {panel}.data[2]]")
    marked, most, least = map(np.array, columns)
    assert np.flatnonzero(marked >= 1).tolist() == [300, 305]
    np.testing.assert_allclose(most - least, 6, rtol=1e-5)
    assert "beyond its range" in page.locator(".nn-legend").inner_text()
    page.evaluate("NN.state.picture.point(300)")
    assert "2.5 × its limit" in page.locator("[aria-label^='sensor 2'] .nn-readout").inner_text()


def test_with_labels_alarms_are_compared_with_them(visit: Visit) -> None:
    page = visit("labelled")
    text = page.locator(".nn-headline").inner_text()
    assert "1 of 2 labelled faults found · 1 false alarm" in text
    assert page.locator(".nn-lane-label .nn-label").count() == 2
    chips = page.locator(".nn-entry .nn-chip").all_inner_texts()
    assert chips == ["outside the labels", "labelled"]


def test_times_are_those_of_the_stream_not_of_the_reader(visit: Visit) -> None:
    page = visit("open", timezone_id="America/New_York")
    assert page.locator(".nn-where").inner_text() == "2026-03-02 09:00 to 18:59 Europe/Berlin"
    look_at(page, 400)
    assert page.locator(".nn-flag").inner_text() == "2026-03-02 15:40:00 · alarm 1"


def test_the_channels_concerned_are_on_top(visit: Visit) -> None:
    page = visit("open")
    names = page.locator(".nn-panel h3").all_inner_texts()
    assert names == ["Ratio to the limit", "sensor 1", "sensor 2", "sensor 3"]
    page = visit("many", "#alarm=3")
    names = page.locator(".nn-panel h3").all_inner_texts()
    assert names[:3] == ["Ratio to the limit", "sensor 3", "sensor 4"]
    assert page.locator(".nn-badge").all_inner_texts() == ["alarm 3 · 80 %", "alarm 3 · 20 %"]


def test_hover_shows_the_values_of_that_sample_and_what_is_beyond(visit: Visit) -> None:
    page = visit("open")
    run = run_of("open")
    expected = present(run.verdicts.expected)
    for sample in (0, 57, 410, 598):
        look_at(page, sample)
        for at, name in enumerate(("sensor 1", "sensor 2", "sensor 3")):
            text = page.locator(f"{channel(page, name)} .nn-readout").inner_text()
            found = [float(each) for each in re.findall(r"\d+(?:\.\d+)?", text)]
            usual = expected[sample, at]
            assert found == pytest.approx(
                [run.values[sample, at], usual, usual - 1.2, usual + 1.2], rel=3e-4
            )
        score = page.locator(".nn-ratio .nn-readout").inner_text()
        assert float(score.split(" ")[0]) == pytest.approx(run.verdicts.scores[sample], rel=1e-3)
        assert score.endswith("× the limit")
    look_at(page, 410)  # one is above its range
    assert page.locator(f"{channel(page, 'sensor 1')} .nn-readout b.nn-bad").count() == 1
    assert page.locator(f"{channel(page, 'sensor 3')} .nn-readout b.nn-bad").count() == 0


def test_missing_values_and_gaps_are_gaps(visit: Visit, tmp_path: Path) -> None:
    run = made.run(300, 2, [])
    run.values[100:110, 0] = float("nan")
    present(run.verdicts.times)[200:] += 60 * made.MINUTE
    path = tmp_path / "gaps.html"
    path.write_text(page_of(run), encoding="utf-8")
    page = visit(str(path))
    assert "10 missing values" in page.locator(".nn-counts").inner_text()
    drawn = page.evaluate("NN.state.picture.found.columns['low:0']")
    assert [at for at, value in enumerate(drawn) if value is None] == [*range(100, 110), 200]
    look_at(page, 105)
    assert page.locator(f"{channel(page, 'sensor 1')} .nn-readout").inner_text() == "no value"


def drag(page: Page, panel: str, start: float, stop: float) -> None:
    area = box(page, f"{panel} .u-over")
    page.mouse.move(area["x"] + start * area["width"], area["y"] + 30)
    page.mouse.down()
    page.mouse.move(area["x"] + (start + stop) / 2 * area["width"], area["y"] + 30)
    page.mouse.move(area["x"] + stop * area["width"], area["y"] + 30)
    page.mouse.up()
    settled(page)


def test_dragging_zooms_to_what_was_selected_and_a_double_click_shows_all(visit: Visit) -> None:
    page = visit("open")
    x0, x1 = view(page)
    panel = channel(page, "sensor 2")
    drag(page, panel, 0.25, 0.5)
    span = x1 - x0
    assert view(page) == pytest.approx((x0 + span / 4, x0 + span / 2), abs=span / 200)
    area = box(page, f"{panel} .u-over")
    page.mouse.dblclick(area["x"] + 200, area["y"] + 30)
    settled(page)
    assert view(page) == (x0, x1)


def test_the_wheel_zooms_with_ctrl_and_scrolls_without(visit: Visit) -> None:
    page = visit("open", height=600)
    x0, x1 = view(page)
    hover(page, ".nn-ratio", x0 + (x1 - x0) / 4)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    page.wait_for_function("() => !NN.state.picture.whole()")
    settled(page)
    a, b = view(page)
    assert b - a < 0.8 * (x1 - x0)
    # what was below the mouse stays there
    assert (x0 + (x1 - x0) / 4 - a) / (b - a) == pytest.approx(0.25, abs=0.01)
    page.mouse.wheel(0, 300)
    page.wait_for_function("() => scrollY > 0")
    assert view(page) == (a, b)


def test_shift_drag_and_the_strip_move_the_range(visit: Visit) -> None:
    page = visit("open")
    x0, x1 = view(page)
    panel = channel(page, "sensor 1")
    drag(page, panel, 0.25, 0.5)
    a, b = view(page)
    page.keyboard.down("Shift")
    drag(page, panel, 0.5, 0.3)
    page.keyboard.up("Shift")
    c, d = view(page)
    assert d - c == pytest.approx(b - a)
    assert c - a == pytest.approx(0.2 * (b - a), rel=0.05)
    strip, window = box(page, ".nn-map"), box(page, ".nn-window")
    page.mouse.move(window["x"] + window["width"] / 2, window["y"] + 10)
    page.mouse.down()
    page.mouse.move(strip["x"] + strip["width"], window["y"] + 10)
    page.mouse.up()
    settled(page)
    assert view(page)[1] == pytest.approx(x1)
    assert view(page)[0] > x0


def test_two_fingers_zoom_and_one_shows_values(visit: Visit) -> None:
    page = visit("open", width=390, height=844, has_touch=True)
    area = box(page, f"{channel(page, 'sensor 1')} .u-over")
    x0, x1 = view(page)
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *parts: float) -> None:
        points = [{"x": area["x"] + each * area["width"], "y": area["y"] + 40} for each in parts]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 0.5)
    touch("touchMove", 0.6)
    page.wait_for_function("() => document.querySelector('.nn-flag').hidden === false")
    touch("touchEnd")
    touch("touchStart", 0.4, 0.6)
    touch("touchMove", 0.3, 0.7)
    touch("touchMove", 0.2, 0.8)
    touch("touchEnd")
    settled(page)
    a, b = view(page)
    assert b - a == pytest.approx((x1 - x0) / 3, rel=0.02)
    assert (a + b) / 2 == pytest.approx((x0 + x1) / 2, rel=1e-6)


def test_keys_move_zoom_and_step_through_alarms(visit: Visit) -> None:
    page = visit("many")
    x0, x1 = view(page)
    page.keyboard.press("+")
    settled(page)
    a, b = view(page)
    assert b - a == pytest.approx((x1 - x0) / 2)
    page.keyboard.press("ArrowRight")
    settled(page)
    assert view(page)[0] == pytest.approx(a + (b - a) / 4)
    page.keyboard.press("0")
    settled(page)
    assert view(page) == (x0, x1)
    for key, number in (("n", 1), ("n", 2), ("p", 1)):
        page.keyboard.press(key)
        page.wait_for_function(
            "n => NN.state.picture.marked?.kind + NN.state.picture.marked?.number === `alarm${n}`",
            arg=number,
        )
    page.keyboard.press("-")
    settled(page)
    assert view(page)[1] - view(page)[0] < x1 - x0


def test_zooming_brings_finer_data_and_the_page_says_how_fine(visit: Visit) -> None:
    page = visit("million")
    coarse = page.evaluate("+NN.state.picture.frame.dataset.per")
    assert coarse >= 100
    assert (
        f"1 point = {coarse:,} samples, extremes kept"
        in page.locator(".nn-note").first.inner_text()
    )
    pers = [coarse]
    for part in (0.05, 0.0001):
        x0, x1 = page.evaluate("NN.state.picture.full")
        middle = x0 + SPIKE / 1_000_000 * (x1 - x0)
        half = part * (x1 - x0) / 2
        page.evaluate("([a, b]) => NN.state.picture.show(a, b)", [middle - half, middle + half])
        settled(page)
        pers.append(page.evaluate("+NN.state.picture.frame.dataset.per"))
    assert pers[0] > pers[1] > pers[2]


def test_few_points_of_a_million_are_drawn_and_a_spike_of_one_is_among_them(visit: Visit) -> None:
    page = visit("million")
    run = run_of("million")
    count, width = page.evaluate("[NN.state.picture.found.x.length, NN.state.picture.pixels]")
    assert 500 <= count <= 4 * width + 10
    at = page.evaluate("NN.state.picture.stream.channels.findIndex(c => c.name === 'sensor 1')")
    drawn = page.evaluate("at => NN.state.picture.found.columns[`high:${at}`]", at)
    assert any(value == pytest.approx(run.values[SPIKE, 0], rel=1e-6) for value in drawn)
    assert max(page.evaluate("NN.state.picture.found.columns.ratio")) == pytest.approx(
        run.verdicts.scores.max(), rel=1e-6
    )
    page.locator(".nn-entry-link").first.click()
    page.wait_for_function("() => NN.state.picture.marked !== null")
    settled(page)
    found: dict[str, Any] = page.evaluate("NN.state.picture.found")
    assert page.evaluate("NN.state.picture.found.per") == 1
    position = min(range(len(found["x"])), key=lambda k: abs(found["x"][k] - _x(page, SPIKE)))
    assert found["columns"][f"low:{at}"][position] == pytest.approx(run.values[SPIKE, 0], rel=1e-6)


def _x(page: Page, sample: int) -> float:
    x0, _ = page.evaluate("NN.state.picture.full")
    return float(x0 + sample * MINUTE)


def test_an_alarm_in_the_list_leads_to_its_place(visit: Visit) -> None:
    page = visit("many")
    page.get_by_role("button", name="Show 27 more").click()
    page.locator(".nn-entry-alarm[data-number='7'] a").click()
    page.wait_for_function("() => NN.state.picture.marked?.number === 7")
    settled(page)
    assert page.url.endswith("#alarm=7")
    begin, stop = page.evaluate("[NN.state.picture.marked.start, NN.state.picture.marked.end]")
    a, b = view(page)
    assert a < begin <= stop < b
    assert b - a < 10 * (stop - begin)
    assert page.locator(".nn-entry-link[aria-current=true] .nn-no").all_inner_texts() == ["7"]
    bar = page.locator(".nn-alarm[aria-pressed=true]")
    assert bar.count() == 1
    assert bar.inner_text() == "7"
    assert page.locator(".nn-marked details").get_attribute("open") is not None
    page.go_back()
    page.wait_for_function("() => NN.state.picture.marked === null")
    assert view(page) == tuple(page.evaluate("NN.state.picture.full"))


def test_a_link_opens_at_an_alarm_or_at_a_range(visit: Visit) -> None:
    page = visit("many", "#alarm=50")
    assert page.evaluate("NN.state.picture.marked.number") == 50
    start = page.evaluate("NN.state.picture.marked.start")
    assert view(page)[0] < start < view(page)[1]
    # the list of 52 shows its newest first, and this one is among them
    assert page.locator(".nn-marked").get_attribute("data-number") == "50"
    page = visit("many", "#change=1")
    assert page.evaluate("NN.state.picture.marked.kind") == "change"
    x0, _ = page.evaluate("NN.state.picture.full")
    page = visit("many", f"#from={x0 + 600}&to={x0 + 6_000}")
    assert view(page) == pytest.approx((x0 + 600, x0 + 6_000))
    page = visit("many", "#alarm=9999&from=x&to=%E0%A4%A")  # an address of nothing: everything
    assert view(page) == tuple(page.evaluate("NN.state.picture.full"))


def test_a_bar_marks_its_alarm_and_one_that_stands_for_several_looks_closer(visit: Visit) -> None:
    page = visit("many", width=390, height=844)
    before = view(page)
    several = page.locator(".nn-event.nn-several")
    assert 5 < several.count() < 20
    several.nth(3).click()
    assert view(page)[1] - view(page)[0] < (before[1] - before[0]) / 5
    page = visit("labelled")
    page.locator(".nn-alarm[data-number='2']").click()
    page.wait_for_function("() => NN.state.picture.marked?.number === 2")
    assert page.locator(".nn-entry-link[aria-current=true] .nn-no").all_inner_texts() == ["2"]


def test_the_list_can_be_ordered(visit: Visit) -> None:
    page = visit("many")
    numbers = [int(each) for each in page.locator(".nn-entry-alarm .nn-no").all_inner_texts()]
    assert numbers == list(range(52, 27, -1))
    page.get_by_role("button", name="Show 27 more").click()
    assert page.locator(".nn-entry-alarm").count() == 52
    page.get_by_label("Order of alarms").select_option("longest")
    assert page.locator(".nn-entry-alarm").count() == 52


def test_the_range_is_kept_in_the_address(visit: Visit) -> None:
    page = visit("open")
    drag(page, channel(page, "sensor 1"), 0.25, 0.5)
    page.wait_for_url(re.compile(r"#from=[\d.]+&to=[\d.]+$"))
    seen = view(page)
    page.reload()
    page.wait_for_function("() => NN.state.picture && NN.state.picture.view")
    assert view(page) == pytest.approx(seen)


def test_nothing_moves_when_panels_are_drawn(visit: Visit) -> None:
    page = visit("many", height=400)
    heights = "() => [...document.querySelectorAll('.nn-panel')].map(e => e.offsetHeight)"
    before = page.evaluate(heights)
    page.locator(".nn-panel").last.scroll_into_view_if_needed()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.nn-panel')].at(-1).panel.data !== null"
    )
    assert page.evaluate(heights) == before


def test_many_channels_are_folded_and_drawn_only_where_they_are_seen(visit: Visit) -> None:
    page = visit("wide")
    assert page.locator(".nn-panel").count() == 5  # the score, and four that are concerned
    page.get_by_role("button", name="Show all 200 channels").click()
    assert page.locator(".nn-panel").count() == 201
    assert page.locator("canvas").count() < 25
    page.locator(".nn-panel").nth(150).scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelectorAll('.nn-panel')[150].panel.data !== null")
    assert page.locator("canvas").count() < 25
    page.get_by_role("button", name="Show only the channels concerned").click()
    assert page.locator(".nn-panel").count() == 5
    page.get_by_label("Find a channel").fill("Recovery 17")
    names = page.locator(".nn-panel h3").all_inner_texts()
    assert [name.split()[-1] for name in names[1:]] == ["17", *(str(k) for k in range(170, 180))]


GROUND = "getComputedStyle(document.body).backgroundColor"


def test_dark_follows_the_system_and_the_button_overrides_it(visit: Visit) -> None:
    page = visit("open", dark=True)
    assert page.evaluate(GROUND) == "rgb(17, 22, 28)"
    line = page.evaluate("NN.state.picture.colours.line")
    page.get_by_role("button", name="Switch to the light theme").click()
    assert page.evaluate(GROUND) == "rgb(255, 255, 255)"
    assert page.evaluate("NN.state.picture.colours.line") != line

    def is_light_again() -> bool:
        page.reload()
        page.wait_for_function("() => NN.state.picture")
        return bool(page.evaluate(GROUND) == "rgb(255, 255, 255)")

    # Chromium may read what is kept before it has written it, in another process.
    until(is_light_again, "the light theme to be remembered", seconds=20)
    page = visit("open")
    assert page.evaluate(GROUND) == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("() => NN.state.picture.colours.ground === '#11161c'")


@pytest.mark.parametrize("name", ["open", "many", "wide", "fleet"])
def test_a_phone_shows_it_without_scrolling_sideways(visit: Visit, name: str) -> None:
    page = visit(name, width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    small = page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter(e => e.checkVisibility()
          && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
          .map(e => [parseFloat(getComputedStyle(e).fontSize), e.className, e.tagName])
          .filter(([size]) => size < 11)"""
    )
    assert small == []
    narrow = page.evaluate(
        """() => [...document.querySelectorAll('.nn-button, select, .nn-more')]
          .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height)
          .filter(height => height < 30)"""
    )
    assert narrow == []


def test_fingers_have_forty_pixels(visit: Visit) -> None:
    page = visit("open", width=390, height=844, has_touch=True, is_mobile=True)
    low = page.evaluate(
        """() => [...document.querySelectorAll('.nn-button, select, .nn-more, summary')]
          .filter(e => e.checkVisibility())
          .map(e => [e.textContent, e.getBoundingClientRect().height])
          .filter(([, height]) => height < 40)"""
    )
    assert low == []
    bar = present(page.locator(".nn-event.nn-alarm").bounding_box())
    # Above the bar, which is 18 pixels high, the finger meets it too.
    for y in (bar["y"] - 9, bar["y"] + bar["height"] + 9):
        hit = "([x, y]) => document.elementFromPoint(x, y).closest('.nn-alarm') !== null"
        assert page.evaluate(hit, [bar["x"] + bar["width"] / 2, y])


def test_on_paper_all_channels_are_drawn_in_light_colours(visit: Visit) -> None:
    page = visit("many", dark=True, height=400)
    shown = "() => [...document.querySelectorAll('.nn-panel')].map(e => !!e.panel.u)"
    assert not all(page.evaluate(shown))
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(page.evaluate(shown))
    assert page.evaluate("NN.state.picture.colours.ground") == "#ffffff"
    assert page.evaluate("document.querySelector('.nn-picture').clientWidth") == 680
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("NN.state.picture.colours.ground") == "#11161c"
    assert page.evaluate("document.querySelector('.nn-picture').clientWidth") > 680
    assert len(page.pdf()) > 50_000


def test_every_change_is_seen_where_many_are_pending(visit: Visit) -> None:
    page = visit("open")
    lefts = page.evaluate(
        """() => {
          const spans = [...Array(9).keys()].map(k => ({kind: 'change', number: k + 1,
            start: 10 * k, end: 100, of: {state: 'pending', sentence: 'moved', steps: []}}));
          const lane = new NN.Lane('Changes', spans, () => {});
          lane.draw(0, 100, 800, null);
          return [...lane.bars.children].map(e => [+e.dataset.number, parseFloat(e.style.left)]);
        }"""
    )
    assert sorted(lefts) == [[k + 1, pytest.approx(80 * k, abs=1)] for k in range(9)]


def test_numbers_and_ticks_that_differ_look_different(visit: Visit) -> None:
    page = visit("quiet")

    def numbers(values: list[float | None], unit: str = "") -> list[str]:
        found: list[str] = page.evaluate("([v, u]) => NN.numbers(v, 3, u)", [values, unit])
        return found

    assert numbers([71.04, 20, 30, None]) == ["71", "20", "30", "\u2013"]
    for values in NUMBERS:
        for unit in ("", "B", "s", "%", "B/s"):
            shown = [text.replace("\u2212", "-") for text in numbers([*values], unit)]
            assert shown == number_texts(*values, unit=unit)
    ticks = "splits => NN.ticks(splits)"
    assert page.evaluate(ticks, [1e15, 1e15 + 5, 1e15 + 10]) == ["1.000P", "+5", "+10"]
    assert page.evaluate(ticks, [0, 50_000, 100_000]) == ["0", "50k", "100k"]


def test_the_strip_has_its_own_ends_while_the_axis_is_that_of_a_part(visit: Visit) -> None:
    page = visit("open")
    ends = page.locator(".nn-map-end")
    assert ends.count() == 2 and not ends.first.is_visible()
    x0, x1 = page.evaluate("NN.state.picture.full")
    whole: str = page.evaluate("NN.state.picture.clock.span(...NN.state.picture.full)")
    page.evaluate("([a, b]) => NN.state.picture.show(a, b)", [x0, (x0 + x1) / 2])
    ends.first.wait_for()
    assert " to ".join(ends.all_inner_texts()) == whole
    page.evaluate("NN.state.picture.showAll()")
    ends.first.wait_for(state="hidden")


PAIRS = [
    (ink, ground)
    for ink in ("ink", "muted", "alarm-text", "pending-text", "link")
    for ground in ("ground", "panel", "soft")
] + [
    (f"{kind}-text", f"{kind}-tint")
    for kind in ("alarm", "label", "pending", "accepted", "rejected")
]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_the_contrast_of_aa(visit: Visit, dark: bool) -> None:
    page = visit("quiet", dark=dark)

    def luminance(name: str) -> float:
        value = page.evaluate(
            "name => getComputedStyle(document.body).getPropertyValue('--' + name).trim()", name
        )
        parts = [int(value[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        red, green, blue = (
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(a: str, b: str) -> float:
        low, high = sorted((luminance(a), luminance(b)))
        return (high + 0.05) / (low + 0.05)

    assert {pair: contrast(*pair) for pair in PAIRS if contrast(*pair) < 4.5} == {}
    lines = [("line", "ground"), ("alarm", "ground"), ("label", "ground"), ("pending", "ground")]
    assert {pair: contrast(*pair) for pair in lines if contrast(*pair) < 3} == {}


@pytest.mark.parametrize("name", ["many", "fleet"])
def test_everything_has_a_name_and_no_id_is_there_twice(visit: Visit, name: str) -> None:
    page = visit(name)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, a, select, input, [role=img]')]
          .filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.title))
          .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_role("main").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"


def test_lists_and_pictures_can_be_read_aloud(visit: Visit) -> None:
    page = visit("labelled")
    assert page.get_by_role("list", name="Alarms").get_by_role("listitem").count() == 2
    assert page.get_by_role("group", name="Alarms").get_by_role("button").count() == 2
    picture = page.get_by_role("img", name=re.compile("sensor 1: between"))
    assert re.fullmatch(
        r"sensor 1: between \S+ and \S+, samples 0 to 899",
        picture.get_attribute("aria-label") or "",
    )
    page.keyboard.press("n")
    page.wait_for_function("() => document.querySelector('[role=status]').textContent !== ''")
    assert page.locator(".nn-spoken").inner_text().startswith("alarm 1: sensor 1")


def test_the_list_works_with_the_keyboard_alone(visit: Visit) -> None:
    page = visit("labelled")
    page.locator(".nn-entry-alarm[data-number='1'] a").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => NN.state.picture.marked?.number === 1")


def test_a_file_with_an_odd_name_opens(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "report #1 50%20 ü & 'x' \"y\".html"
    path.write_text(
        page_of(made.run(100, 2, [(50, 60)]), name="<b>&amp;</script>"), encoding="utf-8"
    )
    page = visit(str(path))
    assert page.locator(".nn-title").inner_text() == "<b>&amp;</script>"
    assert page.title() == "<b>&amp;</script>"


def test_the_page_allows_itself_no_network(visit: Visit) -> None:
    policy = present(
        visit("quiet").locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    )
    assert policy.startswith("default-src 'none'")


def test_the_page_runs_its_own_script_and_no_other(browser: Browser, tmp_path: Path) -> None:
    text = page_of(made.run(100, 2, [(50, 60)]))
    planted = "<script>window.planted = true</script><img src=x onerror='window.planted = true'>"
    path = tmp_path / "planted.html"
    path.write_text(text.replace("</body>", f"{planted}</body>"), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_function("() => +NN.state.picture.frame.dataset.points > 0")
    assert page.evaluate("window.planted") is None
    page.close()


def test_one_sample_and_no_expectation_are_drawn_too(visit: Visit, tmp_path: Path) -> None:
    for length in (1, 2):
        path = tmp_path / f"short-{length}.html"
        path.write_text(page_of(made.run(length, 1, [])), encoding="utf-8")
        assert visit(str(path)).evaluate("NN.state.picture.found.x.length") == length


def test_the_legend_names_only_what_is_drawn(visit: Visit, tmp_path: Path) -> None:
    assert "expected range" in visit("open").locator(".nn-legend").inner_text()
    own = made.run(500, 2)
    path = tmp_path / "m2n2.html"  # which has no range around what it expects
    path.write_text(
        page_of(replace(own, observed=replace(own.observed, margins=None))), encoding="utf-8"
    )
    text = visit(str(path)).locator(".nn-legend").inner_text()
    assert "expected" in text and "expected range" not in text


def test_samples_that_cannot_be_read_are_reported(visit: Visit, tmp_path: Path) -> None:
    text = page_of(made.run(100, 2, []))
    path = tmp_path / "spoilt.html"
    path.write_text(re.sub(r'(id="data-0">).{40}', r"\1" + "A" * 40, text), encoding="utf-8")
    # no points will come, so do not wait for them
    page = visit("quiet")
    page.goto(path.as_uri())
    page.get_by_role("alert").wait_for()
    assert "cannot be read" in page.get_by_role("alert").inner_text()
