"""A program that kills processes which have a fleet open, and compares what they leave.

``python -m tests.fuzz.fleet_kills FOLDER KILLS SEED``. Each process is forked from this one, opens
the folder and goes on with a known sequence: samples, feedback, streams that come and go, saves. It
is killed at a random moment, or before or after a random call that writes. What it leaves must be
what an uninterrupted fleet has at the same place of the sequence, which is not before any place
that the process has reported. Prints a line of JSON.
"""

import contextlib
import json
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from newnormal import FeedbackError, Fleet
from newnormal.fleet.folder import log, writer
from newnormal.fleet.folder.check import check
from tests.fleets import assert_equal, fitted, mixed_fleet, tick

_CALLS = ("write", "fsync", "replace", "unlink", "ftruncate")
_LONGEST = 0.4  # s


def act(fleet: Fleet, number: int, note: Callable[[], object]) -> None:
    """Do what stands at a place of the sequence; `note` is called before its record."""
    if number % 23 == 20 and f"new-{number - 20}" not in fleet:
        fleet.add(f"new-{number - 20}", fitted("narrow"))
    if number % 23 == 22 and f"new-{number - 45}" in fleet:
        fleet.remove(f"new-{number - 45}")
    note()
    if number % 11 == 10:
        names = sorted(fleet.alarms_) or ["narrow-0"]
        with contextlib.suppress(FeedbackError):
            fleet.accept(names[number % len(names)])
    else:
        fleet.step(tick(fleet, number))


def child(folder: Path, report: int, stop_at: int | None, other: Path) -> None:
    """Go on with the sequence until killed."""
    if stop_at is not None:
        _kill_at(stop_at)
    fleet = Fleet.open(folder, every=12)
    number = last(fleet) + 1
    while True:
        here = str(number).encode()
        act(fleet, number, lambda: fleet.mark(here, with_next=True))  # noqa: B023
        _write(report, f"{number}\n".encode())
        if number % 29 == 28:
            fleet.checkpoint()
        if number % 37 == 36:
            fleet.save(other)
        number += 1


_write = os.write  # reports are not counted


def _kill_at(count: int) -> None:
    """Kill this process before or after its so many'th call that writes."""
    left = count

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            found = call(*args, **kwargs)
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return wrapped

    for name in _CALLS:
        setattr(os, name, counted(getattr(os, name)))


def last(fleet: Fleet) -> int:
    """Return the place of the sequence that a fleet has reached."""
    marker = fleet.last_marker[0]
    return -1 if marker is None else int(marker)


def killed(folder: Path, other: Path, rng: random.Random) -> int:
    """Run a process until it is killed; return the last place that it reported, or -1."""
    stop_at = rng.randrange(1, 400) if rng.random() < 0.5 else None
    reader, report = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        try:
            child(folder, report, stop_at, other)
        finally:
            os._exit(1)
    os.close(report)
    if stop_at is None:
        kill = (process, signal.SIGKILL)
        threading.Timer(rng.random() * _LONGEST, os.kill, kill).start()
    lines = b""
    while part := os.read(reader, 65536):
        lines += part
    os.close(reader)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status), "the process raised an error"
    whole = lines.rpartition(b"\n")[0].split()
    return int(whole[-1]) if whole else -1


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill so many processes."""
    warnings.simplefilter("ignore")
    writer.SHARD, log.SEGMENT = 150_000, 20_000
    rng = random.Random(seed)
    reference, reached, other = mixed_fleet(), -1, folder / "saved"
    reference.save(folder / "fleet")
    places, torn = [], 0
    for _ in range(kills):
        reported = killed(folder / "fleet", other, rng)
        report = check(folder / "fleet")
        assert report.ok, str(report)
        torn += any("not whole" in each.text for each in report.problems)
        found = Fleet.load(folder / "fleet")
        place = last(found)
        assert place >= max(reported, reached), (place, reported, reached)
        while reached < place:
            reached += 1
            act(reference, reached, lambda: None)
        if found.streams_ != reference.streams_:  # a stream came or went, and then it was killed
            _restructure(reference, reached + 1)
        assert_equal(reference, found)
        if (other / "manifest.json").exists():
            Fleet.load(other)
        places.append(place)
    print(json.dumps({"kills": kills, "places": places, "torn": torn}))


def _restructure(fleet: Fleet, number: int) -> None:
    """Do what stands at a place of the sequence, up to its record."""

    class _StopError(Exception):
        pass

    def stop() -> None:
        raise _StopError

    with contextlib.suppress(_StopError):
        act(fleet, number, stop)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
