"""`newnormal inspect`: what a state file holds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from newnormal.cli.console import print_facts, put
from newnormal.cli.options import Classes, Loading, Model, Rule, from_state
from newnormal.cli.streams import is_fleet
from newnormal.errors import ParameterError

if TYPE_CHECKING:
    from newnormal.detector import BaseDetector
    from newnormal.state import State

__all__ = ["feedback_text", "inspect"]


def inspect(
    model: Model,
    stream: Annotated[
        Optional[str],  # noqa: UP045 - typer evaluates it
        typer.Argument(metavar="STREAM", help="One stream of a fleet.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    loading: Loading = None,
    rule: Rule = None,
) -> None:
    """Show a detector's settings, and what its stream has been through.

    newnormal inspect plant.fleet web-1
    """
    from newnormal import state as state_file
    from newnormal.runtime.checkpoint import place_of

    classes = Classes.of(loading, rule)
    if is_fleet(model):
        from newnormal.cli.fleet_inspect import inspect_fleet
        from newnormal.cli.fleet_reading import load_fleet

        if stream is None:
            inspect_fleet(model, classes, as_json)
            return
        detector = load_fleet(model, classes)[stream]
        _show(f"{model}: {stream}", detector, detector.to_state(), {}, None, as_json)
        return
    if stream is not None:
        raise ParameterError(
            f"STREAM: expected only with the folder of a fleet, found {stream} with {model}",
            hint=f"newnormal inspect {model}",
        )
    state = state_file.read(model)
    detector = from_state(state, str(model), classes)
    place = place_of(state, model) or {}
    _show(str(model), detector, state, place, feedback_text(model), as_json)


def feedback_text(path: Path) -> str | None:
    """Return that feedback waits beside a state file or a fleet's folder; None if none does."""
    from newnormal.runtime.feedback import Queue

    return None if Queue(path, _ignore).empty else "waits for `newnormal watch`"


def _show(
    title: str,
    detector: BaseDetector,
    state: State,
    place: dict[str, Any],
    feedback: str | None,
    as_json: bool,
) -> None:
    from newnormal.config import duration_text
    from newnormal.detector import Detector
    from newnormal.types import time_text

    period = None if detector.period_ is None else duration_text(detector.period_)
    last = detector.last_time_
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
        "feedback": feedback,
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
        "last time": None if last is None else time_text(last, detector.zone_),
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
        print_facts(title, facts)
        if isinstance(detector, Detector):
            put(f"\n{detector.explain()}")


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
            start = time_text(alarm.start_time, detector.zone_)
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
