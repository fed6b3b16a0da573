"""The service's page while it is used: focus, clicks, phones, forms, incidents, what moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from newnormal.engine.values import Item, ThinnedSeries
from tests.browser.service_pages import DRAWN, TOKEN, Open, running, with_token
from tests.service.plant import (
    ALARM,
    ALARMED,
    PENDING,
    QUIET,
    close_alarm,
    feed,
    item,
    open_alarm,
    open_change,
    put,
    rewrite,
    stream_name,
)
from tests.service.running import number
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PLACES = ["#/", "#/stream/17", "#/inbox", "#/item/alarm-17-1-1", "#/item/incident-2", "#/health"]
SAID = "text => document.querySelector('.nn-counts').textContent.includes(text)"


def test_buttons_keep_the_focus_and_a_click_while_samples_come(visited: Open) -> None:
    with running() as (service, address):
        page = visited(address, "#/stream/17")
        page.wait_for_function(DRAWN)
        button = page.get_by_role("button", name="Reject as a fault")
        button.focus()
        page.evaluate("self.focused = document.activeElement")
        feed(service, ALARMED, 10, fault=9.0)
        page.wait_for_function(SAID, arg="2,010 samples")
        assert page.evaluate("document.activeElement === self.focused")
        assert "for 8 min" in page.locator("h1").inner_text()
        button.hover()
        page.mouse.down()
        feed(service, ALARMED, 10, fault=9.0)
        page.wait_for_function(SAID, arg="2,020 samples")
        page.mouse.up()
        page.get_by_role("dialog").wait_for()


def test_samples_that_come_while_others_are_read_are_shown(visited: Open) -> None:
    with running() as (service, address):
        page = visited(address, "#/stream/17")
        page.wait_for_function(DRAWN)
        page.evaluate("() => { self.ticks = 0; NN.api.on('tick', () => (self.ticks += 1)); }")
        answers: list[tuple[Any, Any]] = []

        def answer(route: Any) -> None:
            found = route.fetch()
            if answers:
                route.fulfill(response=found)
            else:  # below, when it is no longer new
                answers.append((route, found))

        page.route("**/streams/17", answer)
        for ticks in (1, 2):
            feed(service, ALARMED, 1, fault=9.0)
            page.wait_for_function("ticks => self.ticks === ticks", arg=ticks)
            while not answers:
                page.wait_for_timeout(1)
        (route, found), *_ = answers
        route.fulfill(response=found)
        page.wait_for_function(SAID, arg="2,002 samples")


def test_a_sentence_that_changes_is_written_into_the_same_card(visited: Open) -> None:
    with running() as (service, address):
        page = visited(address, "#/stream/17")
        page.wait_for_function(DRAWN)
        page.get_by_role("button", name="Accept as normal").focus()
        feed(service, ALARMED, 5, fault=9.0, channels=slice(2))
        page.locator(f"[data-now='{ALARM}']").get_by_text("also pressure").wait_for()
        page.locator(".nn-entry").get_by_text("also pressure").wait_for()
        assert page.evaluate("document.activeElement.dataset.verb") == "accept"


def test_an_alarm_and_the_change_that_began_with_it_are_decided_once(visited: Open) -> None:
    with running() as (service, address):
        open_change(service)
        page = visited(address, f"#/stream/{QUIET}")
        page.wait_for_function(DRAWN)
        card = page.locator(f"[data-now='alarm-{QUIET}-1-1 change-{QUIET}-1-1']")
        assert "temperature 19." in card.inner_text()
        assert "Change waiting for a decision: temperature from 1" in card.inner_text()
        names = page.locator("[data-verb]").evaluate_all("all => all.map(e => e.ariaLabel)")
        assert names == ["Accept as normal: change 1", "Reject as a fault: change 1"]


def test_buttons_of_two_items_have_two_names(visited: Open) -> None:
    with running() as (service, address):
        open_alarm(service, PENDING)
        page = visited(address, f"#/stream/{PENDING}")
        page.wait_for_function(DRAWN)
        assert page.get_by_role("button", name="Accept as normal: alarm 2").count() == 1
        assert page.get_by_role("button", name="Accept as normal: change 1").count() == 1


def test_channels_that_were_rejected_wait_for_nobody(visited: Open) -> None:
    with running() as (service, address):
        now = service.clock()
        body = {"new": ["torque"], "gone": [], "channels": ["torque"]}
        channels = Item(
            f"channels-{QUIET}-1-1", "channels", QUIET, 1, 1, "rejected", now, now, now, 0.0,
            "1 new channel: torque", body, 1,
        )  # fmt: skip
        rewrite(service, channels)
        page = visited(address, f"#/item/{channels.key}")
        page.locator(".nn-chip").get_by_text("rejected", exact=True).wait_for()
        assert page.locator("[data-verb]").count() == 0
        assert page.get_by_text("What to do").count() == 0
        page.goto(f"{address}/#/stream/{QUIET}")
        page.wait_for_function(DRAWN)
        assert "Normal" in page.locator("h1").inner_text()
        assert page.locator("[data-verb]").count() == 0


@pytest.mark.parametrize(
    ("verb", "text", "colour"),
    [("reject", "Reject as a fault", "--alarm-text"), ("accept", "Accept", "--accepted-text")],
)
def test_a_decision_is_asked_for_in_its_colour_and_no_key_confirms_it_by_chance(
    visited: Open, verb: str, text: str, colour: str
) -> None:
    with running() as (service, address):
        page = visited(address, "#/stream/17")
        page.wait_for_function(DRAWN)
        page.locator(f"[data-verb={verb}]").click()
        dialog = page.get_by_role("dialog")
        assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
        button = dialog.get_by_role("button", name=text)
        assert button.evaluate("e => getComputedStyle(e).backgroundColor") == coloured(page, colour)
        page.keyboard.press("Enter")
        assert dialog.is_visible()
        assert item(service, ALARM).state == "open"


def coloured(page: Page, name: str) -> str:
    """Return one of the page's colours as the browser writes it."""
    found: str = page.evaluate(
        """name => {
          const made = document.body.appendChild(document.createElement("i"));
          made.style.color = `var(${name})`;
          return getComputedStyle(made).color;
        }""",
        name,
    )
    return found


