"""The first start: what is compiled ahead, by whom, and what is said."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import event

import newnormal
from newnormal.cli import bars
from newnormal.cli.console import announce_compiling
from newnormal.runtime import first_start
from newnormal.runtime.first_start import compile_all, missing, processes
from newnormal.runtime.kernel_jobs import FIT, SERVE, WATCH, Job, jobs_of
from tests.processes import python

# With all code in the cache, what is loaded is what was called by Python or by address.
_CALLED = """
import sys, warnings
import numpy as np
from numba.core.registry import CPUDispatcher
import gc, newnormal
from newnormal.runtime.kernel_jobs import jobs_of
rng = np.random.default_rng(0)
warnings.simplefilter("ignore")
detector = newnormal.Detector(epochs=1)
if sys.argv[1] == "fit":
    detector.fit(rng.normal(size=(4000, 2)))
elif sys.argv[1] == "serve":  # changes that are accepted, and an alarm that is
    values = rng.normal(size=(1200, 2))
    values[100:] += 20.0
    values[600:, 0] += 50.0
    times = np.datetime64("2026-01-01", "ns") + np.arange(len(values)) * np.timedelta64(60, "s")
    tables = [
        newnormal.tabular.Table(values[part], ("a", "b"), times[part])
        for part in (slice(0, 60), slice(60, 610), slice(610, None))
    ]
    fleet = newnormal.Fleet()
    fleet.add("noise", newnormal.Detector(epochs=1, accept_after=30).fit(tables[0]))
    events = fleet.run({"noise": tables[1]}).events
    fleet.accept("noise", max(each.event.alarm.number for each in events if each.event.alarm))
    fleet.run({"noise": tables[2]})
else:
    detector = newnormal.load(sys.argv[2])
    values = rng.normal(size=(1500, 2))
    values[500] += 20.0  # a fault
    detector.run(values)
    detector.alarm_threshold_
jobs = {(job.name, job.types) for job in jobs_of(sys.argv[1])}
called = {
    (each.py_func.__module__.removeprefix("newnormal.kernels.") + "." + each.__name__, types)
    for each in gc.get_objects()
    if isinstance(each, CPUDispatcher) and each.py_func.__module__.startswith("newnormal.kernels")
    for types in each.signatures
}
print("not foreseen", sorted(name for name, _ in called - jobs))
print("not needed", sorted(name for name, _ in jobs - called))
"""


class Kernel:
    """Counts how often it is compiled."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.compiled = 0
        self.error = error

    def compile(self, types: tuple[Any, ...]) -> None:
        del types
        if self.error is not None:
            raise self.error
        self.compiled += 1


def some_jobs(count: int, error: BaseException | None = None) -> list[Job]:
    return [Job(f"kernel{at}", Kernel(error), (), float(count - at)) for at in range(count)]


def compiled_here(jobs: list[Job]) -> list[int]:
    return [job.kernel.compiled for job in jobs]


# ------------------------------------------------------------------ what


@pytest.mark.parametrize("command", [FIT, WATCH, SERVE])
def test_jobs_have_names_of_their_own_and_the_longest_comes_first(command: str) -> None:
    jobs = jobs_of(command)
    assert len({job.name for job in jobs}) == len(jobs)
    assert [job.seconds for job in jobs] == sorted((job.seconds for job in jobs), reverse=True)


def test_what_is_compiled_ahead_is_what_the_commands_call(tmp_path: Path) -> None:
    path = tmp_path / "plant.nn"
    rng = np.random.default_rng(1)
    newnormal.Detector(epochs=1).fit(rng.normal(size=(4000, 2))).save(path)
    # Whether a committee learns while it watches, and joint scores stay high, depends on history.
    learning, lasting = ["mlp.descend", "step._guard"], ["alarm._median"]
    seldom: list[list[str]] = [[], learning, lasting, lasting + learning]
    spare = {FIT: seldom[:1], WATCH: seldom, SERVE: seldom}
    for command in (FIT, WATCH, SERVE):
        program = [sys.executable, "-c", _CALLED, command, str(path)]
        subprocess.run(program, capture_output=True, check=True)  # what it compiles is kept
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        foreseen, needed = done.stdout.splitlines()
        assert foreseen == "not foreseen []"
        assert needed in [f"not needed {some}" for some in spare[command]]


def test_nothing_is_missing_once_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = next(job for job in jobs_of(FIT) if job.name == "alarm.threshold_at")
    job.run()
    assert job.is_kept
    assert not job._replace(types=job.types[:2]).is_kept
    monkeypatch.setattr(first_start, "jobs_of", lambda command: [job])
    assert missing(FIT) == []


def test_without_cache_or_numba_nothing_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_start, "jobs_of", lambda command: some_jobs(2))  # without a cache
    assert missing(FIT) == []


# ------------------------------------------------------------------ by whom


def test_one_process_compiles_all_in_order_and_reports_the_share() -> None:
    jobs, seen = some_jobs(3), []
    compile_all(jobs, FIT, 1, lambda name, share: seen.append((name, round(share, 3))))
    assert seen == [("kernel0", 0.5), ("kernel1", 0.833), ("kernel2", 1.0)]
    assert compiled_here(jobs) == [1, 1, 1]


