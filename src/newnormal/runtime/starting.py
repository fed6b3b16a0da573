"""What a watch begins with: detectors and an input, at the position that belongs to them."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.base import BaseDetector
from newnormal.engine.folder import SingleEngine, is_engine_folder
from newnormal.errors import NewnormalError, StateError
from newnormal.fleet import Fleet
from newnormal.fleet.folder.names import LOCK
from newnormal.io.sources.base import FRESH
from newnormal.runtime.inputs import WatchInput
from newnormal.runtime.watch import InMemory
from newnormal.state.targets import check_folder_of
from newnormal.types import time_text


@dataclass(frozen=True)
class WatchStart:
    """What to go on with."""

    judge: SingleEngine | InMemory
    source: WatchInput
    continues: bool = False  # whether the input goes on from an earlier start
    elsewhere: bool = True  # whether the input may begin before what the models have seen

    def close(self, *, save: bool) -> None:
        """Close the input, and let go of the folder."""
        self.source.close()
        if isinstance(self.judge, SingleEngine):
            self.judge.close(save=save)


def start(
    load: Callable[[], Fleet],
    model: Path,
    state: Path | None,
    make_source: Callable[[Fleet], WatchInput],
    report: Callable[[str], None],
    classes: tuple[object, object] = (None, None),
) -> WatchStart:
    """Return the detectors to go on with and their input.

    Parameters
    ----------
    load
        Reads MODEL, in which a detector of one stream is called "".
    model, state
        The path of MODEL, and of the folder to keep what is learned in, which may be MODEL.
    make_source
        Makes the input for a fleet's channels.
    report
        Called with a line for the user.
    classes
        Of a model and of a threshold that are not built in.
    """
    if state is None:
        fleet = load()
        return WatchStart(InMemory(fleet), make_source(fleet))
    check_folder_of(state, "a `watch` or a service", _is_ours)
    is_new = not is_engine_folder(state)
    first = load() if is_new or not _is_same(model, state) else None
    with ExitStack() as failed:
        if is_new and first is not None:  # an input that is missing leaves no folder behind
            source = make_source(first)
            failed.callback(source.close)
        engine = SingleEngine(state, classes=classes)
        failed.callback(engine.close, save=False)
        if len(engine.fleet):
            begun = _continued(engine, first, model, make_source, report)
        else:
            engine.begin(load() if first is None else first)
            begun = WatchStart(engine, source if is_new else make_source(engine.fleet))
        failed.pop_all()
    return begun


def _continued(
    engine: SingleEngine,
    first: Fleet | None,
    model: Path,
    make_source: Callable[[Fleet], WatchInput],
    report: Callable[[str], None],
) -> WatchStart:
    """Go on with a folder that has streams."""
    folder, position = engine.folder, engine.input_position
    if first is not None and not _alike(first, engine.fleet):
        report(f"{folder} continues another fit than {model}: delete it to start from {model}")
    source = make_source(engine.fleet)
    if position is None:
        report(f"{folder} has no position in an input: reading this one from the start")
        return WatchStart(engine, source, elsewhere=False)
    snapshot = {name: part for name, part in position.items() if name not in ("kind", "zone")}
    if position.get("kind") == source.kind and resumed(source, snapshot, folder):
        _report_resumed(engine, source, report)
        return WatchStart(engine, source, continues=True)
    report(f"{other_input(folder, position, source.identity)}; reading this one from the start")
    source.close()
    return WatchStart(engine, make_source(engine.fleet))


def resumed(source: WatchInput, snapshot: dict[str, Any], folder: Path) -> bool:
    """Have a source go to a position; if it cannot, close it and name the folder."""
    try:
        return source.resume(snapshot)
    except StateError as error:
        source.close()
        raise StateError(f"{folder}: {error.message}", hint=error.hint) from None
    except (AttributeError, IndexError, KeyError, TypeError) as error:  # of a source of others
        source.close()
        raise StateError(
            f"{folder}: {source.kind} cannot resume from the position {snapshot!r}: "
            f"{type(error).__name__}: {error}",
            hint=FRESH,
        ) from error
    except BaseException:
        source.close()
        raise


def _report_resumed(
    engine: SingleEngine, source: WatchInput, report: Callable[[str], None]
) -> None:
    newest = max(engine.fleet.last_times_.values(), default=None)
    if source.is_exact:
        line = source.snapshot().get("line")
        report(f"resuming at line {line + 1}" if isinstance(line, int) else "resuming")
    elif newest is None:
        what = source.record
        report(f"resuming: the samples have no times, so the next {what} is taken as new")
    else:
        zone = (engine.input_position or {}).get("zone")
        report(f"resuming: samples up to {time_text(newest, zone)} were judged and are skipped")


def other_input(folder: Path, position: Any, identity: str) -> str:
    """Return a text about the input that a folder has a position in."""
    if position.get("kind") == "pipe":
        return f"{folder} was saved for standard input"
    if (path := position.get("path")) is None:
        return f"{folder} was saved for another input"
    if path == identity:
        return f"{folder} was saved for an earlier content of {path}"
    return f"{folder} was saved for another file ({path})"


def _is_same(model: Path, state: Path) -> bool:
    return state.exists() and model.exists() and model.samefile(state)


def _is_ours(folder: Path) -> bool:
    return is_engine_folder(folder) or {path.name for path in folder.iterdir()} == {LOCK}


def _alike(first: Fleet, fleet: Fleet) -> bool:
    """Whether two fleets have fits in common; of one stream, the same fit."""
    for name in first:
        if name in fleet:
            try:
                return np.array_equal(_fitted(first[name]), _fitted(fleet[name]))
            except NewnormalError:
                return False
    return False


def _fitted(detector: BaseDetector) -> NDArray[Any]:
    """Return the weights as `fit` left them."""
    return detector.to_state().tensors["fitted.step.fitted"]
