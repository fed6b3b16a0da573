"""What a person decides about a folder: applied at once, or left for the process that uses it."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from newnormal.alarms.feedback_target import feedback_target
from newnormal.engine.folder import SingleEngine
from newnormal.engine.log.sqlite_log import ask
from newnormal.engine.store.checking import LOG
from newnormal.errors import FeedbackError
from newnormal.fleet import Fleet
from newnormal.fleet.folder.lock import InUseError
from newnormal.types import Alarm

_WAIT_S = 2.0  # for the checkpoint of what has just happened


def decide(
    folder: Path,
    stream: str,
    verb: str,
    alarm: int | None,
    change: int | None,
    report: Callable[[str], None],
    classes: tuple[object, object] = (None, None),
) -> None:
    """Accept or reject an alarm or a change of a stream, or undo the newest acceptance.

    Without a number it is about the newest pending change, or else the newest open alarm.

    Raises
    ------
    FeedbackError
        If what is meant is not open.
    """
    try:
        engine = SingleEngine(folder, classes=classes)
    except InUseError:
        number = _target(lambda: _loaded(folder, classes), stream, verb, alarm, change, _WAIT_S)
        request = {"stream": stream, "verb": verb, **number}
        ask(folder / LOG, json.dumps(request))
        report(f"{folder} is in use: applied there before the next samples")
        return
    try:
        number = _target(lambda: engine.fleet, stream, verb, alarm, change)
        output = engine.decide(stream, verb, **number)
    except BaseException:
        engine.close(save=False)
        raise
    engine.leave(output)
    report(decision_text(stream, verb, **number))


def decision_text(
    stream: str, verb: str, alarm: int | None = None, change: int | None = None
) -> str:
    """Return what a decision did."""
    of_stream = f"{stream}: " if stream else ""
    if verb == "undo":
        done = (
            "undone: normal is again what it was before the newest acceptance; "
            "a change that it had accepted is open: reject it, or it is accepted again"
        )
    elif verb == "accept" and alarm is not None:
        done = f"alarm {alarm} accepted: samples like these are normal from now on"
    elif verb == "accept":
        done = f"change {change} accepted: normal from now on, and so is what was normal before"
    elif alarm is not None:
        done = f"alarm {alarm} rejected: a change that begins with it is rejected as well"
    else:
        done = f"change {change} rejected: nothing is learned until the stream is back to normal"
    return of_stream + done


def _loaded(folder: Path, classes: tuple[object, object]) -> Fleet:
    model, threshold = classes
    return Fleet.load(folder, model=model, threshold=threshold)


def _target(
    load: Callable[[], Fleet],
    stream: str,
    verb: str,
    alarm: int | None,
    change: int | None,
    wait: float = 0.0,
) -> dict[str, int]:
    """Return the number of the alarm or the change that is meant; wait until it may be there."""
    until = time.monotonic() + wait
    while True:
        detector = load()[stream]
        if verb == "undo":
            return {}
        try:
            target = feedback_target(detector, verb, alarm, change)
        except FeedbackError:
            if time.monotonic() >= until:
                raise
            time.sleep(wait / 10)
            continue
        kind = "alarm" if isinstance(target, Alarm) else "change"
        return {kind: target.number}
