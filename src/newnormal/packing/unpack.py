"""A detector from data."""

from __future__ import annotations

from typing import Any, NamedTuple

from newnormal.config import Config
from newnormal.core.state import Fitted, StreamState
from newnormal.errors import ParameterError, StateError
from newnormal.packing.alarms import event_of
from newnormal.packing.stream import StreamReader
from newnormal.state import State
from newnormal.thresholds import MovingThreshold, Threshold
from newnormal.types import AlarmEvent

__all__ = ["Unpacked", "unpack"]

_MOST_EVENTS = 1000


class Unpacked(NamedTuple):
    """What a state file holds."""

    method: str
    options: dict[str, Any]  # of the detector's constructor
    config: Config
    threshold: Threshold | MovingThreshold | None  # None for the default
    fitted: Fitted
    state: StreamState
    events: list[AlarmEvent]


def unpack(
    state: State, origin: str = "this", model: object = None, threshold: object = None
) -> Unpacked:
    """Return what a file holds, checked.

    `origin` names the file in errors; `model` is the class, or its import path, of a model that is
    neither built in nor an installed entry point, and `threshold` that of such a threshold.
    """
    try:
        reader = StreamReader(state, model, threshold)
        fitted = reader.fitted()
        stream = reader.stream(fitted)
        events = [event_of(each) for each in reader.facts.list("events", _MOST_EVENTS)]
        reader.done()
    except StateError as error:
        raise StateError(f"{origin}: {error.message}", hint=error.hint or _AGAIN) from None
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        ParameterError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise StateError(
            f"{origin} is not a state this newnormal understands: {error}", hint=_AGAIN
        ) from error
    return Unpacked(
        reader.method, reader.options, reader.config, reader.rule, fitted, stream, events
    )


_AGAIN = "restore it from a backup, or fit again with `newnormal fit`"
