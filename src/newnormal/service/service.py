"""`Service`: what the API, the page, the sinks and the command do with it.

One module because it is one class, whose methods share its threads and locks.
"""

import logging
import threading
import time
from base64 import b64encode
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from newnormal.arrivals.arrival import Arrival
from newnormal.engine import modelling
from newnormal.engine.applying import Applier, Outcome
from newnormal.engine.checkpoints import save_checkpoint
from newnormal.engine.clock import StreamClock
from newnormal.engine.database import database_errors
from newnormal.engine.fitting import FitJob, FitPool
from newnormal.engine.folder import EngineFolder, LeftOutput, decision_entry, request_of
from newnormal.engine.hub import Hub, Resync, Tick
from newnormal.engine.items import key_of
from newnormal.engine.log import entries as log
from newnormal.engine.running import Applied, Engine, Submitted
from newnormal.engine.store.retention import apply_retention
from newnormal.engine.streams import StreamRecord, check_without_model
from newnormal.engine.values import Comment, Item, StreamView
from newnormal.errors import InputError, NewnormalError
from newnormal.fleet.folder.lock import InUseError
from newnormal.service.config import ServiceConfig, StreamDefaults
from newnormal.service.connectors import check_connections
from newnormal.service.health import Health
from newnormal.service.limits import Arriving, ServiceBusy, SharedLimit
from newnormal.service.memory import give_back
from newnormal.service.sinks import Sinks
from newnormal.service.sources import Sources

_LOG = logging.getLogger("newnormal")
_LATER = "send the same samples again in a moment: those that are there already are counted once"
_TICK_S = 1.0
_BEHIND = 100  # records that are not applied, from which on the clock decides nothing
_RETENTION_S = 600.0
_AGAIN_S = 10.0  # where retention has more to remove
_WORTH_GIVING_BACK = 16 << 20  # bytes of requests that have ended
_LEAST_CHECKPOINT = 20  # seconds between two of them, or times as long as the last one took


