"""Alerts in words, for people: what sinks such as mail and chat show of one."""

from collections.abc import Mapping
from typing import Any

from newnormal.alarms.words import channels_text, evidence_lines
from newnormal.io.sinks.alerts import RESOLVED
from newnormal.texts import shown
from newnormal.types import Evidence

FIRING = "firing"

_MOST_EVIDENCE = 20  # channels of an alert
_MOST_STREAMS = 20  # of an incident, by name
_KINDS = {"channels": "other channels"}  # where a kind does not say what it is


def status_word(body: Mapping[str, Any]) -> str:
    """Return ``"firing"`` or ``"resolved"``, the words that people know from other systems."""
    return RESOLVED if body["status"] == RESOLVED else FIRING


def headline(body: Mapping[str, Any]) -> str:
    r"""Return the stream and what happened to it in one line.

    >>> headline({"stream": "press-1", "sentence": "temp 90.5, expected 60 to 75; high"})
    'press-1: temp 90.5, expected 60 to 75; high'
    >>> headline({"stream": "a\nb", "sentence": ""})
    'a\\nb'
    """
    parts = (body.get("stream"), body.get("sentence"))
    return ": ".join(shown(part) for part in parts if part)


def rows_of(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what channels showed, and what else there is to know, each with its label."""
    return [*_evidence_of(body), *_facts_of(body)]


def _evidence_of(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a channel and what it showed, for each channel of which that is known; not too many.

    >>> found = {"channel": "temp", "observed": 90.5, "expected": 70.2, "low": 60, "high": 75}
    >>> _evidence_of({"evidence": [found]})
    [('temp', '90.5, expected 70.2 (60 to 75)')]
    """
    sent = body.get("evidence") or ()
    names = Evidence.__dataclass_fields__
    evidence = [
        Evidence(**{"observed": None, **{name: each[name] for name in names if name in each}})
        for each in sent
    ]
    lines = [(shown(name), text) for name, text in evidence_lines(evidence)]
    more = len(lines) - _MOST_EVIDENCE
    return lines if more <= 0 else [*lines[:_MOST_EVIDENCE], ("…", f"and {more:,} more")]


def _facts_of(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what else there is to know, each with its label.

    >>> body = {"status": "fired", "kind": "alarm", "state": "open", "streams": ["press-1"]}
    >>> _facts_of({**body, "opened": "2026-03-01T12:00:00Z", "ended": None})
    [('kind', 'alarm, open'), ('stream', 'press-1'), ('since', '2026-03-01 12:00:00 UTC')]
    """
    kind = str(body.get("kind", ""))
    facts = [("kind", f"{_KINDS.get(kind, kind)}, {body.get('state', '')}".strip(", "))]
    if streams := [shown(each) for each in body.get("streams") or ()]:
        label = "stream" if len(streams) == 1 else "streams"
        facts.append((label, channels_text(streams, _MOST_STREAMS)))
    facts.append(("since", _moment(body["opened"])))
    if body.get("ended"):
        facts.append(("until", _moment(body["ended"])))
    return facts


def _moment(text: str) -> str:
    return text.replace("T", " ").removesuffix("Z") + " UTC"