def test_other_processes_take_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    echo = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"
    monkeypatch.setattr(first_start, "_PROGRAM", echo)
    jobs, seen = some_jobs(50), []
    compile_all(jobs, FIT, 3, lambda name, share: seen.append((name, share)))
    assert {name for name, _ in seen} == {job.name for job in jobs}
    assert len(seen) == 50
    assert seen[-1][1] == pytest.approx(1.0)


@pytest.mark.parametrize("program", ["raise SystemExit(1)", "print('another')"])
def test_it_compiles_what_others_left(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_start, "_PROGRAM", program)
    jobs, seen = some_jobs(6), []
    compile_all(jobs, FIT, 2, lambda name, share: seen.append(name))
    assert compiled_here(jobs) == [1] * 6
    assert sorted(seen) == [job.name for job in jobs]


def test_where_no_python_starts_it_compiles_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(Path("no") / "python"))
    jobs = some_jobs(4)
    compile_all(jobs, FIT, 2)
    assert compiled_here(jobs) == [1] * 4


def test_an_interrupt_ends_the_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    real = first_start._started

    def remember(command: str) -> Any:
        started.append(real(command))
        return started[-1]

    monkeypatch.setattr(first_start, "_PROGRAM", "import sys; sys.stdin.read()")  # never answers
    monkeypatch.setattr(first_start, "_started", remember)
    with pytest.raises(KeyboardInterrupt):
        compile_all(some_jobs(4, KeyboardInterrupt()), FIT, 2)
    assert len(started) == 1
    assert started[0].poll() is not None


def test_once_it_is_stopped_no_other_kernel_is_begun_nor_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs, seen = some_jobs(4), []
    compile_all(jobs, FIT, 1, lambda name, share: seen.append(name), lambda: len(seen) == 2)
    assert compiled_here(jobs) == [1, 1, 0, 0]
    monkeypatch.setattr(first_start, "_PROGRAM", "import sys; sys.stdin.read()")  # never answers
    jobs, seen = some_jobs(4), []
    compile_all(jobs, FIT, 2, lambda name, share: seen.append(name), lambda: len(seen) == 3)
    assert sum(compiled_here(jobs)) == 3


def test_a_process_compiles_the_kernels_that_it_is_given(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    program = ("-c", first_start._PROGRAM, FIT)
    done = python(*program, input="alarm.threshold_at\n", env=environment, check=True)
    assert done.stdout == "alarm.threshold_at\n"
    assert list(tmp_path.rglob("alarm.threshold_at*.nbc"))


def test_the_collector_is_as_it_was_afterwards() -> None:
    before, during = gc.get_threshold(), []
    jobs = some_jobs(1)
    jobs[0].kernel.compile = lambda types: during.append(gc.get_threshold())
    compile_all(jobs, FIT)
    assert during[0][0] > 10 * before[0]
    assert gc.get_threshold() == before


def test_how_many_processes_compile_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(first_start.PROCESSES, "3")
    assert processes() == 3
    monkeypatch.setenv(first_start.PROCESSES, "0")
    assert processes() == 1
    for text in ("", "many"):
        monkeypatch.setenv(first_start.PROCESSES, text)
        assert 1 <= processes() <= 4


# ------------------------------------------------------------------ what is said


def test_one_line_says_that_it_compiles_and_for_how_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = some_jobs(5)
    monkeypatch.setattr(first_start, "missing", lambda command: jobs)
    bars.compile_first(FIT)
    assert capsys.readouterr().err == "compiling for this machine, once: about 15 s ...\n"
    assert compiled_here(jobs) == [1] * 5


def test_what_is_compiled_on_the_way_is_announced_once_and_not_after_the_line_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_start, "missing", lambda command: some_jobs(1))
    announcer = announce_compiling()
    monkeypatch.setattr(announcer, "said", False)
    assert announce_compiling() is announcer
    start: Any = event.start_event
    for _ in range(2):
        start("numba:compile")
    text = "compiling for this machine, once; this takes a few seconds ...\n"
    assert capsys.readouterr().err == text
    monkeypatch.setattr(announcer, "said", False)
    bars.compile_first(FIT)
    start("numba:compile")
    assert capsys.readouterr().err.count("compiling for this machine") == 1


def test_others_learn_the_share_and_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []
    monkeypatch.setattr(first_start, "missing", lambda command: some_jobs(2))
    monkeypatch.setenv(first_start.PROCESSES, "1")
    bars.compile_first(SERVE, lambda share, seconds: seen.append((round(share, 2), seconds)))
    assert seen == [(0.0, 3.0), (0.67, 3.0), (1.0, 3.0)]


def test_with_all_in_the_cache_nothing_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_start, "missing", lambda command: [])
    monkeypatch.setattr(bars, "announce_compiling", lambda: None)
    bars.compile_first(WATCH)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with bars.progress("compiling") as nothing:
        assert nothing is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    jobs = some_jobs(2)
    monkeypatch.setattr(first_start, "missing", lambda command: jobs)
    bars.compile_first(FIT)
    assert "100%" in capsys.readouterr().err
