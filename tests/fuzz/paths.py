"""The same stream along several ways: ``python -m tests.fuzz.paths SEED INDEX [REPEATS]``.

Whole stretches, sample by sample, in pieces, saved and loaded, pickled and copied on the way: every
column, every event and the state at the end are compared bit for bit.
"""

import copy
import logging
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import newnormal
from newnormal import M2N2, Detector, FeedbackError, Fixed, NewnormalWarning
from newnormal.base import BaseDetector
from newnormal.detector import from_state
from tests.fuzz.envelope import canonical
from tests.strategies import NASTY, nasty_series

COLUMNS = (
    *("sample", "time", "score", "threshold", "anomalous", "expected", "shares"),
    *("ratio", "p_value", "alarm", "distance", "change", "lows", "highs", "channel_ratios"),
)
_HISTORY = 260
_FIRST = np.datetime64("2026-01-01T00:00:00", "ns")
_MINUTE = np.timedelta64(60, "s")

CONFIGURATIONS: dict[str, tuple[int, Callable[[], BaseDetector]]] = {
    "chosen": (2, lambda: Detector(epochs=1)),
    "chosen, accepting soon": (3, lambda: Detector(epochs=1, accept_after=30)),
    "budget": (2, lambda: Detector(epochs=1, alarms_per_day=30.0, accept_after=24)),
    "budget, one channel": (1, lambda: Detector(epochs=1, alarms_per_day=5.0, accept_after=40)),
    "risk": (4, lambda: Detector(epochs=1, risk=0.01, accept_after=60)),
    "never": (2, lambda: Detector(epochs=1, accept_after="never", threshold=0.9)),
    "fixed": (2, lambda: Detector(epochs=1, threshold=Fixed(1.5), accept_after=20)),
    "paper": (2, lambda: M2N2(window=6, latent=2, epochs=1)),
    "stride": (3, lambda: M2N2(window=6, stride=2, latent=2, epochs=1, lr=0.05, decay=0.9)),
    "every sample": (2, lambda: M2N2(window=4, stride=1, latent=2, epochs=1, lr=0.01)),
    "window of one": (2, lambda: M2N2(window=1, latent=2, epochs=1)),
    "frozen": (2, lambda: M2N2(window=5, latent=2, epochs=1, adapt=False, detrend=False)),
    "diverging": (2, lambda: M2N2(window=4, latent=2, epochs=1, lr=1e30, threshold=Fixed(np.inf))),
    "paper, alarms": (
        3,
        lambda: M2N2(
            window=6, stride=3, latent=3, epochs=1, half_life=40, alarms_per_day=40.0,
            accept_after=30,
        ),
    ),
    "wide": (20, lambda: Detector(epochs=1, alarms_per_day=10.0, accept_after=30)),
    "wider": (38, lambda: Detector(epochs=1, accept_after=30)),
}  # fmt: skip


def series(channels: int, length: int, seed: int) -> NDArray[np.float64]:
    """Return a plant's samples: waves and noise."""
    rng = np.random.default_rng([seed, channels])
    t = np.arange(length)[:, None] + seed
    waves = np.sin(t / (5.0 + 3.0 * np.arange(channels)))
    return np.asarray(waves + rng.normal(0, 0.2, (length, channels)))


@cache
def _fitted(name: str) -> Any:
    channels, make = CONFIGURATIONS[name]
    history = series(channels, _HISTORY, 0)
    history[::37, 0] = np.nan
    return make().fit(history).to_state()


def fresh(name: str) -> BaseDetector:
    """Return a detector of a configuration before its first sample, fitted once a process."""
    return from_state(_fitted(name))


@dataclass(frozen=True)
class Case:
    """A stream, feedback by sample number, and where each way is cut."""

    name: str
    values: NDArray[np.float64]
    times: NDArray[np.datetime64] | None
    acts: dict[int, str]
    cuts: dict[str, tuple[int, ...]]


