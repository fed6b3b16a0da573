"""Obvious faults and a nightly job: what an operator expects of `Detector` without thinking.

Everything is generated: no data are needed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from newnormal import Detector, Event
from newnormal.datasets import Dataset
from newnormal.errors import NewnormalError, ParameterError
from newnormal.metrics import trace_alarms
from newnormal_reproduce.engine.arrays import AnyDetector
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.plan import command
from newnormal_reproduce.engine.published import SEEDS
from newnormal_reproduce.engine.sweep import Progress, sweep_all
from newnormal_reproduce.ours import obvious_cases, obvious_page
from newnormal_reproduce.ours.nightly import DAY, JOB_BEGIN, JOB_END, nightly_job
from newnormal_reproduce.ours.obvious_page import (
    LIMIT,
    FaultExcerpt,
    FaultRun,
    Night,
    ObviousResults,
)
from newnormal_reproduce.ours.watching import watch

NIGHTLY = "nightly"
_SEEDS = SEEDS[:3]
_FOLLOWED = 5  # days after the acceptance in which alarms are counted
_AFTER = 10  # samples after the end of the nightly job, in which an alarm is about it


class _StreamTask(NamedTuple):
    """A stream of a seed: one fit, and a run for each fault."""

    name: str
    seed: int

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class ObviousFaults:
    """The results, and the error of each stream and seed that failed."""

    results: ObviousResults
    failures: dict[str, str]
    command: str  # runs it again

    def markdown(self) -> str:
        """Return the page."""
        return obvious_page.page_of(self.results, self.failures, self.command)

    def csv(self) -> str:
        """Return a line for each run, and one for each failure."""
        measures = dict.fromkeys((*FaultRun._fields, *Night._fields))
        del measures["shown"]
        runs = [run._asdict() for run in self.results.judged]
        runs += [night._asdict() for night in self.results.nights]
        rows = [{"status": "ok", **run} for run in runs]
        failed = self.failures.items()
        rows += [{"status": "failed", "stream": name, "note": why} for name, why in failed]
        return csv_text(["status", *measures, "note"], rows)

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write page, table and picture into a folder, and return their paths."""
        folder = Path(folder)
        texts = {"obvious.md": self.markdown(), "obvious.csv": self.csv()}
        return (*write_texts(folder, texts), *obvious_page.draw(self.results, folder))


def names() -> list[str]:
    """Return the names of all streams.

    >>> names()[0], names()[-1], len(names())
    ('1min/sine-1', 'nightly', 39)
    """
    return [
        f"{rate}/{case.stream}"
        for rate in obvious_cases.RATES
        for case in obvious_cases.cases(rate, faults=[])
    ] + [NIGHTLY]


