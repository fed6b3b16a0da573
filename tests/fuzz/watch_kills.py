"""A program that kills processes which watch a file that grows, and compares what they wrote.

``python -m tests.fuzz.watch_kills FOLDER KILLS SEED MODE``; MODE is ``one`` (stream), ``many``
(500 streams) or ``handed``: one stream, whose folder a service uses in between, to be stopped or
killed. Each process is forked from this one and killed at a random moment. Together their output is
that of one process, byte for byte: nothing is missing; what comes again is the same. Prints JSON.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

import numpy as np

from newnormal import Detector, Fleet
from newnormal.cli import main as command
from newnormal.engine import folder as engine_folder
from newnormal.service.config import ServiceConfig
from newnormal.service.service import Service
from newnormal.tabular import Table
from newnormal.types import Floats

HISTORY, STREAMS = 300, 500
_PAUSE = Event()
_BEGIN = np.datetime64("2026-01-01T00:00:00")


def values(count: int, seed: int) -> Floats:
    """Return samples of two channels, with a fault and a change."""
    rng = np.random.default_rng(seed)
    found = np.sin(np.arange(count)[:, None] / [7, 11]) + rng.normal(0, 0.1, (count, 2))
    found[HISTORY + 40 : HISTORY + 50] += 6
    found[HISTORY + 120 :] += 3
    return found


def lines_of(samples: Floats, streams: int) -> list[str]:
    """Return lines of CSV behind the history, each with its end."""
    lines = []
    for at in range(HISTORY, len(samples)):
        when, cells = _BEGIN + np.timedelta64(60 * at, "s"), "{:.4f},{:.4f}".format(*samples[at])
        names = [f"s{k}," for k in range(streams)] or [""]
        lines += [f"{when},{name}{cells}\n" for name in names]
    return lines


def forked(act: Callable[[], object]) -> int:
    """Do something in a process of its own; return that."""
    if child := os.fork():
        return child
    code = 1
    try:
        act()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def watch(arguments: list[str], errors: Path) -> None:
    """Run `newnormal watch`, with checkpoints at all times."""
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), 2)
    engine_folder._EVERY_S = 0.05
    sys.argv = ["newnormal", "watch", *arguments, "--quiet"]
    command()


def serve(state: Path, seconds: float, *, kill: bool) -> None:
    """Have a service use the folder."""
    service = Service(ServiceConfig(data=state, workers=1))
    service.start()
    _PAUSE.wait(seconds)
    if kill:
        os.kill(os.getpid(), signal.SIGKILL)
    service.stop()


def ended(child: int) -> None:
    """Kill a process that runs, and wait for it."""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def main(folder: Path, kills: int, seed: int, mode: str) -> None:
    """Kill so many processes, and compare."""
    warnings.simplefilter("ignore")
    rng, streams = random.Random(seed), STREAMS if mode == "many" else 0
    samples = values(HISTORY + (30 if streams else 600), seed)
    times = _BEGIN + np.arange(HISTORY) * np.timedelta64(60, "s")
    history = Table(samples[:HISTORY], ("a", "b"), times.astype("datetime64[ns]"))
    detector = Detector(epochs=1).fit(history)
    lines, model = lines_of(samples, streams), folder / "model"
    if streams:
        fleet = Fleet(detector)
        for k in range(streams):
            fleet.add(f"s{k}", detector)
        fleet.save(model)
    else:
        detector.save(model)
    head = "time,host,a,b\n" if streams else "time,a,b\n"
    whole, live, state = folder / "whole.csv", folder / "live.csv", folder / "state"
    more = ["--by", "host"] if streams else []
    whole.write_text(head + "".join(lines))
    errors, output = folder / "errors", folder / "output"
    expected = folder / "expected"
    _, status = os.waitpid(
        forked(lambda: watch([str(model), str(whole), *more, "-o", str(expected)], errors)), 0
    )
    assert status == 0, errors.read_text()
    live.write_text(head)
    given = served = killed = 0
    arguments = [str(model), str(live), *more, "--state", str(state), "-o", str(output)]
    while killed < kills:
        child = forked(lambda: watch([*arguments, "--follow"], errors))
        until = time.monotonic() + rng.uniform(0.02, 1.2)
        while time.monotonic() < until:
            part = max(1, len(lines) // kills // rng.randint(1, 8))
            with live.open("a") as file:
                file.write("".join(lines[given : given + part]))
            given += part
            _PAUSE.wait(rng.uniform(0.0, 0.1))
        ended(child)
        killed += 1
        if mode == "handed" and rng.random() < 0.5 and (state / "log.sqlite").exists():
            served += 1
            serving = partial(serve, state, rng.uniform(0.0, 0.6), kill=rng.random() < 0.5)
            _, status = os.waitpid(forked(serving), 0)
            assert status in (0, signal.SIGKILL), "the service raised an error"
    with live.open("a") as file:
        file.write("".join(lines[given:]))
    _, status = os.waitpid(forked(lambda: watch(arguments, errors)), 0)
    assert status == 0, errors.read_text()
    assert "Traceback" not in errors.read_text(), errors.read_text()
    print(json.dumps({"kills": killed, "served": served, **compared(expected, output)}))


def compared(expected: Path, output: Path) -> dict[str, int]:
    """Compare lines, of which some may come again, and some were cut short by a kill."""
    wanted = expected.read_text().splitlines()
    number = {line: at for at, line in enumerate(wanted)}
    first, again, cut = 0, 0, 0
    for line in output.read_text().splitlines():
        at = number.get(line)
        if at is None:
            assert any(each.startswith(line) for each in wanted[first:]), f"another line: {line}"
            cut += 1
        elif at == first:
            first += 1
        else:
            assert at < first, f"line {first} is missing before: {line}"
            again += 1
    assert first == len(wanted), f"{len(wanted) - first} lines are missing at the end"
    return {"lines": first, "again": again, "cut": cut}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
