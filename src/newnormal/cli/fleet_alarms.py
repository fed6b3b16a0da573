"""`newnormal alarms` of a fleet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from newnormal.cli.fleet_inspect import written_of
from newnormal.cli.fleet_reading import load_fleet
from newnormal.cli.options import Classes
from newnormal.cli.words import accept_after_text, print_notes, print_text
from newnormal.texts import counted

if TYPE_CHECKING:
    from newnormal.alarms.texts import Note
    from newnormal.fleet import Fleet
    from newnormal.types import Alarm, Change, Incident

__all__ = ["list_fleet"]

_INCIDENTS = 5  # past ones that are listed
_WIDEST = 24  # characters of a name that others are aligned to


def list_fleet(folder: Path, classes: Classes, most: int, as_json: bool) -> None:
    """List the incidents of a fleet, and its streams in which something is open.

    The streams are sorted by what needs attention: alarms before pending changes before rejected
    ones, and the worst first. As JSON, ``incidents`` are the newest last, and ``open_alarms`` and
    ``open_changes`` are by stream, in that order; `most` limits nothing there.
    """
    from newnormal.alarms.listing import urgency
    from newnormal.alarms.texts import typed

    fleet = load_fleet(folder, classes)
    alarms, changes = fleet.alarms_, fleet.changes_
    incidents = fleet.incidents_
    names = sorted(
        {**alarms, **changes},
        key=lambda name: (urgency(alarms.get(name, ()), changes.get(name, ())), name),
    )
    if as_json:
        found = _data(folder, fleet, names, alarms, changes, incidents)
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    print_text(str(folder), bold=True)
    print_text(f"written {written_of(folder)}")
    opened = [each for each in incidents if each.open]
    past = [each for each in reversed(incidents) if not each.open]
    _list_incidents(opened, past)
    print_text(
        f"\n{len(names):,} of {counted(len(fleet), 'stream')} with something open", bold=True
    )
    shown = names[:most]
    print_notes(_notes(folder, fleet, shown, alarms, changes), _width(shown))
    if len(names) > most:
        print_text(f"{counted(len(names) - most, 'more stream')}: --last {len(names)}")
    if names:
        command = typed("alarms", [str(folder), names[0]])
        print_text(f"\nOne stream, with what is past: {command}")


def _list_incidents(opened: list[Incident], past: list[Incident]) -> None:
    from newnormal.alarms.listing import incident_note

    text = f"{counted(len(opened), 'incident')} open, {counted(len(past), 'incident')} past"
    print_text(f"\n{text if opened or past else 'no incident'}", bold=True)
    print_notes(map(incident_note, (*opened, *past[:_INCIDENTS])))
    if len(past) > _INCIDENTS:
        print_text(f"{len(past) - _INCIDENTS:,} more: --json has all")


def _notes(
    folder: Path,
    fleet: Fleet,
    names: list[str],
    alarms: dict[str, list[Alarm]],
    changes: dict[str, list[Change]],
) -> list[tuple[Note, str]]:
    from newnormal.alarms.listing import alarm_note, change_note
    from newnormal.alarms.texts import Deciding

    after = accept_after_text(fleet.detector, fleet.period_)
    times = fleet.last_times_
    found: list[tuple[Note, str]] = []
    for name in names:
        deciding = Deciding(str(folder), name, after)
        newest, own = times.get(name), changes.get(name, [])
        found += [(alarm_note(each, deciding, own), name) for each in alarms.get(name, ())]
        found += [(change_note(each, deciding, newest), name) for each in own]
    return found


def _width(names: list[str]) -> int:
    return max((len(name) for name in names if len(name) <= _WIDEST), default=0)


def _data(
    folder: Path,
    fleet: Fleet,
    names: list[str],
    alarms: dict[str, list[Alarm]],
    changes: dict[str, list[Change]],
    incidents: list[Incident],
) -> dict[str, Any]:
    return {
        **written_of(folder).as_dict(),
        "streams": len(fleet),
        "incidents": [each.as_dict() for each in incidents],
        "open_alarms": {
            name: [each.as_dict() for each in alarms[name]] for name in names if name in alarms
        },
        "open_changes": {
            name: [each.as_dict() for each in changes[name]] for name in names if name in changes
        },
    }
