"""Sources: a thread for each, which asks it for samples and hands them to the service."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.io.sources.base import Source, check_arrivals
from newnormal.service.config import SourceConfig
from newnormal.service.connectors import make_source
from newnormal.service.retry import ConnectionThreads, backoff, one_line
from newnormal.types import NO_TIME

if TYPE_CHECKING:
    from newnormal.service.service import Service

_LIMIT = 5000  # samples a batch
_SERVICE_WAIT = 10.0  # s to wait at most for the service itself
_LONGEST_WAIT = 30.0  # s until a source that failed is tried again
_NOT_READY = 0.2  # s to wait while the service starts or ends
_EMPTY = 0.05  # s to wait after an empty batch, whose source has waited by itself

_log = logging.getLogger(__name__)


class Puller:
    """Moves the samples of one source into the service, batch by batch. Used by one thread.

    A batch is kept until it is durable: if the service is behind or its disk is full, the source
    is not asked for more. Samples that the service refuses, as a limit is reached, are left out
    and counted.

    `make`: makes the source: at first, and again after an error. `limit`: the most samples of a
    batch. `positions`: durable input positions by source, which this adds to: the service may not
    have applied them yet.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Source],
        service: "Service",
        *,
        limit: int = _LIMIT,
        positions: dict[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.name = name
        self._make, self._service, self._limit = make, service, limit
        self._positions = {} if positions is None else positions
        self._source: Source | None = None
        self._held: tuple[Sequence[Arrival], dict[str, Any], int, bool] | None = None
        self._failures = 0  # in a row
        self._reported: tuple[bool, str] | None = None
        self.samples = self.refused = 0

    def step(self) -> float | None:
        """Move one batch; return how long to wait in s, or None at the end of the source."""
        try:
            if self._source is None:
                self._source = self._resumed()
            source = self._source
            if self._held is None:
                arrivals = source.next_batch(self._limit)
                if arrivals is None:
                    self.close()
                    self._report(True, f"ended after {self.samples:,} samples")
                    return None
                count = check_arrivals(f"source {self.name}", arrivals, self._limit)
                if not count:
                    self._well()
                    return _EMPTY
                self._held = self._named(arrivals), source.snapshot(), count, source.past
            if not self._service.ready:  # which is no fault of the source
                return _NOT_READY
            self._push(*self._held)
            self._held = None
            source.acknowledge()
        except Exception as error:  # noqa: BLE001 - a source that others wrote may raise anything
            return self._failed(error)
        self._well()
        return 0.0

    def _named(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Return samples with a time each, those of no stream as that called as the source."""
        if any((arrival.times == NO_TIME).any() for arrival in arrivals):
            raise InputError(f"source {self.name}: expected a time for each sample, found none")
        return [arrival._replace(stream=arrival.stream or self.name) for arrival in arrivals]

    def stop(self) -> None:
        """Do nothing more than this step, which is short: its thread ends after it."""

    def close(self) -> None:
        """Close the source."""
        source, self._source = self._source, None
        if source is None:
            return
        try:
            source.close()
        except Exception as error:  # noqa: BLE001 - it is not used any more
            _log.warning("source %s: close: %s", self.name, error)

    def _resumed(self) -> Source:
        """Return a new source at the input position that was logged last."""
        source = self._make()
        position = self._positions.get(self.name, self._service.input_position(self.name))
        try:
            if position is not None and not source.resume(dict(position)):
                _log.warning("source %s: another input than before, read as new", self.name)
        except Exception:
            source.close()
            raise
        return source

    def _push(
        self, arrivals: Sequence[Arrival], position: dict[str, Any], count: int, past: bool
    ) -> None:
        """Return once a batch is durable together with its input position."""
        push, name = self._service.push, self.name
        try:
            push(arrivals, source=name, input_position=position, past=past).result()
        except ValueError:  # some of it cannot be taken: find out which
            taken = sum(self._pushed(arrival, past) for arrival in arrivals)
            push((), source=name, input_position=position).result()
            self.refused += count - taken
            self.samples += taken
        else:
            self.samples += count
        self._positions[name] = position

    def _pushed(self, arrival: Arrival, past: bool) -> int:
        try:
            self._service.push((arrival,), source=self.name, past=past).result()
        except ValueError as error:
            _log.warning("source %s: %s: refused: %s", self.name, arrival.stream, error)
            return 0
        return len(arrival.times)

    def _failed(self, error: Exception) -> float:
        """Report an error; return how long to wait in s."""
        self._failures += 1
        message = one_line(error)
        for begin in (f"source {self.name}: ", f"source {self.name}, "):  # the report names it
            message = message.removeprefix(begin)
        self._report(False, message)
        wait = backoff(self._failures)
        if self._held is not None:  # the source is well: the service is behind, or its disk is full
            return min(wait, _SERVICE_WAIT)
        self.close()
        return wait

    def _well(self) -> None:
        self._failures = 0
        refused = f"{self.refused:,} samples refused by the limits" if self.refused else ""
        notice = self._source.notice() if self._source is not None else ""
        message = "; ".join(text for text in (refused, notice) if text)
        self._report(not message, message)

    def _report(self, ok: bool, message: str) -> None:
        """Report how it is, if that is news."""
        if (ok, message) == self._reported:
            return
        if not ok:
            _log.warning("source %s: %s", self.name, message)
        self._reported = ok, message
        self._service.report(f"source {self.name}", ok, message)

    def state(self) -> dict[str, Any]:
        """Return `ok`, `message`, `failures` in a row, `samples` taken and `refused`."""
        ok, message = self._reported or (True, "")
        return {
            "ok": ok,
            "message": message,
            "failures": self._failures,
            "samples": self.samples,
            "refused": self.refused,
        }


class Sources:
    """All sources of the configuration, each in a thread of its own."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._pullers: ConnectionThreads[SourceConfig, Puller] = ConnectionThreads(
            "source", service.report, longest=_LONGEST_WAIT
        )
        self._positions: dict[str, Mapping[str, Any]] = {}

    def start(self, sources: Iterable[SourceConfig]) -> None:
        """Ask these sources from now on, and no others; their secrets are read anew."""
        service, positions = self._service, self._positions
        self._pullers.start(
            sources,
            lambda source: Puller(
                source.name, partial(make_source, source), service, positions=positions
            ),
        )

    def stop(self) -> None:
        """End all threads; what was fetched and is not durable is fetched again after the start."""
        self._pullers.stop()

    def states(self) -> dict[str, dict[str, Any]]:
        """Return how each source is: as `Puller.state`, with its kind."""
        return self._pullers.states()
