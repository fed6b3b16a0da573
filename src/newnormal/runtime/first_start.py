"""The first start after an install: compile what a command needs, on all processors, and keep it.

Numba compiles a kernel when it is first called, one after the other, and keeps it in its cache.
Here the kernels that a command will call are compiled before, the longest first, by this process
and by others that write to the same cache. Where all are in the cache this takes milliseconds.
Where there is no cache, kernels are compiled when they are called, and where another process fails,
this one compiles what it was to compile.
"""

import gc
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from newnormal.runtime.kernel_jobs import Job, jobs_of

PROCESSES = "NEWNORMAL_COMPILERS"  # how many processes compile
_MOST = 4  # kernels that take long
_PROGRAM = "from newnormal.runtime.first_start import main; main()"
# New objects between two collections, which look at all that a compilation holds and find nothing
# to free: with Python's own number, 700, they take a sixth of the time.
_OBJECTS = 100_000

OnCompiled = Callable[[str, float], None]  # a kernel that is compiled, and the share that is done


def missing(command: str) -> list[Job]:
    """Return the kernels that a command needs and that are not in the cache, the longest first.

    None, where there is no cache or Numba is switched off.
    """
    try:
        return [job for job in jobs_of(command) if not job.is_kept]
    except AttributeError:  # no dispatchers, or a cache that is not Numba's usual one
        return []


def processes() -> int:
    """Return how many processes are to compile: one for each processor, or as PROCESSES states."""
    from newnormal.fleet.processors import cores  # only here: it brings all of a fleet along

    with suppress(ValueError):
        return max(1, int(os.environ.get(PROCESSES, "")))
    return min(cores(), _MOST)


def compile_all(
    jobs: Sequence[Job],
    command: str,
    count: int = 1,
    on_compiled: OnCompiled | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Compile kernels, so that they are in the cache.

    Parameters
    ----------
    jobs
        What to compile, the longest first.
    command
        The command that they belong to, by which other processes find them.
    count
        How many processes compile, this one among them.
    on_compiled
        Called after each, from this thread alone.
    is_stopped
        Asked now and then; once it is true, no other kernel is begun.
    """
    left, done = deque(jobs), deque[Job]()
    helpers = [_Helper(command, left, done) for _ in range(min(count, len(jobs)) - 1)]
    total, share = sum(job.seconds for job in jobs), 0.0

    def report() -> None:
        nonlocal share
        while done:
            job = done.popleft()
            share += job.seconds / total
            if on_compiled is not None:
                on_compiled(job.name, min(share, 1.0))

    try:
        with _few_collections():
            while left and not is_stopped():
                with suppress(IndexError):  # another one took the last
                    job = left.popleft()
                    job.run()
                    done.append(job)
                    report()
            for helper in helpers:
                helper.join(is_stopped)
                report()
            for helper in helpers:
                for job in () if is_stopped() else helper.failed:
                    job.run()
                    done.append(job)
                    report()
    finally:
        for helper in helpers:
            helper.close()


class _Helper:
    """Another process that compiles, and the thread that hands it one kernel after the other."""

    def __init__(self, command: str, left: deque[Job], done: deque[Job]) -> None:
        self.failed: list[Job] = []
        self._left, self._done = left, done
        self._process = _started(command)
        self._thread = threading.Thread(target=self._hand_out, daemon=True)
        self._thread.start()

    def _hand_out(self) -> None:
        process = self._process
        while process is not None:
            try:
                job = self._left.popleft()
            except IndexError:
                return
            answer = ""
            with suppress(OSError, ValueError):  # it ended, or was ended
                process.stdin.write(f"{job.name}\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            if answer.strip() != job.name:
                self.failed.append(job)
                return
            self._done.append(job)

    def join(self, is_stopped: Callable[[], bool]) -> None:
        """Wait until it has compiled the last that it was given."""
        while (
            self._thread.is_alive() and not is_stopped()
        ):  # in parts: on Windows, Ctrl-C does not end a long wait
            self._thread.join(0.2)

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()


def _started(command: str) -> Any:
    """Return a new Python that runs `main`; None where there can be none."""
    # A session of its own: an interrupt at the keyboard goes to this process alone, which then
    # ends the others, and Linux gives each session its share of a busy machine.
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    try:
        return subprocess.Popen(  # noqa: S603  (this Python, with a program of our own)
            [sys.executable, "-P", "-c", _PROGRAM, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path, PROCESSES: "1"},
            text=True,
            start_new_session=True,
        )
    except (OSError, TypeError, ValueError):  # no Python to start: sys.executable may be None
        return None


def main() -> None:
    """Compile the kernels whose names come over standard input, and answer with each name."""
    jobs = {job.name: job for job in jobs_of(sys.argv[1])}
    with os.fdopen(os.dup(1), "w") as answers, _few_collections():
        os.dup2(2, 1)  # what a library prints is no answer
        for line in sys.stdin:
            jobs[line.strip()].run()
            answers.write(line)
            answers.flush()


@contextmanager
def _few_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
