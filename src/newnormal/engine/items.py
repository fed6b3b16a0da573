"""Items of the inbox from what happened to alarms, changes, incidents, silence and channels."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from newnormal.alarms.words import quiet_sentence, silence_sentence
from newnormal.engine.streams import StreamRecord
from newnormal.engine.values import Item
from newnormal.errors import InputError
from newnormal.texts import counted
from newnormal.types import PENDING, Change, Event, IncidentEvent, ns_of_time

ALARM, CHANGE, INCIDENT, SILENT, CHANNELS = "alarm", "change", "incident", "silence", "channels"
ACCEPT, REJECT, UNDO = "accept", "reject", "undo"
_PARTS = 4


class Key(NamedTuple):
    """What the key of an item of a stream says."""

    kind: str
    stream: int
    generation: int
    number: int

    @property
    def text(self) -> str:
        """The key.

        >>> Key("alarm", 12, 1, 3).text
        'alarm-12-1-3'
        """
        return "-".join(map(str, self))


def key_of(text: str) -> Key:
    """Return what a key says, or raise an InputError if it is none of a stream's item.

    >>> key_of("change-12-1-3")
    Key(kind='change', stream=12, generation=1, number=3)
    """
    kind, *numbers = text.split("-")
    kinds = (ALARM, CHANGE, SILENT, CHANNELS)
    if kind not in kinds or len(numbers) != _PARTS - 1 or not all(map(str.isdecimal, numbers)):
        raise InputError(
            f"expected an alarm or a change of a stream, found {text!r}",
            hint="alarms, changes and channels can be accepted or rejected",
        )
    return Key(kind, *map(int, numbers))


def _ns(time: np.datetime64 | None, otherwise: int) -> int:
    if time is None or np.isnat(time):
        return otherwise
    return ns_of_time(time)


def _identity(stream: StreamRecord, kind: str, number: int) -> tuple[str, str, int, int, int]:
    """Return what an item begins with: its key, and the parts of the key."""
    key = Key(kind, stream.id, stream.generation, number)
    return (key.text, *key)


def event_item(stream: StreamRecord, event: Event, position: int) -> Item | None:
    """Return the alarm or the change that an event is about, as an item; None without one."""
    about = event.alarm if event.change is None else event.change
    if about is None:
        return None
    if isinstance(about, Change):
        kind, state, ratio = CHANGE, about.state, about.distance
        is_open = about.open or state == PENDING
    else:
        kind, state, ratio = ALARM, "open" if about.open else "closed", about.peak.ratio
        is_open = about.open
    now = _ns(event.time, stream.now)
    return Item(
        *_identity(stream, kind, about.number),
        state,
        _ns(about.start_time, now),
        now,
        None if is_open else now,
        float(ratio),
        about.sentence,
        about.as_dict(),
        position,
    )


def incident_item(event: IncidentEvent, begun: int, position: int) -> Item:
    """Return an incident as an item; another one each time that it began."""
    incident = event.incident
    again = f"-{begun}" if begun > 1 else ""
    return Item(
        f"{INCIDENT}-{incident.number}{again}",
        INCIDENT,
        None,
        0,
        incident.number,
        "open" if incident.open else "closed",
        incident.start,
        incident.end,
        None if incident.open else incident.end,
        float(len(incident.streams)),
        incident.sentence,
        incident.as_dict(),
        position,
    )


def silent_item(stream: StreamRecord, since: int, now: int, position: int) -> Item:
    """Return the item of a stream that has sent nothing since a time."""
    number = stream.numbers[SILENT] = stream.numbers.get(SILENT, 0) + 1
    return Item(
        *_identity(stream, SILENT, number),
        "open",
        since,
        now,
        None,
        0.0,
        quiet_sentence((stream.order.period or 0) / 1e9 or None),
        {"since": since, "noticed": now},
        position,
    )


def silence_over(stream: StreamRecord, item: Item, now: int, position: int) -> Item:
    """Return the item of a silence that is over: the first sample since is of a time `now`.

    That may be of before the silence was noticed, where a sender was late: it ended after that.
    """
    end = max(now, item.body["noticed"])
    sentence = _silence_sentence(stream, item.opened, end)
    return replace(ended(item, "closed", end, position), sentence=sentence)


def _silence_sentence(stream: StreamRecord, since: int, now: int) -> str:
    seconds = max(now - since, 0) / 1e9
    period = (stream.order.period or 0) / 1e9
    samples = round(seconds / period) if period else 0
    return silence_sentence((), samples, seconds, period)


def channels_item(
    stream: StreamRecord, new: list[str], gone: list[str], pending: Item | None, position: int
) -> Item:
    """Return the item of a stream whose channels are not those of its model."""
    if pending is None:
        number = stream.numbers[CHANNELS] = stream.numbers.get(CHANNELS, 0) + 1
    else:
        number = pending.number
    parts = []
    if new:
        parts.append(f"{counted(len(new), 'new channel')}: {', '.join(new[:5])}")
    if gone:
        parts.append(f"{counted(len(gone), 'channel')} without values: {', '.join(gone[:5])}")
    if not parts:
        parts.append("the channels are those of the model again")
    now = stream.now
    state = PENDING if new or gone else "reverted"
    return Item(
        *_identity(stream, CHANNELS, number),
        state,
        now if pending is None else pending.opened,
        now,
        None if state == PENDING else now,
        0.0,
        "; ".join(parts),
        {"new": new, "gone": gone, "channels": [*new, *gone]},
        position,
    )


def ended(item: Item, state: str, now: int, position: int, **body: Any) -> Item:
    """Return an item that has ended."""
    whole = {**item.body, **body}
    return replace(item, state=state, updated=now, ended=now, body=whole, position=position)
