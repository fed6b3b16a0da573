"""Feedback to a stream of a fleet: applied to its folder at once, or left for a running `watch`.

It waits in a file beside the folder, as that of one stream does beside the state file. `watch`
applies it between two batches: the fleet's log has it together with a marker that has its key, so
that a kill at any point neither loses nor repeats it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from newnormal.errors import FeedbackError, InputError
from newnormal.fleet import Fleet
from newnormal.fleet.folder.lock import is_in_use
from newnormal.fleet.folder.replaying import last_marker
from newnormal.runtime.feedback import Act, Feedback, Queue, apply, found_by, named
from newnormal.runtime.fleet_place import KEYS, Place

if TYPE_CHECKING:
    from newnormal.runtime.fleet_watch import FleetWatch

Report = Callable[[str], None]


class _Member(NamedTuple):
    """One stream of a fleet, as what feedback is applied to."""

    fleet: Fleet
    stream: str

    def accept(self, alarm: Any = None, *, change: Any = None) -> object:
        return self.fleet.accept(self.stream, alarm, change=change)

    def reject(self, alarm: Any = None, *, change: Any = None) -> object:
        return self.fleet.reject(self.stream, alarm, change=change)

    def rollback(self) -> object:
        return self.fleet.rollback(self.stream)


def _apply(fleet: Fleet, feedback: Feedback) -> str:
    stream = feedback.stream or ""
    done = apply(fleet[stream], feedback, _Member(fleet, stream))
    return f"{stream}: {done}"


def _apply_and_report(fleet: Fleet, feedback: Feedback, report: Report) -> None:
    try:
        report(f"feedback: {_apply(fleet, feedback)}")
    except (FeedbackError, InputError) as error:
        report(f"feedback not applied: {feedback.stream}: {error}")


class FleetQueue:
    """Applies feedback that waits beside a fleet's folder, between two batches of a watch.

    Parameters
    ----------
    folder
        The fleet's folder.
    report
        Called with what was done.
    """

    def __init__(self, folder: Path, report: Report) -> None:
        self._queue = Queue(folder, report)
        self._queue.load()
        self._report = report

    def __call__(self, watch: FleetWatch) -> None:
        """Apply what waits."""
        queue = self._queue
        if not queue.journal and not queue.waiting:
            return
        queue.dequeue(lambda each: each)
        for each in list(queue.journal):
            if each.key not in watch.place.feedback:
                keys = (*watch.place.feedback, each.key)[-KEYS:]
                watch.mark(feedback=keys, stream=each.stream)
                _apply_and_report(watch.fleet, each, self._report)
                watch.emit_events(watch.fleet.take_events())
            queue.remove([each])


def submit(
    folder: Path,
    stream: str,
    act: Act,
    alarm: int | None,
    report: Report,
    change: int | None = None,
    loading: tuple[object, object] = (None, None),
) -> None:
    """Apply feedback to a stream of a fleet, or leave it for the `watch` that uses the folder.

    Raises
    ------
    FeedbackError
        If what it names is not open.
    InputError
        If there is no such stream.
    """
    feedback = Feedback.of(act, alarm, stream=stream, change=change)
    options: dict[str, Any] = dict(zip(("model", "threshold"), loading, strict=True))
    queue = Queue(folder, report)
    if is_in_use(folder):
        _leave(queue, feedback, Fleet.load(folder, **options))
        report(f"{folder} is in use by `newnormal watch`: applied there before the next samples")
        return
    marker = last_marker(folder)
    place = None if marker is None else Place.parse(marker)
    if place is not None and not place.clean:
        _leave(queue, feedback, Fleet.load(folder, **options))
        report(f"the last `newnormal watch` of {folder} was killed: applied when the next starts")
        return
    applied = () if place is None else place.feedback
    with Fleet.open(folder, **options) as fleet:
        queue.load()
        queue.dequeue(lambda each: each)  # left for a watch that has ended: it comes first
        for each in list(queue.journal):
            if each.key not in applied:
                _apply_and_report(fleet, each, report)
            queue.remove([each])
        report(_apply(fleet, feedback))
        fleet.take_events()


def _leave(queue: Queue, feedback: Feedback, fleet: Fleet) -> None:
    """Enqueue feedback with the number of what it is about now."""
    detector = fleet[feedback.stream or ""]
    if feedback.act is not Act.rollback:
        feedback = named(feedback, found_by(detector, feedback))
    queue.enqueue(feedback)
