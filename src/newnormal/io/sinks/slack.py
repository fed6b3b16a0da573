"""Alerts to chats by incoming webhooks: Slack, and those that understand its messages."""

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from newnormal.errors import ParameterError
from newnormal.io.options import Options
from newnormal.io.sinks.alerts import RESOLVED, Alert, AlertRefusedError, AlertSink
from newnormal.io.sinks.http import HttpAnswer, HttpReceiver
from newnormal.io.sinks.wording import headline, rows_of, status_word

# What a message is made of: attachments in Slack's way, a text alone, or a card for Teams.
FORMATS = ("slack", "text", "teams")

_RED, _AMBER, _GREEN = "#c62828", "#ef8f00", "#2e7d32"
_WAITS = ("change", "channels")  # kinds that wait for a decision: nothing may be wrong
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# What would be a mention of people or a link of Markdown: an unseen character stands between.
_ACTIVE = re.compile(r"(?<![\w@])@(?=\w)|\](?=\()")
_UNSEEN = "\u200b"

_NEW = "make a new webhook, or remove the sink"
# Answers that are about the webhook and not about the message, of Slack and of Mattermost.
_ANSWERS = {
    "no_service": f"the webhook was removed or disabled: {_NEW}",
    "no_team": f"there is no such workspace: {_NEW}",
    "team_disabled": f"the workspace was disabled: {_NEW}",
    "invalid_token": f"the address is not that of a webhook any more: {_NEW}",
    "channel_not_found": "check the option channel, or make the webhook anew for another channel",
    "channel_is_archived": f"the channel was archived: {_NEW}",
    "user_not_found": "check the option channel: there is no such user",
    "action_prohibited": "an administrator of the workspace must allow the webhook to post",
    "posting_to_general_channel_denied": "an administrator must allow posts to this channel",
    "web.incoming_webhook.invalid": f"there is no such webhook: {_NEW}",
    "web.incoming_webhook.disabled": "an administrator must enable incoming webhooks",
    "web.incoming_webhook.channel": "check the option channel",
    "web.incoming_webhook.permissions": "the webhook may not post to this channel",
}


class SlackSink(AlertSink):
    """Posts each alert as a message to a chat.

    Options: `url`, the address of the incoming webhook, which is a secret; `format`, what messages
    are made of: ``"slack"`` (also Mattermost, Rocket.Chat), ``"text"`` or ``"teams"``; `channel`,
    `username` and `icon`, where the webhook allows other ones than its own; `timeout`
    (10s); `ca_file`, certificates to trust instead of the system's.

    `clock` returns Unix seconds.
    """

    def __init__(
        self, name: str, options: Mapping[str, Any], *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(name, options)
        url: str = self.options.private("url")
        self._format = self.options.choice("format", *FORMATS)
        self._extra = _extra(self.options)
        self._receiver = HttpReceiver(self.options, url, clock=clock)
        self.options.end()
        self.timeout = 3 * self._receiver.timeout
        if self._extra and self._format == "teams":
            raise ParameterError(
                f"{self.options.where}: expected no channel, username or icon for Teams, found one",
                hint="the workflow decides where the card is posted and by whom",
            )

    def send(self, alert: Alert) -> None:
        """Post a message."""
        body = json.dumps(self._message(alert), allow_nan=False).encode()
        headers = {"Content-Type": "application/json", "X-Newnormal-Key": alert.key}
        answer = self._receiver.ask("POST", body=body, headers=headers)
        self._receiver.judge(answer, _hint(answer))
        if _denies(answer):
            raise AlertRefusedError(
                f"{self._receiver.name}: expected the message to be taken, found {answer.shown}"
            )

    def _message(self, alert: Alert) -> dict[str, Any]:
        if self._format == "teams":
            return _card(alert)
        message: dict[str, Any] = {"text": _text(alert), **self._extra}
        if self._format == "slack":
            message["attachments"] = [_attachment(alert)]
        return message

    def check(self) -> str:
        """Post a message without anything in it, which no chat shows; ask Teams with HEAD."""
        name = self._receiver.name
        if self._format == "teams":
            answer = self._receiver.ask("HEAD")
            return f"{name} answers (status {answer.status})"
        headers = {"Content-Type": "application/json"}
        answer = self._receiver.ask("POST", body=b"{}", headers=headers)
        with suppress(AlertRefusedError):  # as there is nothing in it
            self._receiver.judge(answer, _hint(answer))
        return f"{name} answers (status {answer.status} for a message without text)"

    def close(self) -> None:
        """Close the connections."""
        self._receiver.close()


def _extra(options: Options) -> dict[str, str]:
    icon: str | None = options.text("icon", None)
    key = "icon_url" if icon and icon.startswith(("http://", "https://")) else "icon_emoji"
    extra = {name: options.text(name, None) for name in ("channel", "username")} | {key: icon}
    return {name: text for name, text in extra.items() if text is not None}


def _hint(answer: HttpAnswer) -> str | None:
    """Return what to do, where an answer says that the webhook does not work."""
    return next((hint for word, hint in _ANSWERS.items() if word in answer.text), None)


def _denies(answer: HttpAnswer) -> bool:
    """Return whether an answer with a status 2xx says that the message was not taken."""
    try:
        content = json.loads(answer.text)
    except ValueError:
        return False
    return isinstance(content, dict) and False in (content.get("ok"), content.get("success"))


def _inert(text: str) -> str:
    """Return a text of which a chat makes no mention and no link."""
    return _ACTIVE.sub(lambda found: found[0] + _UNSEEN, text)


def _plain(text: str) -> str:
    """Return it with the characters escaped that control Slack."""
    return "".join(_ESCAPES.get(each, each) for each in _inert(text))


def _colour(alert: Alert) -> str:
    if alert.status == RESOLVED:
        return _GREEN
    return _AMBER if alert.body.get("kind") in _WAITS else _RED


def _text(alert: Alert) -> str:
    """Return the message for whatever shows only a text: notifications, and some chats."""
    text = f"[{status_word(alert.body)}] {_plain(headline(alert.body))}"
    link = alert.body.get("link")
    return f"{text}\n{link}" if link else text


def _attachment(alert: Alert) -> dict[str, Any]:
    body = alert.body
    attachment: dict[str, Any] = {
        "fallback": f"[{status_word(body)}] {_plain(headline(body))}",
        "color": _colour(alert),
        "fields": [
            {"title": _plain(name), "value": _plain(text), "short": True}
            for name, text in rows_of(body)
        ],
        "mrkdwn_in": [],
    }
    if body.get("link"):
        attachment |= {"title": alert.item, "title_link": body["link"]}
    return attachment


def _card(alert: Alert) -> dict[str, Any]:
    """Return an Adaptive Card in the envelope that workflows of Teams expect."""
    body = alert.body
    colour = {_RED: "Attention", _AMBER: "Warning", _GREEN: "Good"}[_colour(alert)]
    facts = [{"title": _inert(name), "value": _inert(text)} for name, text in rows_of(body)]
    content: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {
                "type": "TextBlock",
                "text": f"[{status_word(body)}] {_inert(headline(body))}",
                "weight": "Bolder",
                "color": colour,
                "wrap": True,
            },
            {"type": "FactSet", "facts": facts},
        ],
    }
    if body.get("link"):
        action = {"type": "Action.OpenUrl", "title": "Open", "url": body["link"]}
        content["actions"] = [action]
    card = {"contentType": "application/vnd.microsoft.card.adaptive", "content": content}
    return {"type": "message", "attachments": [card]}
