"""From version 4 to 5: alarms and changes are two things.

Scores stay what they were, and alarms go on under the rules of version 5. An open alarm whose
stream is outside its accepted normal becomes an open change. The shadow of an alarm is dropped: the
acceptance timer restarts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.errors import StateError
from newnormal.types import NO_TIME

FACTS = frozenset(
    (
        *("method", "options", "threshold", "choice", "channels", "period", "losses"),
        *("tracks_alarms", "accept_after", "learn_threshold", "counts", "alarm", "times", "events"),
    )
)
OPTIONAL = frozenset(("expert_counts", "acceptance"))

_PARAMS = {
    *("location", "spread", "floor", "severe", "rate", "step", "pace"),
    *("gap", "accept_after", "span"),
}
_COUNTS = {"samples", "alarms", "open", "age", "low", "quiet"}
_LEVELS = {"location", "height", "peak", "recent_alarms", "recent_samples", "start_height"}
_ALARM = {
    *("number", "start", "start_time", "end", "end_time", "peak"),
    *("open", "reason", "cause", "state"),
}
_DISTANCE = "distance from the accepted normal"
_CAUSES = ("score", _DISTANCE)
_STATES = ("in alarm", "candidate new normal", "rejected")
_DEFAULT = {"kind": "quantile", "q": 0.99}  # of a Detector without threshold, budget and risk

# Of version 5, for files that have none of their own.
_RISE = 1.5
_RAISES = 0.5
_STAND = 60.0
_RECENT = 60
_CHANGES = 8
_NAMED = 5
_NEAR = 0.25  # the distance beyond which a channel is outside its accepted normal
_VOTES = 4  # of every committee of version 4
_LONGEST_TIME = 40  # characters


def from_4(facts: dict[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Any:
    """Return facts and tensors of version 5."""
    C = len(facts["channels"])
    if tensors["fitted.mean"].shape != (C,):
        raise StateError(f"fitted.mean: expected shape ({C},), found others")
    is_detector = facts["method"] == "detector"
    new = {**facts, "zone": None, "rhythm": None, "never_missing": None, "past": []}
    options = facts["options"]
    given = (facts["threshold"], options["alarms_per_day"], options["risk"])
    if is_detector and given == (None, None, None):
        new["threshold"] = dict(_DEFAULT)
    new["events"] = [_event(each) for each in facts["events"]]
    made = {name: each for name, each in tensors.items() if not name.startswith("shadow.")}
    made |= {
        "live.silence.times": np.array([NO_TIME, int(tensors["live.last_time"].reshape(-1)[0])]),
        "live.silence.missing": np.zeros(C, np.int64),
        "live.silence.channels": np.full(_NAMED, -1),
    }
    is_limited = _number(facts["alarm"]["params"]["rate"]) > 0
    location = _number(facts["alarm"]["levels"]["location"]) if is_limited else 0.0
    made["live.recent"] = np.full(_RECENT, location)
    made["live.raised"] = np.zeros(C if is_limited else 0)
    found = facts["alarm"]["open"]
    _check_alarm(found)
    has_change = facts["accept_after"] is not None and _has_change(facts["acceptance"], found)
    closes = has_change and found["cause"] == _DISTANCE
    new["alarm"] = _alarm(facts["alarm"], facts["channels"], is_limited, closes)
    made |= _log(found, facts["channels"], _VOTES if facts["choice"] is not None else 0)
    if facts["accept_after"] is not None:
        new["acceptance"] = _acceptance(facts, found if has_change else None)
        made |= _drift(facts["acceptance"], C, has_change)
        made |= _changes(facts["acceptance"], made, C, found if has_change else None)
    return new, made


def _exactly(found: Any, names: set[str], path: str) -> Any:
    odd = sorted(set(found) ^ names)
    if odd:
        raise StateError(f"{path}.{odd[0]}: not as in a file of version 4")
    return found


def _number(found: Any) -> float:
    return float(found)  # "inf" and "-inf" too


# ---------------------------------------------------------------------- alarms


def _alarm(
    alarm: dict[str, Any], channels: list[str], is_limited: bool, closes: bool
) -> dict[str, Any]:
    """Return the facts of the threshold and of the open alarm."""
    params = _exactly(alarm["params"], _PARAMS, "alarm.params")
    counts = _exactly(alarm["counts"], _COUNTS, "alarm.counts")
    levels = _exactly(alarm["levels"], _LEVELS, "alarm.levels")
    kept = ("location", "spread", "rate", "step", "gap", "span")
    is_open = counts["open"] == 1 and not closes
    found = alarm["open"]
    own = {"open": 0, "start": 0, "end": 0, "peak": 0, "newest": 0}
    heights: dict[str, Any] = {"score": 0.0, "ratio": 0.0, "p_value": 0.0, "reported": 0.0}
    lead = 0
    if found is not None:
        peak = found["peak"]
        lead = channels.index(peak["channels"][0][0]) if peak["channels"] else -1
        own = {
            "open": 0 if closes else found["number"],
            "start": found["start"],
            "end": max(found["end"], found["start"]),
            "peak": peak["sample"],
            "newest": found["number"],
        }
        heights = {name: peak[name] for name in ("score", "ratio", "p_value")}
        heights["reported"] = found["reported"]
    return {
        "params": {
            **{name: params[name] for name in kept},
            "rise": _RISE if is_limited else 1.0,
            "raises": _RAISES if is_limited else 0.0,
            "stand": _STAND if is_limited else "inf",
        },
        "fitted_height": alarm["fitted_height"],
        "counts": {
            **{name: counts[name] for name in ("samples", "alarms", "age", "low")},
            "open": counts["alarms"] if is_open else 0,
            "next": 0,
            "lead": lead,
        },
        "levels": {**levels, "start_location": levels["location"]},
        "log": {"counts": own, "levels": heights},
        "silence": {"open": 0, "start": 0, "all_missing": 0, "any_missing": 0},
    }


def _check_alarm(found: Any) -> None:
    """Raise a StateError unless this is an open alarm of version 4, or None."""
    if found is None:
        return
    _exactly(found, _ALARM | {"reported"}, "alarm.open")
    if found["cause"] not in _CAUSES or found["state"] not in _STATES:
        raise StateError("alarm.open: expected a cause and a state of version 4, found others")
    if found["reason"] is not None or found["open"] is not True:
        raise StateError("alarm.open.reason: expected null, found a reason")
    if len(found["peak"]["channels"]) > _NAMED:
        raise StateError(f"alarm.open.peak.channels: expected {_NAMED} at most, found more")


def _log(found: Any, channels: list[str], votes: int) -> dict[str, NDArray[Any]]:
    """Return the tensors of the open alarm; what its channels showed is not known."""
    times, named = np.full(3, NO_TIME), np.full(_NAMED, -1)
    shares = np.zeros(_NAMED)
    if found is not None:
        peak = found["peak"]
        given = (found["start_time"], found["end_time"], peak["time"])
        times[:] = [_nanoseconds(each) for each in given]
        for at, (name, share) in enumerate(peak["channels"]):
            named[at], shares[at] = channels.index(name), share
    return {
        "live.log.times": times,
        "live.log.channels": named,
        "live.log.shares": shares,
        "live.log.evidence": np.full((4, _NAMED), np.nan),
        "live.log.votes": np.full(votes, 0.0 if found is None else -np.inf),
    }


def _nanoseconds(text: Any) -> int:
    if text is None:
        return int(NO_TIME)
    if not isinstance(text, str) or len(text) > _LONGEST_TIME:
        raise StateError("alarm.open: expected times or null, found others")
    return int(np.datetime64(text, "ns").astype(np.int64))


def _event(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event of an alarm; what its channels showed is not known."""
    alarm = dict(_exactly(event["alarm"], _ALARM, "events.alarm"))
    if alarm["cause"] not in _CAUSES or alarm.pop("state") not in _STATES:
        raise StateError("events.alarm: expected a cause and a state of version 4, found others")
    alarm |= {"cause": "score", "evidence": [], "sentence": "", "votes": []}
    return {**event, "alarm": alarm, "change": None}