def case_of(seed: int, index: int, names: Sequence[str] = ()) -> Case:
    """Return a case, of these configurations or of all; the same for the same numbers."""
    random = Random(f"{seed} {index}")
    name = random.choice(sorted(names or CONFIGURATIONS))
    length = random.choice([1, 2, 7, 40, 120, 200, 320])
    values = series(CONFIGURATIONS[name][0], length, 1000 + random.randrange(5))
    channels = values.shape[1]
    if random.random() < 0.3:
        values = nasty_series(random.choice(sorted(NASTY)), length, channels)
    for _ in range(random.randrange(5)):
        at, until = sorted(random.randrange(length + 1) for _ in range(2))
        channel = random.randrange(channels)
        what = random.choice(
            ["shift", "ramp", "stuck", "missing", "gone", "spike", "absurd", "overflowing"]
        )
        if what == "shift":
            values[at : random.choice([until, length]), channel] += random.choice([-6.0, 4.0, 9.0])
        elif what == "ramp":
            values[at:, channel] += np.arange(length - at) * 0.1
        elif what == "stuck" and at < length:
            values[at:until, channel] = values[at, channel]
        elif what == "missing":
            values[at:until, channel] = np.nan
        elif what == "gone":
            values[at:until] = np.nan
        elif what == "spike" and at < length:
            values[at] += 8.0
        elif what == "absurd" and at < length:
            values[at, channel] = random.choice([1e6, -1e9, 1e15, 1e-310, 0.0])
        elif what == "overflowing":  # what a broken sensor or counter reports, for a while
            size = random.choice([9_999_999.0, 2.0**32 - 1, 10 ** random.uniform(5, 300)])
            values[at:until, channel] = random.choice([-1, 1]) * size
    times = None
    if random.random() < 0.5:
        steps = [random.choice([1, 1, 1, 2, 30]) for _ in range(length)]
        times = _FIRST + _MINUTE * np.cumsum(steps)
    acts = {
        random.randrange(length + 1): random.choice(["accept", "reject", "undo", "events"])
        for _ in range(random.choice([0, 0, 1, 2, 4]))
    }
    if length >= 200 and random.random() < 0.6:  # a change that a person decides, and takes back
        values[40 : random.choice([130, length]), 0] += 9.0
        acts |= {80: random.choice(["accept", "reject"]), 200: "undo"}
    cuts = {
        way: tuple(sorted(random.randrange(length + 1) for _ in range(random.choice([1, 2, 4]))))
        for way in WAYS
    }
    for cut in {at for way in WAYS for at in cuts[way] if random.random() < 0.4}:  # a channel hides
        values[max(0, cut - random.randrange(1, 30)) : cut + 9, random.randrange(channels)] += 9.0
    return Case(name, values, times, acts, cuts)


# ------------------------------------------------------------------ the ways

Change = Callable[[BaseDetector], BaseDetector]


def _loaded(detector: BaseDetector) -> BaseDetector:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plant.nn"
        detector.save(path)
        return newnormal.load(path)


def _pickled(detector: BaseDetector) -> BaseDetector:
    again: BaseDetector = pickle.loads(pickle.dumps(detector))
    return again


WAYS: dict[str, Change | None] = {
    "run": None,
    "step": None,
    "pieces": None,
    "saved and loaded": _loaded,
    "pickled": _pickled,
    "copied": copy.deepcopy,
}


def followed(
    case: Case, way: str, detector: BaseDetector, change: Change | None = None
) -> dict[str, Any]:
    """Follow the stream one way; return every column, the events, and the state at the end.

    `change` is done to the detector at each of the way's cuts, instead of what belongs to the way.
    """
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    events: list[str] = []
    length = len(case.values)
    own = () if way in ("run", "step") else case.cuts[way]
    change = change or WAYS[way]
    begin = 0
    for end in sorted({*case.acts, *own, length}):
        last = end == length
        part = case.values[begin:end]
        times = None if case.times is None else case.times[begin:end]
        if way == "step":
            for at in range(begin, end):
                time = None if case.times is None else case.times[at]
                _add_verdicts(rows, detector.step(case.values[at], time))
        else:
            found = detector.run(part, times, flush=False)
            if found.late is not None:
                _add(rows, found.late, len(found.late))
            _add(rows, found, max(0, len(found) - detector.counters["pending"]))
        if end in case.acts:
            events += _act(detector, case.acts[end])
        if change is not None and end in own:
            detector = change(detector)
        begin = end
        if last:
            _add_verdicts(rows, detector.flush())
            detector = change(detector) if change is not None else detector
    events += [event.to_json() for event in detector.take_events()]
    columns = {name: np.array(values) for name, values in rows.items()}
    return {**columns, "events": events, **_state(detector)}


