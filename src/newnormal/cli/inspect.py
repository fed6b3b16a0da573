"""`newnormal inspect`: what a state file holds, and how old that is."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newnormal.cli.console import broken, print_facts, print_table, put, put_json
from newnormal.cli.options import Classes, Model, argument, is_fleet, option, with_shared
from newnormal.cli.reading import load_fleet
from newnormal.cli.written import Written, WrittenStream
from newnormal.errors import ParameterError
from newnormal.texts import counted, number_text, shown

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.fleet import Fleet
    from newnormal.types import Alarm, Change


@with_shared
def inspect(
    model: Model,
    stream: str | None = argument("One stream of a fleet.", metavar="STREAM", shown=False),
    as_json: bool = option("Print JSON instead of a table.", "--json", default=False),
    *,
    classes: Classes,
) -> None:
    """Show what a detector's stream has been through, and its settings.

    newnormal inspect plant.state

    newnormal inspect fleet.state web-1

    Beside a running `watch` it shows the last checkpoint, and how old that is: there is one at
    every alarm and change. --json is for programs: snake_case keys, numbers, times in ISO 8601,
    null for what is not known; alarms and changes as `watch` prints them.
    """
    if is_fleet(model) and stream is None:
        inspect_fleet(model, classes, as_json)
        return
    if stream is not None and not is_fleet(model):
        raise ParameterError(
            f"STREAM: expected only with the folder of a fleet, found {stream} with {model}",
            hint=f"newnormal inspect {model}",
        )
    read = WrittenStream.read(model, stream, classes)
    title = str(model) if stream is None else f"{model}: {stream}"
    _show(title, read, bool(read.written.waiting), as_json)


def feedback_text(waiting: bool) -> str | None:
    """Return that feedback waits; None if none does."""
    return "waits for `newnormal watch`" if waiting else None


def _show(title: str, shown: WrittenStream, waiting: bool, as_json: bool) -> None:
    from newnormal.detector import Detector

    if as_json:
        put_json(_data(shown, waiting))
        return
    print_facts(title, grouped(_facts(shown, waiting)))
    if isinstance(shown.detector, Detector):
        put("\n" + broken(shown.detector.explain(), sys.stdout))


def _facts(shown: WrittenStream, waiting: bool) -> dict[str, Any]:
    from newnormal.alarms.words import moment_text
    from newnormal.config import duration_text

    detector, counters = shown.detector, shown.detector.counters
    last = detector.last_time_
    return {
        "written": str(shown.written),
        "status": detector.status_,
        **_open_as_text(detector),
        "past": _past(detector),
        "feedback": feedback_text(waiting),
        "alarms": str(detector.alarm_rate_),
        "threshold": _threshold(detector),
        "distance from normal": f"{number_text(detector.distance_)} × the limit"
        if not math.isnan(detector.distance_)
        else None,
        "samples seen": counters["seen"],
        "samples pending": counters["pending"],
        "last time": None if last is None else moment_text(last, 0, detector.zone_),
        **shown.written.place,
        "learning steps": counters["learned"],
        "times restored": counters["restored"],
        "distance from fit": _distance(shown.state.tensors),
        "channels": len(detector.channels_),
        "channel names": ", ".join(detector.channels_),
        "period": None if detector.period_ is None else duration_text(detector.period_),
        **{
            name: value
            for name, value in detector.get_params().items()
            if value is not None and name not in ("threshold", "period")
        },
        "window": detector.window_,
        "latent": detector.latent_,
        "decay": detector.decay_,
        "parameters": detector.parameters_,
        "training loss": min(detector.losses_, default=None),
        "bytes of the stream": detector.nbytes_["stream"],
        "bytes of the fit": detector.nbytes_["fitted"],
        "version": shown.state.version,
    }


def _data(shown: WrittenStream, waiting: bool) -> dict[str, Any]:
    """Return the same for programs: the keys stay, and values are numbers, names and times.

    ``watch`` is "running", "killed", "ended" or null, and ``samples_since`` what it has judged
    since ``written``. ``status`` is as `Detector.status_`. ``options`` are as they were given.
    ``open_alarms`` and ``open_changes`` have the form in which `watch` prints them; ``past`` counts
    those that are over, of the last hundred.
    """
    import numpy as np

    from newnormal.types import time_text

    detector, counters = shown.detector, shown.detector.counters
    rate, options, last = detector.alarm_rate_, detector.options_as_json(), detector.last_time_
    period, choice = detector.period_, shown.state.facts["choice"]
    return {
        **shown.written.as_dict(),
        "version": shown.state.version,
        "method": options["method"],
        "options": options["options"],
        "rule": options["threshold"],
        "channels": list(detector.channels_),
        "period_seconds": None if period is None else float(period / np.timedelta64(1, "s")),
        "window": detector.window_,
        "latent": detector.latent_,
        "decay": number(detector.decay_),
        "parameters": detector.parameters_,
        "training_loss": number(min(detector.losses_, default=None)),
        "fitted_threshold": number(detector.threshold_),
        "threshold": number(detector.alarm_threshold_),
        "status": detector.status_,
        "open_alarms": [alarm.as_dict() for alarm in detector.alarms_],
        "open_changes": [change.as_dict() for change in detector.changes_],
        "past": _past_counts(detector),
        "alarms": rate.alarms,
        "alarms_per_day": number(rate.per_day),
        "recent_alarms_per_day": number(rate.recent_per_day),
        "limit_per_day": number(rate.limit_per_day),
        "feedback_waiting": waiting,
        "distance": number(detector.distance_),
        "samples_seen": counters["seen"],
        "samples_scored": rate.samples,
        "samples_pending": counters["pending"],
        "learning_steps": counters["learned"],
        "times_restored": counters["restored"],
        "last_time": None if last is None else time_text(last, detector.zone_),
        "distance_from_fit": _distance(shown.state.tensors),
        "stream_bytes": detector.nbytes_["stream"],
        "fitted_bytes": detector.nbytes_["fitted"],
        **shown.written.place,
        "choice": None if choice is None else {k: v for k, v in choice.items() if k != "notes"},
    }


def grouped(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts with the digits of counts in groups of three; a seed is not a count."""
    return {
        name: f"{value:,}" if type(value) is int and name != "seed" else value
        for name, value in facts.items()
    }


