"""The threads of the engine: one writes the log, one applies it.

An entry is durable when the writer has committed it, and acts when the applier has come to it. The
writer commits what has come meanwhile in one record, so that many senders share one write.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import Empty, Queue, SimpleQueue
from typing import Any, NamedTuple

from newnormal.engine.applying import Applier, Outcome
from newnormal.engine.log.entries import (
    Entry,
    SamplesArrived,
    check_input_position,
    pack,
    values_of,
)
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.errors import NewnormalError, StateError

# Called with the name of a part of the service, whether it is well, and a message.
Report = Callable[[str, bool, str], None]
# Called with the applier, the entries and the outcomes of each record that a recovery applies.
Applied = Callable[[Applier, Sequence[Entry], list[Outcome]], None]

_LOG = logging.getLogger("newnormal")
_VALUES = 1_000_000  # in one record, about
_AGAIN_S = 1.0  # before what failed is tried again


class Submitted(NamedTuple):
    """An entry on its way."""

    entry: Entry
    durable: Future[int]  # gets the position once it is in the log
    applied: Future[Any]  # gets the result once it is applied
    # Whether the service itself submitted it: then it is tried until it is in the log.
    internal: bool
    request: int | None = None  # the number of the request of the inbox that it is

    @property
    def samples(self) -> int:
        """How many samples it has."""
        if not isinstance(self.entry, SamplesArrived):
            return 0
        return sum(len(arrival.times) for arrival in self.entry.arrivals)

    @property
    def values(self) -> int:
        """How many values it has, as `values_of` counts them."""
        return values_of(self.entry.arrivals) if isinstance(self.entry, SamplesArrived) else 0


class Engine:
    """Writes entries to the log, and applies them.

    Parameters
    ----------
    recover
        Gives the applier as the log has it, and calls back with the entries and the outcomes of
        each record that it applies; may be called again after an error.
    after
        Called in the applying thread after each record, and when there is nothing to apply.
    """

    def __init__(
        self,
        log: SqliteLog,
        recover: Callable[[Applied], Applier],
        after: Callable[[Applier, bool], None],
        report: Report,
    ) -> None:
        self._log, self._recover, self._after, self._tell = log, recover, after, report
        self._failing: set[str] = set()  # parts
        self._incoming: SimpleQueue[Submitted | None] = SimpleQueue()
        self._committed: Queue[tuple[int, list[Submitted]] | None] = Queue()
        self._unapplied: dict[int, list[Submitted]] = {}
        self._again: list[Submitted] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.lag = 0  # samples in the log, or on their way to it, that are not applied
        self.applier = recover(self._recovered)
        self._writer = threading.Thread(target=self._write, name="newnormal-log", daemon=True)
        self._worker = threading.Thread(target=self._work, name="newnormal-apply", daemon=True)

    def start(self) -> None:
        """Start both threads."""
        self._worker.start()
        self._writer.start()

    def submit(
        self, entry: Entry, *, internal: bool = False, request: int | None = None
    ) -> Submitted:
        """Hand an entry in, from any thread; a `request` of the inbox is removed with it."""
        if isinstance(entry, SamplesArrived) and entry.input_position is not None:
            check_input_position(entry)  # a stranger's: entries of others are in the same record
        submitted = Submitted(entry, Future(), Future(), internal, request)
        for future in (submitted.durable, submitted.applied):
            future.set_running_or_notify_cancel()  # a caller who goes away cancels nothing
        with self._lock:
            if self._stop.is_set():
                raise StateError(
                    "expected a service that runs, found one that stops", hint="try again later"
                )
            self.lag += submitted.samples
            self._incoming.put(submitted)
        return submitted

    def stop(self) -> None:
        """Write and apply what was handed in, then end both threads."""
        with self._lock:
            if self._stop.is_set():
                return
            self._stop.set()
            self._incoming.put(None)
        self._writer.join()
        self._committed.put(None)
        self._worker.join()

    # ------------------------------------------------------------------ the log

    def _write(self) -> None:
        ending = False
        while not ending:
            first = self._next()
            if first is None:
                if self._stop.is_set():
                    return
                continue
            taken, values = first, sum(submitted.values for submitted in first)
            while values < _VALUES:
                try:
                    other = self._incoming.get_nowait()
                except Empty:
                    break
                if other is None:
                    ending = True
                    break
                taken.append(other)
                values += other.values
            self._commit(taken)

    def _next(self) -> list[Submitted] | None:
        if self._again:
            self._stop.wait(_AGAIN_S)
            again, self._again = self._again, []
            return again
        submitted = self._incoming.get()
        return None if submitted is None else [submitted]

    def _commit(self, taken: list[Submitted]) -> None:
        position = self._log.last + 1
        with self._lock:  # before it can be read from the log, and applied
            self._unapplied[position] = taken
        try:
            requests = [each.request for each in taken if each.request is not None]
            self._log.append(pack([submitted.entry for submitted in taken]), requests)
        except Exception as error:  # noqa: BLE001  (the thread must go on: disks have room again)
            with self._lock:
                del self._unapplied[position]
            self._refuse(taken, error)
            return
        self._report("log", True, "")
        self._committed.put((position, taken))
        for submitted in taken:
            submitted.durable.set_result(position)

    def _refuse(self, taken: list[Submitted], error: Exception) -> None:
        _LOG.error("the log cannot be written: %s", error)
        self._report("log", False, str(error))
        with self._lock:
            self.lag -= sum(each.samples for each in taken if not each.internal)
        for submitted in taken:
            if submitted.internal and not self._stop.is_set():
                self._again.append(submitted)
            else:
                submitted.durable.set_exception(error)
                submitted.applied.set_exception(error)

    def _report(self, part: str, ok: bool, message: str) -> None:
        """Tell that a part fails, or works again."""
        if not ok or part in self._failing:
            self._tell(part, ok, message)
            (self._failing.discard if ok else self._failing.add)(part)

    # ------------------------------------------------------------------ what it says

    def _work(self) -> None:
        while True:
            try:
                committed = self._committed.get(timeout=0.1)
            except Empty:
                self._guard(partial(self._after, self.applier, True))
                continue
            if committed is None:
                return
            position, taken = committed
            if position > self.applier.position:
                self._guard(partial(self._apply, position, [each.entry for each in taken]))

    def _apply(self, position: int, entries: Sequence[Entry]) -> None:
        outcomes = self.applier.apply(position, entries)
        self.applier.store.commit()
        self.applier.report.publish()
        self._report("store", True, "")
        self._resolve(position, outcomes)
        self._after(self.applier, False)

    def _guard(self, act: Callable[[], None]) -> None:
        """Do something; if it fails, go back to the last checkpoint and apply the log anew."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  (whatever it was, the log has all of it)
            _LOG.exception("%s: the log is applied anew", _text(error))
            self._report("store", False, _text(error))
            self._start_over()

    def _start_over(self) -> None:
        while True:
            try:
                self.applier.fleet.detach()
                self.applier = self._recover(self._recovered)
                self._report("store", True, "")
                return
            except Exception as error:  # noqa: BLE001  (until it can)
                _LOG.exception("the log could not be applied anew: %s", _text(error))
                self._report("store", False, _text(error))
                if self._stop.wait(_AGAIN_S) and self._incoming.empty():
                    return

    def _recovered(
        self, applier: Applier, entries: Sequence[Entry], outcomes: list[Outcome]
    ) -> None:
        del entries
        self._resolve(applier.position, outcomes)

    def _resolve(self, position: int, outcomes: list[Outcome]) -> None:
        """Give those who handed entries in the results."""
        with self._lock:
            taken = self._unapplied.pop(position, [])
            self.lag -= sum(each.samples for each in taken)
        for submitted, outcome in zip(taken, outcomes, strict=False):
            if isinstance(outcome, NewnormalError):
                submitted.applied.set_exception(outcome)
            else:
                submitted.applied.set_result(outcome)


def _text(error: Exception) -> str:
    if isinstance(error, NewnormalError):
        return error.message
    return f"{type(error).__name__}: {error}"
