"""State files of older versions, brought up to date step by step.

A migration takes facts and tensors of one version to the next. It must not trust them: sizes are
checked before anything is allocated by them, and what does not fit is a StateError. An older
version's number stands outside its digest, so a file must have exactly the facts of the version it
names.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from newnormal.errors import StateError
from newnormal.kernels.alarm import threshold_at
from newnormal.state import version_4
from newnormal.state.schema import AGAIN, VERSION, as_json, taken

_Facts: TypeAlias = dict[str, Any]
_Tensors: TypeAlias = dict[str, NDArray[Any]]

_FACTS_1 = {
    *("config", "threshold", "channels", "period", "losses"),
    *("counts", "timed", "times_held"),
}
_FACTS: dict[int, AbstractSet[str]] = {
    1: _FACTS_1,
    2: _FACTS_1 | {"given", "choice", "alarms"},
    3: _FACTS_1 | {"given", "choice", "alarms", "keeper"},
    4: version_4.FACTS,
    5: version_4.FACTS | {"zone", "rhythm", "never_missing", "past"},
    6: version_4.FACTS | {"zone", "rhythm", "never_missing", "past", "reading"},
}
_OPTIONAL: dict[int, AbstractSet[str]] = dict.fromkeys((4, 5, 6), version_4.OPTIONAL)


def migrated(
    facts: Any, tensors: Mapping[str, NDArray[Any]], version: int, origin: str
) -> tuple[_Facts, _Tensors]:
    """Return facts and tensors of the present version."""
    found = dict(tensors)
    try:
        for old in range(version, VERSION):
            given = set(facts) - {"place"} - _OPTIONAL.get(old, set())
            if given != _FACTS[old]:
                odd = sorted(given ^ _FACTS[old])[0]
                raise StateError(f"{odd}: not as in a file of version {old}")
            facts, found = MIGRATIONS[old](dict(facts), found)
    except StateError as error:
        raise StateError(f"{origin}: {error.message}", hint=AGAIN) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise StateError(
            f"{origin} is not a state this newnormal understands: {error!r}", hint=AGAIN
        ) from error
    if not isinstance(facts, dict):
        raise StateError(f"{origin}: expected a JSON object, found another", hint=AGAIN)
    return facts, found


def _from_1(facts: _Facts, tensors: _Tensors) -> tuple[_Facts, _Tensors]:
    """Version 1 did not keep what was given apart, chose nothing, and had no alarms."""
    given = {**facts["config"], "alarms_per_day": None, "risk": None}
    return {**facts, "given": given, "choice": None, "alarms": None}, tensors


def _from_2(facts: _Facts, tensors: _Tensors) -> tuple[_Facts, _Tensors]:
    """Version 2 kept no normal, and alarms had neither cause nor state."""
    alarms = facts["alarms"]
    if alarms is not None:
        added = {"cause": "score", "state": "in alarm"}
        tracker, events = alarms["tracker"], alarms["events"]
        found = tracker["alarm"]
        alarms = {
            **alarms,
            "tracker": {**tracker, "alarm": None if found is None else {**found, **added}},
            "events": [{**each, "alarm": {**each["alarm"], **added}} for each in events],
        }
    given = {**facts["given"], "accept_after": None}
    return {**facts, "given": given, "alarms": alarms, "keeper": None}, tensors


# ---------------------------------------------------------------------- 3 to 4

_METHOD_OPTIONS = (
    *("window", "stride", "fit_stride", "latent", "decay", "half_life", "lr"),
    *("detrend", "adapt", "model"),
)
_OPTIONS = ("alarms_per_day", "risk", "accept_after", "epochs", "batch", "period", "seed")
_COUNTS = ("seen", "held", "pending", "cycle", "age", "learned", "restored")
_TERMS = (
    *("location", "spread", "height", "floor", "severe", "rate"),
    *("step", "pace", "gap", "accept_after", "span"),
)
_VOTES = ((0, False), (1, False), (2, False), (1, True))  # of every committee
_EXPERTS = 3


def _from_3(facts: _Facts, tensors: _Tensors) -> tuple[_Facts, _Tensors]:
    """Version 3 named things by private fields, some by position, and counters by their bits."""
    chooses = facts["choice"] is not None
    C, L = len(facts["channels"]), int(tensors["samples"].shape[0])
    J = _EXPERTS if chooses else 1
    gauge = taken(tensors, "gauge.")
    alarms = facts["alarms"]
    if alarms is None:  # version 1: history's scores were not kept
        gauge = _gauge_at(float(tensors["threshold"][0]))
        alarms = {"active": False, "tracker": {"alarm": None, "told": 0.0}, "events": []}
    terms = dict(zip(_TERMS, gauge["terms"].tolist(), strict=True))
    keeper = facts["keeper"]
    fitted = gauge if keeper is None else taken(tensors, "keeper.normal0.gauge.")
    height = float(fitted["terms"][_TERMS.index("height")])
    threshold = as_json(float(tensors["threshold"][0]))
    start = threshold if keeper is None else as_json(_threshold(fitted, terms, height))
    options = {name: facts["given"][name] for name in _OPTIONS}
    if not chooses:
        given = {name: facts["config"][name] for name in (*_METHOD_OPTIONS, "epochs", "batch")}
        options |= given
    counts = gauge["counts"].tolist()
    new: _Facts = {
        "method": "detector" if chooses else "m2n2",
        "options": options,
        "threshold": _rule(facts["threshold"]),
        "choice": _choice(facts["choice"]) if chooses else None,
        **{name: facts[name] for name in ("channels", "period", "losses", "counts")},
        "tracks_alarms": alarms["active"],
        "accept_after": None,
        "learn_threshold": {"fitted": start, "now": threshold},
        "times": {"held": facts["times_held"], "known": facts["timed"]},
        "alarm": {
            "params": {name: as_json(terms[name]) for name in _TERMS if name != "height"},
            "fitted_height": as_json(height),
            "counts": dict(
                zip(("samples", "alarms", "open", "age", "low", "quiet"), counts, strict=True)
            ),
            "levels": _levels(gauge, terms),
            "open": _open(alarms["tracker"]),
        },
        "events": [{**each, "alarm": _alarm(each["alarm"])} for each in alarms["events"]],
    }
    if "place" in facts:
        new["place"] = facts["place"]
    made: _Tensors = {
        "fitted.mean": tensors["mean"],
        "fitted.scale": tensors["scale"],
        "fitted.weights": tensors["fitted"],
        "fitted.tail_chances": gauge["tail.chances"],
        "fitted.tail_levels": fitted["tail.levels"],
        "fitted.tail_excess": fitted["tail.excess"],
        "live.tail_levels": gauge["tail.levels"],
        "live.tail_excess": gauge["tail.excess"],
        "live.times": tensors["times"],
        "live.last_time": tensors["last_time"],
    }
    stream = {name: each for name, each in tensors.items() if "." not in name}
    made |= _stream("live.", stream, new, J, L, C, chooses)
    made |= _model(taken(tensors, "model."), C, facts["choice"])
    if keeper is not None:
        _acceptance(new, made, keeper, tensors, (J, L, C, chooses))
    return new, made


def _gauge_at(threshold: float) -> _Tensors:
    """Return the gauge of a threshold that stays, where history's scores were not kept."""
    inf = np.inf
    terms = [0.0, 1.0, threshold, -inf, inf, 0.0, 0.0, 0.0, 10.0, inf, 7 * 1440.0]
    # The tail of one score of 0.
    return {
        "terms": np.array(terms),
        "levels": np.array([0.0, threshold, -inf, 0.0, 0.0]),
        "counts": np.zeros(6, np.int64),
        "tail.levels": np.array([0.0, 1.0]),
        "tail.chances": np.array([1.0, 0.5]),
        "tail.excess": np.array([1.0, 0.5, 0.5, 0.0]),
    }


