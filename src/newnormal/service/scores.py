"""Delivery of scores: a thread for each sink, which reads what was judged from the store."""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from newnormal.errors import StateError
from newnormal.io.sinks.scores import ScoreBatch, ScoreSink, ScoresRefusedError
from newnormal.service.config import SinkConfig
from newnormal.service.connectors import make_score_sink
from newnormal.service.engine.streams import StreamRecord, StreamRecords
from newnormal.service.retry import Loop, one_line
from newnormal.service.score_reading import JudgedRange, ScorePoints, ScoreReader, batches_of
from newnormal.service.sink_thread import SECOND, SinkCalls
from newnormal.service.store import Store
from newnormal.service.workers import Workers

_SPACE = "scores"  # of the settings: how far each sink is
_ROUND = 5 * SECOND  # how often scores are read
_MOST = 20_000  # scores of a round
_REFUSING = 60 * SECOND  # how long it is reported that scores were refused

_log = logging.getLogger(__name__)


class ScoreSender:
    """Sends scores to one sink. Used by one thread.

    In each round it reads what was judged since the last one, at most `_MOST` scores, and sends it
    in batches. Before, it writes from where to where the round goes; so after a kill the same
    batches are sent again, and a receiver that has them already loses nothing of others.

    Parameters
    ----------
    name
        Of the sink.
    make
        Makes it: at first, and again after a call of it has not returned.
    store
        Has the samples, and how far the sink is.
    judged
        The live streams by number.
    report
        Called with the name of this part of the service, whether it is well, and a message.
    clock
        Returns the time in ns.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], ScoreSink],
        store: Store,
        judged: Mapping[int, JudgedRange],
        report: Callable[[str, bool, str], None],
        *,
        clock: Callable[[], int],
    ) -> None:
        self.name = name
        self._store, self._judged, self._clock = store, judged, clock
        self._calls = SinkCalls(name, make, report, clock, ScoresRefusedError)
        found = store.settings.get(_SPACE, name) or {"since": clock()}
        self._since: int = found["since"]
        self._places = {int(key): at for key, at in found.get("places", {}).items()}
        self._sending = {int(key): at for key, at in found.get("sending", {}).items()}
        self._again = bool(self._sending)
        self._waiting: deque[ScoreBatch] = deque()
        self._reader = ScoreReader(store)
        self._looked = (0, 0)  # from when to when no other round is begun
        self._last = 0  # the stream that the last round ended with
        self._refused_at: int | None = None
        self._refusal = ""
        self._unreadable: set[int] = set()
        self._stopping = threading.Event()
        self.sent = self.refused = self.left_out = 0

    def deliver(self) -> int:
        """Send what there is; return when to look again, in ns."""
        now = self._clock()
        paused = self._calls.paused_until(now)
        if paused is not None:
            return paused
        begin, end = self._looked
        if not self._waiting and begin <= now < end:
            return end
        if not self._judged:  # nothing is live, or the log is not yet applied
            return now + _ROUND
        try:
            sink = self._calls.sink
            if not self._waiting:
                self._looked = now, now + _ROUND
                self._plan(sink, now)
            while self._waiting:
                if self._stopping.is_set():
                    return now
                self._send(sink)
            self._settle()
            self._tell(now)
        except Exception as error:  # noqa: BLE001 - a sink that others wrote may raise anything
            return self._calls.pause(error)
        return self._looked[1]

    def stop(self) -> None:
        """Send no more; from any thread."""
        self._stopping.set()

    def close(self) -> None:
        """Close the sink; does not wait for it."""
        self._calls.close()

    # ------------------------------------------------------------------ a round

    def _plan(self, sink: ScoreSink, now: int) -> None:
        """Read what is to be sent, and write from where to where it goes."""
        keep = sink.keep
        oldest = self._since if keep is None else max(self._since, now - int(keep * SECOND))
        every = int(sink.every * SECOND)
        over = None if self._again else now
        found: list[ScorePoints] = []
        total, until = 0, dict[int, int]()
        for number, each, upto in list(self._due()):
            if total >= _MOST:
                self._looked = 0, 0  # there is more: no wait
                break
            first = self._places.get(number, each.first)
            try:
                points, begin, end = self._reader.read(
                    number, each, first, upto, oldest=oldest, every=every, over=over
                )
            except StateError as error:
                self._not_read(number, each.name, error)
                continue
            self._last = number
            if number in self._places:  # else nothing was sent before
                self.left_out += begin - first
            if end > first:
                until[number] = end
            if len(points.times):
                found.append(points)
                total += len(points.times)
        if self._again:
            self._looked = 0, 0  # then follows what came since
        self._sending, self._again = until, False
        if found:
            self._save()
            self._waiting.extend(batches_of(found, sink.at_once))

    def _due(self) -> Iterator[tuple[int, JudgedRange, int]]:
        """Give streams that have something to send, and up to which sample."""
        if self._again:  # what a round before a kill had
            for number, end in self._sending.items():
                known = self._judged.get(number)
                if known is not None:
                    yield number, known, end
            return
        numbers = sorted(self._judged)
        at = bisect_right(numbers, self._last)
        for number in (*numbers[at:], *numbers[:at]):
            each = self._judged.get(number)
            if each is not None and each.end > self._places.get(number, each.first):
                yield number, each, each.end

    def _not_read(self, number: int, name: str, error: StateError) -> None:
        """Go on with other streams: it is removed just now, or its samples are damaged."""
        if number not in self._unreadable:
            self._unreadable.add(number)
            _log.info("sink %s: scores of %s were not read: %s", self.name, name, one_line(error))

    # ------------------------------------------------------------------ a batch

    def _send(self, sink: ScoreSink) -> None:
        """Send the next batch, or leave it out if it waited for too long."""
        batch = self._waiting[0]
        keep = sink.keep
        if keep is not None and int(batch.times.max()) < self._clock() - int(keep * SECOND):
            self.left_out += len(batch)
        else:
            self._waiting[0] = replace(batch, attempt=batch.attempt + 1)  # the next time
            try:
                self._calls.call(lambda: sink.send(batch))
                self.sent += len(batch)
            except ScoresRefusedError as error:
                count = min(max(error.count, 0), len(batch))
                self.refused += count
                self.sent += len(batch) - count
                self._refused_at, self._refusal = self._clock(), one_line(error)
        self._waiting.popleft()

    def _settle(self) -> None:
        """Take note that all of a round was sent."""
        if not self._sending:
            return
        self._places.update(self._sending)
        self._sending = {}
        self._save()

    def _save(self) -> None:
        """Write how far the sink is. A power failure may undo it: then scores are sent again."""
        for number in set(self._places) - set(self._judged):  # removed streams
            del self._places[number]
            self._reader.forget(number)
        value = {"since": self._since, "places": self._places, "sending": self._sending}
        self._store.settings.put(_SPACE, self.name, value, sync=False)

    # ------------------------------------------------------------------ how it is

    def _tell(self, now: int) -> None:
        if self._calls.failures:
            return  # nothing was sent: it is not known whether it is up again
        at = self._refused_at
        if at is not None and 0 <= now - at < _REFUSING:
            self._calls.say(False, f"scores are refused: {self._refusal}")
        else:
            self._calls.say(True, "")

    def state(self) -> dict[str, Any]:
        """Return how it is, as `SinkCalls.state`, and how many scores were sent, refused, ..."""
        return {**self._calls.state(), **self.counts()}

    def counts(self) -> dict[str, int]:
        """Return how many scores were `sent`, `refused`, `left_out` as too old, and are `waiting`.

        What waits is counted in samples.
        """
        waiting = sum(
            max(0, each.end - self._places.get(number, each.first))
            for number, each in list(self._judged.items())
        )
        return {
            "sent": self.sent,
            "refused": self.refused,
            "left_out": self.left_out,
            "waiting": waiting,
        }


class Scores:
    """Sends scores to all sinks of the configuration that take them.

    Parameters
    ----------
    store
        Has the samples.
    report
        Called with ``"sink NAME"``, whether it is well, and a message.
    clock
        Returns the time in ns.
    """

    def __init__(
        self,
        store: Store,
        report: Callable[[str, bool, str], None],
        *,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._report, self._clock = store, report, clock
        self._judged: dict[int, JudgedRange] = {}
        self._whole = False  # whether all live streams are in it
        self._removed = 0  # how many streams there were that are removed
        self._senders: Workers[SinkConfig, ScoreSender] = Workers("sink", report)

    def start(self, sinks: Iterable[SinkConfig]) -> None:
        """Send to these sinks from now on, and to no others; their secrets are read anew."""

        def begin(config: SinkConfig) -> tuple[ScoreSender, Loop]:
            sender = ScoreSender(
                config.name,
                lambda: make_score_sink(config),
                self._store,
                self._judged,
                self._report,
                clock=self._clock,
            )
            return sender, Loop(f"sink {config.name}", self._step(sender), sender.close)

        self._senders.start(sinks, begin)

    def _step(self, sender: ScoreSender) -> Callable[[], float]:
        def step() -> float:
            return (sender.deliver() - self._clock()) / SECOND

        return step

    def applied(self, streams: StreamRecords, touched: Iterable[StreamRecord]) -> None:
        """Take note of how far streams are judged; by the thread that applies the log."""
        if not self._senders:
            self._whole = False
            return
        if not self._whole:
            touched = streams
            self._whole = True
        for stream in touched:
            if stream.is_live:
                alarms = stream.counts["alarms"], tuple(stream.items)
                self._judged[stream.id] = JudgedRange(
                    stream.name, stream.offset, stream.count, alarms
                )
        removed = streams.next_id - len(streams)
        if removed != self._removed:
            self._removed = removed
            for number in [each for each in self._judged if streams.get(each) is None]:
                del self._judged[number]

    def stop(self) -> None:
        """End all threads; what was not sent is sent after the next start."""
        self._senders.stop()

    def states(self) -> dict[str, dict[str, Any]]:
        """Return how each sink is: as `ScoreSender.state`, with its kind."""
        return self._senders.states()

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the counts of each sink."""
        return {name: sender.counts() for name, sender in self._senders.items()}