# ---------------------------------------------------------------------- changes


def _has_change(acceptance: dict[str, Any], found: Any) -> bool:
    """Whether the stream of the open alarm is outside its accepted normal."""
    if found is None:
        return False
    is_one = found["cause"] == _DISTANCE or found["state"] != "in alarm"
    return is_one or _is_channel(acceptance) or _number(acceptance["moves"]) > _NEAR


def _is_channel(acceptance: dict[str, Any]) -> bool:
    """Whether a channel is outside its accepted normal."""
    return _number(acceptance["distance"]) > _NEAR or _number(acceptance["jump"]) > 1


def _is_about(acceptance: dict[str, Any]) -> bool:
    """Whether a change is about the channel named, and not about the weights."""
    return _is_channel(acceptance) or _number(acceptance["moves"]) <= _NEAR


def _acceptance(facts: dict[str, Any], found: Any) -> dict[str, Any]:
    old, counts = facts["acceptance"], facts["counts"]
    length = int(max(1, min(_number(facts["accept_after"]) / 6, 60)))
    judged = max(0, counts["seen"] - counts["pending"])
    rows: list[Any] = [None] * _CHANGES
    number = 0
    if found is not None:
        number = found["number"]
        rows[0] = {
            "number": 1,
            "start": found["start"],
            "known": max(0, judged - 1),
            "since": judged,
            "state": "rejected" if found["state"] == "rejected" else "pending",
            "alarm": number,
            "placed": max(0, judged - 1),
        }
    drift = _exactly(old["drift"], {"samples", "channel", "mark"}, "acceptance.drift")
    kept = ("moved", "moves", "accepted", "undo")
    return {
        **{name: old[name] for name in kept},
        "drift": {"samples": drift["samples"], "mark": drift["mark"], "crossed": 0},
        "review": {
            "reviews": counts["seen"] // length,
            "newest_change": 0 if found is None else 1,
            "last_alarm": number,
            "rejected_alarm": 0,
        },
        "changes": rows,
        "baselines": {
            name: {**levels, "start_location": levels["location"]}
            for name, levels in old["baselines"].items()
        },
        "shadow": None,
    }