def _threshold(gauge: _Tensors, terms: _Facts, height: float) -> float:
    """Return what the fitted threshold was."""
    location = float(gauge["terms"][0])
    found = float(threshold_at(location, terms["spread"], height))
    return float(np.exp(found)) if terms["rate"] else found


def _levels(gauge: _Tensors, terms: _Facts) -> _Facts:
    names = ("location", "height", "peak", "recent_alarms", "recent_samples")
    levels = dict(zip(names, map(as_json, gauge["levels"].tolist()), strict=True))
    return {**levels, "start_height": as_json(terms["height"])}


def _rule(rule: _Facts) -> _Facts | None:
    """Return the threshold's rule; None for the default, a quantile of 0.99."""
    return None if rule == {"kind": "quantile", "q": 0.99} else rule


def _alarm(alarm: _Facts) -> _Facts:
    """Return an alarm with its channels as pairs, the largest share first again."""
    peak = alarm["peak"]
    pairs = sorted(peak["channels"].items(), key=lambda each: -each[1])
    return {**alarm, "peak": {**peak, "channels": [[*each] for each in pairs]}}


def _open(tracker: _Facts) -> _Facts | None:
    found = tracker["alarm"]
    return None if found is None else {**_alarm(found), "reported": as_json(tracker["told"])}


