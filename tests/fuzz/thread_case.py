"""Threads that use one detector at once: ``python -m tests.fuzz.thread_case SEED INDEX``.

Without numbers it reads such pairs from standard input and answers each with a line of JSON. Every
call must take its turn, or be refused with a NewnormalError.
"""

import json
import logging
import sys
import tempfile
import threading
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

import newnormal
from newnormal import NewnormalError
from tests.fuzz.paths import CONFIGURATIONS, fresh, series

CALLS = 40  # a thread
JOIN = 15.0  # seconds for all threads together
NAMES = ("budget", "chosen, accepting soon", "paper, alarms", "stride", "wide")


class Shared:
    """One detector and what was done with it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.detector = fresh(name)
        self.values = series(CONFIGURATIONS[name][0], 4_000, 77)
        self.values[500:] += 5.0
        self.folder = folder
        self.consumed = 0  # samples of calls that were not refused
        self.lock = threading.Lock()
        self.wrong: list[str] = []

    def work(self, number: int, seed: str, start: threading.Barrier) -> None:
        """Call the detector's verbs in a random order."""
        random = Random(f"{seed} {number}")
        start.wait()
        for _ in range(CALLS):
            at = random.randrange(3_000)
            verb = random.choice(["step", "step", "run", "run", "score", "save", "accept", "look"])
            try:
                done = self.call(verb, at, random.choice([1, 7, 90, 300]), number)
            except NewnormalError:
                done = 0
            except BaseException as error:  # noqa: BLE001 - that is what is looked for
                text = "".join(traceback.format_exception(error)[-2:])
                self.wrong.append(f"{verb}: {type(error).__name__}: {text}")
                done = 0
            with self.lock:
                self.consumed += done

    def call(self, verb: str, at: int, length: int, number: int) -> int:
        """Call one verb; return how many samples it consumed."""
        detector, part = self.detector, self.values[at : at + length]
        if verb == "step":
            detector.step(part[0])
            return 1
        if verb == "run":
            detector.run(part, flush=False)
            return length
        if verb == "score":
            detector.score(part)
        elif verb == "save":
            path = self.folder / f"{number}.nn"
            detector.save(path)
            newnormal.load(path).run(part)
        elif verb == "accept":
            detector.accept()
        else:
            detector.take_events()
            str((detector.counters, detector.alarm_, detector.distance_, detector.trend_))
        return 0


def attempt(seed: int, index: int) -> dict[str, Any]:
    """Let two to four threads use one detector, and look at it afterwards."""
    random = Random(f"{seed} {index}")
    name, threads = random.choice(NAMES), random.choice([2, 3, 4])
    told = f"{name}, {threads} threads"
    with tempfile.TemporaryDirectory() as folder:
        shared = Shared(name, Path(folder))
        start = threading.Barrier(threads)
        working = [
            threading.Thread(target=shared.work, args=(n, f"{seed} {index}", start), daemon=True)
            for n in range(threads)
        ]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join(JOIN)
        if any(thread.is_alive() for thread in working):
            return {"outcome": f"hangs for {JOIN:g} s", "told": told}
        if shared.wrong:
            outcome = shared.wrong[0].partition("\n")[0][:80]
            return {"outcome": outcome, "message": "\n".join(shared.wrong)[:800], "told": told}
        seen = shared.detector.counters["seen"]
        if seen != shared.consumed:
            message = f"{shared.consumed} samples consumed, {seen} seen"
            return {"outcome": "samples lost", "message": message, "told": told}
        shared.detector.run(shared.values[:100])
        path = Path(folder) / "last.nn"
        shared.detector.save(path)
        newnormal.load(path).run(shared.values[:100])
    return {"outcome": "good", "told": told}


def main() -> None:
    """Try one case, or those that come in over standard input."""
    warnings.simplefilter("ignore")
    logging.getLogger("newnormal").setLevel(logging.ERROR)
    sys.setswitchinterval(1e-5)
    if len(sys.argv) > 1:
        print(json.dumps(attempt(int(sys.argv[1]), int(sys.argv[2])), indent=1))
        return
    for name in NAMES:  # compile, with one thread
        fresh(name).run(series(CONFIGURATIONS[name][0], 300, 77))
    print("ready", flush=True)
    for line in sys.stdin:
        seed, index = map(int, line.split())
        print(json.dumps(attempt(seed, index)), flush=True)


if __name__ == "__main__":
    main()
