"""`newnormal inspect`: what a state file holds."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newnormal.cli.console import print_facts
from newnormal.cli.options import Classes, Loading, Model, Rule, from_state

if TYPE_CHECKING:
    from newnormal.detector import BaseDetector

__all__ = ["inspect"]


def inspect(
    model: Model,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    loading: Loading = None,
    rule: Rule = None,
) -> None:
    """Show a detector's settings, and what its stream has been through."""
    from newnormal import state as state_file
    from newnormal.config import duration_text
    from newnormal.detector import Detector
    from newnormal.runtime.checkpoint import place_of
    from newnormal.runtime.feedback import Queue
    from newnormal.types import time_text

    state = state_file.read(model)
    detector = from_state(state, str(model), Classes.of(loading, rule))
    period = None if detector.period_ is None else duration_text(detector.period_)
    last = detector.last_time_
    place = place_of(state, model) or {}
    facts: dict[str, Any] = {
        "version": state.version,
        "channels": len(detector.channels_),
        "channel names": ", ".join(detector.channels_),
        **{name: value for name, value in detector.get_params().items() if value is not None},
        "window": detector.window_,
        "latent": detector.latent_,
        "decay": detector.decay_,
        "threshold": _threshold(detector),
        "alarms": str(detector.alarm_rate_),
        "status": detector.status_,
        **(_open_as_data(detector) if as_json else _open_as_text(detector)),
        "past": _past(detector),
        "feedback": None if Queue(model, _ignore).empty else "waits for `newnormal watch`",
        "distance from normal": f"{detector.distance_:.3g} of the limit"
        if not math.isnan(detector.distance_)
        else None,
        "period": period,
        "parameters": detector.parameters_,
        "training loss": min(detector.losses_, default=None),
        "samples seen": detector.counters["seen"],
        "samples pending": detector.counters["pending"],
        "learning steps": detector.counters["learned"],
        "times restored": detector.counters["restored"],
        "last time": None if last is None else time_text(last),
        "distance from fit": _distance(state.tensors),
        "bytes of the stream": detector.nbytes_["stream"],
        "bytes of the fit": detector.nbytes_["fitted"],
        "input": place.get("path", place.get("kind")),
        "line": place.get("line"),
    }
    if as_json:
        facts["choice"] = state.facts["choice"]
        typer.echo(json.dumps(facts, indent=2, default=str))
    else:
        print_facts(str(model), facts)
        if isinstance(detector, Detector):
            typer.echo(f"\n{detector.explain()}")


def _ignore(text: str) -> None:
    del text


def _threshold(detector: BaseDetector) -> str:
    """Return the threshold, and where it comes from."""
    from newnormal.fitting import DEFAULT_QUANTILE

    if not math.isnan(detector.alarm_rate_.limit_per_day):
        return f"{detector.alarm_threshold_:.6g} now, moved by the limit on alarms"
    if detector.threshold is None or isinstance(detector.threshold, float):
        quantile = DEFAULT_QUANTILE if detector.threshold is None else detector.threshold
        return f"{detector.threshold_:.6g} ({quantile!r} of history's scores)"
    return repr(detector.threshold)


def _open_as_data(detector: BaseDetector) -> dict[str, Any]:
    """Return the open alarms and changes in their documented JSON form."""
    return {
        "open alarms": [alarm.as_dict() for alarm in detector.alarms_],
        "open changes": [change.as_dict() for change in detector.changes_],
    }


def _open_as_text(detector: BaseDetector) -> dict[str, Any]:
    """Return a row for each open alarm and change, with its sentence."""
    from newnormal.types import time_text

    rows = {}
    for alarm in detector.alarms_:
        start = f"sample {alarm.start}"
        if alarm.start_time is not None:
            start = time_text(alarm.start_time)
        rows[f"alarm {alarm.number}"] = f"open since {start}: {alarm.sentence}"
    for change in detector.changes_:
        rows[f"change {change.number}"] = f"{change.state}: {change.sentence}"
    return rows


def _past(detector: BaseDetector) -> str | None:
    """Return how many alarms and changes are over, of those kept, and what became of changes."""
    from newnormal import Alarm

    over = [each for each in detector.past_ if not each.open]
    if not over:
        return None
    alarms = sum(isinstance(each, Alarm) for each in over)
    states = [each.state for each in over if not isinstance(each, Alarm)]
    text = f"{alarms} alarm{'' if alarms == 1 else 's'}, "
    text += f"{len(states)} change{'' if len(states) == 1 else 's'}"
    ends = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    return f"{text} ({ends})" if ends else text


def _distance(tensors: Any) -> float | None:
    """Return how far the weights have moved since `fit`, relative to their size; None without."""
    import numpy as np

    fitted = tensors["fitted.weights"].astype(np.float64)
    size = np.linalg.norm(fitted)
    return float(np.linalg.norm(tensors["live.weights"] - fitted) / size) if size else None
