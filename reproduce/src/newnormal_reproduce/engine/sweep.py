"""Many tasks, one after the other or in several processes, with progress."""

import io
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from typing import Generic, TypeAlias, TypeVar

# (done, in all, what was just done)
Progress: TypeAlias = Callable[[int, int, str], None]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Failure(Generic[_Task]):
    """A task that raised an error: it becomes a line that states the error, never a number."""

    task: _Task
    error: str


def sweep(
    work: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    *,
    processes: int = 1,
    on_done: Callable[[_Task], None] | None = None,
) -> list[_Result | Failure[_Task]]:
    """Return the result of `work` for each task, in the tasks' order.

    A task that raises an error becomes a `Failure`, and the others continue. With more than one
    process, `work` and the tasks must be picklable, and a script that calls this needs the usual
    ``if __name__ == "__main__":``.

    >>> sweep("{:.1f}".format, [1, "x"])
    ['1.0', Failure(task='x', error="ValueError: Unknown format code 'f' for object of type 'str'")]
    """
    results: dict[int, _Result | Failure[_Task]] = {}

    def done(number: int, result: _Result | Failure[_Task]) -> None:
        results[number] = result
        if on_done is not None:
            on_done(tasks[number])

    attempt = partial(_attempt, work)
    if processes <= 1 or not tasks:
        for number, task in enumerate(tasks):
            done(number, attempt(task))
    else:
        # Not fork: threads of BLAS and of compiled code do not survive it.
        pool = ProcessPoolExecutor(
            min(processes, len(tasks)),
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_prepare_worker,
        )
        try:
            numbers = {pool.submit(attempt, task): number for number, task in enumerate(tasks)}
            for future in as_completed(numbers):
                done(numbers[future], future.result())
        finally:
            pool.shutdown(cancel_futures=True)
    return [results[number] for number in range(len(tasks))]


def sweep_all(
    work: Callable[[_Task], _Result],
    tasks: Sequence[_Task],
    *,
    processes: int = 1,
    progress: Progress | None = None,
) -> tuple[list[_Result], dict[str, str]]:
    """Return the results of the tasks that had one, and the errors of the others."""
    done = 0

    def on_done(task: _Task) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(tasks), str(task))

    found, failures = list[_Result](), dict[str, str]()
    for result in sweep(work, tasks, processes=processes, on_done=on_done):
        if isinstance(result, Failure):
            failures[str(result.task)] = result.error
        else:
            found.append(result)
    return found, failures


def _attempt(work: Callable[[_Task], _Result], task: _Task) -> _Result | Failure[_Task]:
    try:
        return work(task)
    except Exception as error:  # noqa: BLE001 - one failed run must not lose the others
        return Failure(task, f"{type(error).__name__}: {error}")


def _prepare_worker() -> None:
    """Use one thread, write nothing to the terminal, and end with the parent process."""
    sys.stderr = io.StringIO()  # warnings of a worker would break the parent's progress bar
    _one_thread()
    threading.Thread(target=_follow_parent, daemon=True).start()


def _one_thread() -> None:
    """Use one thread: two never help models this small, and take a core from another process."""
    os.environ["OMP_NUM_THREADS"] = "1"  # PyTorch reads it when it is first imported
    with suppress(ImportError):  # it comes with scikit-learn; without it BLAS is slower, not wrong
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        threadpool_limits(1)


def _follow_parent() -> None:
    """End this process when the one that started it has ended."""
    if (parent := multiprocessing.parent_process()) is not None:
        wait([parent.sentinel])
        os._exit(1)