def test_what_cannot_be_undone_is_not_confirmed_by_a_key_that_comes_early(visited: Open) -> None:
    with running() as (_, address):
        page = visited(address, "#/stream/17")
        page.get_by_role("button", name="Remove the stream").click()
        assert page.evaluate("document.activeElement.textContent") == "Cancel"


def test_an_incident_says_what_happened_in_each_stream(visited: Open) -> None:
    with running() as (service, address):
        close_alarm(service, 1)
        name = stream_name(1)
        page = visited(address, "#/item/incident-2")
        lines = page.get_by_role("list", name="Streams").get_by_role("listitem")
        until(lambda: lines.count() == 5, "a line for each stream")
        line = lines.filter(has_text=name).inner_text()
        assert "pressure 14.6, expected 20.3 to 22.5" in line
        assert "low for 40 s" in line and "lasted 40 s" in line
        assert "open" in lines.last.inner_text()
        lines.filter(has_text=name).get_by_role("link").click()
        page.wait_for_function("k => location.hash.includes(`item=${k}`)", arg="alarm-1-1-1")


def test_an_incident_that_has_ended_says_from_when_to_when(visited: Open) -> None:
    with running() as (service, address):
        incident = item(service, "incident-2")
        end = incident.opened + 600 * 10**9
        rewrite(service, replace(incident, state="closed", updated=end, ended=end))
        page = visited(address, "#/item/incident-2")
        page.locator(".nn-facts").get_by_text("2026-01-01 07:39 to 2026-01-01 07:49").wait_for()


def test_the_card_of_an_incident_has_three_lines(visited: Open) -> None:
    with running() as (service, address):
        names = ", ".join(f"hall-{k:02d}/press-{k:04d}" for k in range(40))
        incident = item(service, "incident-2")
        rewrite(service, replace(incident, sentence=f"alarms opened in {names}"))
        card = visited(address, width=360).locator(".nn-incident")
        card.wait_for()
        assert card.evaluate("e => e.clientHeight") <= 3 * 23 + 2 * 11


@pytest.mark.parametrize("width", [320, 360])
def test_on_a_phone_nothing_is_too_wide_for_who_is_logged_in(visited: Open, width: int) -> None:
    with running(**with_token()) as (_, address):
        page = visited(address, "#/login", width=width, height=740, has_touch=True, expected="401")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        for place in PLACES:
            page.goto(f"{address}/{place}")
            page.locator("footer").wait_for()  # the view is read
            page.wait_for_function("() => document.querySelector('.nn-tab-count').textContent")
            assert page.evaluate("document.documentElement.scrollWidth") == width, place
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Token").wait_for()