def _choice(choice: _Facts) -> _Facts:
    plan = choice["plan"]
    weights = {(vote[0], vote[1]): vote[2] for vote in plan["votes"]}
    if not set(weights) <= set(_VOTES) or len(weights) != len(plan["votes"]):
        raise StateError("choice.plan.votes: expected votes of the committee, found others")
    return {
        "plan": {**plan, "votes": [[*vote, weights.get(vote, 0.0)] for vote in _VOTES]},
        "members": [
            {
                **{name: each[name] for name in ("memory", "linear", "lr", "weight")},
                "average_precision": each["found"],
            }
            for each in choice["members"]
        ],
        "held_out": choice["rehearsed"],
        "ensemble_ap": choice["together"],
        "autocorrelation": choice["related"],
        "samples": choice["samples"],
    }


def _stream(
    prefix: str, stream: _Tensors, facts: _Facts, J: int, L: int, C: int, chooses: bool
) -> _Tensors:
    """Return a stream's tensors; a committee's own part is taken out of one array."""
    names = ("samples", "trend", "weights", "good", "reach")
    made = {prefix + name: stream[name] for name in names}
    if not chooses:
        return made
    rest, a, b = stream["rest"], J * C, J * L * C
    if rest.shape != (a + 2 * b + J * 8 + 1,) or rest.dtype != np.float64:
        raise StateError(f"rest: expected {a + 2 * b + J * 8 + 1} numbers, found {rest.shape}")
    counts = rest[a + 2 * b + J : -1].copy().view(np.int64).reshape(J, 7)
    own = {
        "levels": rest[:a].reshape(J, C),
        "trails": rest[a : a + b].reshape(J, L, C),
        "residuals": rest[a + b : a + 2 * b].reshape(J, L, C),
        "reaches": rest[a + 2 * b : a + 2 * b + J].reshape(J, 1),
        "smooth": rest[-1:],
    }
    facts["expert_counts"] = [dict(zip(_COUNTS, each, strict=True)) for each in counts.tolist()]
    return made | {f"{prefix}expert.{name}": each.copy() for name, each in own.items()}


def _model(model: _Tensors, C: int, choice: _Facts | None) -> _Tensors:
    if choice is None:
        made = {f"model.own.{name}": each for name, each in model.items() if name != "center"}
        return {"model.center": model.get("center", np.zeros(C)), **made}
    votes = [(vote[0], vote[1]) for vote in choice["plan"]["votes"]]
    rank = model["bases"].shape[1]
    old = {"learn_below": "taus", "residual_scale": "usual"}
    made = {
        name: model[old.get(name, name)] for name in ("decays", "scales", "learn_below", "rates")
    }
    blank = {
        "bases": np.zeros((4, rank, C)),
        "residual_scale": np.ones((4, C)),
        "centers": np.zeros(4),
        "spreads": np.ones(4),
    }
    for name, array in blank.items():
        for at, vote in enumerate(votes):
            array[_VOTES.index(vote)] = model[old.get(name, name)][at]
    found = {f"model.own.{name}": each for name, each in (made | blank).items()}
    return {"model.center": np.zeros(C), **found}


