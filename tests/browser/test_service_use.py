"""The service's page while it is used: focus, clicks, phones, forms, incidents, nothing that moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from newnormal.service.values import Item
from tests.browser.service_pages import DRAWN, Open, quiet, running

pytestmark = pytest.mark.external

SAID = "text => document.querySelector('.nn-counts').textContent.includes(text)"


# ------------------------------------------------------------------ as samples come


def test_buttons_keep_the_focus_and_a_click_while_samples_come(visited: Open) -> None:
    with running() as (service, address):
        page = visited(address, "#/stream/17")
        page.wait_for_function(DRAWN)
        button = page.get_by_role("button", name="Reject as a fault")
        button.focus()
        page.evaluate("self.focused = document.activeElement")
        service.tick(30)
        page.wait_for_function(SAID, arg="20,030 samples")
        assert page.evaluate("document.activeElement === self.focused")
        assert "for 12 min" in page.locator("h1").inner_text()
        button.hover()
        page.mouse.down()
        service.tick(30)
        page.wait_for_function(SAID, arg="20,060 samples")
        page.mouse.up()
        page.get_by_role("dialog").wait_for()


def test_a_sentence_that_changes_is_written_into_the_same_card(visited: Open) -> None:
    with running() as (service, address):
        page = visited(address, "#/stream/17")
        page.wait_for_function(DRAWN)
        page.get_by_role("button", name="Accept as normal").focus()
        item = service.store.kept["alarm-17-1-1"]
        service.store.put_item(replace(item, sentence="temperature 50", updated=item.updated + 1))
        service.inject_change(17)  # all is read again
        page.locator("[data-now='alarm-17-1-1']").get_by_text("temperature 50").wait_for()
        page.locator(".nn-entry").get_by_text("temperature 50").wait_for()
        assert page.evaluate("document.activeElement.dataset.verb") == "accept"


# ------------------------------------------------------------------ what may be decided


def test_an_alarm_and_the_change_that_began_with_it_are_decided_once(visited: Open) -> None:
    with running() as (service, address):
        change = service.inject_change(17, back=50)
        service.store.put_item(replace(change, body={**change.body, "alarm": 1}))
        page = visited(address, "#/stream/17")
        page.wait_for_function(DRAWN)
        card = page.locator("[data-now='alarm-17-1-1 change-17-1-1']")
        assert "temperature 40" in card.inner_text()
        assert "Change waiting for a decision: vibration from 12 to 15" in card.inner_text()
        names = page.locator("[data-verb]").evaluate_all("all => all.map(e => e.ariaLabel)")
        assert names == ["Accept as normal: change 1", "Reject as a fault: change 1"]


def test_buttons_of_two_items_have_two_names(visited: Open) -> None:
    with running() as (service, address):
        service.inject_change(17, back=50)
        page = visited(address, "#/stream/17")
        page.wait_for_function(DRAWN)
        assert page.get_by_role("button", name="Accept as normal: alarm 1").count() == 1
        assert page.get_by_role("button", name="Accept as normal: change 1").count() == 1


def test_channels_that_were_rejected_wait_for_nobody(visited: Open) -> None:
    with running() as (service, address):
        number = quiet(service)
        now = service.clock()
        body = {"new": ["torque"], "gone": [], "channels": ["torque"]}
        item = Item(
            f"channels-{number}-1-1", "channels", number, 1, 1, "rejected", now, now, now, 0.0,
            "1 new channel: torque", body, 1,
        )  # fmt: skip
        service.store.put_item(item)
        page = visited(address, f"#/item/{item.key}")
        page.locator(".nn-chip").get_by_text("rejected", exact=True).wait_for()
        assert page.locator("[data-verb]").count() == 0
        assert page.get_by_text("What to do").count() == 0
        page.goto(f"{address}/#/stream/{number}")
        page.wait_for_function(DRAWN)
        assert "Normal" in page.locator("h1").inner_text()
        assert page.locator("[data-verb]").count() == 0
