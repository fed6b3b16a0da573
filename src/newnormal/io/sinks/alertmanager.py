"""Alerts to Prometheus Alertmanager, by version 2 of its API."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from newnormal.errors import ParameterError
from newnormal.io.http import authorization
from newnormal.io.options import Options
from newnormal.io.sinks.alerts import RESOLVED, Alert, AlertRefusedError, AlertSink, SinkDownError
from newnormal.io.sinks.http import HttpReceiver
from newnormal.io.sinks.wording import headline, rows_of

# The label `severity` of an alert, by its kind; that of an alarm by its own severity.
SEVERITIES = {
    "alarm": "warning",
    "incident": "critical",
    "silence": "warning",
    "change": "info",
    "channels": "info",
}
_OF_ALARM = {"low": "info", "medium": "warning", "high": "warning", "critical": "critical"}

_ALERTS, _STATUS = "/api/v2/alerts", "/api/v2/status"
_OWN = ("alertname", "item", "kind", "severity", "stream")  # labels that every alert may have
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_EXPIRES_AFTER = 10  # times that alerts are sent again
_REST = 30.0  # s: one of several that was down is left alone so long while another takes alerts
_MOST_STATUS = 4_000_000  # bytes of an answer, which has the whole configuration of Alertmanager
_HINTS = {
    401: "check user and password, or the token",
    403: "check user and password, or the token",
    404: "check the address: that of Alertmanager's page, without /api",
}


class AlertmanagerSink(AlertSink):
    """Keeps alerts firing at one Alertmanager or several, and resolves them.

    Options: `url`, or `urls` of all members of a cluster; `user` and `password`, or `token`;
    `labels`, a table that every alert has as labels; `severity`, a text or a table by kind;
    `repeat_every` (1m), `expires_after` (ten times that); `timeout`
    (10s); `ca_file`, certificates to trust instead of the system's.

    `clock` returns Unix seconds.

    Each alert is posted to all addresses, as Alertmanager asks of its clients; it is delivered
    when one has taken it.
    """

    at_once = 100

    def __init__(
        self, name: str, options: Mapping[str, Any], *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(name, options)
        where = self.options.where
        urls = _addresses(where, self.options)
        header = authorization(self.options)
        secrets = (self.options.secret("password"), self.options.secret("token"))
        self._labels = _checked_labels(where, self.options.table("labels", {}))
        self._severities = _severities(where, self.options, options.get("severity"))
        self._fired: dict[str, str] = {}  # severities of open items, by their keys
        self.repeat_every = self.options.seconds("repeat_every", "1m", least="1s")
        usual = f"{_EXPIRES_AFTER * self.repeat_every:f}s"
        self._expires = self.options.seconds("expires_after", usual)
        self._receivers = [
            HttpReceiver(
                self.options,
                url,
                authorization=header,
                hidden=secrets,
                hints=_HINTS,
                port=True,
                clock=clock,
            )
            for url in urls
        ]
        self.options.end()
        if self._expires < 2 * self.repeat_every:
            raise ParameterError(
                f"{where}: expires_after: expected at least twice repeat_every, "
                f"found {options['expires_after']!r}",
                hint="what is not sent again before it expires is resolved while it is still open",
            )
        self._clock = clock
        self.timeout = 3 * sum(receiver.timeout for receiver in self._receivers)
        self._down: dict[str, tuple[float, str]] = {}  # since when and why, by name

    def send(self, alert: Alert) -> None:
        """Post an alert to all addresses."""
        self.send_many([alert])

    def send_many(self, alerts: Sequence[Alert]) -> None:
        """Post alerts to all addresses, in one request each."""
        now = self._clock()
        posted = [each for alert in alerts for each in self._posted(alert, now)]
        body = json.dumps(posted, allow_nan=False).encode()
        rested = [receiver for receiver in self._receivers if not self._rests(receiver, now)]
        errors: list[SinkDownError | AlertRefusedError] = []
        taken = sum(self._took(each, body, errors) for each in rested)
        if not taken:
            others = [each for each in self._receivers if each not in rested]
            taken = sum(self._took(other, body, errors) for other in others)
        if not taken:
            raise _all_of(errors)
        for alert in alerts:
            if alert.status == RESOLVED:
                self._fired.pop(alert.item, None)

    def _took(
        self, receiver: HttpReceiver, body: bytes, errors: list[SinkDownError | AlertRefusedError]
    ) -> bool:
        try:
            receiver.post(body, path=_ALERTS)
        except (SinkDownError, AlertRefusedError) as error:
            errors.append(error)
            self._down[receiver.name] = self._clock(), error.message
            return False
        self._down.pop(receiver.name, None)
        return True

    def _rests(self, receiver: HttpReceiver, now: float) -> bool:
        since, _ = self._down.get(receiver.name, (0.0, ""))
        return 0 <= now - since < _REST

    def notice(self) -> str:
        """Return which of several addresses take nothing, and why."""
        if not (down := dict(self._down)):
            return ""
        reasons = "; ".join(why for _, why in down.values())
        return f"{len(down)} of {len(self._receivers)} addresses took nothing: {reasons}"

    def check(self) -> str:
        """Ask all addresses for their status."""
        return "; ".join(map(_status, self._receivers))

    def close(self) -> None:
        """Close the connections."""
        for receiver in self._receivers:
            receiver.close()

    def _posted(self, alert: Alert, now: float) -> list[dict[str, Any]]:
        """Return an alert as Alertmanager takes it; with another severity it is another one.

        It is resolved when `endsAt` is not after its clock; `startsAt` must not be after `endsAt`.
        The times of samples can be anywhere, so those after now are now.
        """
        body = alert.body
        latest = np.datetime64(int(now * 1000), "ms")
        starts = min(_time(body["opened"]), latest)
        if alert.status == RESOLVED:
            ends = max(starts, min(_time(body.get("ended")), latest))
        else:
            ends = latest + np.timedelta64(round(self._expires * 1000), "ms")
        before, labels = self._fired.get(alert.item), self._labels_of(alert)
        posted: dict[str, Any] = {
            "labels": labels,
            "annotations": _annotations(body),
            "startsAt": f"{starts}Z",
            "endsAt": f"{ends}Z",
        }
        if body.get("link"):
            posted["generatorURL"] = body["link"]
        if before in (None, labels["severity"]):
            return [posted]
        over = {**posted, "labels": {**labels, "severity": before}, "endsAt": f"{latest}Z"}
        return [over, posted]

    def _labels_of(self, alert: Alert) -> dict[str, str]:
        """Return what is the same for both alerts of an item, as labels tell alerts apart."""
        body, item = alert.body, alert.item
        kind = str(body["kind"])
        severity = self._severities.get(kind)
        if severity is None:
            severity = _OF_ALARM.get(str(body.get("severity_word")), SEVERITIES["alarm"])
            if alert.status == RESOLVED:
                severity = self._fired.get(item, severity)  # it may have risen since
            self._fired[item] = severity
        labels = {
            "alertname": f"Newnormal{kind.capitalize()}",
            "kind": kind,
            "item": item,
            "severity": severity,
            **self._labels,
        }
        if body.get("stream"):  # an incident has several, and more of them later
            labels["stream"] = str(body["stream"])
        return labels


def _addresses(where: str, options: Options) -> tuple[str, ...]:
    one: str | None = options.private("url", None)
    several: tuple[str, ...] = options.texts("urls", ())
    if (one is None) == (not several):
        found = "none" if one is None else "both"
        raise ParameterError(
            f"{where}: expected the option url or urls, found {found}",
            hint='url = "http://127.0.0.1:9093"; urls is a list of all members of a cluster',
        )
    urls = several if one is None else (one,)
    if len(set(urls)) < len(urls):
        raise ParameterError(f"{where}: urls: expected different addresses, found one twice")
    return urls


def _checked_labels(where: str, labels: Mapping[str, str]) -> dict[str, str]:
    for label in labels:
        if _LABEL.fullmatch(label) is None:
            raise ParameterError(
                f"{where}: labels: expected names of letters, digits and underscores, "
                f"found {label!r}"
            )
        if label in _OWN:
            hint = "severity is an option of its own" if label == "severity" else None
            raise ParameterError(
                f"{where}: labels: expected other names than {', '.join(_OWN)}, found {label}",
                hint=hint,
            )
    return dict(labels)


def _severities(where: str, options: Options, severity: object) -> dict[str, str]:
    if isinstance(severity, str):
        return dict.fromkeys(SEVERITIES, options.text("severity"))
    chosen: dict[str, str] = options.table("severity", {})
    if unknown := sorted(set(chosen) - set(SEVERITIES)):
        raise ParameterError(
            f"{where}: severity: expected kinds among {', '.join(SEVERITIES)}, "
            f"found {', '.join(unknown)}"
        )
    return {kind: each for kind, each in SEVERITIES.items() if kind != "alarm"} | chosen


def _annotations(body: Mapping[str, Any]) -> dict[str, str]:
    lines = [f"{name}: {text}" for name, text in rows_of(body)]
    annotations = {"summary": headline(body), "description": "\n".join(lines)}
    if body.get("link"):
        annotations["link"] = str(body["link"])
    return annotations


def _time(text: str | None) -> np.datetime64:
    """Return a time of an alert in ms; none is now, which is the latest there can be."""
    if text is None:
        return np.datetime64(2**62, "ms")
    return np.datetime64(text.removesuffix("Z"), "ms")


def _all_of(
    errors: Sequence[SinkDownError | AlertRefusedError],
) -> SinkDownError | AlertRefusedError:
    """Return the error of an alert that nobody has taken."""
    if refused := [error for error in errors if isinstance(error, AlertRefusedError)]:
        return refused[0]
    if len(errors) == 1:
        return errors[0]
    waits = [each.after for each in errors if isinstance(each, SinkDownError)]
    asked = [wait for wait in waits if wait is not None]
    return SinkDownError(
        "; ".join(each.message for each in errors),
        hint=f"none of {len(errors)} addresses takes alerts",
        after=min(asked) if len(asked) == len(waits) else None,
    )


def _status(receiver: HttpReceiver) -> str:
    answer = receiver.ask("GET", _STATUS, most=_MOST_STATUS)
    receiver.judge(answer)
    try:
        content = json.loads(answer.text)
        version = str(content["versionInfo"]["version"])
        cluster = content["cluster"]
        status, peers = str(cluster["status"]), len(cluster.get("peers") or ())
    except (ValueError, TypeError, KeyError, AttributeError):
        raise SinkDownError(
            f"{receiver.name}: expected the status of Alertmanager, found another answer",
            hint=_HINTS[404],
        ) from None
    text = f"cluster {status}" + (f" with {peers} members" if peers else "")
    return f"Alertmanager {version} at {receiver.name}, {text}"
