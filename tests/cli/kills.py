"""A program that runs `newnormal watch` in forked processes, each killed at a chosen point.

It takes one argument, a JSON object: `model`, `live`, `folder`, `pipe`, `act`, `at`, `options` and
`points`. At sample `at` the watch gets feedback, as another process would give it. For each point a
folder of that name gets the output of the process that was killed there (`first`), and that of
the one started after it (`second`).
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

POINTS = (
    *("none", "before the inbox is read", "before the journal is written"),
    *("before the journal is renamed", "before the inbox is removed", "before it is applied"),
    *("before its events are written", "before the checkpoint is written"),
    *("before the checkpoint is renamed", "before the journal is removed"),
    *("after the journal is removed", "a hundred samples later"),
)


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, condition: Callable[[], bool]) -> None:
    """Die when a function is called and a condition holds."""
    function = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if condition():
            die()
        return function(*arguments, **options)

    setattr(owner, name, wrapped)


def after(owner: Any, name: str, condition: Callable[[], bool]) -> None:
    """Die when a function returns and a condition holds."""
    function = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        found = function(*arguments, **options)
        if condition():
            die()
        return found

    setattr(owner, name, wrapped)


def install(point: str, state: Path, act: str, at: int) -> None:
    """Give feedback at a sample, and die at a point."""
    from newnormal.detector import from_state
    from newnormal.runtime import checkpoint, feedback, submit, watch

    given: list[int] = []  # the sample, once feedback was given
    consume = watch.Watch._consume

    def consumed(self: Any, batch: Any, count: int) -> None:
        consume(self, batch, count)
        seen = self.detector.counters["seen"]
        if seen >= at and not given:
            submit.submit(state, feedback.FeedbackAct(act), None, lambda _: None, from_state)
            given.append(seen)
        if point == "a hundred samples later" and given and seen >= at + 100:
            die()

    watch.Watch._consume = consumed  # type: ignore[method-assign]

    def inbox() -> bool:
        return bool(given)

    taken = state.with_name(f".{state.name}.feedback.taken")
    match point:
        case "before the inbox is read":
            before(feedback, "_content", inbox)
        case "before the journal is written":
            before(feedback.Queue, "_write", inbox)
        case "before the journal is renamed":
            before(os, "replace", lambda: bool(given) and not taken.exists())
        case "before the inbox is removed":
            after(feedback.Queue, "_write", inbox)
        case "before it is applied":
            before(watch, "apply_all", inbox)
        case "before its events are written":
            after(watch, "apply_all", inbox)
        case "before the checkpoint is written":
            before(checkpoint, "save", taken.exists)
        case "before the checkpoint is renamed":
            before(os, "replace", taken.exists)
        case "before the journal is removed":
            after(checkpoint, "save", taken.exists)
        case "after the journal is removed":
            after(feedback.Queue, "remove", inbox)
        case "a hundred samples later":
            feedback.Queue.dequeue = lambda *_: None  # type: ignore[method-assign]


def run(order: dict[str, Any], folder: Path, name: str, point: str | None) -> None:
    """Run a watch in a process of its own, with or without being killed."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    code = 1
    try:
        for number, path, flags in (
            (0, order["live"] if order["pipe"] else os.devnull, os.O_RDONLY),
            (1, folder / f"{name}.out", os.O_WRONLY | os.O_CREAT),
            (2, folder / f"{name}.err", os.O_WRONLY | os.O_CREAT),
        ):
            os.dup2(os.open(path, flags, 0o666), number)
        from newnormal.cli import main
        from newnormal.tabular.text import raw_bytes

        raw_bytes.READ_BYTES = 500
        state = folder / "plant.state"
        if point is not None:
            install(point, state, order["act"], order["at"])
        source = "-" if order["pipe"] else order["live"]
        arguments = ["watch", order["model"], source, "--state", str(state), *order["options"]]
        sys.argv = ["newnormal", *arguments]
        main()
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def warm(order: dict[str, Any]) -> None:
    """Load the compiled code once, before processes are forked."""
    import numpy as np

    from newnormal import load

    detector = load(order["model"])
    detector.run(np.zeros((20, len(detector.channels_))))


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    warm(asked)
    for each in asked["points"]:
        where = Path(asked["folder"]) / each.replace(" ", "-")
        where.mkdir()
        run(asked, where, "first", each)
        if each != "none":
            run(asked, where, "second", None)
