"""A detector from data, and the file that is written once it can be read."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from newnormal.core.state import Fitted, StreamState
from newnormal.errors import ParameterError, StateError
from newnormal.models.registry import find
from newnormal.packing.events import EventReader
from newnormal.packing.stream import StreamReader
from newnormal.state import State, decode, encode, write
from newnormal.state.schema import AGAIN
from newnormal.thresholds import MovingThreshold, Threshold, for_file
from newnormal.types import Alarm, Change, Event

_MOST_EVENTS = 1000
_MOST_PAST = 100


class Unpacked(NamedTuple):
    """What a state file holds."""

    method: str
    options: dict[str, Any]  # of the detector's constructor
    threshold: Threshold | MovingThreshold | None  # None where the file names none
    fitted: Fitted
    state: StreamState
    events: list[Event]
    past: list[Alarm | Change]


def unpack(
    state: State, origin: str = "this", model: object = None, threshold: object = None
) -> Unpacked:
    """Return what a file holds, checked.

    `origin` names the file in errors; `model` is the class, or its import path, of a model that is
    neither built in nor an installed entry point, and `threshold` that of such a threshold.

    Raises
    ------
    ParameterError
        If `model` or `threshold` is not one.
    StateError
        If the file does not fit.
    """
    if model is not None:
        find(model)
    threshold = for_file(threshold)
    try:
        reader = StreamReader(state, model, threshold)
        fitted = reader.fitted()
        stream = reader.stream(fitted)
        found = EventReader(fitted.channels, fitted.model.vote_count)
        events = [found.event(each) for each in reader.facts.parts("events", _MOST_EVENTS)]
        past = found.past(reader.facts.parts("past", _MOST_PAST))
        reader.done()
    except StateError as error:
        raise StateError(f"{origin}: {error.message}", hint=error.hint or AGAIN) from None
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
            f"{origin} is not a state this newnormal understands: {error}", hint=AGAIN
        ) from error
    return Unpacked(reader.method, reader.options, reader.rule, fitted, stream, events, past)


def write_checked(
    path: str | os.PathLike[str], state: State, model: object = None, threshold: object = None
) -> None:
    """Write a state file, once the code that loads has read its content.

    What is there already stays if it cannot be read. Options are those of `unpack`.
    """
    content = encode(state)
    try:
        unpack(decode(content, str(path)), str(path), model, threshold)
    except StateError as error:
        raise StateError(
            f"nothing was written, since it could not be loaded again: {error.message}",
            hint="report this, with the message; the file that was there is as it was",
        ) from error
    write(path, content)