def number(value: float | None) -> float | None:
    """Return a number for JSON, None where it is not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def _threshold(detector: BaseDetector) -> str:
    from newnormal.fitting import DEFAULT_QUANTILE

    if not math.isnan(detector.alarm_rate_.limit_per_day):
        return f"{number_text(detector.alarm_threshold_)} now, moved by the limit on alarms"
    if detector.threshold is None or isinstance(detector.threshold, float):
        quantile = DEFAULT_QUANTILE if detector.threshold is None else detector.threshold
        return f"{number_text(detector.threshold_)} ({quantile!r} of history's scores)"
    return repr(detector.threshold)


def _open_as_text(detector: BaseDetector) -> dict[str, Any]:
    from newnormal.alarms.words import standing_text

    rows = {f"alarm {alarm.number}": standing_text(alarm) for alarm in detector.alarms_}
    return rows | {f"change {change.number}": standing_text(change) for change in detector.changes_}


def _past(detector: BaseDetector) -> str | None:
    """Return how many alarms and changes are over, of those kept, and what became of changes."""
    counts = _past_counts(detector)
    alarms, states = counts["alarms"], counts["changes"]
    changes = sum(states.values())
    if not alarms and not changes:
        return None
    text = f"{counted(alarms, 'alarm')}, {counted(changes, 'change')}"
    ends = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"{text} ({ends})" if ends else text


def _past_counts(detector: BaseDetector) -> dict[str, Any]:
    from newnormal import Alarm

    over = [item for item in detector.past_ if not item.open]
    states = sorted(item.state for item in over if not isinstance(item, Alarm))
    return {
        "alarms": sum(isinstance(item, Alarm) for item in over),
        "changes": {state: states.count(state) for state in dict.fromkeys(states)},
    }


def _distance(tensors: Any) -> float | None:
    """Return how far the weights have moved since `fit`, relative to their size; None without."""
    import numpy as np

    fitted = tensors["fitted.step.fitted"].astype(np.float64)
    size = np.linalg.norm(fitted)
    return (
        float(np.linalg.norm(tensors["live.model.step.weights"] - fitted) / size) if size else None
    )


_ROWS = 20  # streams in the table that have something open


def inspect_fleet(folder: Path, classes: Classes, as_json: bool) -> None:
    """Show what a fleet has, and which of its streams have an alarm or a change open.

    As JSON: ``states`` counts streams as `Detector.status_` has it; ``open_alarms`` and
    ``open_changes`` are by stream; the rest as for one stream.
    """
    from newnormal.alarms.words import standing_text
    from newnormal.types.alarms import PENDING, REJECTED

    fleet, written = load_fleet(folder, classes), Written.of(folder)
    alarms, changes = fleet.alarms_, fleet.changes_
    incidents = fleet.incidents_
    if as_json:
        put_json(_fleet_data(folder, fleet, written))
        return
    states = _states(len(fleet), alarms, changes)
    facts: dict[str, Any] = {
        "written": str(written),
        "streams": len(fleet),
        "normal": counted(states["normal"], "stream"),
        "open alarms": _open_text(alarms),
        **{
            f"{state} changes": _open_text(_of_state(changes, state))
            for state in (PENDING, REJECTED)
        },
        "incidents": len(incidents),
        "feedback": feedback_text(bool(written.waiting)),
        "last time": (_last_time(fleet) or "").replace("T", " ") or None,
        **written.place,
        "channels": " to ".join(map(str, _channels(fleet))),
        **{name: value for name, value in fleet.detector.get_params().items() if value is not None},
        "fleet_alarms_per_day": fleet.fleet_alarms_per_day,
        "bytes of the streams": fleet.nbytes_,
        "bytes on the disk": _size(folder),
    }
    print_facts(str(folder), grouped(facts))
    for incident in incidents:
        if incident.open:
            put(f"\nincident {incident.number}: {shown(incident.sentence)}")
    rows = {
        name: {
            "alarm": "; ".join(alarm.sentence for alarm in alarms.get(name, ())),
            "change": "; ".join(map(standing_text, changes.get(name, ()))),
        }
        for name in fleet
        if name in alarms or name in changes
    }
    if rows:
        put("")
        listed = dict(list(rows.items())[:_ROWS])
        print_table(
            f"{len(rows):,} streams with something open", "stream", ("alarm", "change"), listed
        )


def _fleet_data(folder: Path, fleet: Fleet, written: Written) -> dict[str, Any]:
    alarms, changes, incidents = fleet.alarms_, fleet.changes_, fleet.incidents_
    states = _states(len(fleet), alarms, changes)
    options = fleet.detector.options_as_json()
    return {
        **written.as_dict(),
        "streams": len(fleet),
        "states": {name.replace(" ", "_"): count for name, count in states.items()},
        "method": options["method"],
        "options": options["options"],
        "rule": options["threshold"],
        "fleet_alarms_per_day": fleet.fleet_alarms_per_day,
        "least_channels": _channels(fleet)[0],
        "most_channels": _channels(fleet)[-1],
        "incidents": len(incidents),
        "open_incidents": [incident.as_dict() for incident in incidents if incident.open],
        "open_alarms": {name: [a.as_dict() for a in items] for name, items in alarms.items()},
        "open_changes": {name: [c.as_dict() for c in items] for name, items in changes.items()},
        "feedback_waiting": bool(written.waiting),
        "last_time": _last_time(fleet),
        "streams_bytes": fleet.nbytes_,
        "disk_bytes": _size(folder),
        **written.place,
    }


def _states(
    streams: int, alarms: Mapping[str, list[Alarm]], changes: Mapping[str, list[Change]]
) -> dict[str, int]:
    """Return how many streams there are in each state, as `Detector.status_` has it."""
    from newnormal.types.alarms import PENDING

    counts = {"in alarm": len(alarms), "change pending": 0, "change rejected": 0}
    for name, open_changes in changes.items():
        if name not in alarms:
            pending = any(change.state == PENDING for change in open_changes)
            counts["change pending" if pending else "change rejected"] += 1
    return {**counts, "normal": streams - sum(counts.values())}


def _of_state(changes: Mapping[str, list[Change]], state: str) -> dict[str, list[Change]]:
    """Return the changes of a state, by stream, of those streams that have any."""
    matching = {
        name: [change for change in items if change.state == state]
        for name, items in changes.items()
    }
    return {name: items for name, items in matching.items() if items}


def _open_text(opened: Mapping[str, Sequence[Alarm | Change]]) -> str:
    """Return how many there are, and of how many streams.

    >>> _open_text({}), _open_text({"web-1": ["an alarm"], "web-2": ["one", "another"]})
    ('0', '3 of 2 streams')
    """
    count = sum(map(len, opened.values()))
    return f"{count:,} of {counted(len(opened), 'stream')}" if count else "0"


def _size(folder: Path) -> int:
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _channels(fleet: Fleet) -> list[int]:
    counts = sorted({len(channels) for channels in fleet.channels_.values()}) or [0]
    return [counts[0]] if len(counts) == 1 else [counts[0], counts[-1]]


def _last_time(fleet: Fleet) -> str | None:
    from newnormal.types import time_text

    times = fleet.last_times_
    if not times:
        return None
    newest = max(times, key=lambda name: times[name])
    return time_text(times[newest], fleet.zones_.get(newest))
