"""Record runs of the default detector and of M2N2: ``python tests/golden/make_runs.py``.

Each case is a pair: ``NAME.nn``, a state file as its version wrote it, which is never made again,
and ``NAME.npz``, what running on from that file gave: scores, thresholds, masks, alarms, events.
``python tests/golden/make_runs.py record`` records the runs anew from the files that are there; a
commit that does so says which column changed, and by how much.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "runs"
CHANNELS = ("flow", "pressure", "valve")
HISTORY = 900
PERIOD = np.timedelta64(60, "s")
FIRST = np.datetime64("2026-01-01T00:00:00", "ns")
ACCEPT_AFTER = 120


@dataclass(frozen=True)
class Case:
    """A state at `at` samples of the stream, and the acts of a person later on."""

    name: str
    budget: bool
    at: int
    until: int
    before: tuple[tuple[int, str], ...] = ()  # (sample, act), on the way to `at`
    after: tuple[tuple[int, str], ...] = ()  # on the recorded way
    method: str = "detector"
    silent: bool = False  # the valve is missing from sample 1,230 on


def plant(begin: int, end: int, case: Case) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return samples of a plant whose pressure stands elsewhere from 1,200 to 1,900."""
    rng = np.random.default_rng(20261115)
    noise = rng.normal(size=(6000, 3))
    t = np.arange(6000)[:, None]
    values = np.sin(t / np.array([9.0, 23.0, 57.0])) + 0.15 * noise
    values[:, 2] += 0.4 * values[:, 0]
    values[1200:1900, 1] += 4.0
    values[2100:2106, 0] -= 6.0
    values[2400:3600, 1] -= 3.0
    values[2400:3600, 2] *= 1.8
    values[t[:, 0] % 101 == 7, 1] = np.nan
    values[3000:3003] = np.nan
    if case.silent:
        values[1230:1290, 2] = np.nan
    part: np.ndarray[Any, np.dtype[np.float64]] = values[begin:end] * [3.0, 0.5, 40.0] + [20, 1, -7]
    return part[:, [1, 0, 2]]


def times(begin: int, end: int) -> np.ndarray[Any, np.dtype[np.datetime64]]:
    return FIRST + PERIOD * np.arange(begin, end)


CASES = (
    Case("m2n2-plain", False, 1003, 2003, method="m2n2"),
    Case("m2n2-alarms", True, 1265, 2265, ((1230, "reject"),), ((1600, "accept"),), method="m2n2"),
    Case("m2n2-budget", True, 1265, 1665, ((1230, "reject"),), ((1500, "accept"),), method="m2n2"),
    Case("quiet", True, 1000, 1500),
    Case("alarm", True, 1203, 1503),
    Case("pending", True, 1290, 1590, (), ((1300, "accept"), (1500, "undo"))),
    Case("rejected", True, 1290, 2000, ((1250, "reject"),)),
    Case("accepted", True, 1300, 2000, ((1250, "accept"),)),
    Case("pattern", True, 2150, 2500, ((2103, "accept"),)),
    Case("silent", True, 1250, 1450, silent=True),
    Case("quantile", False, 1290, 1590),
)


def machine() -> dict[str, str]:
    """Return what the bits of a run depend on."""
    name = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        name = next((line.split(":")[1].strip() for line in lines if "model name" in line), name)
    versions = {package: version(package) for package in ("numpy", "numba", "llvmlite")}
    return {"processor": name, **versions}


def act(detector: Any, what: str) -> None:
    """Give feedback, where there is an alarm or an acceptance to give it on."""
    from newnormal import FeedbackError

    with suppress(FeedbackError):
        getattr(detector, what)()


def stretches(case: Case, pieces: tuple[int, ...]) -> Iterator[tuple[int, int, str | None]]:
    """Give consecutive stretches of the recorded way, and the act after each."""
    acts = dict(case.after)
    cuts = sorted({*acts, *(case.at + piece for piece in pieces), case.until})
    begin = case.at
    for end in cuts:
        if case.at < end <= case.until:
            yield begin, end, acts.get(end)
            begin = end


def run(detector: Any, case: Case, pieces: tuple[int, ...] = ()) -> dict[str, Any]:
    """Run a detector along the recorded way and return every column, and the events as text."""
    parts: list[Any] = []
    events: list[dict[str, Any]] = []
    detector.take_events()
    for begin, end, what in stretches(case, pieces):
        last = end == case.until
        found = detector.run(plant(begin, end, case), times(begin, end), flush=last)
        pending = 0 if last else detector.counters["pending"]
        if found.late is not None:
            parts.append(found.late)
        final = max(len(found) - pending, 0)
        parts.append(found.rows(slice(0, final)))
        if what is not None:
            act(detector, what)
        events += [event.as_dict() for event in detector.take_events()]
    columns: dict[str, Any] = {}
    names = ("scores", "thresholds", "anomalous", "ratios", "p_values", "alarms")
    for name in (*names, "distances", "changes"):
        values = [getattr(part, name) for part in parts]
        if values[0] is not None:
            columns[name] = np.concatenate(values)
    for name in ("expected", "shares"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        # For other machines; half as long as the sums themselves, which the digest covers.
        columns[f"{name}_sum"] = np.nansum(joined, axis=1).astype(np.float32)
        columns[f"{name}_sha256"] = hashlib.sha256(
            np.ascontiguousarray(joined).tobytes()
        ).hexdigest()
    columns["events"] = json.dumps(events)
    return columns


def made(case: Case) -> Any:
    """Return the detector of a case, fitted and run up to its state."""
    import polars as pl

    import newnormal
    from newnormal import Detector

    budget: dict[str, Any] = {"alarms_per_day": 4.0} if case.budget else {"threshold": 0.99}
    kind: Any = getattr(newnormal, "M2N2", Detector)
    if case.method == "m2n2":
        accept = {"accept_after": ACCEPT_AFTER} if case.budget else {}
        own = {"window": 6, "stride": 3, "half_life": 200, "lr": 0.01, "epochs": 3}
        detector = kind(**own, **budget, **accept, seed=3)
    else:
        detector = Detector(**budget, accept_after=ACCEPT_AFTER, epochs=5, seed=3)
    columns = dict(zip(CHANNELS, plant(0, HISTORY, case).T, strict=True))
    detector.fit(pl.DataFrame({"time": times(0, HISTORY), **columns}))
    at = HISTORY
    for sample, what in (*case.before, *((s, w) for s, w in case.after if s < case.at)):
        detector.run(plant(at, sample, case), times(at, sample), flush=False)
        act(detector, what)
        at = sample
    detector.run(plant(at, case.at, case), times(at, case.at), flush=False)
    detector.take_events()
    return detector


def main() -> None:
    """Make the state files that are not there, and record every run."""
    FOLDER.mkdir(exist_ok=True)
    from newnormal import Detector

    load: Any = getattr(__import__("newnormal"), "load", Detector.load)
    for case in CASES:
        path = FOLDER / f"{case.name}.nn"
        if not path.exists():
            made(case).save(path)
        elif "record" not in sys.argv:
            continue
        columns = run(load(path), case)
        record = path.with_suffix(".npz")
        np.savez_compressed(record, machine=json.dumps(machine()), **columns)
        detector = load(path)
        events = [event["event"] for event in json.loads(columns["events"])]
        print(case.name, detector.status_, int(columns["anomalous"].sum()), events)


if __name__ == "__main__":
    main()
