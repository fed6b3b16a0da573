"""Fitting many streams: the same bits wherever they are fitted, and errors by name."""

import os
import signal
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import M2N2, Detector, Fixed, Quantile
from newnormal.base import BaseDetector
from newnormal.core.state import arrays
from newnormal.errors import InputError, NewnormalError, NewnormalWarning, ParameterError
from newnormal.fleet import fitting, processors
from newnormal.fleet.fitting import (
    FitTasks,
    Outcome,
    Pool,
    Progress,
    answer_of,
    as_job,
    can_be_sent,
    fit_job,
    fit_streams,
    outcome_of,
)
from newnormal.models.mlp import MLP
from newnormal.tabular import Table, to_table
from newnormal.types import Floats
from tests.processes import python

QUICK: dict[str, Any] = {"epochs": 1, "window": 5}


def series(samples: int, channels: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    wave = np.sin(np.arange(samples) / 9)[:, None]
    return np.asarray(wave + rng.normal(0, 0.1, (samples, channels)))


def history(seed: int, channels: int = 2) -> Table:
    times = np.datetime64("2026-01-01", "ns") + np.arange(400) * np.timedelta64(1, "m")
    names = tuple(f"c{at}" for at in range(channels))
    return Table(series(400, channels, seed), names, times, zone="Europe/Berlin")


def assert_same(one: BaseDetector, other: BaseDetector) -> None:
    """Assert that two fitted detectors are equal bit for bit, and so are their next verdicts."""
    ref, comp = one.to_state(), other.to_state()
    assert ref.facts == comp.facts
    assert set(ref.tensors) == set(comp.tensors)
    for name, array in ref.tensors.items():
        assert array.dtype == comp.tensors[name].dtype, name
        assert array.tobytes() == comp.tensors[name].tobytes(), name
    for array, twin in zip(arrays(one._state), arrays(other._state), strict=True):
        assert array.tobytes() == twin.tobytes()
    assert one._scores is not None and other._scores is not None
    assert one._scores.ordered.tobytes() == other._scores.ordered.tobytes()
    assert one._scores.for_rule.tobytes() == other._scores.for_rule.tobytes()
    assert one.get_params() == other.get_params()
    live = series(60, len(one.channels_), 99)
    live[40] += 3
    twins = [each.with_options(threshold=0.9, risk=None) for each in (one, other)]
    for ours, theirs in ((one, other), twins):
        a, b = ours.run(live), theirs.run(live)
        assert a.scores.tobytes() == b.scores.tobytes()
        assert a.thresholds.tobytes() == b.thresholds.tobytes()
        assert [each.as_dict() for each in ours.take_events()] == [
            each.as_dict() for each in theirs.take_events()
        ]


def fitted(found: BaseDetector | Exception) -> BaseDetector:
    assert isinstance(found, BaseDetector), found
    return found


DETECTORS: dict[str, BaseDetector] = {
    "auto": Detector(epochs=1, accept_after=timedelta(hours=3)),
    "risk": Detector(epochs=1, risk=0.01),
    "fixed": Detector(epochs=1, threshold=Fixed(2.0)),
    "paper": M2N2(**QUICK, half_life="2h", threshold=Quantile(0.95)),
    "pca": M2N2(**QUICK, model="pca", adapt=False, accept_after=100),
}


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_a_detector_comes_through_messages_bit_for_bit(name: str) -> None:
    detector = DETECTORS[name]
    assert can_be_sent(detector)
    table = history(3)
    outcome = outcome_of(answer_of(fit_job(as_job(detector, table))), detector)
    here = type(detector)(**detector.get_params()).fit(table)
    assert_same(fitted(outcome.result), here)


def test_processes_fit_the_same_bits() -> None:
    histories = {name: history(at) for at, name in enumerate(DETECTORS)}
    names = deque(DETECTORS)
    running = Pool(2, FitTasks(DETECTORS, histories), names)
    found = dict(running.results.get() for _ in DETECTORS)
    running.close()
    assert not names
    for name, detector in DETECTORS.items():
        here = type(detector)(**detector.get_params()).fit(histories[name])
        assert_same(fitted(found[name].result), here)


# ------------------------------------------------------------------ what fails


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_stream_is_an_error_by_name_and_the_others_go_on(workers: int) -> None:
    histories = {"good": history(0), "short": to_table(np.zeros((3, 2))), "fine": history(1)}
    detectors = dict.fromkeys(histories, M2N2(**QUICK))
    found = dict(fit_streams(detectors, histories, workers=workers))
    assert isinstance(found["short"], InputError)
    assert "expected" in found["short"].message
    assert isinstance(found["good"], M2N2) and isinstance(found["fine"], M2N2)


class Lazy(Mapping[str, Table]):
    """Histories that are read when they are asked for."""

    def __init__(self, names: list[str], error: Exception) -> None:
        self.names, self.error = names, error
        self.read: list[str] = []

    def __getitem__(self, name: str) -> Table:
        self.read.append(name)
        if name == "broken":
            raise self.error
        return history(0)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@pytest.mark.parametrize(
    ("error", "text"),
    [(InputError("no such file"), "no such file"), (KeyError("x"), "found KeyError: 'x'")],
)
def test_an_unreadable_history_is_an_error_of_its_stream(error: Exception, text: str) -> None:
    histories = Lazy(["a", "broken", "b"], error)
    detectors = dict.fromkeys(histories.names, M2N2(**QUICK))
    found = dict(fit_streams(detectors, histories, workers=1))
    assert isinstance(found["broken"], NewnormalError)
    assert text in str(found["broken"])
    assert histories.read == ["a", "broken", "b"]
    assert isinstance(found["b"], M2N2)


class Failing(MLP):
    """A model of the user's, with a mistake in it."""

    def fit(self, *args: Any, **options: Any) -> Any:
        raise ZeroDivisionError("division by zero")


def test_a_mistake_in_a_users_model_is_an_error_of_its_stream() -> None:
    detectors = {"a": M2N2(**QUICK, model=Failing), "b": M2N2(**QUICK)}
    assert not can_be_sent(detectors["a"])
    found = dict(fit_streams(detectors, {"a": history(0), "b": history(1)}, workers=1))
    assert str(found["a"]) == (
        "expected this stream to be fitted, found ZeroDivisionError: division by zero\n"
        "hint: fit this stream alone to see where it comes from"
    )
    assert isinstance(found["b"], M2N2)


FATAL = """
import os, signal
from newnormal.fleet import fitting as jobs
fit_job = jobs.fit_job
def fatal(job):
    if job.facts["options"]["seed"] == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return fit_job(job)
jobs.fit_job = fatal
jobs.main()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_processes_that_die_or_cannot_start_fail_their_streams_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fitting, "_PROGRAM", FATAL)
    seeds = {"a": 0, "fatal": 13, "b": 1}
    detectors = {name: M2N2(**QUICK, seed=seed) for name, seed in seeds.items()}
    running = Pool(1, FitTasks(detectors, dict.fromkeys(seeds, history(0))), deque(seeds))
    found: dict[str, Outcome] = dict(running.results.get() for _ in seeds)
    running.close()
    assert str(found["fatal"].result) == (
        "expected this stream to be fitted, found that its process ended by SIGKILL\n"
        "hint: memory may have run out: pass fewer workers, or less history"
    )
    assert isinstance(found["a"].result, M2N2) and isinstance(found["b"].result, M2N2)
    monkeypatch.setattr(fitting, "_PROGRAM", "raise SystemExit(7)")
    running = Pool(1, FitTasks({"a": M2N2()}, {"a": history(0)}), deque("a"))
    name, outcome = running.results.get()
    running.close()
    assert name == "a"
    assert "its process ended with status 7" in str(outcome.result)


WAITING = "import sys; sys.stdout.write('x' * 3); sys.stdout.flush(); sys.stdin.read()"


def test_closing_ends_processes_in_the_middle_of_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_PROGRAM", WAITING)
    detectors = dict.fromkeys(("a", "b", "c"), M2N2(**QUICK))
    running = fit_streams(detectors, dict.fromkeys(detectors, history(0)), workers=2)
    next(running)  # the one fitted here; the other process never answers
    running.close()  # type: ignore[attr-defined]
    assert list(running) == []


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\n"
        "from newnormal import M2N2\n"
        "from newnormal.fleet.fitting import fit_streams\n"
        "from newnormal.tabular import to_table\n"
        "print('once')\n"
        "rng = np.random.default_rng(0)\n"
        "histories = {name: to_table(rng.normal(size=(200, 2))) for name in 'abc'}\n"
        "detectors = dict.fromkeys(histories, M2N2(epochs=1))\n"
        "print(*sorted(name for name, _ in fit_streams(detectors, histories, workers=2)))\n"
    )
    source = str(Path(newnormal.__file__).parents[1])
    done = python(script, env=os.environ | {"PYTHONPATH": source})
    assert done.stderr == ""
    assert done.stdout == "once\na b c\n"


# ------------------------------------------------------------------ progress, warnings, workers


def test_progress_is_reported_at_the_start_and_with_each_stream() -> None:
    seen: list[Progress] = []
    histories = {"a": history(0), "short": to_table(np.zeros((3, 2))), "b": history(1)}
    detectors = dict.fromkeys(histories, M2N2(**QUICK))
    list(fit_streams(detectors, histories, workers=1, on_progress=seen.append))
    assert [(each.done, each.total, each.failed) for each in seen] == [
        (0, 3, 0),
        (1, 3, 0),
        (2, 3, 1),
        (3, 3, 1),
    ]
    assert seen[0].seconds_left is None
    assert seen[1].seconds_left is not None and seen[1].seconds_left > 0
    assert seen[3].seconds_left == 0


def test_warnings_name_the_stream() -> None:
    table = history(0)
    table.values[7, 1] = 1e9
    detector = Detector(epochs=1)
    outcome = outcome_of(answer_of(fit_job(as_job(detector, table))), detector)
    assert outcome.warned[0][0] is NewnormalWarning
    with pytest.warns(NewnormalWarning) as caught:
        list(fit_streams({"web-1": detector}, {"web-1": table}))
    texts = [str(each.message) for each in caught]
    assert texts == [f"{text} (stream web-1)" for _, text in outcome.warned]
    assert all(each.filename == __file__ for each in caught)


@pytest.mark.parametrize(("streams", "seconds", "pooled"), [(3, 9, 0), (5, 0.1, 0), (5, 9, 3)])
def test_without_workers_the_first_stream_decides(
    streams: int, seconds: float, pooled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(np.arange(1000) * seconds)
    counts: list[int] = []

    class Counted(Pool):
        def __init__(self, count: int, *args: Any) -> None:
            counts.append(count)
            super().__init__(0, *args)

    monkeypatch.setattr(fitting, "cores", lambda: 4)
    monkeypatch.setattr(fitting, "Pool", Counted)
    monkeypatch.setattr("newnormal.fleet.fitting.time.perf_counter", lambda: next(clock))
    histories = {f"s{at}": history(0) for at in range(streams)}
    detectors = dict.fromkeys(histories, M2N2(**QUICK))
    assert [name for name, _ in fit_streams(detectors, histories)] == list(histories)
    assert counts == [pooled]


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_workers_are_a_whole_number(workers: Any) -> None:
    with pytest.raises(ParameterError, match="workers: expected a whole number of at least 1"):
        fit_streams({}, {}, workers=workers)


def test_a_stream_without_history_is_an_error_before_anything_is_fitted() -> None:
    with pytest.raises(InputError, match="expected a history for each stream, found none for 'b'"):
        fit_streams({"a": M2N2(), "b": M2N2()}, {"a": history(0)})


def test_what_is_known_here_alone_is_fitted_here() -> None:
    class Mine(Detector):
        pass

    class Rule:
        def fit(self, scores: Floats) -> float:
            return 1.0

    BaseDetector.kinds["detector"] = Detector
    assert not can_be_sent(Mine())
    assert not can_be_sent(Detector(threshold=Rule()))
    assert not can_be_sent(M2N2(model=MLP))
    assert not can_be_sent(M2N2(model="newnormal.models.mlp:MLP"))


def test_there_is_a_processor() -> None:
    assert 1 <= processors.cores() <= (os.cpu_count() or 1)


def test_a_signal_without_a_name_has_its_number() -> None:
    assert "ended by signal 250" in str(fitting.died(-250))
    assert f"ended by {signal.Signals(11).name}" in str(fitting.died(-11))
