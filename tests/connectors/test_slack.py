"""Alerts in chats: what is posted, what the answers of Slack and others mean, what stays secret."""

from pathlib import Path
from typing import Any

import pytest

from newnormal.io.sinks.alerts import AlertRefusedError, SinkDownError
from newnormal.io.sinks.slack import SlackSink
from newnormal.service.config import SinkConfig
from newnormal.service.connectors import make_sink
from newnormal.testing import check_alert_sink
from tests.connectors.alerting import FIRED, LINK, alert_of
from tests.connectors.programs import free_port
from tests.errors import raised
from tests.http_server import Listener

PATH = "/services/T0/B0/swordfish"


def sink_for(listener: Listener, **options: Any) -> SlackSink:
    return listener.closing(SlackSink("chat", {"url": listener.url + PATH, **options}))


def posted(listener: Listener, changes: dict[str, Any], **options: Any) -> Any:
    sink_for(listener, **options).send(alert_of({**FIRED, **changes}))
    return listener.heard[-1].json


def test_a_message_has_a_text_that_works_everywhere_and_an_attachment(listener: Listener) -> None:
    message = posted(listener, {})
    [request] = listener.heard
    assert (request.method, request.path) == ("POST", PATH)
    assert request.headers["content-type"] == "application/json"
    headline = "[firing] press-1: temperature 90.5, expected 60 to 75; high"
    assert message == {
        "text": f"{headline}\n{LINK}",
        "attachments": [
            {
                "fallback": headline,
                "color": "#c62828",
                "title": "alarm-12-1-3",
                "title_link": LINK,
                "fields": [
                    {
                        "title": "temperature",
                        "value": "90.5, expected 70.2 (60 to 75)",
                        "short": True,
                    },
                    {"title": "kind", "value": "alarm, open", "short": True},
                    {"title": "stream", "value": "press-1", "short": True},
                    {"title": "since", "value": "2027-01-15 07:57:00 UTC", "short": True},
                ],
                "mrkdwn_in": [],
            }
        ],
    }


def test_the_colour_shows_whether_it_fired_is_undecided_or_is_over(listener: Listener) -> None:
    def colour(**changes: Any) -> Any:
        return posted(listener, changes)["attachments"][0]["color"]

    assert colour() == colour(kind="incident") == colour(kind="silence") == "#c62828"
    assert colour(kind="change") == colour(kind="channels") == "#ef8f00"
    assert colour(status="resolved") == colour(status="resolved", kind="change") == "#2e7d32"


def test_a_message_that_resolves_has_the_end_and_no_link_without_one(listener: Listener) -> None:
    ended = {"status": "resolved", "state": "closed", "ended": "2027-01-15T08:00:00Z", "link": None}
    message = posted(listener, ended)
    assert message["text"].startswith("[resolved] press-1: temperature")
    assert "\n" not in message["text"]
    [attachment] = message["attachments"]
    assert "title_link" not in attachment
    assert attachment["fields"][-1]["title"] == "until"
    assert attachment["fields"][-1]["value"] == "2027-01-15 08:00:00 UTC"


@pytest.mark.parametrize("kind", ["slack", "text"])
def test_names_cannot_mention_people_link_or_break_lines(listener: Listener, kind: str) -> None:
    stream = "<!channel> & @all [x](http://evil) a@b\n"
    message = posted(listener, {"stream": stream, "link": None}, format=kind)
    assert message["text"].startswith(
        "[firing] &lt;!channel&gt; &amp; @\u200ball [x]\u200b(http://evil) a@b\\n: temperature"
    )


def test_a_text_alone_where_that_is_wanted(listener: Listener) -> None:
    assert set(posted(listener, {}, format="text")) == {"text"}


def test_teams_gets_a_card(listener: Listener) -> None:
    message = posted(listener, {"stream": "a<b"}, format="teams")
    assert message["type"] == "message"
    [card] = message["attachments"]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    title, facts = card["content"]["body"]
    assert title["text"].startswith("[firing] a<b: temperature 90.5")
    assert title["color"] == "Attention"
    assert facts["facts"][0] == {"title": "temperature", "value": "90.5, expected 70.2 (60 to 75)"}
    assert card["content"]["actions"][0]["url"] == LINK
    listener.answer = lambda _: (202, {}, "")
    assert "actions" not in posted(listener, {"link": None}, format="teams")


def test_channel_name_and_icon_can_be_other_ones(listener: Listener) -> None:
    message = posted(listener, {}, channel="plant", username="newnormal", icon=":bell:")
    assert message["channel"] == "plant"
    assert message["username"] == "newnormal"
    assert message["icon_emoji"] == ":bell:"
    message = posted(listener, {}, icon="https://example.org/bell.png")
    assert message["icon_url"] == "https://example.org/bell.png"
    assert "channel" not in message


