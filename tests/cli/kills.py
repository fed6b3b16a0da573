"""A program that runs `newnormal watch` in forked processes, each killed at a chosen point.

It takes one argument, a JSON object: `watch`, the command without its input and its folder, `live`,
`pipe`, `folder`, `decision`, the arguments of `runtime.feedback.decide`, `at` and `points`. Once it
has taken `at` samples the watch gets the decision, as another process would give it. For each point
a folder of that name gets the output of the process that was killed there (`first`), and that of
the one started after it (`second`).
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

CALLS = (
    *("append", "apply", "commit", "flush", "written"),
    *("sync", "save_checkpoint", "checkpoint", "trim"),
)
# The first call of each after the decision was given, and the next: that is about samples, or is
# of the next checkpoint. What is after one call is before the next.
POINTS = tuple(
    f"{point} {count}"
    for point in (*(f"before {call}" for call in CALLS), "after trim")
    for count in (1, 2)
)
OLDER = 12  # samples between the last checkpoint and the decision
given: list[int] = []  # the sample, once the decision was given


def owners(call: str) -> list[Any]:
    """Return what has a function of that name."""
    from newnormal.engine import folder
    from newnormal.engine.applying import Applier
    from newnormal.engine.log.sqlite_log import SqliteLog
    from newnormal.engine.store import Store
    from newnormal.fleet import Fleet
    from newnormal.runtime.watch import FleetJsonSink, OneStreamSink

    found: dict[str, list[Any]] = {
        "append": [SqliteLog],
        "sync": [SqliteLog],
        "trim": [SqliteLog],
        "apply": [Applier],
        "commit": [Store],
        "flush": [OneStreamSink, FleetJsonSink],
        "written": [folder.SingleEngine],
        "save_checkpoint": [folder],
        "checkpoint": [Fleet],
    }
    return found[call]


def die_at(when: str, call: str, count: int) -> None:
    """Die before or after the call of a function of that number after the decision."""
    calls = []

    def killing(function: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            calls.extend(given)
            if when == "before" and len(calls) == count:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*arguments, **options)
            if when == "after" and len(calls) == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    for owner in owners(call):
        setattr(owner, call, killing(getattr(owner, call)))


def decide_at(at: int, decision: dict[str, Any], state: Path) -> None:
    """Give a decision once so many samples were taken; a checkpoint comes after each batch then."""
    from newnormal.engine import folder
    from newnormal.runtime.feedback import decide

    folder._EVERY_S = folder._SHARE = 1 << 40
    if_due = folder.SingleEngine.checkpoint_if_due
    saved: list[int] = []

    def checkpoint_if_due(self: folder.SingleEngine) -> None:
        taken = sum(self.fleet[name].counters["seen"] for name in self.fleet)
        if taken >= at - OLDER and not saved:
            saved.append(taken)
            self.checkpoint()
        elif taken >= at and not given:
            decide(state, report=lambda _: None, **decision)
            given.append(taken)
            folder._EVERY_S = folder._SHARE = 0
        else:
            if_due(self)

    folder.SingleEngine.checkpoint_if_due = checkpoint_if_due  # type: ignore[method-assign]


def run(order: dict[str, Any], folder: Path, name: str, point: str | None) -> None:
    """Run a watch in a process of its own, which is killed at a point."""
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) == (point is not None), (name, point)
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
        state = folder / "state"
        if name == "first":
            decide_at(order["at"], order["decision"], state)
        if point is not None:
            when, call, count = point.split(" ")
            die_at(when, call, int(count))
        program, model, *options = order["watch"]
        source = "-" if order["pipe"] else order["live"]
        sys.argv = ["newnormal", program, model, source, "--state", str(state), *options]
        main()
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def warm(order: dict[str, Any]) -> None:
    """Watch once in this process: what is forked has the modules and the compiled code."""
    from newnormal.cli import main

    program, model, *options = order["watch"]
    lost = str(Path(order["folder"]) / "warm.jsonl")
    sys.argv = ["newnormal", program, model, order["live"], *options, "-q", "-o", lost]
    with suppress(SystemExit):
        main()


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    warm(asked)
    for each in ["none", *asked["points"]]:
        where = Path(asked["folder"]) / each
        where.mkdir()
        run(asked, where, "first", None if each == "none" else each)
        if each != "none":
            run(asked, where, "second", None)
