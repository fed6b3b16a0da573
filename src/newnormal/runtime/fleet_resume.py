"""A fleet and its input, at the place where the last watch of both ended or was killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from newnormal.fleet import Fleet, FleetEvent, FleetVerdicts
from newnormal.fleet.folder.replaying import Replayed
from newnormal.io.registry import name_of
from newnormal.io.sources.streams import StreamInput
from newnormal.runtime.checkpoint import other_input, resumed
from newnormal.runtime.fleet_place import Place


@dataclass(frozen=True)
class ResumedFleet:
    """What to go on with.

    Attributes
    ----------
    fleet
        The fleet, open on its folder.
    source
        The input, at the place that belongs to it.
    place
        That place.
    continues
        Whether the input goes on from an earlier start; False: it starts at its beginning.
    again
        Verdicts that a watch which was killed may not have written.
    events
        The same of feedback.
    """

    fleet: Fleet
    source: StreamInput
    place: Place
    continues: bool = False
    again: tuple[FleetVerdicts, ...] = ()
    events: tuple[FleetEvent, ...] = field(default=())


def resume_fleet(
    folder: Path,
    make_source: Callable[[], StreamInput],
    report: Callable[[str], None],
    every: int,
    loading: tuple[object, object] = (None, None),
) -> ResumedFleet:
    """Open a fleet, and return it with its input at the place that belongs to it."""
    replayed: list[Replayed] = []
    options: dict[str, Any] = dict(zip(("model", "threshold"), loading, strict=True))
    fleet = Fleet.open(folder, every=every, on_replay=replayed.append, **options)
    try:
        return _resumed(fleet, folder, make_source, report, replayed)
    except BaseException:
        fleet.close(save=False)  # what a killed watch did not write comes again at the next start
        raise


def _resumed(
    fleet: Fleet,
    folder: Path,
    make_source: Callable[[], StreamInput],
    report: Callable[[str], None],
    replayed: list[Replayed],
) -> ResumedFleet:
    marker, marked = fleet.last_marker
    old = None if marker is None else Place.parse(marker)
    again: tuple[FleetVerdicts, ...] = ()
    left = fleet.take_events()
    events: tuple[FleetEvent, ...] = ()
    if old is not None and not old.clean:
        again = tuple(each.verdicts for each in replayed if each.position >= marked)
        events = _of_feedback(left, replayed, old.stream)
        fleet.see_zone(old.zone)
        again = tuple(map(fleet.in_zones, again))
        events = tuple(each.in_zone(fleet.zones_.get(each.stream)) for each in events)
    source = make_source()
    kind = name_of(type(source.source))
    if old is None:
        return ResumedFleet(fleet, source, Place(kind))
    if old.kind == kind and resumed(source, old.snapshot, folder):
        line = old.snapshot.get("line")
        report(f"resuming at line {line + 1}" if isinstance(line, int) else "resuming")
        return ResumedFleet(fleet, source, old, True, again, events)
    where = {**old.snapshot, "kind": old.kind}
    report(f"{other_input(folder, where, source.source.identity)}; reading this one from the start")
    source.close()
    place = Place(kind, feedback=old.feedback)
    return ResumedFleet(fleet, make_source(), place, False, again, events)


def _of_feedback(
    left: list[FleetEvent], replayed: list[Replayed], stream: str | None
) -> tuple[FleetEvent, ...]:
    """Return the events of the feedback that is the last record: the stream's newest."""
    judged = {id(event) for each in replayed for event in each.verdicts.events}
    own = [each for each in left if each.stream == stream and id(each) not in judged]
    return tuple(each for each in own if each.event.sample == own[-1].event.sample)
