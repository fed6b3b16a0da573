"""A process that loads spoilt state files: ``python -m tests.fuzz.load_case SEED INDEX``.

With two numbers it tries one case and prints what happened. Without any it reads such pairs from
standard input, one a line, and answers each with a line of JSON.
"""

import json
import logging
import resource
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import newnormal
from newnormal import FeedbackError, StateError
from tests.fuzz.mutations import samples, sources, spoilt

ADDRESS_SPACE = 2_500_000_000  # bytes: an absurd allocation fails instead of hurting the machine
LOAD_SECONDS = 1.0  # of processor time
MEMORY = 500_000_000  # bytes above what the process had


def use(detector: Any, path: Path) -> None:
    """Do with a detector what a user does."""
    channels = len(detector.channels_)
    detector.run(samples(channels, 50))
    look(detector)
    detector.save(path)
    again = newnormal.load(path)
    for verb in (again.reject, again.accept):
        with suppress(FeedbackError):
            verb()
    for past in again.past_:
        with suppress(FeedbackError):
            again.accept(past)
    for sample in samples(channels, 15, seed=1):
        again.step(sample)
    with suppress(FeedbackError):
        again.undo()
    again.drop_pending()
    again.score(samples(channels, 20, seed=2))
    again.flush()
    look(again)
    again.restart()
    again.run(samples(channels, 20, seed=3))
    again.reset().run(samples(channels, 20, seed=4))
    detector.track_alarms().run(samples(channels, 30, seed=5) + 50.0)
    look(detector)


def look(detector: Any) -> None:
    """Read every figure that a detector shows."""
    for event in detector.take_events():
        event.to_json()
    for name in (
        *("alarms_", "changes_", "past_"),
        *("alarm_", "status_", "distance_", "alarm_threshold_", "threshold_", "alarm_rate_"),
        *("counters", "trend_", "losses_", "parameters_", "adaptable_", "last_time_"),
        *("last_judged_time_", "period_"),
    ):
        str(getattr(detector, name))
    detector.explain()
    repr(detector)


def attempt(content: bytes, folder: Path) -> dict[str, Any]:
    """Load a file and, if it loads, use it; return what happened."""
    path = folder / "plant.nn"
    path.write_bytes(content)
    before = resident(reset=True)
    began = time.process_time()
    answer: dict[str, Any] = {"outcome": "refused"}
    seconds = None
    try:
        detector = newnormal.load(path)
        seconds = time.process_time() - began
        answer["outcome"] = "loaded"
        use(detector, folder / "again.nn")
    except StateError as error:
        answer["message"] = str(error)[:200]
        if answer["outcome"] == "loaded":  # a file that loads must be usable, and load again
            answer["outcome"] = "StateError after it was loaded"
    except (Exception, RecursionError) as error:  # noqa: BLE001 - that is what is looked for
        when = "" if answer["outcome"] == "refused" else " after it was loaded"
        answer["outcome"] = f"{type(error).__name__}{when}"
        answer["message"] = "".join(traceback.format_exception(error)[-3:])[-600:]
    if seconds is None:
        seconds = time.process_time() - began
    grown = resident() - before
    if seconds > LOAD_SECONDS:
        answer["outcome"] += f", {seconds:.1f} s to load"
    if grown > MEMORY:
        answer["outcome"] += f", {grown / 1e6:.0f} MB"
    return answer


def resident(*, reset: bool = False) -> int:
    """Return the most memory that was resident since the last reset, in bytes."""
    if reset:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Try one case, or those that come in over standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    warnings.simplefilter("ignore")
    logging.getLogger("newnormal").setLevel(logging.CRITICAL)
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if len(sys.argv) > 1:
            content, told = spoilt(int(sys.argv[1]), int(sys.argv[2]))
            Path("case.nn").write_bytes(content)
            print(told, "(written to case.nn)", flush=True)
            print(json.dumps(attempt(content, folder), indent=1))
            return
        for content in sources().values():  # compile what is to be timed
            whole = attempt(content, folder)
            assert whole["outcome"].startswith("loaded"), whole
        print("ready", flush=True)
        for line in sys.stdin:
            seed, index = map(int, line.split())
            content, told = spoilt(seed, index)
            print(json.dumps(attempt(content, folder) | {"told": told}), flush=True)


if __name__ == "__main__":
    main()
