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
    from newnormal.alarms.words import Note
    from newnormal.fleet import Fleet
    from newnormal.types import Alarm, Change, Incident

_STREAMS = 20  # with something open that are listed
_PAST = 10  # alarms and changes that are over that are listed
_INCIDENTS = 5  # past ones that are listed
_WIDEST = 24  # characters of a name that others are aligned to


def list_fleet(
    folder: Path, classes: Classes, only_open: bool, last: int | None, as_json: bool
) -> None:
    """List the incidents of a fleet, its streams with something open, and what is past in all.

    The streams are sorted by what needs attention: alarms before pending changes before rejected
    ones, and the worst first. What is past follows, the newest first, unless `only_open`. As JSON,
    ``incidents`` are the newest last, and alarms and changes are by stream; `last` limits only what
    is past there, over all streams.
    """
    from newnormal.alarms.words import urgency

    fleet = load_fleet(folder, classes)
    alarms, changes = fleet.alarms_, fleet.changes_
    incidents = fleet.incidents_
    names = sorted(
        {**alarms, **changes},
        key=lambda name: (urgency(alarms.get(name, ()), changes.get(name, ())), name),
    )
    past = [] if only_open else _past(fleet)
    if as_json:
        data = _data(folder, fleet, names, alarms, changes, incidents, past[:last])
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    print_text(str(folder), bold=True)
    print_text(f"written {written_of(folder)}")
    over = [] if only_open else [incident for incident in reversed(incidents) if not incident.open]
    _list_incidents([incident for incident in incidents if incident.open], over, only_open)
    print_text(
        f"\n{len(names):,} of {counted(len(fleet), 'stream')} with something open", bold=True
    )
    most = _STREAMS if last is None else last
    shown = names[:most]
    print_notes(_notes(folder, fleet, shown, alarms, changes), _width(shown))
    if len(names) > most:
        print_text(f"{counted(len(names) - most, 'more stream')}: --last {len(names)}")
    if not only_open:
        _list_past(past, _PAST if last is None else last)
    _print_next(folder, [*names, *(name for name, _ in past)])


def _past(fleet: Fleet) -> list[tuple[str, Alarm | Change]]:
    """Return what is over in each stream, by the name of its stream; the newest first."""
    past = [(name, item) for name, items in fleet.past_.items() for item in items if not item.open]
    return sorted(past, key=lambda one: _since(one[1]), reverse=True)


def _since(item: Alarm | Change) -> tuple[int, int]:
    """Return what is sorted by: the time of the first sample where it is known, and the sample."""
    time = item.start_time
    return (-1 if time is None else int(time.astype("datetime64[ns]").astype(int))), item.start


def _list_past(past: list[tuple[str, Alarm | Change]], most: int) -> None:
    from newnormal.alarms.words import Deciding, alarm_note, change_note, counts_text
    from newnormal.types import Alarm

    if not past:
        print_text("\nnothing is past", bold=True)
        return
    streams = counted(len({name for name, _ in past}), "stream")
    counts = counts_text([item for _, item in past])
    print_text(f"\n{counts} past, in {streams}", bold=True)
    nothing = Deciding()
    notes = [
        (alarm_note(item, nothing) if isinstance(item, Alarm) else change_note(item, nothing), name)
        for name, item in past[:most]
    ]
    print_notes(notes, _width([name for _, name in notes]))
    if len(past) > most:
        print_text(f"{len(past) - most:,} more: --last {len(past)}")


def _print_next(folder: Path, names: list[str]) -> None:
    from newnormal.alarms.words import typed

    if names:
        command = typed("alarms", [str(folder), names[0]])
        print_text(f"\nOne stream, and what can be done about it: {command}")


def _list_incidents(opened: list[Incident], past: list[Incident], only_open: bool) -> None:
    from newnormal.alarms.words import incident_note

    text = f"{counted(len(opened), 'incident')} open"
    if not only_open:
        none = not opened and not past
        text = "no incident" if none else f"{text}, {counted(len(past), 'incident')} past"
    print_text(f"\n{text}", bold=True)
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
    from newnormal.alarms.words import Deciding, alarm_note, change_note

    after = accept_after_text(fleet.detector, fleet.period_)
    times = fleet.last_times_
    notes: list[tuple[Note, str]] = []
    for name in names:
        deciding = Deciding(str(folder), name, after)
        newest, open_changes = times.get(name), changes.get(name, [])
        notes += [(alarm_note(item, deciding, open_changes), name) for item in alarms.get(name, ())]
        notes += [(change_note(item, deciding, newest), name) for item in open_changes]
    return notes


def _width(names: list[str]) -> int:
    return max((len(name) for name in names if len(name) <= _WIDEST), default=0)


def _data(
    folder: Path,
    fleet: Fleet,
    names: list[str],
    alarms: dict[str, list[Alarm]],
    changes: dict[str, list[Change]],
    incidents: list[Incident],
    past: list[tuple[str, Alarm | Change]],
) -> dict[str, Any]:
    return {
        **written_of(folder).as_dict(),
        "streams": len(fleet),
        "incidents": [item.as_dict() for item in incidents],
        "open_alarms": {
            name: [item.as_dict() for item in alarms[name]] for name in names if name in alarms
        },
        "open_changes": {
            name: [item.as_dict() for item in changes[name]] for name in names if name in changes
        },
        "past_alarms": _by_stream(past, alarms=True),
        "past_changes": _by_stream(past, alarms=False),
    }


def _by_stream(past: list[tuple[str, Alarm | Change]], alarms: bool) -> dict[str, Any]:
    """Return the alarms that are past, or the changes, of each stream that has any."""
    from newnormal.types import Alarm

    by_stream: dict[str, Any] = {}
    for name, item in past:
        if isinstance(item, Alarm) == alarms:
            by_stream.setdefault(name, []).append(item.as_dict())
    return by_stream
