"""A process that opens spoilt folders of fleets: ``python -m tests.fuzz.fleet_case SEED INDEX``.

With two numbers it tries one case and prints what happened. Without any it reads such pairs from
standard input, one a line, and answers each with a line of JSON. Even cases are damaged in some
bytes; odd ones are wrong, with digests that fit.
"""

import json
import logging
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from newnormal import FeedbackError, Fleet, NewnormalError, StateError
from newnormal.fleet.folder.check import check
from tests.fuzz.folders import FLEETS, damage, resign, tick, write_fleet
from tests.fuzz.load_case import look, resident
from tests.fuzz.mutations import samples

ADDRESS_SPACE = 6_000_000_000  # bytes: an absurd allocation fails instead of hurting the machine
LOAD_SECONDS = 3.0  # of processor time
MEMORY = 500_000_000  # bytes above what the process had
Signature = dict[str, tuple[bytes, int]]


class _Raised(logging.Handler):
    """Keeps what replaying a log raised that newnormal did not mean to raise."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.texts.append("".join(traceback.format_exception(record.exc_info[1])[-3:])[-600:])


RAISED = _Raised()


def signature(fleet: Fleet) -> Signature:
    """Return what tells a fleet from another: the arrays of its streams."""
    return {s.name: (s.block.tobytes(), len(s.past or ())) for s in fleet._streams}


def use(fleet: Fleet, folder: Path, other: Path) -> None:
    """Do with a fleet what a user does."""
    for name in ("alarms_", "changes_", "past_", "incidents_", "zones_", "last_times_", "nbytes_"):
        str(getattr(fleet, name))
    str((fleet, fleet.reading_, fleet.period_))
    for event in fleet.take_events():
        event.to_json()
    for number in range(20, 23):
        fleet.step(*tick(fleet, number))
    fleet.run({name: samples(len(own), 25) + 20 for name, own in fleet.channels_.items()})
    for name in fleet:
        for verb in (fleet.accept, fleet.undo, fleet.reject):
            with suppress(FeedbackError):
                verb(name)
        look(fleet[name])
    fleet.flush()
    fleet.save(other)
    Fleet.load(other).step(*tick(fleet, 40))
    with Fleet.open(folder / "engine", fleet) as opened:
        for number in range(50, 53):
            opened.step(*tick(opened, number))
    Fleet.load(folder).save(folder)
    assert check(folder).ok


def repaired(folder: Path, error: StateError, names: set[str]) -> Fleet | None:
    """Return what can be repaired of a folder that was refused, if anything can."""
    report = check(folder)
    assert error.hint and len(error.message) > 20, error.message
    assert not report.ok, f"check finds nothing; Fleet.load: {error.message}"
    assert all(problem.text for problem in report.problems)
    if not check(folder, repair=True).ok:
        return None
    named = {name for problem in report.problems for name in problem.streams}
    fleet = Fleet.load(folder)
    unnamed = "whose names are not known" in str(report)
    assert names - set(fleet) <= named or unnamed, "streams are gone that were not named"
    return fleet


def attempt(folder: Path, whole: tuple[int, Signature]) -> tuple[str, Fleet | None]:
    """Load a folder, or what can be repaired of it; return what happened, and the fleet."""
    position, expected = whole
    refused: StateError | None = None
    try:
        fleet = Fleet.load(folder)
    except StateError as error:
        refused = error
    if refused is not None:
        left = repaired(folder, refused, set(expected))
        return "refused" if left is None else "repaired", left
    report = check(folder, repair=not check(folder).ok)  # of files that loading does not need
    assert report.ok, f"Fleet.load finds nothing; check: {report}"
    if signature(fleet) == expected:
        return "equal", fleet
    # Where the end of the log is gone, it is a fleet of an earlier moment.
    is_earlier = fleet.position < position and set(fleet) == set(expected)
    return "earlier" if is_earlier else "other", fleet


class Folders:
    """Whole folders, and copies of them that are spoilt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wholes: list[tuple[int, Signature]] = []
        for at, names in enumerate(FLEETS):
            write_fleet(folder / f"whole-{at}", names)
            fleet = Fleet.load(folder / f"whole-{at}")
            self.wholes.append((fleet.position, signature(fleet)))

    def spoilt(self, seed: int, index: int) -> tuple[int, Path, str]:
        """Return the fleet of a case, its folder, and what was done to it."""
        rng = Random(f"{seed} {index}")
        at = rng.randrange(len(FLEETS))
        for name in ("spoilt", "other"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        target = self.folder / "spoilt"
        shutil.copytree(self.folder / f"whole-{at}", target)
        told = (resign if index % 2 else damage)(target, rng, index // 2)
        return at, target, f"{', '.join(FLEETS[at])}: {told}"

    def tried(self, seed: int, index: int, *, again: bool = False) -> dict[str, Any]:
        """Return what became of a case; a slow one may have compiled something, and is repeated."""
        at, target, told = self.spoilt(seed, index)
        RAISED.texts.clear()
        before, began = resident(reset=True), time.process_time()
        answer: dict[str, Any] = {"told": told}
        try:
            answer["outcome"], fleet = attempt(target, self.wholes[at])
            if index % 2 and fleet is not None:
                use(fleet, target, self.folder / "other")
            elif answer["outcome"] == "other":
                answer["outcome"] = "another fleet, in silence"
            if RAISED.texts:
                answer |= {"outcome": "raised in replaying", "message": RAISED.texts[0]}
        except NewnormalError as error:  # a folder that loads must be usable
            answer |= {"outcome": f"{type(error).__name__} after it was loaded"}
            answer["message"] = str(error)[:600]
        except (Exception, RecursionError) as error:  # noqa: BLE001 - that is what is looked for
            answer["outcome"] = type(error).__name__
            answer["message"] = "".join(traceback.format_exception(error)[-4:])[-900:]
        if (seconds := time.process_time() - began) > LOAD_SECONDS:
            if not again:
                return self.tried(seed, index, again=True)
            answer["outcome"] += f", {seconds:.1f} s"
        if (grown := resident() - before) > MEMORY:
            answer["outcome"] += f", {grown / 1e6:.0f} MB"
        return answer


def main() -> None:
    """Try one case, or those that come in over standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    warnings.simplefilter("ignore")
    logger = logging.getLogger("newnormal")
    logger.propagate = False
    logger.addHandler(RAISED)
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as name:
        folders = Folders(Path(name))
        if len(sys.argv) > 1:
            seed, index = map(int, sys.argv[1:])
            shutil.rmtree("case.fleet", ignore_errors=True)
            _, target, told = folders.spoilt(seed, index)
            shutil.copytree(target, "case.fleet", symlinks=True)
            print(told, "(written to case.fleet)", flush=True)
            print(json.dumps(folders.tried(seed, index), indent=1))
            return
        for at, whole in enumerate(folders.wholes):  # compile what is to be timed
            target = folders.folder / "tried"
            shutil.copytree(folders.folder / f"whole-{at}", target)
            found, fleet = attempt(target, whole)
            assert found == "equal" and fleet is not None, found
            use(fleet, target, folders.folder / "other")
            shutil.rmtree(target)
            shutil.rmtree(folders.folder / "other")
        print("ready", flush=True)
        for line in sys.stdin:
            print(json.dumps(folders.tried(*map(int, line.split()))), flush=True)


if __name__ == "__main__":
    main()