def _act(detector: BaseDetector, what: str) -> list[str]:
    """Give feedback; return the events so far, and whether it was refused."""
    if what != "events":
        try:
            getattr(detector, what)()
        except FeedbackError as error:
            return [f"{what}: {error.message}"]
        return []
    return [event.to_json() for event in detector.take_events()]


def _state(detector: BaseDetector) -> dict[str, Any]:
    state = detector.to_state()
    facts = {f"state {name}": canonical(value) for name, value in state.facts.items()}
    return facts | {f"tensor {name}": array for name, array in state.tensors.items()}


def _add(rows: dict[str, list[Any]], verdicts: Any, final: int) -> None:
    _add_verdicts(rows, [verdicts[row] for row in range(final)])


def _add_verdicts(rows: dict[str, list[Any]], verdicts: list[Any]) -> None:
    for verdict in verdicts:
        for name in COLUMNS:
            wide = getattr(verdict._columns, name, None)  # of channels
            value = getattr(verdict, name, None if wide is None else wide[verdict._row])
            if value is None:
                value = np.datetime64("NaT", "ns") if name == "time" else np.nan
            rows[name].append(value)


def difference(name: str, ref: Any, comp: Any) -> str:
    """Return which column and which sample differ first; nothing where the bits are equal."""
    if isinstance(ref, str | list):
        if ref == comp:
            return ""
        if isinstance(ref, list):
            pairs = enumerate(zip(ref, comp, strict=False))
            at = next((number for number, (one, two) in pairs if one != two), -1)
            if at < 0:
                return f"{name}: expected {len(ref)}, found {len(comp)}"
            return f"{name} {at}: expected {ref[at]}\n    found {comp[at]}"
        return f"{name}: expected {ref[:300]}\n    found {comp[:300]}"
    ref, comp = np.asarray(ref), np.asarray(comp)
    if ref.shape != comp.shape or ref.dtype != comp.dtype:
        return f"{name}: expected {ref.dtype} {ref.shape}, found {comp.dtype} {comp.shape}"
    if ref.tobytes() == comp.tobytes():
        return ""
    width = ref.dtype.itemsize * max(1, ref.size // max(1, len(ref) if ref.ndim else 1))
    one = np.frombuffer(ref.tobytes(), np.uint8).reshape(-1, width)
    two = np.frombuffer(comp.tobytes(), np.uint8).reshape(-1, width)
    at = int(np.flatnonzero((one != two).any(axis=1))[0])
    ref, comp = np.atleast_1d(ref), np.atleast_1d(comp)
    return f"{name}: row {at}: expected {ref[at]!r}, found {comp[at]!r}"


@contextmanager
def quiet() -> Iterator[None]:
    """Keep back what is told of streams too short to judge, and of learning that diverges."""
    log = logging.getLogger("newnormal")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NewnormalWarning)
            yield
    finally:
        log.setLevel(level)


def compared(seed: int, index: int, repeats: int) -> list[str]:
    """Follow a case all ways, several times over; return what differed."""
    case = case_of(seed, index)
    rng = np.random.default_rng([seed, index])
    ref = None
    found = []
    with quiet():
        for repeat in range(repeats):
            for way in WAYS:
                # Arrays of other sizes in between, so that memory is not used in the same order.
                between = [np.full(int(size), np.nan) for size in rng.integers(1, 2000, 5)]
                try:
                    comp = followed(case, way, fresh(case.name))
                except Exception as error:  # noqa: BLE001 - told with its case
                    found.append(f"case {index} ({case.name}), {way}, repeat {repeat}: {error!r}")
                    continue
                finally:
                    del between
                ref = ref or comp
                if set(ref) != set(comp):
                    found.append(f"{way}: not the same entries: {sorted(set(ref) ^ set(comp))}")
                found += [
                    f"case {index} ({case.name}), {way}, repeat {repeat}: {text}"
                    for name in ref
                    if name in comp and (text := difference(name, ref[name], comp[name]))
                ]
            if found:
                break
    if found:
        found.append(f"repeat: python -m tests.fuzz.paths {seed} {index} {repeats}")
    return found


if __name__ == "__main__":
    seed, index, *rest = map(int, sys.argv[1:])
    print("\n".join(compared(seed, index, rest[0] if rest else 10)) or "equal")
