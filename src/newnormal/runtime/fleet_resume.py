"""A fleet and its input, at the position where the last watch of both ended or was killed."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from newnormal.errors import StateError
from newnormal.fleet import Fleet, FleetEvent, FleetVerdicts
from newnormal.fleet.folder.replaying import Replayed
from newnormal.io.registry import name_of
from newnormal.io.sources.streams import StreamInput
from newnormal.runtime.checkpoint import other_input, resumed

KEYS = 100  # of applied feedback, that a marker remembers


@dataclass(frozen=True)
class InputPosition:
    """Where in its input a fleet's watch is: what a marker in the fleet's log says."""

    kind: str  # the kind of the input, as in a one-stream checkpoint
    # The position behind the samples of the record that the marker belongs to.
    snapshot: dict[str, Any] = field(default_factory=dict)
    feedback: tuple[str, ...] = ()  # keys of the newest feedback applied, that record's included
    stream: str | None = None  # the stream, if that record is feedback
    clean: bool = False  # whether all output before it was written, as it is when a watch has ended
    zone: str | None = None  # the zone of the samples' times, or None

    def to_bytes(self) -> bytes:
        """Return the marker in the fleet's log."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, marker: bytes) -> "InputPosition":
        """Return what a marker says; a StateError for anything else."""
        try:
            facts = json.loads(marker)
            position = cls(**{**facts, "feedback": tuple(facts["feedback"])})
            if not isinstance(position.snapshot, dict):
                raise TypeError("a place that is no object")
            if not all(isinstance(text, str) for text in (position.kind, *position.feedback)):
                raise TypeError("a key that is no text")
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            raise StateError(
                f"expected a note of `newnormal watch` in the fleet's log, found {marker[:60]!r}",
                hint="this folder was used by another program: save the fleet to a new one",
            ) from error
        return position


@dataclass(frozen=True)
class ResumedFleet:
    """What to go on with."""

    fleet: Fleet  # the fleet, open on its folder
    source: StreamInput  # the input, at the position that belongs to it
    position: InputPosition  # that position
    # Whether the input goes on from an earlier start; False: it starts at its beginning.
    continues: bool = False
    # Verdicts that a watch which was killed may not have written.
    again: tuple[FleetVerdicts, ...] = ()
    events: tuple[FleetEvent, ...] = field(default=())  # the same of feedback


def resume_fleet(
    folder: Path,
    make_source: Callable[[], StreamInput],
    report: Callable[[str], None],
    every: int,
    loading: tuple[object, object] = (None, None),
) -> ResumedFleet:
    """Open a fleet, and return it with its input at the position that belongs to it."""
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
    old = None if marker is None else InputPosition.parse(marker)
    again: tuple[FleetVerdicts, ...] = ()
    left = fleet.take_events()
    events: tuple[FleetEvent, ...] = ()
    if old is not None and not old.clean:
        again = tuple(call.verdicts for call in replayed if call.position >= marked)
        events = _of_feedback(left, replayed, old.stream)
        fleet.see_zone(old.zone)
        again = tuple(map(fleet.in_zones, again))
        events = tuple(event.in_zone(fleet.zones_.get(event.stream)) for event in events)
    source = make_source()
    kind = name_of(type(source.source))
    if old is None:
        return ResumedFleet(fleet, source, InputPosition(kind))
    if old.kind == kind and resumed(source, old.snapshot, folder):
        line = old.snapshot.get("line")
        report(f"resuming at line {line + 1}" if isinstance(line, int) else "resuming")
        return ResumedFleet(fleet, source, old, True, again, events)
    where = {**old.snapshot, "kind": old.kind}
    report(f"{other_input(folder, where, source.source.identity)}; reading this one from the start")
    source.close()
    position = InputPosition(kind, feedback=old.feedback)
    return ResumedFleet(fleet, make_source(), position, False, again, events)


def _of_feedback(
    left: list[FleetEvent], replayed: list[Replayed], stream: str | None
) -> tuple[FleetEvent, ...]:
    """Return the events of the feedback that is the last record: the stream's newest."""
    judged = {id(event) for call in replayed for event in call.verdicts.events}
    events = [event for event in left if event.stream == stream and id(event) not in judged]
    return tuple(event for event in events if event.event.sample == events[-1].event.sample)