def _drift(acceptance: dict[str, Any], C: int, has_change: bool) -> dict[str, NDArray[Any]]:
    """Return what is kept of each channel: of all but one it is measured again soon."""
    at = _channel(acceptance, C)
    found = {name: np.zeros(C) for name in ("distances", "jumps", "crossing", "owned")}
    found["distances"][at] = _number(acceptance["distance"])
    found["jumps"][at] = _number(acceptance["jump"])
    if has_change and _is_about(acceptance):
        found["owned"][at] = 1.0
    return {f"live.drift.{name}": each for name, each in found.items()}


def _changes(
    acceptance: dict[str, Any], tensors: Mapping[str, NDArray[Any]], C: int, found: Any
) -> dict[str, NDArray[Any]]:
    times, distances = np.full(_CHANGES, NO_TIME), np.zeros(_CHANGES)
    channels = np.zeros((_CHANGES, C), np.int64)
    before, after = np.zeros((_CHANGES, C)), np.zeros((_CHANGES, C))
    if found is not None:
        is_about = _is_about(acceptance)
        times[0] = _nanoseconds(found["start_time"])
        distances[0] = _number(acceptance["distance" if is_about else "moves"])
        channels[0, _channel(acceptance, C)] = is_about
        before[0], after[0] = _before(tensors, C), _after(tensors, C)
    return {
        "live.changes.times": times,
        "live.changes.distances": distances,
        "live.changes.channels": channels,
        "live.changes.before": before,
        "live.changes.after": after,
    }


def _channel(acceptance: dict[str, Any], C: int) -> int:
    at = acceptance["drift"]["channel"]
    if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at < C:
        raise StateError(f"acceptance.drift.channel: expected one of {C}, found {at!r:.60}")
    return at


def _before(tensors: Mapping[str, NDArray[Any]], C: int) -> NDArray[Any]:
    """Return the levels at the mark, in history's standard deviations."""
    start, centre = tensors["live.drift.start"], tensors["fitted.drift.centre"]
    return np.asarray(_floats(start, 4 * C)[C : 2 * C] + _floats(centre, C))


def _after(tensors: Mapping[str, NDArray[Any]], C: int) -> NDArray[Any]:
    return _floats(tensors["live.drift.levels"], C)


def _floats(array: NDArray[Any], size: int) -> NDArray[Any]:
    if array.shape != (size,) or array.dtype != np.float64:
        raise StateError(f"acceptance: expected {size} numbers of a position, found others")
    return array
