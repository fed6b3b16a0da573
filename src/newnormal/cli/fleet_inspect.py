"""`newnormal inspect` of a fleet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from newnormal.cli.console import print_facts, print_table, put, shown
from newnormal.cli.fleet_reading import load_fleet
from newnormal.cli.inspect import feedback_text
from newnormal.cli.options import Classes

if TYPE_CHECKING:
    from newnormal.fleet import Fleet
    from newnormal.types import Alarm, Change

__all__ = ["inspect_fleet"]

_ROWS = 20  # streams in the table that have something open


def inspect_fleet(folder: Path, classes: Classes, as_json: bool) -> None:
    """Show what a fleet has, and which of its streams have an alarm or a change open."""
    fleet = load_fleet(folder, classes)
    alarms, changes = fleet.alarms_, fleet.changes_
    states = _states(len(fleet), alarms, changes)
    incidents = fleet.incidents_
    facts: dict[str, Any] = {
        "streams": len(fleet),
        **{state: states[state] for state in sorted(states)},
        "channels": _channels(fleet),
        **fleet.detector.get_params(),
        "fleet_alarms_per_day": fleet.fleet_alarms_per_day,
        "open alarms": sum(map(len, alarms.values())),
        "open changes": sum(map(len, changes.values())),
        "incidents": len(incidents),
        "last time": _last_time(fleet),
        "bytes of the streams": fleet.nbytes_,
        "bytes on the disk": _size(folder),
        "feedback": feedback_text(folder),
        **_input(folder),
    }
    if as_json:
        facts |= {
            "open incidents": [each.as_dict() for each in incidents if each.open],
            "open alarms": {name: [a.as_dict() for a in found] for name, found in alarms.items()},
            "open changes": {name: [c.as_dict() for c in found] for name, found in changes.items()},
        }
        typer.echo(json.dumps(facts, indent=2, default=str))
        return
    print_facts(str(folder), facts)
    for incident in incidents:
        if incident.open:
            put(f"\nincident {incident.number}: {shown(incident.sentence)}")
    rows = {
        name: {
            "alarm": "; ".join(each.sentence for each in alarms.get(name, ())),
            "change": "; ".join(f"{each.state}: {each.sentence}" for each in changes.get(name, ())),
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


def _states(
    streams: int, alarms: Mapping[str, list[Alarm]], changes: Mapping[str, list[Change]]
) -> dict[str, int]:
    """Return how many streams there are in each state, as `Detector.status_` has it."""
    from newnormal.types import PENDING

    found = {"in alarm": len(alarms), "change pending": 0, "change rejected": 0}
    for name, own in changes.items():
        if name not in alarms:
            pending = any(change.state == PENDING for change in own)
            found["change pending" if pending else "change rejected"] += 1
    return {**found, "normal": streams - sum(found.values())}


def _size(folder: Path) -> int:
    """Return the bytes of the files of a folder; a running watch may remove some meanwhile."""
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _channels(fleet: Fleet) -> str:
    counts = sorted({len(channels) for channels in fleet.channels_.values()})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _last_time(fleet: Fleet) -> str | None:
    from newnormal.types import time_text

    times = fleet.last_times_
    if not times:
        return None
    newest = max(times, key=lambda name: times[name])
    return time_text(times[newest], fleet.zones_.get(newest))


def _input(folder: Path) -> dict[str, Any]:
    """Return where the last watch of it was."""
    from newnormal.fleet.saved import last_note
    from newnormal.runtime.fleet_place import Place

    note = last_note(folder)
    if note is None:
        return {}
    place = Place.parse(note)
    return {
        "input": place.snapshot.get("path", place.kind),
        "line": place.snapshot.get("line"),
        "last watch": "ended" if place.clean else "runs, or was killed",
    }
