"""How things are timed: in turns, many times, by the processor time they take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Task:
    """Something to time: `work` is given what `prepare` returned, and only `work` is timed."""

    prepare: Callable[[], Any]
    work: Callable[[Any], object]
    units: int = 1  # of work in one go: windows, samples


@dataclass(frozen=True)
class Times:
    """Seconds for a unit of work, one value a round."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The least disturbed round."""
        return min(self.rounds)

    def times_faster_than(self, other: Times) -> float:
        """How many times faster than `other`: the ratio of the best rounds."""
        return other.best / self.best

    def typically_faster_than(self, other: Times) -> float:
        """Return the median of the ratios within each round."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return median(theirs / ours for ours, theirs in pairs)


def in_turns(rounds: int, *tasks: Task) -> list[Times]:
    """Time the tasks one after the other, `rounds` times, and return each one's times.

    In turns, because a shared machine's speed drifts by more than what is to be told apart: tasks
    of one round meet the same machine. Processor time, because it leaves out what other programs
    take; with one thread and no waiting it is otherwise the wall clock's.
    """
    seconds: list[list[float]] = [[] for _ in tasks]
    for task in tasks:  # compiles what there is to compile, and fills the caches
        task.work(task.prepare())
    for _ in range(rounds):
        for task, taken in zip(tasks, seconds, strict=True):
            prepared = task.prepare()
            start = time.process_time()
            task.work(prepared)
            taken.append((time.process_time() - start) / task.units)
    return [Times(tuple(taken)) for taken in seconds]
