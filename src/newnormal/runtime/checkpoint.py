"""The checkpoint of a watched input: the detector and its position there, in one state file."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal import state as state_file
from newnormal.base import BaseDetector
from newnormal.detector import from_state
from newnormal.errors import NewnormalError, ParameterError, StateError
from newnormal.io.registry import kind_of
from newnormal.io.sources.base import FRESH, Source
from newnormal.io.sources.streams import StreamInput
from newnormal.state import State

_RESERVED = ("kind", "feedback")  # of a position, for what is not the source's


@dataclass(frozen=True)
class Resumed:
    """What to go on with."""

    # The detector, and the source at the position that belongs to it.
    detector: BaseDetector
    source: Source
    applied: tuple[str, ...] = ()  # keys of the feedback that the checkpoint contains
    # Whether the source goes on from a checkpoint; False: it starts at its beginning.
    continues: bool = False
    replaced: bool = False  # whether there was a checkpoint, of another input


def save(
    path: Path, detector: BaseDetector, kind: str, snapshot: dict[str, Any], applied: Sequence[str]
) -> None:
    """Write a checkpoint, atomically. What came before it must have been flushed out."""
    for name in _RESERVED:
        if name in snapshot:
            raise ParameterError(
                f"source: expected a snapshot without {name!r}, found {snapshot!r}",
                hint=f"{' and '.join(_RESERVED)} are reserved: choose another key",
            )
    detector.write(path, place={**snapshot, "kind": kind, "feedback": list(applied)})


def resume(
    model: Path,
    checkpoint: Path | None,
    make_source: Callable[[BaseDetector], Source],
    report: Callable[[str], None],
    loading: tuple[object, object] = (None, None),
) -> Resumed:
    """Return the detector to go on with and its source, at the position that belongs to it.

    Parameters
    ----------
    model
        The detector to start with where there is no checkpoint of this input.
    checkpoint
        The state file of an earlier watch, if there is one.
    make_source
        Makes the source for a detector.
    report
        Called with a line for the user.
    loading
        The classes of a model and of a threshold that are not built in, for `newnormal.load`.
    """

    def load(path: Path) -> BaseDetector:
        return from_state(state_file.read(path), str(path), *loading)

    if checkpoint is None or not checkpoint.exists():
        detector = load(model)
        return Resumed(detector, make_source(detector))
    same_file = checkpoint.resolve() == model.resolve()
    state = state_file.read(checkpoint)
    if (position := input_position(state, checkpoint)) is None:
        if not same_file:
            report(f"{checkpoint} has no place in an input: starting from {model}")
        detector = load(model)
        return Resumed(detector, make_source(detector))
    detector = from_state(state, str(checkpoint), *loading)
    source = make_source(detector)
    snapshot = {name: value for name, value in position.items() if name not in _RESERVED}
    if position["kind"] == kind_of(source) and resumed(source, snapshot, checkpoint):
        if not same_file and not _same_fit(state, model):
            report(
                f"{checkpoint} continues another fit than {model}: delete it to start from {model}"
            )
        return Resumed(detector, source, tuple(position["feedback"]), continues=True)
    other = other_input(checkpoint, position, source.identity)
    report(f"{other}; reading this one from the start with {model}")
    source.close()
    if not same_file:
        detector = load(model)
    source = make_source(detector)
    return Resumed(detector, source, tuple(position["feedback"]), replaced=True)


def input_position(state: State, origin: Path) -> dict[str, Any] | None:
    """Return the position in an input that a state file has, None if it has none."""
    if (position := state.facts.get("place")) is None:
        return None
    if not isinstance(position, dict) or not isinstance(position.get("kind"), str):
        raise StateError(
            f"{origin}: expected place with the kind of its input, found {position!r}", hint=FRESH
        )
    keys = position.get("feedback", [])
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise StateError(
            f"{origin}: expected place.feedback as a list of keys, found {keys!r}", hint=FRESH
        )
    return {**position, "feedback": keys}


def stream_of(detector: BaseDetector, source: Source) -> str:
    """Return a digest that tells this input and this fit from others."""
    digest = hashlib.sha256(f"{kind_of(source)}\n{source.identity}\n".encode())
    digest.update(np.ascontiguousarray(_fitted(detector.to_state())).tobytes())
    return digest.hexdigest()[:32]


def resumed(source: Source | StreamInput, snapshot: dict[str, Any], checkpoint: Path) -> bool:
    """Have a source go to a position; if it cannot, close it and name the checkpoint."""
    try:
        return source.resume(snapshot)
    except StateError as error:
        source.close()
        raise StateError(f"{checkpoint}: {error.message}", hint=error.hint) from None
    except (AttributeError, IndexError, KeyError, TypeError) as error:  # of a source of others
        source.close()
        inner = getattr(source, "wrapped", source)
        raise StateError(
            f"{checkpoint}: {type(inner).__name__} cannot resume from the place {snapshot!r}: "
            f"{type(error).__name__}: {error}",
            hint=FRESH,
        ) from error
    except BaseException:
        source.close()
        raise


def other_input(checkpoint: Path, position: dict[str, Any], identity: str) -> str:
    """Return a text about the input that a checkpoint was saved for."""
    if position["kind"] == "pipe":
        return f"{checkpoint} was saved for standard input"
    if (path := position.get("path")) is None:
        return f"{checkpoint} was saved for another input"
    if path == identity:
        return f"{checkpoint} was saved for an earlier content of {path}"
    return f"{checkpoint} was saved for another file ({path})"


def _same_fit(state: State, model: Path) -> bool:
    try:
        return np.array_equal(_fitted(state), _fitted(state_file.read(model)))
    except NewnormalError:
        return False


def _fitted(state: State) -> NDArray[Any]:
    """Return the weights as `fit` left them."""
    return state.tensors["fitted.step.fitted"]
