"""What a sink of verdicts is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from newnormal.types import Event, Verdicts


@dataclass(frozen=True)
class SinkOptions:
    """What the user asks of a sink.

    Attributes
    ----------
    alarms_only
        `--alarms-only`: the user wants events, not verdicts. Both are written to every sink; each
        sink decides what it drops.
    """

    alarms_only: bool = False


class Sink(ABC):
    """Where verdicts and events go. Derive from it, and give `watch` your class's import path.

    After each batch `watch` calls `write_verdicts`, `write_events` and `flush`, and only then takes
    the next one. At the end it calls `close`.

    Parameters
    ----------
    target
        The `--output` of the command line: a path, an address; ``"-"`` if none was given.
    options
        What the user asked for.

    Notes
    -----
    After a kill, what was written of the last batch may be written again, the same values in the
    same order. A receiver can tell repeats: a verdict by its `sample`, an event by its `kind`,
    its `sample` and the numbers of its alarm and its change, of which either may be None.
    """

    def __init__(self, target: str, options: SinkOptions) -> None:
        self.target = target
        self.options = options

    @abstractmethod
    def write_verdicts(self, verdicts: Verdicts) -> None:
        """Write verdicts, all of them final, in the order of the stream. Do not change them."""

    @abstractmethod
    def write_events(self, events: Sequence[Event]) -> None:
        """Write what happened to alarms and changes, in the order in which it was known."""

    def flush(self) -> None:
        """Return once everything written so far would survive the end of this process."""
        return

    def close(self) -> None:
        """Release what the sink holds, such as a file. May be called twice."""
        return
