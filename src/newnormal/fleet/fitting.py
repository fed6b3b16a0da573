"""Fit many streams, in as many processes as there are processors."""

from __future__ import annotations

import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from newnormal.base import BaseDetector
from newnormal.errors import InputError, NewnormalError, ParameterError
from newnormal.fleet.jobs import Outcome, can_be_sent
from newnormal.fleet.pool import FitTasks, Pool
from newnormal.fleet.processors import cores
from newnormal.tabular import Table

_FEW = 4  # streams: fewer are fitted here
# Until a new process has imported newnormal and loaded its compiled code: 0.85 s were measured.
_START_S = 1.5

Result = tuple[str, BaseDetector | NewnormalError]


@dataclass(frozen=True)
class Progress:
    """How far fitting is.

    Attributes
    ----------
    done, total
        Streams that are finished, failed ones included, and all of them.
    failed
        Streams that could not be fitted.
    seconds_left
        As the rate so far gives it; None before the first is finished.
    """

    done: int
    total: int
    failed: int
    seconds_left: float | None


OnProgress = Callable[[Progress], None]


def fit_streams(
    detectors: Mapping[str, BaseDetector],
    histories: Mapping[str, Table],
    *,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[Result]:
    """Fit each stream's detector on its history, and give it by name as soon as it is fitted.

    A fitted detector is the same, bit for bit, wherever it was fitted. The detectors given stay as
    they are: fitted are copies of them. One that has a model or a threshold of another package,
    or a deep model, is fitted in this process; so is a share of the others.

    Parameters
    ----------
    detectors
        A detector, with its options, by the name of the stream.
    histories
        The history of each; read once, when it is due, one at a time.
    workers
        Processes to fit in, this one included. None: one a processor, or this one alone where
        there are few streams, or the first of them shows that the rest takes a few seconds.
    on_progress
        Called at the start and with each stream that is finished.

    Yields
    ------
    tuple
        The name of a stream, and its fitted detector or the NewnormalError that it failed with.

    Examples
    --------
    >>> import numpy as np
    >>> from newnormal import M2N2
    >>> from newnormal.tabular import to_table
    >>> rng = np.random.default_rng(0)
    >>> histories = {name: to_table(rng.normal(size=(200, 2))) for name in ("web-1", "web-2")}
    >>> detectors = dict.fromkeys(histories, M2N2(epochs=1))
    >>> {name: fitted.channels_ for name, fitted in fit_streams(detectors, histories)}
    {'web-1': ('0', '1'), 'web-2': ('0', '1')}
    """
    whole = isinstance(workers, int) and not isinstance(workers, bool)
    if workers is not None and (not whole or workers < 1):
        raise ParameterError(
            f"workers: expected a whole number of at least 1, found {workers!r}",
            hint="leave it out for one a processor; 1 fits in this process",
        )
    missing = [name for name in detectors if name not in histories]
    if missing:
        raise InputError(
            f"expected a history for each stream, found none for {missing[0]!r}",
            hint="give each detector a history of the same name",
        )
    return _fitted(detectors, histories, workers, _Meter(len(detectors), on_progress))


def _fitted(
    detectors: Mapping[str, BaseDetector],
    histories: Mapping[str, Table],
    workers: int | None,
    meter: _Meter,
) -> Iterator[Result]:
    meter.report()
    streams = FitTasks(detectors, histories)
    here = deque(detectors)  # to be fitted in this process
    if workers is None:
        workers = cores() if len(here) >= _FEW else 1
        if workers > 1:
            began = time.perf_counter()
            first = here.popleft()
            outcome = streams.fit_here(first)
            rest = (time.perf_counter() - began) * len(here)
            yield meter.finished(first, outcome)
            if rest * (1 - 1 / workers) < 2 * _START_S:
                workers = 1
    anywhere: deque[str] = deque()
    if workers > 1 and sys.executable:
        anywhere.extend(name for name in here if can_be_sent(detectors[name]))
        here = deque(name for name in here if not can_be_sent(detectors[name]))
    pool = Pool(min(workers - 1, len(anywhere)), streams, anywhere)
    try:
        while meter.done < meter.total:
            if not pool.results.empty():
                yield meter.finished(*pool.results.get())
                continue
            name = _next(here, anywhere)
            if name is None:
                yield meter.finished(*pool.results.get())
            else:
                yield meter.finished(name, streams.fit_here(name))
    finally:
        pool.close()


def _next(here: deque[str], anywhere: deque[str]) -> str | None:
    """Take out the name of a stream to fit in this process: one that no other can fit first."""
    for names in (here, anywhere):
        with suppress(IndexError):  # other threads take names too
            return names.popleft()
    return None


class _Meter:
    """Counts the streams that are finished, and reports them."""

    def __init__(self, total: int, on_progress: OnProgress | None) -> None:
        self.total = total
        self.done = self.failed = 0
        self.on_progress = on_progress
        self.began = time.perf_counter()

    def finished(self, name: str, outcome: Outcome) -> Result:
        """Count a stream, warn of what its fit warned of, and return it."""
        for category, text in outcome.warned:
            warnings.warn(f"{text} (stream {name})", category, stacklevel=3)
        self.done += 1
        self.failed += isinstance(outcome.result, NewnormalError)
        self.report()
        return name, outcome.result

    def report(self) -> None:
        """Call `on_progress`."""
        if self.on_progress is None:
            return
        left = None
        if self.done:
            rate = (time.perf_counter() - self.began) / self.done
            left = rate * (self.total - self.done)
        self.on_progress(Progress(self.done, self.total, self.failed, left))