class Service:
    """Streams that are fitted, judged and kept by themselves.

    Attributes
    ----------
    store, sources, sinks
        There from `start` on.
    ready
        Whether it has started and does not stop.
    """

    def __init__(self, config: ServiceConfig, *, clock: Callable[[], int] = time.time_ns) -> None:
        self.config = config
        self.clock = clock
        self.hub = Hub()
        self.ready = False
        self._health = Health()
        self._arriving = Arriving()
        self.bodies = SharedLimit("bytes of requests", small=1 << 20)
        self.waiting = SharedLimit("values that wait to be judged", small=50_000)
        self._folder: EngineFolder | None = None
        self._touched: dict[int, int] = {}
        self._touch_lock = threading.Lock()
        self._stopping = threading.Event()
        self._checkpoint_at = self._retention_at = 0.0
        self._positions: deque[tuple[float, int]] = deque()
        self._saved = 0  # the position of the last checkpoint
        self._requested = 0  # the newest request of the inbox that was handed in
        self._looked = False  # whether all streams were looked at for fits that are due

    # ------------------------------------------------------------------ start and stop

    def start(self) -> None:
        """Open the data folder, apply what the log has after the last checkpoint, and begin."""
        folder = self.config.data
        try:
            self._folder = EngineFolder(
                folder, hub=self.hub, sinks=lambda: self.sinks.names, url=lambda: self.config.url
            )
        except InUseError as error:
            raise InUseError(
                error.message, hint="stop the other service, or give another folder with --data"
            ) from None
        try:
            self.log, self.store = self._folder.log, self._folder.store
            sinks = self.config.sinks
            self.sinks = Sinks(sinks, self.store, self._health.report, self.clock)
            self._clock = StreamClock(self.clock)
            self.fits = FitPool(self.config.workers, self._fitted)
            self._engine = Engine(self.log, self._recovered, self._after, self._health.report)
            applier = self._engine.applier
            if applier.position > applier.fleet.position or not applier.position:
                with database_errors(folder):
                    save_checkpoint(applier)  # else each start after a kill would apply more
        except BaseException:
            self._folder.release()
            raise
        self._checkpoint_at = time.monotonic() + self.config.checkpoint_every / 1e9
        self._retention_at = time.monotonic() + _RETENTION_S
        self.sinks.start(self.config.sinks, keep=self.config.retention.alerts)
        self._engine.start()
        self._engine.submit(log.Started(self.clock()), internal=True)
        self._configure(self.config)
        self.sources = Sources(self)
        self.sources.start(self.config.sources)
        self._ticker = threading.Thread(target=self._tick, name="newnormal-clock", daemon=True)
        self._ticker.start()
        self.ready = True

    def _recovered(self, applied: Applied) -> Applier:
        left = LeftOutput(self.config.data, self.store, served=True)

        def note(applier: Applier, entries: Sequence[log.Entry], outcomes: list[Outcome]) -> None:
            self._health.recovering = applier.position
            left.note(applier, entries)
            applied(applier, entries, outcomes)

        assert self._folder is not None
        applier = self._folder.recover(note)
        left.keep()
        self._health.recovering = 0
        self.hub.publish(Resync())  # what was applied anew was not published
        return applier

    def drain(self) -> None:
        """Take nothing more in, and say so; `stop` does the rest."""
        self.ready = False
        self._health.stopping = True

    def stop(self) -> None:
        """Take nothing more in, apply what was taken, save everything, and end."""
        if self._folder is None:
            return
        self.drain()
        self._stopping.set()
        self.sources.stop()
        self._ticker.join()
        self.fits.close()
        self._engine.stop()
        self.sinks.stop()
        try:
            self.checkpoint()
        finally:
            self._engine.applier.fleet.detach()
            self.hub.close()
            self._folder.release()
            self._folder = None

    def reload(self, config: ServiceConfig) -> None:
        """Take over what can change of another configuration; nothing of one with an error."""
        check_connections(config)
        self._configure(config)
        self.sinks.start(config.sinks, keep=config.retention.alerts)
        self.sources.start(config.sources)
        self.config = config

    def _configure(self, config: ServiceConfig) -> None:
        """Log the settings of streams that their models do not have, and their limits on alarms."""
        shared = config.service_alarms_per_day is not None  # each fit has its part of it
        streams = vars(config.streams)
        if config.streams.alarms_per_day == StreamDefaults().alarms_per_day:
            streams = {**streams, "alarms_per_day": None}  # of models of `fit` it is their own
        patterns = tuple(
            (
                match,
                given.get("period"),
                given.get("lateness"),
                None if shared else given.get("alarms_per_day"),
            )
            for match, given in (
                ("*", streams),
                *((override.match, override.given) for override in config.overrides),
            )
        )
        self._engine.submit(log.Configured(patterns), internal=True)

    # ------------------------------------------------------------------ in

    def push(
        self,
        arrivals: Sequence[Arrival],
        *,
        history: bool = False,
        source: str = "",
        input_position: Mapping[str, Any] | None = None,
        past: bool = False,
        writer: str = "",
    ) -> Future[int]:
        """Hand samples in; the future has their position in the log once they are durable.

        History is acknowledged once it is applied: a fit that began meanwhile makes it fail.
        """
        if not self.ready:
            raise ServiceBusy("expected a service that runs, found one that does not", hint=_LATER)
        writer = writer or source
        entry = log.SamplesArrived(tuple(arrivals), source, input_position, history, past, writer)
        if not history:
            return self._take(entry).durable
        check_without_model(self._engine.applier.streams, [each.stream for each in arrivals])
        return _once_applied(self._take(entry))

    def _take(self, entry: log.SamplesArrived) -> Submitted:
        streams, limits = self._engine.applier.streams, self.config.limits
        with ExitStack() as taken:
            lease = taken.enter_context(self.waiting.lease(entry.writer, limits.lag))
            lease.take(log.values_of(entry.arrivals))
            applied = self._arriving.admit(
                entry.arrivals, streams, limits, self.clock(), entry.writer
            )
            if applied is not None:
                taken.callback(applied)
            submitted = self._engine.submit(entry)
            given_back = taken.pop_all().close
        submitted.applied.add_done_callback(lambda _: given_back())
        return submitted

    def input_position(self, source: str) -> Mapping[str, Any] | None:
        """Return where a source is, as the log has it."""
        return self._engine.applier.input_positions.get(source)

    # ------------------------------------------------------------------ people

    def decide(
        self,
        item: str | None,
        verb: str,
        *,
        stream: int | None = None,
        who: str = "",
        comment: str = "",
    ) -> Future[Item | None]:
        """Accept or reject an item, or roll a stream back; done once it is applied."""
        number = key_of(item).stream if item is not None else stream
        if number is None or self.stream(number) is None:
            raise InputError(f"expected a stream, found none of number {number}")
        entry = log.FeedbackGiven(number, verb, item, who, comment)
        applied = self._engine.submit(entry).applied
        if comment and item is not None:
            applied.add_done_callback(lambda done: self._comment_decided(done, item, who, comment))
        return applied

    def _comment_decided(self, done: Future[Any], item: str, who: str, text: str) -> None:
        if done.exception() is None:
            self.store.items.add_comment(Comment(item, self.clock(), who, text))

    def refit(
        self, stream: int, *, first: int | None = None, last: int | None = None
    ) -> Future[None]:
        """Fit a stream anew, on its newest samples or on those given; done once it has begun."""
        record = self._record(stream)
        newest = record.count - 1 if last is None else last
        settings = self.config.for_stream(record.name)
        oldest = max(0, newest + 1 - settings.max_history) if first is None else first
        oldest = max(oldest, self.store.samples.first_kept(stream))
        return self._engine.submit(log.FitBegan(stream, oldest, newest, "request")).applied

    def restore_model(self, stream: int, generation: int) -> Future[None]:
        """Go back to an earlier model."""
        self._record(stream)
        return self._engine.submit(log.Restored(stream, generation)).applied

    def put_model(self, stream: str, content: bytes, writer: str = "") -> Future[None]:
        """Put a model, as the content of its state file, into a stream, which may be new."""
        streams, limits, now = self._engine.applier.streams, self.config.limits, self.clock()
        newest = modelling.read_model(stream, content)
        with ExitStack() as taken:
            if applied := self._arriving.admit([newest], streams, limits, now, writer):
                taken.callback(applied)
            entry = log.ModelPut(stream, b64encode(content).decode(), now, writer)
            submitted = self._engine.submit(entry)
            given_back = taken.pop_all().close
        submitted.applied.add_done_callback(lambda _: given_back())
        return submitted.applied

    def take_model(self, stream: int) -> bytes:
        """Return the model of a stream as it is now, as the content of a state file."""
        record = self._record(stream)
        if not record.is_live:
            raise InputError(
                f"expected a stream with a model, found {record.name!r} without one",
                hint="wait until it is live",
            )
        with TemporaryDirectory(prefix="newnormal-model-") as folder:
            path = Path(folder, "model.nn")
            self.applier.fleet.take_out(record.name, path)
            return path.read_bytes()

    def remove(self, stream: int) -> Future[None]:
        """Remove a stream, with all that is kept of it."""
        self._record(stream)
        return self._engine.submit(log.Removed(stream)).applied

    # ------------------------------------------------------------------ out

    def streams(self) -> list[StreamView]:
        """Return all streams as they are."""
        return [self._shown(stream) for stream in self._engine.applier.streams]

    def stream(self, number: int) -> StreamView | None:
        """Return a stream by its number."""
        stream = self._engine.applier.streams.get(number)
        return None if stream is None else self._shown(stream)

    def stream_named(self, name: str) -> StreamView | None:
        """Return a stream by its name."""
        stream = self._engine.applier.streams.named(name)
        return None if stream is None else self._shown(stream)

    def models(self, stream: int) -> list[dict[str, Any]]:
        """Return the models that a stream has had, the newest last."""
        return [vars(model) for model in self._record(stream).models]

    def health(self) -> dict[str, Any]:
        """Return how everything is."""
        return self._health.shown(self)

    def report(self, part: str, ok: bool, message: str = "") -> None:
        """Take note of how a sink or a source is."""
        self._health.report(part, ok, message)

    @property
    def writable(self) -> bool:
        """Whether the log could be written when it was tried last: else no samples are taken."""
        return self._health.writable

    @property
    def applier(self) -> Applier:
        """What applies the log."""
        return self._engine.applier

    @property
    def removed_counts(self) -> Counter[str]:
        """What the streams that were removed had counted, as `StreamView.counts`."""
        return Counter(self.applier.removed)

    @property
    def lag(self) -> int:
        """How many samples were taken in that are not applied."""
        return self._engine.lag

    def _shown(self, stream: StreamRecord) -> StreamView:
        view = stream.shown()
        if stream.is_live:
            return view
        return replace(view, needed=self.config.for_stream(stream.name).history)

    def _record(self, number: int) -> StreamRecord:
        stream = self._engine.applier.streams.get(number)
        if stream is None:
            raise InputError(f"expected a stream, found none of number {number}")
        return stream

    # ------------------------------------------------------------------ the applying thread

    def _after(self, applier: Applier, idle: bool) -> None:
        """Do what follows from a record: hand in fits that are due, and start those that began."""
        if not idle:
            self._clock.mark_active(applier.touched)
            with self._touch_lock:
                for number, stream in applier.touched.items():
                    self._touched[number] = stream.count
            self._health.samples = applier.samples
            # At a start all streams: one may have been due when the service was killed.
            looked_at = applier.touched.values() if self._looked else list(applier.streams)
            self._looked = True
            for stream in looked_at:
                self._begin_if_due(stream)
            self.sinks.applied(applier)
        while applier.started:
            self._start_fit(applier, applier.started.pop())
        if time.monotonic() >= self._checkpoint_at and applier.position > self._saved:
            self.checkpoint()
        if time.monotonic() >= self._retention_at:
            self._retention_at = time.monotonic() + _RETENTION_S
            if applier.position > self._saved:
                self.checkpoint()  # to apply the log again needs no sample that is removed now
            self._retain(applier)

    def _begin_if_due(self, stream: StreamRecord) -> None:
        due = fit_due(stream, self.config.for_stream(stream.name))
        if due is not None and not self._stopping.is_set():
            stream.begun = True
            self._engine.submit(due, internal=True)

    def _start_fit(self, applier: Applier, stream: StreamRecord) -> None:
        fit = stream.fit
        if fit is None or applier.streams.get(stream.id) is not stream or self._stopping.is_set():
            return
        path = applier.models / modelling.model_file(stream, fit)
        if path.exists():  # it was fitted before a kill, and not taken over yet
            taken = log.FitTaken(stream.id, fit.began, path.name)
            self._engine.submit(taken, internal=True)
            return
        settings = self.config.for_stream(stream.name)
        limit = settings.alarms_per_day
        if self.config.service_alarms_per_day is not None:
            limit = self.config.service_alarms_per_day / max(len(applier.streams), 1)
        try:
            history = modelling.history_of(applier, stream)
            given = limit, settings.accept_after, settings.units
            detector = modelling.new_detector(history, *given)
        except NewnormalError as error:
            failed = log.FitFailed(stream.id, fit.began, error.message, error.hint)
            self._engine.submit(failed, internal=True)
            return
        self.fits.add(FitJob(stream.id, fit.began, detector, history, path))

    def _fitted(self, job: FitJob, error: NewnormalError | None) -> None:
        entry: log.Entry = log.FitTaken(job.stream, job.began, job.path.name)
        if error is not None:
            again = not isinstance(error, InputError)  # not for what the samples are
            entry = log.FitFailed(job.stream, job.began, error.message, error.hint, again)
        self._engine.submit(entry, internal=True)

    def checkpoint(self) -> None:
        """Save everything; in the applying thread, or when that has ended."""
        began = time.monotonic()
        self._checkpoint_at = began + _LEAST_CHECKPOINT  # where it cannot be written
        self._saved = save_checkpoint(self._engine.applier)
        took = time.monotonic() - began
        self._health.checkpoint_s = took
        every = max(self.config.checkpoint_every / 1e9, _LEAST_CHECKPOINT * took)
        self._checkpoint_at = time.monotonic() + every
        self._positions.append((time.monotonic(), self._saved))
        oldest = time.monotonic() - (self.config.retention.log or 0) / 1e9
        while self._positions and self._positions[0][0] <= oldest:
            self.log.trim(self._positions.popleft()[1])
        self.log.settle()
        give_back()

    def _retain(self, applier: Applier) -> None:
        modelling.remove_models(applier)
        kept = self.config.retention
        needed = {}
        for stream in applier.streams:
            newest, fit = self.config.for_stream(stream.name).max_history, stream.fit
            needed[stream.id] = newest if fit is None else max(newest, stream.count - fit.first)
        removed = apply_retention(
            self.store,
            now=self.clock(),
            age_ns={0: kept.samples, 1: kept.thinned},
            size=kept.size,
            needed=needed,
            items_age_ns=kept.items,
        )
        if removed.more:
            self._retention_at = time.monotonic() + _AGAIN_S

    # ------------------------------------------------------------------ the clock's thread

    def _take_requests(self) -> None:
        """Hand in what commands on this machine left in the inbox."""
        for number, text in self.log.requests():
            if number > self._requested:
                self._requested = number
                entry = decision_entry(self._engine.applier.streams, **request_of(text))
                self._engine.submit(entry, internal=True, request=number)

    def _decide(self) -> None:
        """Hand in what the clock decides; not while samples wait that would decide otherwise."""
        if self.log.last - self._engine.applier.position <= _BEHIND:
            for entry in self._clock.decide(self._engine.applier.streams):
                self._engine.submit(entry, internal=True)

    def _tick(self) -> None:
        while not self._stopping.wait(_TICK_S):
            try:
                self._take_requests()
                self._decide()
                self._health.try_log(
                    lambda: self._engine.submit(log.SamplesArrived(()), internal=True)
                )
            except Exception:  # noqa: BLE001  (a thread that ends would close no step any more)
                if self._stopping.is_set():
                    return
                _LOG.exception("what the clock decides was not decided")
            with self._touch_lock:
                touched, self._touched = self._touched, {}
            if touched:
                self.hub.publish(Tick(touched))
            self._health.tick()
            if self.bodies.freed > _WORTH_GIVING_BACK:
                self.bodies.freed = 0
                give_back()


