"""An alarm as alerts have it, for the tests of sinks."""

from typing import Any

from newnormal.io.sinks.alerts import Alert

LINK = "https://watch.example.org/#/item/alarm-12-1-3"
FIRED: dict[str, Any] = {
    "status": "fired",
    "key": "alarm-12-1-3:fired",
    "item": "alarm-12-1-3",
    "kind": "alarm",
    "state": "open",
    "stream": "press-1",
    "streams": ["press-1"],
    "sentence": "temperature 90.5, expected 60 to 75; high",
    "opened": "2027-01-15T07:57:00Z",
    "ended": None,
    "ratio": 2.5,
    "channels": ["temperature"],
    "evidence": [
        {"channel": "temperature", "observed": 90.5, "expected": 70.2, "low": 60.0, "high": 75.0}
    ],
    "link": LINK,
}
RESOLVED: dict[str, Any] = {
    **FIRED,
    "status": "resolved",
    "key": "alarm-12-1-3:resolved",
    "state": "closed",
    "sentence": "temperature 93, expected 60 to 75; high for 5 min",
    "ended": "2027-01-15T08:00:00Z",
}


def alert_of(body: dict[str, Any]) -> Alert:
    return Alert(body["key"], body)
