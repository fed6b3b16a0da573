"""`newnormal alarms`: what is open and what was, with the evidence to decide by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from newnormal.cli.console import accept_after_text, print_notes, print_text, put_json
from newnormal.cli.options import (
    Classes,
    StateOrFleet,
    argument,
    is_fleet,
    option,
    with_shared,
)
from newnormal.cli.reading import load_fleet
from newnormal.cli.written import Written, WrittenStream
from newnormal.errors import InputError, ParameterError
from newnormal.texts import counted

if TYPE_CHECKING:
    import numpy as np

    from newnormal.alarms.words import Deciding, Note
    from newnormal.base import BaseDetector
    from newnormal.fleet import Fleet
    from newnormal.types import Alarm, Change, Incident

    Items = list[tuple[str, Alarm | Change]]  # with the names of their streams

_LAST = 10  # past ones that are listed
_STREAMS = 20  # with something open that are listed
_INCIDENTS = 5  # past ones that are listed
_WIDEST = 24  # characters of a name that others are aligned to


@with_shared
def alarms(
    state: StateOrFleet,
    words: list[str] | None = argument(
        "Of a fleet, one stream; one number, in full.", metavar="[STREAM] [NUMBER]", shown=False
    ),
    only_open: bool = option("Leave out what is over.", "--open", default=False),
    last: int | None = option(
        "List so many past ones; of a fleet, so many streams with something open, too.",
        "--last",
        "-n",
        metavar="N",
        shown=f"{_LAST}; of a fleet, 20 streams",
        min=0,
    ),
    as_json: bool = option("Print JSON, for programs.", "--json", default=False),
    *,
    classes: Classes,
) -> None:
    """List open and past alarms and changes, with their evidence and what can be done.

    newnormal alarms plant.state

    newnormal alarms plant.state 3

    newnormal alarms fleet.state web-1 --open

    Beside a running `watch` it shows the last checkpoint, and how old that is: there is one at
    every alarm and change. --json has alarms, changes and incidents in the form in which `watch`
    prints them.
    """
    stream, number = _parsed(state, words or [])
    if is_fleet(state) and stream is None:
        _list_fleet(state, classes, only_open, last, as_json)
        return
    read = WrittenStream.read(state, stream, classes)
    listing = AlarmListing.of(read.detector, state, stream, read.written)
    if number is not None:
        _show_one(listing, number, as_json)
    elif as_json:
        put_json(_data(listing, only_open, last), ascii_only=False)
    else:
        _list(listing, only_open, _LAST if last is None else last)


def _parsed(state: Path, words: list[str]) -> tuple[str | None, int | None]:
    """Return the stream of a fleet, and the number, where they are given."""
    many = is_fleet(state)
    names, numbers = (words[:1], words[1:]) if many else ([], words)
    if len(numbers) > 1 or any(not word.isdecimal() for word in numbers):
        wanted = "[STREAM] [NUMBER]" if many else "one NUMBER of an alarm or a change"
        raise ParameterError(
            f"{state}: expected {wanted} after it, found {' '.join(words)}",
            hint=f"newnormal alarms {state}",
        )
    return (names[0] if names else None), (int(numbers[0]) if numbers else None)


class AlarmListing(NamedTuple):
    """What is listed of one stream."""

    title: str
    command: str  # that lists it
    detector: BaseDetector
    written: Written
    deciding: Deciding
    open: list[Alarm | Change]
    past: list[Alarm | Change]  # the newest first

    @classmethod
    def of(
        cls, detector: BaseDetector, state: Path, stream: str | None, written: Written
    ) -> AlarmListing:
        """Return what there is of a detector."""
        from newnormal.alarms.words import Deciding, typed

        after = accept_after_text(detector, detector.period_)
        accepts = not math.isnan(detector.distance_)
        return cls(
            str(state) if stream is None else f"{state}: {stream}",
            typed("alarms", [str(state), *([] if stream is None else [stream])]),
            detector,
            written,
            Deciding(str(state) if accepts else None, stream, after),
            [*detector.alarms_, *detector.changes_],
            [item for item in reversed(detector.past_) if not item.open],
        )

    def note(self, item: Alarm | Change, full: bool = False) -> Note:
        """Return an alarm or a change in words; every channel of a change if `full`."""
        detector = self.detector
        return _note(item, self.deciding, detector.changes_, detector.last_judged_time_, full=full)


def _note(
    item: Alarm | Change,
    deciding: Deciding,
    changes: Sequence[Change] = (),
    newest: np.datetime64 | None = None,
    *,
    full: bool = False,
) -> Note:
    """Return an alarm or a change in words, beside the open changes and at the newest time."""
    from newnormal.alarms.words import alarm_note, change_note
    from newnormal.types import Alarm

    if isinstance(item, Alarm):
        return alarm_note(item, deciding, changes)
    return change_note(item, deciding, newest, full)


def _list(listing: AlarmListing, only_open: bool, last: int) -> None:
    from newnormal.alarms.words import acceptable, counts_text
    from newnormal.types import time_text

    detector, past = listing.detector, listing.past
    print_text(listing.title, bold=True)
    print_text(f"written {listing.written}")
    newest = detector.last_time_
    last_text = (
        "" if newest is None else f", last {time_text(newest, detector.zone_).replace('T', ' ')}"
    )
    print_text(f"{counted(detector.counters['seen'], 'sample')}{last_text}: {detector.status_}")
    print_text(f"\n{counts_text(listing.open) or 'nothing is'} open", bold=True)
    print_notes(listing.note(item) for item in listing.open)
    if only_open:
        return
    print_text(f"\n{counts_text(past) or 'nothing is'} past", bold=True)
    print_notes(listing.note(item) for item in past[:last])
    if len(past) > last:
        print_text(f"{len(past) - last:,} more: --last {len(past)}")
    shown = {item.number for item in past[:last] if _is_alarm(item)}
    numbers = [number for number in acceptable(past, detector.changes_) if number in shown]
    if numbers and listing.deciding.state is not None:
        over = ", ".join(map(str, numbers))
        print_text(f"\nAn alarm that is over can be accepted as normal, too ({over}):")
        print_text(f"    {listing.deciding.command('accept', 'alarm', numbers[0])}", bold=True)


def _is_alarm(item: Alarm | Change) -> bool:
    from newnormal.types import Alarm

    return isinstance(item, Alarm)


def _show_one(listing: AlarmListing, number: int, as_json: bool) -> None:
    """Show the alarm and the change of a number, in full."""
    from newnormal.alarms.words import acceptable, full_lines
    from newnormal.types import Alarm

    chosen = [item for item in (*listing.open, *listing.past) if item.number == number]
    if not chosen:
        numbers = sorted({item.number for item in (*listing.open, *listing.past)})
        raise InputError(
            f"{listing.title}: expected an alarm or a change of the last 100, "
            f"{f'{numbers[0]} to {numbers[-1]}' if numbers else 'of which there is none'}, "
            f"found {number}",
            hint=listing.command,
        )
    if as_json:
        put_json([_dict(item, listing) for item in chosen])
        return
    can = acceptable(listing.past, listing.detector.changes_)
    for item in chosen:
        note = listing.note(item, full=True)
        if isinstance(item, Alarm):
            more = full_lines(item, _members(listing.detector))
            commands = note.commands
            if item.number in can:
                commands = listing.deciding.about_alarm(item)
            note = note._replace(lines=(*note.lines, *more), commands=commands)
        print_notes([note])


def _members(detector: BaseDetector) -> list[str]:
    """Return the names of the votes of a committee; none for another model."""
    from newnormal.detector import Detector

    if not isinstance(detector, Detector):
        return []
    return [
        f"{member.kind}, {member.memory:g} samples"
        if member.kind in ("autoencoder", "linear subspace") and math.isfinite(member.memory)
        else member.kind
        for member in detector.members_
    ]


def _dict(item: Alarm | Change, listing: AlarmListing) -> dict[str, Any]:
    """Return an alarm with its votes, or a change, for programs."""
    from newnormal.types import Alarm

    if not isinstance(item, Alarm):
        return {"change": item.as_dict()}
    members = _members(listing.detector)
    votes = dict(zip(members, item.votes, strict=False)) if len(members) == len(item.votes) else {}
    finite = {name: vote if math.isfinite(vote) else None for name, vote in votes.items()}
    return {"alarm": {**item.as_dict(), "votes": finite}}


def _data(listing: AlarmListing, only_open: bool, last: int | None) -> dict[str, Any]:
    """Return the listing for programs: the keys stay; past ones are the newest first."""
    from newnormal.types.arrays import text_of_time

    return {
        **listing.written.as_dict(),
        "status": listing.detector.status_,
        "samples_seen": listing.detector.counters["seen"],
        "last_time": text_of_time(listing.detector.last_time_, listing.detector.zone_),
        **_split("open", listing.open),
        **_split("past", [] if only_open else listing.past[:last]),
    }


def _split(when: str, items: Iterable[Alarm | Change]) -> dict[str, Any]:
    """Return alarms and changes for programs, by the key of their kind."""
    split: dict[str, Any] = {f"{when}_alarms": [], f"{when}_changes": []}
    for item in items:
        split[f"{when}_{'alarms' if _is_alarm(item) else 'changes'}"].append(item.as_dict())
    return split


def _list_fleet(
    folder: Path, classes: Classes, only_open: bool, last: int | None, as_json: bool
) -> None:
    """List the incidents of a fleet, its streams with something open, and what is past in all.

    The streams are sorted by what needs attention: alarms before pending changes before rejected
    ones, and the worst first. What is past follows, the newest first, unless `only_open`. As JSON,
    ``incidents`` are the newest last, and alarms and changes are by stream; `last` limits only what
    is past there, over all streams.
    """
    from newnormal.alarms.words import Deciding, urgency

    fleet = load_fleet(folder, classes)
    alarms, changes = fleet.alarms_, fleet.changes_
    incidents, times = fleet.incidents_, fleet.last_times_
    names = sorted(
        {**alarms, **changes},
        key=lambda name: (urgency(alarms.get(name, ()), changes.get(name, ())), name),
    )
    opened: Items = [
        (name, item) for name in names for item in (*alarms.get(name, ()), *changes.get(name, ()))
    ]
    past = [] if only_open else _past(fleet)
    if as_json:
        data = {
            **Written.of(folder).as_dict(),
            "streams": len(fleet),
            "incidents": [item.as_dict() for item in incidents],
            **_by_stream("open", opened),
            **_by_stream("past", past[:last]),
        }
        put_json(data, ascii_only=False)
        return
    print_text(str(folder), bold=True)
    print_text(f"written {Written.of(folder)}")
    over = [] if only_open else [incident for incident in reversed(incidents) if not incident.open]
    _list_incidents([incident for incident in incidents if incident.open], over, only_open)
    print_text(
        f"\n{len(names):,} of {counted(len(fleet), 'stream')} with something open", bold=True
    )
    most = _STREAMS if last is None else last
    after = accept_after_text(fleet.detector, fleet.period_)
    first = set(names[:most])
    _print_items(
        [(name, item) for name, item in opened if name in first],
        lambda name, item: _note(
            item, Deciding(str(folder), name, after), changes.get(name, []), times.get(name)
        ),
    )
    if len(names) > most:
        print_text(f"{counted(len(names) - most, 'more stream')}: --last {len(names)}")
    if not only_open:
        _list_past(past, _LAST if last is None else last)
    _print_next(folder, [*names, *(name for name, _ in past)])


def _print_items(items: Items, note: Callable[[str, Alarm | Change], Note]) -> None:
    """Print alarms and changes of a fleet in words, names of usual length aligned."""
    width = max((len(name) for name, _ in items if len(name) <= _WIDEST), default=0)
    print_notes([(note(name, item), name) for name, item in items], width)


def _by_stream(when: str, items: Items) -> dict[str, Any]:
    """Return alarms and changes for programs, by the key of their kind and by stream."""
    split: dict[str, Any] = {f"{when}_alarms": {}, f"{when}_changes": {}}
    for name, item in items:
        streams = split[f"{when}_{'alarms' if _is_alarm(item) else 'changes'}"]
        streams.setdefault(name, []).append(item.as_dict())
    return split


def _past(fleet: Fleet) -> Items:
    """Return what is over in each stream, by the name of its stream; the newest first."""
    past = [(name, item) for name, items in fleet.past_.items() for item in items if not item.open]
    return sorted(past, key=lambda one: _since(one[1]), reverse=True)


def _since(item: Alarm | Change) -> tuple[int, int]:
    """Return what is sorted by: the time of the first sample where it is known, and the sample."""
    time = item.start_time
    return (-1 if time is None else int(time.astype("datetime64[ns]").astype(int))), item.start


def _list_past(past: Items, most: int) -> None:
    from newnormal.alarms.words import Deciding, counts_text

    if not past:
        print_text("\nnothing is past", bold=True)
        return
    streams = counted(len({name for name, _ in past}), "stream")
    counts = counts_text([item for _, item in past])
    print_text(f"\n{counts} past, in {streams}", bold=True)
    nothing = Deciding()
    _print_items(past[:most], lambda _, item: _note(item, nothing))
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
