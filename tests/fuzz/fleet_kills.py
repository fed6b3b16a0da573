"""A program that kills processes which have a fleet open, and compares what they leave.

``python -m tests.fuzz.fleet_kills FOLDER KILLS SEED``. Each process is forked from this one, opens
the folder and goes on with a known sequence: samples, streams that come and go, saves. It
is killed at a random moment, or before or after a random call that writes. What it leaves must be
what an uninterrupted fleet has at the same place of the sequence, which is not before any place
that the process has reported. Prints a line of JSON.
"""

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

from newnormal import Fleet
from newnormal.engine import folder as engine_folder
from newnormal.engine.store.checking import check
from newnormal.fleet.folder import writer
from tests.fleets import assert_equal, fitted, mixed_fleet, tick

_CALLS = ("write", "fsync", "replace", "unlink", "ftruncate")
_LONGEST = 0.4  # s


def act(fleet: Fleet, number: int) -> None:
    """Do what stands at a place of the sequence."""
    if number % 23 == 20 and f"new-{number - 20}" not in fleet:
        fleet.add(f"new-{number - 20}", fitted("narrow"))
    if number % 23 == 22 and f"new-{number - 45}" in fleet:
        fleet.remove(f"new-{number - 45}")
    fleet.step(tick(fleet, number))


def child(folder: Path, report: int, stop_at: int | None, other: Path) -> None:
    """Go on with the sequence until killed."""
    if stop_at is not None:
        _kill_at(stop_at)
    engine_folder._EVERY_S = 0.02
    fleet = Fleet.open(folder)
    number = place_of(fleet) + 1
    while True:
        act(fleet, number)
        _write(report, f"{number}\n".encode())
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


def place_of(fleet: Fleet) -> int:
    """Return the place of the sequence that a fleet has reached."""
    return fleet._ticks - 1


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
    writer.SHARD = 150_000
    rng = random.Random(seed)
    reference, reached, other = mixed_fleet(), -1, folder / "saved"
    Fleet.open(folder / "fleet", reference).close()
    places = []
    for _ in range(kills):
        reported = killed(folder / "fleet", other, rng)
        report = check(folder / "fleet")
        assert report.ok, str(report)
        found = Fleet.open(folder / "fleet")
        place = place_of(found)
        assert place >= max(reported, reached), (place, reported, reached)
        while reached < place:
            reached += 1
            act(reference, reached)
        if found.streams_ != reference.streams_:  # a stream came or went, and then it was killed
            _restructure(reference, reached + 1)
        assert_equal(reference, found)
        found.close(save=False)
        if (other / "manifest.json").exists():
            Fleet.load(other)
        places.append(place)
    print(json.dumps({"kills": kills, "places": places}))


def _restructure(fleet: Fleet, number: int) -> None:
    """Do what stands at a place of the sequence, but the step."""
    step = fleet.step
    fleet.step = lambda *_: None  # type: ignore[method-assign, assignment]
    act(fleet, number)
    fleet.step = step  # type: ignore[method-assign]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
