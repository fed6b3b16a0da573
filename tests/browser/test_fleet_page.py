"""The page of a fleet in a real browser: what needs attention first, search, one stream."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from newnormal.reports.writing import page_of
from tests.browser import made
from tests.browser.conftest import Visit

if TYPE_CHECKING:
    from playwright.sync_api import Page


def names(page: Page) -> list[str]:
    return [
        each or ""
        for each in page.evaluate(
            "[...document.querySelectorAll('[data-stream]')].map(e => e.dataset.stream)"
        )
    ]


def test_what_needs_attention_is_on_top(visit: Visit) -> None:
    page = visit("fleet")
    assert page.locator("h1").inner_text() == "4 of 50 streams need attention"
    assert "3 in alarm · 1 with a change pending" in page.locator(".nn-counts").inner_text()
    found = names(page)
    assert len(found) == 50
    assert set(found[:3]) == {"machine-12", "machine-31", made.ODD}
    assert found[3] == "machine-21"
    assert found[4:10] == [f"machine-{k}" for k in ("50", "41", "32", "23", "14", "05")]
    assert page.locator(".nn-cell-status").all_inner_texts()[:4] == ["In alarm"] * 3 + [
        "Change pending"
    ]
    assert page.locator("svg.nn-spark").count() == 50
    assert page.locator("canvas").count() == 0


def test_streams_are_found_filtered_and_ordered(visit: Visit) -> None:
    page = visit("fleet")
    page.get_by_label("Find a stream").fill("Machine-0")
    assert len(names(page)) == 8
    assert page.get_by_text("8 streams found").is_visible()
    page.get_by_label("Find a stream").fill("")
    page.get_by_label("Status").select_option("change pending")
    assert names(page) == ["machine-21"]
    page.get_by_label("Status").select_option("")
    page.get_by_label("Order of streams").select_option("name")
    assert names(page)[:2] == ["machine-01", "machine-02"]
    page.get_by_label("Find a stream").fill("no such stream")
    assert page.get_by_text("0 streams found").is_visible()


def test_a_row_opens_the_picture_of_its_stream_and_back(visit: Visit) -> None:
    page = visit("fleet")
    page.locator("[data-stream='machine-12'] .nn-cell-newest").click()
    page.wait_for_function("() => +NN.state.picture?.frame.dataset.points > 0")
    assert page.url.endswith("#stream=machine-12")
    assert page.locator("h1").inner_text().startswith("In alarm since")
    assert "machine-12" in page.title()
    page.get_by_role("link", name="All 50 streams").click()
    page.locator(".nn-table").wait_for()
    assert page.evaluate("NN.state.picture") is None
    page.go_back()
    page.wait_for_function("() => +NN.state.picture?.frame.dataset.points > 0")


def test_incidents_lead_to_the_alarms_of_their_streams(visit: Visit) -> None:
    page = visit("fleet")
    incidents = page.get_by_role("region", name="Incidents")
    assert "3 streams since 16:00" in incidents.inner_text()
    incidents.get_by_role("link", name=made.ODD.strip()).click()
    page.wait_for_function("() => NN.state.picture?.marked?.number === 1")
    assert page.locator(".nn-back strong").inner_text().strip() == made.ODD.strip()
    assert page.get_by_text("incident 1").is_visible()


def test_a_link_opens_at_an_alarm_of_a_stream(visit: Visit) -> None:
    page = visit("fleet", "#stream=machine-31&alarm=1")
    assert page.evaluate("[NN.state.picture.stream.name, NN.state.picture.marked.number]") == [
        "machine-31",
        1,
    ]
    assert visit("fleet", "#stream=nothing&alarm=1").locator(".nn-table").count() == 1


def test_a_stream_without_samples_in_the_file_says_so(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "small.html"
    path.write_text(page_of(made.fleet(), budget=240_000), encoding="utf-8")
    page = visit(str(path), "#stream=machine-03")
    without = page.evaluate(
        "JSON.parse(document.getElementById('report').textContent).streams"
        ".filter(s => !s.blocks).map(s => s.name)"
    )
    assert "machine-03" in without
    assert page.get_by_text(re.compile("samples of this stream are not in this file")).is_visible()
    assert page.locator("svg.nn-spark").count() == 1
