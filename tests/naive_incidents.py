"""The slow, obvious twin of `newnormal.fleet.incidents`: one moment after the other."""

from collections.abc import Sequence

from newnormal.fleet.incidents import Opening

Found = tuple[str, int, int, int, dict[str, int]]  # kind, number, start, end, streams


def events_of(openings: Sequence[Opening], fleet: int, now: int, span: int = 5) -> list[Found]:
    """Return the events of openings that are all known, up to the moment `now`."""
    ordered: list[Opening] = []
    for each in sorted(openings, key=lambda one: (one.moment, one.stream, one.alarm)):
        if (each.stream, each.alarm) not in {(one.stream, one.alarm) for one in ordered}:
            ordered.append(each)
    events: list[Found] = []
    incident: list[Opening] = []
    number = 0
    for moment in sorted({each.moment for each in ordered}):
        if incident and moment - incident[-1].moment > span:
            events.append(described("incident_ended", number, incident))
            incident = []
        at_once = [each for each in ordered if each.moment == moment]
        if incident:
            incident = [*incident, *at_once]
            continue
        window = [each for each in ordered if moment - span <= each.moment <= moment]
        streams = {each.stream for each in window}
        if len(streams) >= 3 and len(streams) >= fleet / 10:
            number += 1
            incident = window
            events.append(described("incident", number, incident))
    if incident and now - incident[-1].moment > span:
        events.append(described("incident_ended", number, incident))
    return events


def described(kind: str, number: int, incident: Sequence[Opening]) -> Found:
    streams: dict[str, int] = {}
    for each in incident:
        streams.setdefault(each.stream, each.alarm)
    return kind, number, incident[0].moment, incident[-1].moment, streams