@pytest.mark.parametrize(
    ("status", "text", "hint"),
    [
        (404, "no_service", "the webhook was removed or disabled: make a new webhook"),
        (404, "channel_not_found", "check the option channel"),
        (410, "channel_is_archived", "the channel was archived"),
        (403, "action_prohibited", "an administrator of the workspace must allow"),
        (403, "invalid_token", "the address is not that of a webhook any more"),
        (400, "user_not_found", "check the option channel: there is no such user"),
        (400, '{"id":"web.incoming_webhook.invalid.app_error"}', "there is no such webhook"),
        (501, '{"id":"web.incoming_webhook.disabled.app_error"}', "enable incoming webhooks"),
        (404, "<html>", "check the address"),
        (500, "rollup_error", ""),
    ],
)
def test_a_webhook_that_does_not_work_stops_all_alerts_and_the_hint_says_what_to_do(
    listener: Listener, status: int, text: str, hint: str
) -> None:
    listener.answer = lambda _: (status, {}, text)
    error = raised(SinkDownError, lambda: posted(listener, {}))
    assert hint in (error.hint or "")
    assert f"found {status}" in error.message
    assert ("<html>" not in error.message) and (text in error.message or "<" in text)
    assert error.after == (3600.0 if status == 410 else None)


def test_too_many_messages_wait_as_long_as_is_asked(listener: Listener) -> None:
    listener.answer = lambda _: (429, {"Retry-After": "30"}, "rate_limited")
    with pytest.raises(SinkDownError, match="429 Too Many Requests: rate_limited") as caught:
        posted(listener, {})
    assert caught.value.after == 30.0


@pytest.mark.parametrize(
    ("status", "text"),
    [(400, "invalid_payload"), (200, '{"success":false,"error":"no"}'), (200, '{"ok": false}')],
)
def test_a_message_that_is_refused_waits_alone(listener: Listener, status: int, text: str) -> None:
    listener.answer = lambda _: (status, {}, text)
    assert text in raised(AlertRefusedError, lambda: posted(listener, {})).message


@pytest.mark.parametrize("text", ["ok", '{"success":true}', "", "[]", "1"])
def test_a_message_that_is_taken(listener: Listener, text: str) -> None:
    listener.answer = lambda _: (200, {}, text)
    posted(listener, {})


def test_the_address_is_never_shown(listener: Listener) -> None:
    listener.answer = lambda _: (404, {}, f"nothing at {PATH}, that is {listener.url}{PATH}")
    assert "swordfish" not in str(raised(SinkDownError, lambda: posted(listener, {})))
    sink = sink_for(listener, url=f"http://127.0.0.1:{free_port()}{PATH}")
    with pytest.raises(SinkDownError, match=r"127\.0\.0\.1: expected an answer") as caught:
        sink.send(alert_of(FIRED))
    assert "swordfish" not in str(caught.value)


def test_the_check_posts_nothing_that_is_shown(listener: Listener) -> None:
    listener.answer = lambda _: (400, {}, "no_text")
    assert sink_for(listener).check() == "127.0.0.1 answers (status 400 for a message without text)"
    assert [(each.method, each.body) for each in listener.heard] == [("POST", b"{}")]
    listener.answer = lambda _: (404, {}, "no_service")
    with pytest.raises(SinkDownError, match="404 Not Found: no_service"):
        sink_for(listener).check()
    assert sink_for(listener, format="teams").check() == "127.0.0.1 answers (status 404)"
    assert listener.heard[-1].method == "HEAD"


def test_the_address_comes_from_a_file(listener: Listener, tmp_path: Path) -> None:
    (tmp_path / "hook").write_text(f"{listener.url}{PATH}\n")
    sink = make_sink(SinkConfig("chat", "slack", {"url_file": str(tmp_path / "hook")}))
    sink.send(alert_of(FIRED))
    sink.close()
    assert listener.heard[0].path == PATH


@pytest.mark.parametrize("kind", ["slack", "text", "teams"])
def test_the_sink_passes_its_own_check(listener: Listener, kind: str) -> None:
    check_alert_sink(
        lambda: SlackSink("chat", {"url": listener.url, "format": kind}),
        received=lambda: [
            each.headers["x-newnormal-key"]
            for each in listener.heard
            if "x-newnormal-key" in each.headers
        ],
        down=lambda: SlackSink("chat", {"url": f"http://127.0.0.1:{free_port()}"}),
    )