def _once_applied(submitted: Submitted) -> Future[int]:
    """Return the future of an entry's position that is done once the entry is applied."""
    position: Future[int] = Future()
    position.set_running_or_notify_cancel()

    def finish(applied: Future[Any]) -> None:
        error = applied.exception()
        if error is not None:
            position.set_exception(error)
        else:
            position.set_result(submitted.durable.result())

    submitted.applied.add_done_callback(finish)
    return position


def fit_due(stream: StreamRecord, settings: StreamDefaults) -> log.FitBegan | None:
    """Return the fit that a stream is due for; None if it is not."""
    if stream.fit is not None or stream.begun:
        return None
    last = stream.count - 1
    first = max(0, stream.count - settings.max_history)
    if stream.wanted is not None:
        channels, since = stream.wanted
        enough = stream.count - since >= min(settings.history, settings.max_history)
        return (
            log.FitBegan(stream.id, max(since, first), last, "channels", channels)
            if enough
            else None
        )
    if not stream.is_live:
        needed = max(settings.history, 2 * stream.tried)
        if stream.count < needed:
            return None
        # What came with it is judged: how it was cut into batches decides nothing.
        return log.FitBegan(stream.id, max(0, needed - settings.max_history), needed - 1, "history")
    model = stream.model
    every = settings.refit_every
    if every is None or model is None or stream.order.closed - model.time < every:
        return None
    enough = last > model.last and stream.count >= stream.tried + settings.history
    return log.FitBegan(stream.id, first, last, "schedule") if enough else None
