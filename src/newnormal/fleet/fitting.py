"""Fit many streams, in as many processes as there are processors.

A stream to fit, and the answer, are messages: two lengths, facts as JSON, and arrays by name as
safetensors. There is nothing in them that could run.

One module because both ends of the pipe, and what goes through it, belong together.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO, Any, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from newnormal import errors
from newnormal.base import BaseDetector
from newnormal.core.history import channel_units
from newnormal.detector import M2N2, Detector
from newnormal.errors import InputError, NewnormalError, NewnormalWarning, ParameterError
from newnormal.fitting import HistoryScores
from newnormal.fleet.processors import cores
from newnormal.state import State
from newnormal.tabular import StreamTables, Table
from newnormal.thresholds import Fixed, Quantile
from newnormal.thresholds.base import is_number

_FEW = 4  # streams: fewer are fitted here
# Until a new process has imported newnormal and loaded its compiled code: 0.85 s were measured.
_START_S = 1.5
_PROGRAM = "from newnormal.fleet.fitting import main; main()"
_ENDING_S = 10.0  # for a process whose output has ended to end itself
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMBA")}

Result = tuple[str, BaseDetector | NewnormalError]


@dataclass(frozen=True)
class Progress:
    """How far fitting is."""

    # done, total: streams that are finished, failed ones included, and all of them
    done: int
    total: int
    failed: int  # streams that could not be fitted
    seconds_left: float | None  # as the rate so far gives it; None before the first is finished


OnProgress = Callable[[Progress], None]


def with_units(template: BaseDetector, tables: StreamTables) -> dict[str, BaseDetector]:
    """Return a detector for each stream that has the units of its channels alone."""
    given = template.settings()[0].units
    found = {} if tables.profile is None else tables.profile.channel_units
    if not given and not found:
        return dict.fromkeys(tables.tables, template)
    channels = {name: {*(table.channels or ())} for name, table in tables.tables.items()}
    units = channel_units(given, found, set().union(*channels.values()))
    by_stream = {
        name: {channel: unit for channel, unit in units.items() if channel in own}
        for name, own in channels.items()
    }
    return {name: template.unfitted(units=own or None) for name, own in by_stream.items()}


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
    if missing := [name for name in detectors if name not in histories]:
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


class FitTasks:
    """Detectors and histories by name; histories are read one at a time, when they are due."""

    def __init__(
        self, detectors: Mapping[str, BaseDetector], histories: Mapping[str, Table]
    ) -> None:
        self.detectors = detectors
        self._histories = histories
        self._reading = threading.Lock()

    def history(self, name: str) -> Table | NewnormalError:
        """Return a history, or the error that reading it raised."""
        try:
            with self._reading:
                return self._histories[name]
        except NewnormalError as error:
            return error
        except Exception as error:  # noqa: BLE001  (of a user's mapping; the other streams go on)
            return failure(error)

    def fit_here(self, name: str) -> Outcome:
        """Fit a stream in this process."""
        history = self.history(name)
        if isinstance(history, NewnormalError):
            return Outcome(history)
        return fit_here(self.detectors[name], history)


class Pool:
    """Processes that fit streams.

    Each is a new Python that imports newnormal and not the user's main module, so that scripts
    need no guard and notebooks work. They end with `close`, and when this process does.

    `count`: how many processes. `streams`: what there is to fit. `names`: the names of what is to
    be fitted; taken out by the processes, and by others as they like.
    """

    def __init__(self, count: int, streams: FitTasks, names: deque[str]) -> None:
        # each name that a process took with its outcome, in the order in which they finish
        self.results: SimpleQueue[tuple[str, Outcome]] = SimpleQueue()
        self._streams, self._names = streams, names
        self._running: set[Worker] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._fit_all, name=f"newnormal-fit-{at}", daemon=True)
            for at in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _fit_all(self) -> None:
        """Fit streams in one process until none is left."""
        worker: Worker | None = None
        while not self._closed:
            try:
                name = self._names.popleft()
            except IndexError:
                break
            try:
                worker = self._started() if worker is None else worker
                outcome = self._fit(worker, name)
                if outcome is None:
                    outcome = Outcome(died(worker.status()))
                    self._end(worker)
                    worker = None
            except Exception as error:  # noqa: BLE001  (a thread that ended would be waited for)
                outcome = Outcome(failure(error))
            self.results.put((name, outcome))
        if worker is not None:
            self._end(worker)

    def _fit(self, worker: Worker, name: str) -> Outcome | None:
        """Return the outcome of a stream; None where the process ended before it had one."""
        history = self._streams.history(name)
        if isinstance(history, NewnormalError):
            return Outcome(history)
        detector = self._streams.detectors[name]
        answer = worker.ask(as_job(detector, history))
        return None if answer is None else outcome_of(answer, detector)

    def _started(self) -> Worker:
        with self._lock:
            if self._closed:
                raise NewnormalError("expected an open pool, found one that is closed")
            worker = Worker()
            self._running.add(worker)
        return worker

    def _end(self, worker: Worker) -> None:
        with self._lock:
            self._running.discard(worker)
        worker.close()

    def close(self) -> None:
        """End all processes, also those in the middle of a fit."""
        with self._lock:
            self._closed = True
            for worker in self._running:
                worker.kill()
        for thread in self._threads:
            thread.join()


class Worker:
    """One process and the pipes to it."""

    def __init__(self) -> None:
        # An interrupt at the keyboard goes to this process alone, which then ends the others.
        group: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
        self._process = subprocess.Popen(  # noqa: S603  (this Python, with a program of our own)
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _ONE_THREAD | {"PYTHONPATH": _search_path()},
            **group,
        )

    def ask(self, job: Message) -> Message | None:
        """Return the answer to a job; None where the process ended before it gave one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            send(self._process.stdin, job)
            return receive(self._process.stdout)
        except (OSError, ValueError):  # the pipe is broken, or closed
            return None

    def status(self) -> int:
        """Return how the process ended, once its output has ended."""
        try:
            return self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def kill(self) -> None:
        """End the process, from any thread: the one that waits for its answer gets none."""
        self._process.kill()

    def close(self) -> None:
        """End the process and close the pipes to it, from the thread that uses it."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


def _search_path() -> str:
    """Return where this process finds modules, for one that is to find the same."""
    return os.pathsep.join(folder or os.getcwd() for folder in sys.path)


def died(status: int) -> NewnormalError:
    """Return the error of a stream whose process ended; a signal is a negative status."""
    how = f"with status {status}"
    if status < 0:
        try:
            how = f"by {signal.Signals(-status).name}"
        except ValueError:
            how = f"by signal {-status}"
    return NewnormalError(
        f"expected this stream to be fitted, found that its process ended {how}",
        hint="memory may have run out: pass fewer workers, or less history",
    )


# Those whose fit has the same bits whatever the number of threads is, and whose state has it all.
_MODELS = ("mlp", "pca")
_SCORES = ("scores.ordered", "scores.for_rule")  # of history, beside the tensors of a state
_LENGTHS = struct.Struct("<QQ")


class Outcome(NamedTuple):
    """What fitting a stream gave: the fitted detector, or its error; and the warnings."""

    result: BaseDetector | NewnormalError
    warned: tuple[tuple[type[Warning], str], ...] = ()


def fit_here(detector: BaseDetector, history: Table) -> Outcome:
    """Fit a copy of a detector in this process; an error is a value."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result: BaseDetector | NewnormalError
        try:
            result = type(detector)(**detector.get_params()).fit(history)
        except NewnormalError as error:
            result = error
        except Exception as error:  # noqa: BLE001  (of a user's model; the other streams go on)
            result = failure(error)
    return Outcome(result, tuple((item.category, str(item.message)) for item in caught))