def test_a_wrong_token_is_told_to_those_who_do_not_see_the_page(visited: Open) -> None:
    with running(**with_token()) as (_, address):
        page = visited(address, "#/login", expected="401")
        field = page.get_by_label("Token")
        assert field.get_attribute("aria-invalid") is None
        field.fill("wrong")
        page.keyboard.press("Enter")
        page.locator("[aria-invalid=true]").wait_for()
        told = page.locator(f"#{field.get_attribute('aria-describedby')}")
        assert told.inner_text() == "This token is not known here."


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_borders_and_placeholders_of_fields_are_seen(visited: Open, theme: str) -> None:
    with running() as (_, address):
        page = visited(address, color_scheme=theme)
        page.get_by_label("Find a stream").wait_for()
        for name in ("--ground", "--panel"):
            assert contrast(page, "--field", name) >= 3
            assert contrast(page, "--muted", name) >= 4.5
        field = page.get_by_label("Find a stream")
        assert field.evaluate("e => getComputedStyle(e).borderColor") == coloured(page, "--field")
        placed = field.evaluate("e => getComputedStyle(e, '::placeholder').color")
        assert placed == coloured(page, "--muted")


def contrast(page: Page, one: str, other: str) -> float:
    """Return the contrast of two colours of the page, as WCAG 2 defines it."""
    light = sorted(luminance(coloured(page, name)) for name in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


def luminance(colour: str) -> float:
    parts = [int(each) / 255 for each in colour.removeprefix("rgb(").rstrip(")").split(",")]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.fixture
def measured(browser: Browser) -> Iterator[Page]:
    """Give a window that adds up how much of it moves without being asked to."""
    context = browser.new_context(viewport={"width": 360, "height": 740})
    context.add_init_script(
        """self.moved = 0;
        new PerformanceObserver(list => list.getEntries().forEach(e => self.moved += e.value))
          .observe({ type: "layout-shift", buffered: true });"""
    )
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("width", [360, 768])
@pytest.mark.parametrize("place", ["#/", "#/stream/17", "#/item/alarm-17-1-1"])
def test_nothing_moves_while_a_page_is_read(measured: Page, place: str, width: int) -> None:
    with running() as (_, address):
        measured.set_viewport_size({"width": width, "height": 740})
        measured.goto(f"{address}/{place}")
        measured.locator("footer").wait_for()
        if "stream" in place:
            measured.wait_for_function(DRAWN)
        if "item" in place:
            measured.locator(".nn-channel-picture").wait_for()
        measured.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
        )
        assert measured.evaluate("self.moved") < 0.1
        measured.goto("about:blank")


def test_without_values_no_axis_is_invented(visited: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as (service, address):
        samples = service.store.samples
        made = samples.series

        def missing(*asked: Any) -> ThinnedSeries:
            found = made(*asked)
            none = np.full_like(found.low, np.nan)
            return replace(found, low=none, high=none, expected=none, least=none, most=none)

        monkeypatch.setattr(samples, "series", missing)
        page = visited(address, f"#/stream/{QUIET}")
        page.wait_for_function(DRAWN)
        page.locator("[data-channel='0']").get_by_text("no values").wait_for()
        drawn = "NN.current.view.picture.panels[0].u.axes[1]._values"  # the labels of the axis
        until(lambda: page.evaluate(drawn), "an axis")
        assert set(page.evaluate(drawn)) == {""}
        assert not page.locator(".nn-ratio").get_by_text("no values").is_visible()


def test_a_name_from_right_to_left_changes_nothing_around_it(visited: Open) -> None:
    name = "\u05ea\u05e0\u05d5\u05e8 1"
    with running() as (service, address):
        put(service, name)
        feed(service, number(service, name), 100)
        open_alarm(service, number(service, name))
        page = visited(address)
        page.locator("a > bdi").get_by_text(name).wait_for()
        page.get_by_role("link", name=name).click()
        page.locator("h1 bdi").get_by_text(name).wait_for()


def test_the_age_of_the_newest_sample_is_not_cut(visited: Open) -> None:
    with running() as (_, address):
        page = visited(address, width=768)
        cell = page.locator("[data-stream] .nn-c-newest").first
        cell.wait_for()
        cell.evaluate("e => e.textContent = '1 day 13 h ago'")
        assert cell.evaluate("e => e.scrollWidth <= e.clientWidth && e.clientHeight < 25")
        page.set_viewport_size({"width": 1100, "height": 800})
        head = page.get_by_role("columnheader", name="Newest sample")
        assert head.evaluate("e => e.scrollWidth <= e.clientWidth")
