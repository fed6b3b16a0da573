"""A thread for each sink or source of the configuration, so that none slows another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from newnormal.service.retry import Loop, stop_all


class _Config(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...


class ConnectionWorker(Protocol):
    """What a thread does the steps of."""

    def state(self) -> dict[str, Any]:
        """Return how it is."""

    def stop(self) -> None:
        """Do no more; from any thread."""


Config = TypeVar("Config", bound=_Config)
W = TypeVar("W", bound=ConnectionWorker)


class Workers(Generic[Config, W]):
    """The workers of one kind of connection, by name.

    Parameters
    ----------
    word
        What one is called in reports: ``"sink"`` or ``"source"``.
    report
        Called with ``"{word} NAME"``, whether it is well, and a message.
    """

    def __init__(self, word: str, report: Callable[[str, bool, str], None]) -> None:
        self._word, self._report = word, report
        self._running: dict[str, tuple[Config, W, Loop]] = {}

    def start(self, configs: Iterable[Config], begin: Callable[[Config], tuple[W, Loop]]) -> None:
        """Have these work from now on, and no others.

        Parameters
        ----------
        begin
            Makes a worker and its thread, which is started here.
        """
        configs = list(configs)
        removed = set(self._running) - {each.name for each in configs}
        self.stop()
        for name in removed:
            self._report(f"{self._word} {name}", True, "removed from the configuration")
        for config in configs:
            worker, loop = begin(config)
            self._running[config.name] = config, worker, loop
            loop.start()

    def stop(self, timeout: float = 5.0) -> None:
        """End all threads, and wait for them together at most `timeout` seconds."""
        found = list(self._running.values())
        self._running = {}
        for _, worker, _ in found:
            worker.stop()
        stop_all((loop for _, _, loop in found), timeout)

    def wake(self) -> None:
        """Have all do their next step now."""
        for _, _, loop in list(self._running.values()):  # from any thread
            loop.wake()

    def states(self) -> dict[str, dict[str, Any]]:
        """Return how each is, with its kind."""
        return {
            name: {"kind": config.kind, **worker.state()}
            for name, (config, worker, _) in list(self._running.items())
        }

    def items(self) -> Iterator[tuple[str, W]]:
        """Give each name with its worker."""
        for name, (_, worker, _) in list(self._running.items()):
            yield name, worker

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, name: str) -> bool:
        return name in self._running
