"""The service's page in a real browser: streams, one stream, the inbox, what is decided."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from newnormal.engine.log import entries as log
from newnormal.errors import FeedbackError
from tests.browser.service_pages import DRAWN, TOKEN, Open, running, with_token
from tests.service.asgi import served
from tests.service.plant import (
    ALARM,
    ALARMED,
    COLLECTING,
    FAILED,
    FITTING,
    PENDING,
    PERIOD,
    QUIET,
    close_alarm,
    feed,
    item,
    open_alarm,
    open_change,
    plant,
    put,
    stream_name,
)
from tests.service.running import logged, number
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

ODD = "<img src=x onerror=alert(1)> & 'press'/\"7\""


def rows(page: Page) -> list[str]:
    return [
        each or ""
        for each in page.evaluate(
            "[...document.querySelectorAll('[data-stream]')].map(e => e.dataset.stream)"
        )
    ]


def test_the_overview_shows_what_needs_attention_first_in_words(visited: Open) -> None:
    with running() as (_, address):
        page = visited(address)
        page.locator("[data-stream]").first.wait_for()
        need = 8  # six in alarm, one with a change, one that failed
        assert page.locator("h1").inner_text() == f"{need} of 20 streams need attention"
        assert page.title() == f"({need}) Streams · newnormal"
        first = page.locator(".nn-row[data-row]").first.inner_text()
        assert "In alarm" in first  # in words, not by colour alone
        assert "pressure" in first
        assert "since" in first
        assert len(rows(page)) >= 14
        page.get_by_role("region", name="Incidents").get_by_text("5 of 17 streams").wait_for()


@pytest.mark.parametrize(
    ("state", "lead"), [("reverted", "over: "), ("accepted", "accepted: "), ("pending", "")]
)
def test_what_is_over_is_not_told_as_if_it_were_now(visited: Open, state: str, lead: str) -> None:
    with running() as (service, address):
        change = item(service, f"change-{PENDING}-1-1")
        if state == "accepted":
            service.decide(change.key, "accept").result()
        elif state == "reverted":
            change = open_change(service)
            feed(service, QUIET, 200)
        change = item(service, change.key)
        assert change.state == state
        page = visited(address, f"#/?search={stream_name(change.stream or 0)}")
        what = page.locator(f"[data-row='{change.stream}'] .nn-what")
        what.wait_for()
        assert what.inner_text() == lead + change.sentence.partition(" since ")[0].rstrip(",")


def test_streams_are_searched_filtered_and_sorted_and_a_reload_keeps_it(visited: Open) -> None:
    with running() as (_, address):
        page = visited(address)
        page.locator("[data-stream]").first.wait_for()
        page.get_by_label("Find a stream").fill("press-1")
        page.get_by_text("10 streams found").wait_for()
        page.get_by_label("Order of streams").select_option("name")
        page.wait_for_function("() => location.hash.includes('sort=name')")
        page.reload()
        page.get_by_text("10 streams found").wait_for()
        assert page.get_by_label("Find a stream").input_value() == "press-1"
        until(lambda: len(rows(page)) == 10, "10 rows")
        assert (found := rows(page)) == sorted(found)
        page.get_by_label("Find a stream").fill("")
        page.get_by_role("button", name="change pending").click()
        page.wait_for_function("() => location.hash.includes('status=change')")
        until(lambda: rows(page) == [stream_name(PENDING)], "the stream with a change")


def test_an_alarm_arrives_without_reload_is_accepted_and_closes(visited: Open) -> None:
    with running() as (service, address):
        name = stream_name(QUIET)
        page = visited(address, "#/inbox")
        page.locator("[data-item]").first.wait_for()
        page.evaluate("self.stays = true")
        assert page.get_by_role("link", name=name).count() == 0
        key = open_alarm(service).key
        entry = page.locator(f"[data-item='{key}']")
        entry.wait_for()
        assert name in entry.inner_text()
        page.wait_for_function(
            "n => document.querySelector('[aria-live=assertive]').textContent.includes(n)", arg=name
        )
        entry.click()
        detail = page.locator(f".nn-item[data-key='{key}']")
        detail.get_by_role("button", name="Accept as normal").click()
        dialog = page.get_by_role("dialog")
        assert "does not alarm again" in dialog.inner_text()
        dialog.get_by_label("Comment").fill("a new recipe")
        dialog.get_by_role("button", name="Accept as normal").click()
        entry.wait_for(state="detached")
        assert item(service, key).state == "closed"
        assert item(service, key).body["reason"] == "accepted"
        page.get_by_text("a new recipe").wait_for()
        assert page.evaluate("self.stays")  # it was never loaded again


def test_the_inbox_is_used_with_the_keyboard_alone(visited: Open) -> None:
    with running() as (service, address):
        key = f"change-{PENDING}-1-1"
        page = visited(address, "#/inbox?kind=change")
        page.locator(f"[data-item='{key}']").wait_for()
        page.keyboard.press("j")
        page.wait_for_function(
            "k => document.querySelector('.nn-picked')?.dataset.item === k", arg=key
        )
        page.keyboard.press("r")
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Control+Enter")
        page.get_by_role("dialog").wait_for(state="detached")
        page.get_by_text("rejected, still there").first.wait_for()
        assert item(service, key).state == "rejected"
        page.keyboard.press("?")
        assert "next, previous item" in page.get_by_role("dialog").inner_text()
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("s")
        page.locator("[data-stream]").first.wait_for()
        assert page.evaluate("document.activeElement.tagName") == "H1"
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_function("() => location.hash.startsWith('#/stream/')")
        page.go_back()
        page.locator("[data-stream]").first.wait_for()
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.type") == "search"


def test_a_streams_page_says_what_happened_since_when_and_what_to_do(visited: Open) -> None:
    with running() as (_, address):
        page = visited(address, "#/stream/17")
        page.wait_for_function(DRAWN)
        page.locator(".nn-headline").get_by_text("What to do:").first.wait_for()
        text = page.locator(".nn-headline").inner_text()
        assert re.search(r"In alarm since .*\d\d:\d\d", text)
        assert "temperature 17.16, expected 7.5 to 9.77" in text
        assert "What to do:" in text
        assert page.locator(".nn-panel h3").all_inner_texts()[:2] == [
            "Ratio to the limit",
            "temperature",
        ]
        until(lambda: page.locator(".nn-event.nn-alarm").count() == 1, "one bar")
        page.locator(".nn-entry-link").first.click()
        page.get_by_role("cell", name="too high").wait_for()


def test_the_picture_follows_the_newest_samples_until_one_looks_elsewhere(visited: Open) -> None:
    with running() as (service, address):
        page = visited(address, f"#/stream/{QUIET}")
        page.wait_for_function(DRAWN)
        picture = "NN.current.view.picture"
        end = page.evaluate(f"{picture}.view[1]")
        feed(service, QUIET, 30)
        page.wait_for_function(f"t => {picture}.view[1] >= t", arg=end + 30 * PERIOD / 1e9 - 1)
        assert page.get_by_role("button", name="Live").get_attribute("aria-pressed") == "true"
        page.wait_for_function(  # the range moves first, its samples are read after
            f"t => {picture}.found.x.at(-1) >= t", arg=end + 30 * PERIOD / 1e9 - 1
        )
        page.get_by_role("button", name="1 h").click()
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("() => location.hash.includes('from=')")
        view = page.evaluate(f"{picture}.view")
        feed(service, QUIET, 30)
        page.wait_for_function(f"t => {picture}.full[1] >= t", arg=end + 60 * PERIOD / 1e9 - 1)
        assert page.evaluate(f"{picture}.view") == view
        page.reload()
        page.wait_for_function(DRAWN)
        assert page.evaluate(f"{picture}.view") == pytest.approx(view, abs=1)
        page.keyboard.press("l")
        page.wait_for_function(f"() => {picture}.following")


def test_months_are_thinned_and_no_extreme_is_lost(visited: Open) -> None:
    with running() as (service, address):
        for _ in range(8):
            feed(service, ALARMED, 50_000)
        page = visited(address, f"#/stream/{ALARMED}")
        page.wait_for_function(DRAWN)
        page.get_by_role("button", name="All").click()
        page.wait_for_function("() => +document.querySelector('.nn-picture').dataset.per > 50")
        page.get_by_text("extremes kept").wait_for()
        found = page.evaluate("NN.current.view.picture.found")
        assert len(found["x"]) < 8_000
        most = max(each for each in found["columns"]["ratio"] if each is not None)
        assert most == pytest.approx(item(service, ALARM).ratio, abs=0.01)


def test_an_alarm_that_opens_is_seen_in_the_picture_and_closes_by_itself(visited: Open) -> None:
    with running() as (service, address):
        page = visited(address, f"#/stream/{QUIET}")
        page.wait_for_function(DRAWN)
        assert page.locator("h1").inner_text().splitlines()[-1].startswith("Normal")
        open_alarm(service)
        page.locator("h1 .nn-is-alarm").wait_for()
        page.locator(".nn-event.nn-alarm.nn-open").last.wait_for()
        close_alarm(service)
        page.locator("h1 .nn-is-normal").wait_for()
        page.locator(".nn-event.nn-alarm.nn-open").first.wait_for(state="detached")


def test_streams_that_are_silent_together_are_one_incident(visited: Open) -> None:
    with running() as (service, address):
        calm = [each for each in service.streams() if each.state == "live" and not each.attention]
        (first, since), *others = [(each.id, each.newest or 0) for each in calm]
        silent = log.Silent(first, since, since + 100 * PERIOD, tuple(others))
        service._engine.submit(silent, internal=True).applied.result()
        key = "incident-silence-1"
        page = visited(address, f"#/stream/{QUIET}")
        page.locator("h1").get_by_text("Silent since").wait_for()
        text = page.locator(".nn-headline").inner_text()
        assert f"Incident: no samples of {len(calm)} streams of source plant" in text
        assert "What to do: Check what sends these streams" in text
        page.locator(".nn-headline").get_by_role("link", name="Incident").click()
        page.locator(f".nn-item[data-key='{key}']").wait_for()
        page.locator(".nn-item-head").get_by_text("Incident", exact=True).wait_for()
        assert page.locator(".nn-streams a").count() == len(calm)
        page.goto(f"{address}/#/inbox")
        page.locator(f"[data-item='{key}']").wait_for()
        page.goto(f"{address}/#/")
        page.get_by_role("region", name="Incidents").get_by_text("of source plant").wait_for()


def test_streams_that_are_not_live_say_how_far_they_are(visited: Open) -> None:
    with running() as (_, address):
        page = visited(address, f"#/stream/{COLLECTING}")
        page.get_by_text("Collecting history: 100 of 400 samples").wait_for()
        assert page.get_by_role("progressbar").is_visible()
        page = visited(address, f"#/stream/{FITTING}")
        page.get_by_text("Learning what is normal").wait_for()
        page = visited(address, f"#/stream/{FAILED}")
        page.get_by_text("expected 2 channels that vary").wait_for()


def test_removing_and_undoing_are_confirmed(visited: Open) -> None:
    with running() as (service, address):
        service.decide(f"change-{PENDING}-1-1", "accept").result()
        page = visited(address, f"#/stream/{PENDING}", expected="409")
        page.get_by_role("button", name="Undo the newest").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        assert item(service, f"change-{PENDING}-1-1").state == "accepted"
        page.get_by_role("button", name="Undo the newest").click()
        page.get_by_role("dialog").get_by_role("button", name="Undo").click()
        page.get_by_text("is undone").wait_for()
        with pytest.raises(FeedbackError, match="expected an accepted new normal to go back from"):
            service.decide(None, "undo", stream=PENDING).result()
        page.get_by_role("button", name="Remove the stream").click()
        dialog = page.get_by_role("dialog")
        assert "deleted for good" in dialog.inner_text()
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        assert service.stream(PENDING) is not None
        page.get_by_role("button", name="Remove the stream").click()
        dialog.get_by_role("button", name="Remove for good").click()
        page.locator("[data-stream]").first.wait_for()
        assert service.stream(PENDING) is None


def test_names_are_shown_as_text(visited: Open) -> None:
    with running() as (service, address):
        put(service, ODD)
        feed(service, number(service, ODD), 100)
        key = open_alarm(service, number(service, ODD)).key
        page = visited(address)
        page.get_by_role("link", name=ODD).wait_for()
        assert page.locator("img").count() == 0
        page.get_by_role("link", name=ODD).click()
        page.wait_for_function(DRAWN)
        assert ODD in page.locator("h1").inner_text()
        page.goto(f"{address}/#/item/{key}")
        page.locator(".nn-item-stream").wait_for()
        assert page.locator(".nn-item-stream").inner_text() == ODD
        assert page.locator("img").count() == 0


def test_scripts_inside_the_page_are_forbidden(visited: Open) -> None:
    with running(empty=True) as (_, address):
        page = visited(address, expected="Content Security Policy")
        found = page.evaluate(
            """() => {
              const made = document.createElement("script");
              made.textContent = "self.ran = true";
              document.body.append(made);
              return self.ran === true;
            }"""
        )
        assert found is False
        assert page.locator("script:not([src])").count() == 1  # the one that was just made


def test_login_and_logout(visited: Open) -> None:
    with running(**with_token()) as (service, address):
        page = visited(address, "#/stream/17", expected="401")
        field = page.get_by_label("Token")
        field.fill("wrong")
        page.keyboard.press("Enter")
        page.get_by_text("This token is not known here.").wait_for()
        assert page.locator(".nn-row").count() == 0
        assert page.get_by_role("button", name="Log out").count() == 0
        field.fill(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_function(DRAWN)  # the place that was asked for
        page.reload()
        page.wait_for_function(DRAWN)
        page.get_by_role("button", name="Accept as normal").first.click()
        page.get_by_role("dialog").get_by_role("button", name="Accept as normal").click()
        page.get_by_text(f"Accepted: {stream_name(ALARMED)}").wait_for()
        assert item(service, ALARM).state == "closed"
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Token").wait_for()
        page.reload()
        page.get_by_label("Token").wait_for()
        page.goto(f"{address}/#/inbox")
        page.get_by_label("Token").wait_for()


def test_who_may_only_read_sees_no_buttons_that_decide(visited: Open) -> None:
    with running(**with_token("read")) as (_, address):
        page = visited(address, "#/stream/17", expected="401")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_function(DRAWN)
        assert page.get_by_role("button", name="Accept as normal").count() == 0
        assert page.get_by_role("button", name="Remove").count() == 0


def test_the_first_start_shows_how_to_push(visited: Open) -> None:
    with running(empty=True, now=None) as (service, address):
        page = visited(address)
        page.get_by_text("Ready for the first samples").wait_for()
        text = page.locator("main").inner_text()
        assert f"curl {address}/api/v1/samples" in text
        assert f'Client("{address}")' in text
        lines = page.get_by_role("region", name="From Python").locator("code").inner_text()
        names: dict[str, Any] = {}
        exec(lines.partition("client.upload_history")[0], names)  # as a reader would
        names["client"].close()
        [entry] = logged(service)
        assert entry.arrivals[0].stream == "press-1"
        assert entry.arrivals[0].channels == ("temperature", "pressure")
        assert not entry.history
        page.locator("[data-stream='press-1']").wait_for()


def test_a_lost_connection_is_said_and_the_page_recovers_by_itself(visited: Open) -> None:
    with plant() as service:
        with served(service) as address:
            page = visited(address, expected="ERR_|Failed to load")
            page.locator("[data-stream]").first.wait_for()
            port = int(address.rsplit(":", 1)[1])
            page.evaluate("self.stays = true")
        banner = page.get_by_role("alert").filter(has_text="No connection to the service since")
        banner.wait_for()
        with served(service, port):
            banner.wait_for(state="hidden", timeout=30_000)
            key = open_alarm(service).key
            page.goto(f"{address}/#/item/{key}")
            page.get_by_text("What to do:").wait_for()
            assert page.evaluate("self.stays")


def test_health_is_said_in_sentences(visited: Open) -> None:
    with running() as (service, address):
        service.report("sinks", ok=False, message="chat: connection refused since 14:02")
        page = visited(address, "#/health")
        page.get_by_text("Something needs attention").wait_for()
        assert page.get_by_text("chat: connection refused since 14:02").first.is_visible()
        service.report("sinks", ok=True)
        page.get_by_text("Everything works").wait_for(timeout=10_000)


@pytest.mark.parametrize(
    "place", ["", "#/stream/17", "#/inbox", "#/item/alarm-17-1-1", "#/health", "#/login"]
)
def test_on_a_phone_nothing_is_wider_than_the_screen(visited: Open, place: str) -> None:
    with running() as (service, address):
        long = "building 7/floor 12/air handling unit 3/supply air temperature after heat recovery"
        put(service, long)
        feed(service, number(service, long), 100)
        open_alarm(service, number(service, long))
        page = visited(address, place, width=390, height=844, has_touch=True, is_mobile=True)
        page.wait_for_function("() => !/reading …|Reading the/.test(document.body.innerText)")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.evaluate("() => void scrollTo(50, 0)")
        assert page.evaluate("scrollX") == 0


def test_dark_and_light_by_choice_and_it_is_kept(visited: Open) -> None:
    with running() as (_, address):
        page = visited(address, "#/stream/17", color_scheme="dark")
        page.wait_for_function(DRAWN)
        ground = "getComputedStyle(document.body).backgroundColor"
        assert page.evaluate(ground) == "rgb(17, 22, 28)"
        page.get_by_role("button", name="Switch to the light theme").click()
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
        page.reload()
        page.wait_for_function(DRAWN)
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
