"""`newnormal inspect` of a fleet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from newnormal.cli.console import print_facts, print_table, put
from newnormal.cli.fleet_reading import input_position, load_fleet, written_of
from newnormal.cli.inspect import feedback_text, grouped, waits
from newnormal.cli.options import Classes
from newnormal.texts import counted, shown
from newnormal.types.alarms import PENDING, REJECTED

if TYPE_CHECKING:
    from newnormal.fleet import Fleet
    from newnormal.types import Alarm, Change

_OPEN = (PENDING, REJECTED)
_ROWS = 20  # streams in the table that have something open


def inspect_fleet(folder: Path, classes: Classes, as_json: bool) -> None:
    """Show what a fleet has, and which of its streams have an alarm or a change open.

    As JSON: ``states`` counts streams as `Detector.status_` has it; ``open_alarms`` and
    ``open_changes`` are by stream; the rest as for one stream.
    """
    from newnormal.alarms.words import standing_text

    fleet = load_fleet(folder, classes)
    alarms, changes = fleet.alarms_, fleet.changes_
    incidents = fleet.incidents_
    if as_json:
        typer.echo(json.dumps(_data(folder, fleet), indent=2))
        return
    states = _states(len(fleet), alarms, changes)
    facts: dict[str, Any] = {
        "written": str(written_of(folder)),
        "streams": len(fleet),
        "normal": counted(states["normal"], "stream"),
        "open alarms": _open_text(alarms),
        **{f"{state} changes": _open_text(_of_state(changes, state)) for state in _OPEN},
        "incidents": len(incidents),
        "feedback": feedback_text(waits(folder)),
        "last time": (_last_time(fleet) or "").replace("T", " ") or None,
        **_input(folder),
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
        typer.echo("")
        some = dict(list(rows.items())[:_ROWS])
        print_table(
            f"{len(rows):,} streams with something open", "stream", ("alarm", "change"), some
        )


def _data(folder: Path, fleet: Fleet) -> dict[str, Any]:
    alarms, changes, incidents = fleet.alarms_, fleet.changes_, fleet.incidents_
    states = _states(len(fleet), alarms, changes)
    options = fleet.detector.options_as_json()
    return {
        **written_of(folder).as_dict(),
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
        "feedback_waiting": waits(folder),
        "last_time": _last_time(fleet),
        "streams_bytes": fleet.nbytes_,
        "disk_bytes": _size(folder),
        "input": None,
        "line": None,
        **_input(folder),
    }


def _states(
    streams: int, alarms: Mapping[str, list[Alarm]], changes: Mapping[str, list[Change]]
) -> dict[str, int]:
    """Return how many streams there are in each state, as `Detector.status_` has it."""
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
    """Return the bytes of the files of a folder; a running watch may remove some meanwhile."""
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _channels(fleet: Fleet) -> list[int]:
    """Return the least and the most channels of a stream, once if they are the same."""
    counts = sorted({len(channels) for channels in fleet.channels_.values()}) or [0]
    return [counts[0]] if len(counts) == 1 else [counts[0], counts[-1]]


def _last_time(fleet: Fleet) -> str | None:
    from newnormal.types import time_text

    times = fleet.last_times_
    if not times:
        return None
    newest = max(times, key=lambda name: times[name])
    return time_text(times[newest], fleet.zones_.get(newest))


def _input(folder: Path) -> dict[str, Any]:
    position = input_position(folder)
    if position is None:
        return {}
    return {
        "input": position.snapshot.get("path", position.kind),
        "line": position.snapshot.get("line"),
    }
