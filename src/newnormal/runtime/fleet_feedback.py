"""Feedback to a stream of a fleet: applied to its folder at once, or left for a running `watch`.

It waits in a file beside the folder, as that of one stream does beside the state file. `watch`
applies it between two batches: the fleet's log has it together with a marker that has its key, so
that a kill at any point neither loses nor repeats it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from newnormal.errors import FeedbackError, InputError
from newnormal.fleet import Fleet
from newnormal.fleet.folder.names import LOCK
from newnormal.fleet.folder.replaying import last_marker
from newnormal.locks import is_held
from newnormal.runtime.feedback import FeedbackAct, FeedbackRequest, Queue, apply, with_target
from newnormal.runtime.fleet_resume import KEYS, InputPosition

if TYPE_CHECKING:
    from newnormal.runtime.fleet_watch import FleetWatch

Report = Callable[[str], None]


class _FleetStream(NamedTuple):
    """One stream of a fleet, as what feedback is applied to."""

    fleet: Fleet
    stream: str

    def accept(self, alarm: Any = None, *, change: Any = None) -> object:
        return self.fleet.accept(self.stream, alarm, change=change)

    def reject(self, alarm: Any = None, *, change: Any = None) -> object:
        return self.fleet.reject(self.stream, alarm, change=change)

    def undo(self) -> object:
        return self.fleet.undo(self.stream)


def _apply(fleet: Fleet, request: FeedbackRequest) -> str:
    stream = request.stream or ""
    done = apply(fleet[stream], request, _FleetStream(fleet, stream))
    return f"{stream}: {done}"


def _apply_and_report(fleet: Fleet, request: FeedbackRequest, report: Report) -> None:
    try:
        report(f"feedback: {_apply(fleet, request)}")
    except (FeedbackError, InputError) as error:
        report(f"feedback not applied: {request.stream}: {error}")


class FleetQueue:
    """Applies feedback that waits beside a fleet's folder, between two batches of a watch.

    `folder`: the fleet's folder. `report`: called with what was done.
    """

    def __init__(self, folder: Path, report: Report) -> None:
        self._queue = Queue(folder, report)
        self._queue.load()
        self._report = report

    def __call__(self, watch: "FleetWatch") -> None:
        """Apply what waits."""
        queue = self._queue
        if not queue.journal and not queue.waiting:
            return
        queue.dequeue(lambda request: request)
        for request in list(queue.journal):
            if request.key not in watch.position.feedback:
                keys = (*watch.position.feedback, request.key)[-KEYS:]
                watch.mark(feedback=keys, stream=request.stream)
                _apply_and_report(watch.fleet, request, self._report)
                watch.emit_events(watch.fleet.take_events())
            queue.remove([request])


def submit(
    folder: Path,
    stream: str,
    act: FeedbackAct,
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
    request = FeedbackRequest(act, alarm, stream=stream, change=change)
    options: dict[str, Any] = dict(zip(("model", "threshold"), loading, strict=True))
    queue = Queue(folder, report)
    if is_held(folder / LOCK):
        _leave(queue, request, Fleet.load(folder, **options))
        report(f"{folder} is in use by `newnormal watch`: applied there before the next samples")
        return
    marker = last_marker(folder)
    position = None if marker is None else InputPosition.parse(marker)
    if position is not None and not position.clean:
        _leave(queue, request, Fleet.load(folder, **options))
        report(f"the last `newnormal watch` of {folder} was killed: applied when the next starts")
        return
    applied = () if position is None else position.feedback
    with Fleet.open(folder, **options) as fleet:
        queue.load()
        queue.dequeue(lambda waiting: waiting)  # left for a watch that has ended: it comes first
        for waiting in list(queue.journal):
            if waiting.key not in applied:
                _apply_and_report(fleet, waiting, report)
            queue.remove([waiting])
        report(_apply(fleet, request))
        fleet.take_events()


def _leave(queue: Queue, request: FeedbackRequest, fleet: Fleet) -> None:
    """Enqueue feedback with the number of what it is about now."""
    detector = fleet[request.stream or ""]
    if request.act is not FeedbackAct.undo:
        request = with_target(request, detector)
    queue.enqueue(request)