def obvious_faults(
    datasets: Sequence[str] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    epochs: int | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> ObviousFaults:
    """Run `Detector` with a limit of one alarm a day over every obvious fault.

    Parameters
    ----------
    datasets
        Only these: a rate such as ``"15min"``, a stream such as ``"15min/sine-1"``, or
        ``"nightly"``; None: everything.
    seeds
        Of the data and of the fit, one run each; None: 2021 to 2023.
    epochs
        Of each fit; None: the detector's own number.
    processes
        How many processes to use.
    progress
        Called with how many streams are done, how many there are, and which was done last.
    """
    chosen = _chosen(datasets)
    numbers = _SEEDS if seeds is None else tuple(seeds)
    tasks = [_StreamTask(name, seed) for seed in numbers for name in chosen]
    work = partial(_work, epochs)
    found, failures = sweep_all(work, tasks, processes=processes, progress=progress)
    again = command("obvious", "", datasets=datasets, seeds=None if numbers == _SEEDS else numbers)
    return ObviousFaults(sum(found, ObviousResults()), failures, again)


def _chosen(wanted: Sequence[str] | None) -> list[str]:
    every = names()
    if wanted is None:
        return every
    chosen: list[str] = []
    for text in wanted:
        meant = [name for name in every if name == text or name.startswith(f"{text}/")]
        if not meant:
            raise ParameterError(
                f"datasets: expected a rate, a stream or {NIGHTLY}, found {text!r}",
                hint=f"such as {', '.join(obvious_cases.RATES)}, {every[0]} or {NIGHTLY}",
            )
        chosen += meant
    return list(dict.fromkeys(chosen))


def _work(epochs: int | None, task: _StreamTask) -> ObviousResults:
    if task.name == NIGHTLY:
        variants = ("usual", "noon", "new")
        nights = tuple(_night(variant, task.seed, epochs) for variant in variants)
        return ObviousResults(nights=nights)
    rate, _, stream = task.name.partition("/")
    kind, _, channels = stream.rpartition("-")
    cases = list(obvious_cases.cases(rate, task.seed, kinds=[kind], channels=[int(channels)]))
    detector = Detector(alarms_per_day=LIMIT, seed=task.seed, epochs=epochs)
    detector.fit(cases[0].history, times=cases[0].history_times)
    return ObviousResults(judged=tuple(_judge(rate, task.seed, case, detector) for case in cases))


def _judge(rate: str, seed: int, case: obvious_cases.Case, detector: AnyDetector) -> FaultRun:
    events = watch(detector.reset(), case.live, case.live_times)
    trace = trace_alarms(events, len(case.live))
    counts = trace.count(case.labels, samples_per_day=case.samples_per_day)
    joins = any(
        event.kind == "updated"
        and event.alarm is not None
        and 0 <= event.sample - case.start < case.length
        and str(case.channel) in event.alarm.channels
        for event in events
    )
    shown = None
    if case.fault is not None:
        margin = max(60, case.length)
        first, last = max(case.start - margin, 0), case.start + case.length + margin
        inside = trace.openings[(trace.openings >= first) & (trace.openings < last)]
        shown = FaultExcerpt(
            values=case.live[first:last, case.channel],
            start=case.start - first,
            length=case.length,
            openings=tuple((inside - first).tolist()),
            in_alarm=trace.in_alarm[first:last],
        )
    return FaultRun(
        rate=rate,
        stream=case.stream,
        kind=case.kind,
        channels=case.channels,
        seed=seed,
        fault=case.fault,
        found=max(counts.found, int(joins)) if case.fault is not None else None,
        delay=counts.mean_delay,
        openings=counts.openings,
        false=counts.false,
        days=counts.days,
        in_alarm=counts.in_alarm_share,
        pending=counts.pending_share,
        shown=shown,
    )


def _night(variant: str, seed: int, epochs: int | None) -> Night:
    data = nightly_job(seed, variant)  # type: ignore[arg-type]
    detector = Detector(alarms_per_day=LIMIT, seed=seed, epochs=epochs)
    detector.fit(data.train, times=data.train_times)
    if variant == "new":
        return _accepting(detector, data, seed)
    trace = trace_alarms(watch(detector, data.test, data.test_times), len(data.test))
    counts = trace.count(data.labels, samples_per_day=DAY)
    since = (trace.openings - JOB_BEGIN) % DAY  # the job's newest beginning
    return Night(
        stream=f"{NIGHTLY}/{variant}",
        seed=seed,
        openings=counts.openings,
        at_job=int((since < JOB_END - JOB_BEGIN + _AFTER).sum()),
        false=counts.false,
        found=counts.found if variant == "noon" else None,
    )


def _accepting(detector: AnyDetector, data: Dataset, seed: int) -> Night:
    """Accept what opened in the first night, at the end of the job, and count what opens later."""
    assert data.test_times is not None
    end, last = JOB_END, JOB_END + _FOLLOWED * DAY
    first = watch(detector, data.test[:end], data.test_times[:end], flush=False)
    accepted = accept_newest(detector, first)
    events = watch(detector, data.test[end:last], data.test_times[end:last])
    openings = trace_alarms(events, last - end, first=end).openings
    return Night(
        stream=f"{NIGHTLY}/new",
        seed=seed,
        openings=len(trace_alarms(first, end).openings),
        accepted=accepted,
        later=len(openings),
    )


def accept_newest(detector: AnyDetector, events: Iterable[Event]) -> bool:
    """Accept the newest thing that was reported: a change, or else an alarm."""
    for event in reversed(list(events)):
        if event.kind in ("opened", "changed"):
            try:
                detector.accept(event.change or event.alarm)
            except NewnormalError:  # closed meanwhile, and not kept
                return False
            detector.take_events()
            return True
    return False