def _acceptance(
    facts: _Facts,
    made: _Tensors,
    keeper: _Facts,
    tensors: _Tensors,
    dims: tuple[int, int, int, bool],
) -> None:
    J, L, C, chooses = dims
    anchor = taken(tensors, "keeper.anchor.")
    for name in ("mean", "scale", "centre", "blend", "margins", "wanders"):
        made[f"fitted.drift.{name}"] = anchor[name]
    names = ("levels", "steps", "still", "last", "missing", "position", "start", "lows", "highs")
    made |= {f"live.drift.{name}": anchor[name] for name in names}
    kept = {"fitted": 0, "last_quiet": keeper["before"]}
    if keeper["accepted"]:
        kept["accepted"] = keeper["accepted"]
    kept |= {f"undo{at}": number for at, number in enumerate(keeper["previous"])}
    baselines = {}
    for name, number in kept.items():
        own = taken(tensors, f"keeper.normal{int(number)}.")
        own.setdefault("weights", tensors["fitted"])
        gauge = taken(own, "gauge.")
        for part in ("weights", "trend", "lows", "highs"):
            made[f"baseline.{name}.{part}"] = own[part]
        made[f"baseline.{name}.tail_levels"] = gauge["tail.levels"]
        made[f"baseline.{name}.tail_excess"] = gauge["tail.excess"]
        baselines[name] = {
            "location": as_json(float(gauge["levels"][0])),
            "height": as_json(float(gauge["levels"][1])),
            "start_height": as_json(float(gauge["terms"][_TERMS.index("height")])),
            "moved": as_json(float(own["moved"][0])),
        }
    del made["baseline.fitted.weights"]
    samples, channel, mark = anchor["counts"].tolist()
    facts["accept_after"] = "inf" if keeper["accept_after"] is None else keeper["accept_after"]
    shadow = None
    positions = tensors["keeper.positions"]
    if keeper["shadow"] or len(positions):
        shadow = {"trains": keeper["shadow"]}
        stream = taken(tensors, "keeper.shadow.") if keeper["shadow"] else tensors
        own_facts: _Facts = {}
        made |= _stream("shadow.", stream, own_facts, J, L, C, chooses)
        counts = stream["counts"].tolist() if keeper["shadow"] else list(facts["counts"].values())
        names = _COUNTS if keeper["shadow"] else tuple(facts["counts"])
        shadow |= {"counts": dict(zip(names, counts, strict=True)), **own_facts}
        made["shadow.scores"], made["shadow.positions"] = tensors["keeper.heard"], positions
    facts["acceptance"] = {
        "drift": {"samples": samples, "channel": channel, "mark": mark},
        "distance": as_json(float(anchor["distances"][0])),
        "jump": as_json(float(anchor["distances"][1])),
        "review": {
            "reviews": keeper["turns"],
            "alarm": keeper["number"],
            "since": keeper["since"],
            "frozen": int(keeper["held"]),
        },
        "moved": keeper["moved"],
        "moves": keeper["moves"],
        "accepted": "accepted" in kept,
        "undo": len(keeper["previous"]),
        "baselines": baselines,
        "shadow": shadow,
    }


def _from_5(facts: _Facts, tensors: _Tensors) -> tuple[_Facts, _Tensors]:
    """Version 5 did not remember how history was read."""
    return {**facts, "reading": None}, tensors


def _from_6(facts: _Facts, tensors: _Tensors) -> tuple[_Facts, _Tensors]:
    """Version 6 did not remember how far away a change had been: where it is counts."""
    if "live.changes.after" in tensors:
        tensors = {**tensors, "live.changes.farthest": tensors["live.changes.after"]}
    return facts, tensors


MIGRATIONS = {1: _from_1, 2: _from_2, 3: _from_3, 4: version_4.from_4, 5: _from_5, 6: _from_6}