def failure(error: Exception) -> NewnormalError:
    """Return the error of a stream whose history or model raised another one."""
    failed = NewnormalError(
        f"expected this stream to be fitted, found {type(error).__name__}: {error}",
        hint="fit this stream alone to see where it comes from",
    )
    failed.__cause__ = error
    return failed


def can_be_sent(detector: BaseDetector) -> bool:
    """Whether another process can fit it: not with code that is known here alone."""
    if type(detector) not in (Detector, M2N2):
        return False
    options = detector.get_params()
    rule = options["threshold"]
    if not (rule is None or is_number(rule) or type(rule) in (Fixed, Quantile)):
        return False
    if options.get("model", "mlp") not in _MODELS:
        return False
    try:
        json.dumps(detector.options_as_json(), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def as_job(detector: BaseDetector, history: Table) -> Message:
    """Return the message to a process that is to fit a stream."""
    facts = {
        **detector.options_as_json(),
        "channels": None if history.channels is None else list(history.channels),
        "zone": history.zone,
    }
    tensors: dict[str, Any] = {"values": history.values}
    if history.times is not None:
        tensors["times"] = history.times.astype("datetime64[ns]").astype(np.int64)
    return Message(facts, tensors)


def fit_job(job: Message) -> Outcome:
    """Fit the stream of a message."""
    facts, tensors = job
    times = tensors.get("times")
    history = Table(
        np.array(tensors["values"]),  # its own: to compiled code a read-only one is another type
        None if facts["channels"] is None else tuple(facts["channels"]),
        None if times is None else times.astype("datetime64[ns]"),
        zone=facts["zone"],
    )
    return fit_here(BaseDetector.from_options(facts), history)


def answer_of(outcome: Outcome) -> Message:
    """Return an outcome as a message."""
    facts: dict[str, Any] = {"warned": [[kind.__name__, text] for kind, text in outcome.warned]}
    result = outcome.result
    if isinstance(result, NewnormalError):
        facts["error"] = [type(result).__name__, result.message, result.hint]
        return Message(facts, {})
    state = result.to_state()
    ordered, for_rule = result.ordered_scores_, result.history_scores_
    assert ordered is not None and for_rule is not None
    scores = dict(zip(_SCORES, (ordered, for_rule), strict=True))
    return Message({**facts, "state": state.facts}, {**state.tensors, **scores})


def outcome_of(answer: Message, detector: BaseDetector) -> Outcome:
    """Return the outcome that a message was made from; the detector has the options as given."""
    facts, tensors = answer.facts, dict(answer.tensors)
    ours = NewnormalWarning.__name__
    warned = tuple(
        (NewnormalWarning if name == ours else RuntimeWarning, str(text))
        for name, text in facts["warned"]
    )
    if "error" in facts:
        name, message, hint = facts["error"]
        kind = getattr(errors, name) if name in errors.__all__ else NewnormalError
        return Outcome(kind(message, hint=hint), warned)
    ordered, for_rule = (tensors.pop(name).copy() for name in _SCORES)
    state, scores = State(facts["state"], tensors), HistoryScores(ordered, for_rule)
    fitted = BaseDetector.from_state(state, "a fitted stream", scores=scores)
    return Outcome(fitted.set_params(**detector.get_params()), warned)


class Message(NamedTuple):
    """Facts, and arrays by name."""

    facts: dict[str, Any]
    tensors: Mapping[str, NDArray[Any]]


def send(file: IO[bytes], message: Message) -> None:
    """Write a message.

    >>> import io
    >>> file = io.BytesIO()
    >>> send(file, Message({"name": "web-1"}, {"values": np.zeros(2)}))
    >>> _ = file.seek(0)
    >>> receive(file)
    Message(facts={'name': 'web-1'}, tensors={'values': array([0., 0.])})
    """
    text = json.dumps(message.facts, allow_nan=False).encode()
    body = safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in message.tensors.items()}
    )
    for part in (_LENGTHS.pack(len(text), len(body)), text, body):
        file.write(part)
    file.flush()


def receive(file: IO[bytes]) -> Message | None:
    """Read a message; None where the other side has ended, also in the middle of one."""
    start = file.read(_LENGTHS.size)
    if len(start) < _LENGTHS.size:
        return None
    lengths = _LENGTHS.unpack(start)
    text, body = (file.read(length) for length in lengths)
    if (len(text), len(body)) != lengths:
        return None
    return Message(json.loads(text), safetensors.numpy.load(body))


def main() -> None:
    """Fit the streams that come over standard input, and answer over standard output."""
    with (
        suppress(BrokenPipeError),  # who asked was killed
        open(0, "rb", closefd=False) as jobs,
        os.fdopen(os.dup(1), "wb") as answers,
    ):
        os.dup2(2, 1)  # what a library prints is no answer
        while (job := receive(jobs)) is not None:
            send(answers, answer_of(fit_job(job)))
