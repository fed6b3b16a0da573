"""What the arrays of streams can be, for one stream of a file and for many of a fleet at once.

Kernels use counters as positions and search levels up to where the tail begins: a file that is
whole but wrong must not make them read elsewhere. Most limits are on the line of an array
(`newnormal.types.tables`); those that need more than another counter are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance import TimedAcceptance
from newnormal.core.state import Fitted, StreamState
from newnormal.errors import StateError
from newnormal.kernels import accepted, alarm, step
from newnormal.kernels.alarm import AlarmState
from newnormal.kernels.step import StepState
from newnormal.kernels.stream import (
    CHANGE_NUMBER,
    CHANGE_STATE,
    LOG_NEWEST,
    LOG_NUMBER,
    LOG_PEAK,
    LOG_START,
    REVIEWS,
    SHADOW_TRAINS,
    Baseline,
    ReviewState,
    Shadow,
)
from newnormal.types.tables import (
    BOUNDED,
    FAR_LEVEL,
    FINITE,
    LARGEST_COUNT,
    LEVEL,
    Sizes,
    Wrong,
    declared,
    flatten,
    wrong_counters,
)

_KEPT_LEVELS, _MOVED = declared(Baseline)["levels"], declared(ReviewState)["levels"].range
Arrays = Mapping[str, NDArray[Any]]  # (N, ...) by name


def sizes_of(fitted: Fitted) -> dict[str, Any]:
    """Return how long the axes of a stream's arrays are, by their letters."""
    sizes: dict[str, Any] = getattr(fitted.model, "sizes", {})
    sizes = {**sizes, "C": len(fitted.channels)}
    if isinstance(fitted.acceptance, TimedAcceptance):
        timing = fitted.acceptance.timing
        sizes |= {"N": timing.kept_scores, "M": timing.positions}
    return sizes


def check_arrays(
    kind: type[StreamState | Baseline | Shadow | AlarmState],
    arrays: Arrays,
    sizes: Sizes,
    names: Sequence[str],
    fitted: Sequence[Fitted] = (),
) -> None:
    """Raise a StateError unless the numbers of N streams are what they can be.

    `arrays` has an array (N, ...) for each array of a stream, or of a part of one, whose shapes are
    right; `sizes` are those of all streams, `names` theirs. A StreamState needs what was `fitted`.
    """
    for expected, wrong in _wrong(kind, arrays, sizes, fitted):
        if wrong.any():
            row = int(np.flatnonzero(wrong.reshape(len(names), -1).any(axis=1))[0])
            raise StateError(f"{names[row]}: expected {expected}, found others")


def check_shadow(shadow: Shadow, stream: StepState, sizes: Sizes, name: str) -> None:
    """Raise a StateError unless the numbers of a shadow are what they can be beside its stream."""
    arrays = {each: array[None] for each, array in flatten(shadow)}
    check_arrays(Shadow, arrays, sizes, [name])
    pending = shadow.model.step.counts[step.PENDING]
    if shadow.counts[SHADOW_TRAINS] and pending != stream.counts[step.PENDING]:
        raise StateError(
            f"{name}.model.step.counts: expected as many pending as the stream has, found others"
        )


def _wrong(kind: type, arrays: Arrays, sizes: Sizes, fitted: Sequence[Fitted]) -> Iterator[Wrong]:
    table = declared(kind)
    for name, array in arrays.items():
        if (line := table.get(name)) is None:
            continue
        if not line.counters:
            yield f"{name}: {line.range.words}", ~line.range.holds(array)
        if name.endswith("accepted.counts"):
            grows = array[:, accepted.GROWS]
            yield (
                f"{name}: a pattern where one grows",
                (grows > 0) & (array[:, accepted.NEXT_PATTERN] == 0),
            )
        if name.endswith("tail_levels"):  # they are searched up to where the tail begins
            start = arrays[name.replace("tail_levels", "tail_excess")][:, 0]
            yield f"{name}: the start of the tail", array[:, -1] < start
        if name.endswith("lows") and line.shape == ("4C",):
            highs = name.replace("lows", "highs")
            levels = slice(array.shape[-1] // 4, array.shape[-1] // 2)
            yield (
                f"{name}, {highs}: levels that a stream can have",
                (array[:, levels] > FAR_LEVEL) | (arrays[highs][:, levels] < -FAR_LEVEL),
            )
            yield f"{name}: at most {highs}", array > arrays[highs]
        if line is _KEPT_LEVELS:  # undo puts the last one back
            yield f"{name}, of the weights: {_MOVED.words}", ~_MOVED.holds(array[:, -1])
    yield from wrong_counters(table, arrays, sizes)
    if kind is StreamState:
        yield from _wrong_stream(arrays, fitted)


def _wrong_stream(arrays: Arrays, fitted: Sequence[Fitted]) -> Iterator[Wrong]:
    counts = arrays["model.step.counts"]
    window = arrays["model.step.samples"].shape[1]
    stride = np.array([each.step.stride for each in fitted])
    full = counts[:, step.HELD] == window
    yield (
        "model.step.counts.pending: less than the stride",
        full & (counts[:, step.PENDING] >= stride),
    )
    experts = arrays.get("model.own.counts")
    if experts is None:
        # A committee's window begins with missing samples, which count as held.
        yield (
            "model.step.counts.held: samples seen",
            (counts[:, step.HELD] > counts[:, step.SEEN])
            | (counts[:, step.HELD] > arrays["times.counts"][:, 0]),
        )
    else:
        same = [step.HELD, step.PENDING, step.CYCLE, step.SEEN]
        yield (
            "model.own.counts: those of the stream",
            (experts[..., same] != counts[:, None, same]).any(axis=(1, 2)),
        )
        if "observed.left" in arrays:
            beside = np.concatenate(
                [arrays["observed.counts"][:, None], arrays["observed.own.counts"]], axis=1
            )
            differs = (beside[..., same] != counts[:, None, same]).any(axis=(1, 2))
            yield (
                "observed.counts: those of the stream",
                differs & (arrays["observed.left"][:, 0] > 0),
            )
    log = arrays["log.counts"]
    yield (
        "log.counts.open: 0 or the newest",
        (log[:, LOG_NUMBER] != 0) & (log[:, LOG_NUMBER] != log[:, LOG_NEWEST]),
    )
    limited = np.array([each.alarm.rate != 0 for each in fitted])
    yield from wrong_alarms(arrays["alarm.levels"], arrays["alarm.recent"], limited)
    active = np.array([each.alarms.active for each in fitted])
    yield (
        "log.counts.open: the open alarm",
        active & (log[:, LOG_NUMBER] != arrays["alarm.counts"][:, alarm.OPEN]),
    )
    yield "log.counts.peak: no sample before its start", log[:, LOG_START] > log[:, LOG_PEAK]
    spans = arrays["log.spans"]
    yield (
        "log.spans: samples of the stream, or -1",
        (spans < -1) | (spans > counts[:, step.SEEN, None, None]),
    )
    yield (
        "log.ratios: above 0 where there are samples",
        (arrays["log.ratios"] > 0) != (spans >= 0).all(axis=2),
    )
    channels = arrays["silence.missing"].shape[1]
    for name in ("log.channels", "silence.channels"):
        named = np.sort(arrays[name], axis=1)
        twice = ((named[:, 1:] == named[:, :-1]) & (named[:, 1:] >= 0)).any(axis=1)
        beyond = ((named < -1) | (named >= channels)).any(axis=1)
        yield f"{name}: channels, each once, or -1", twice | beyond
    if "review.counts" in arrays:
        yield from _wrong_changes(arrays, fitted)


def wrong_alarms(
    levels: NDArray[Any], recent: NDArray[Any], limited: NDArray[Any]
) -> Iterator[Wrong]:
    """Compare levels: rates are finite, and where there is a limit on alarms all are."""
    rates = [alarm.RECENT_ALARMS, alarm.RECENT_SAMPLES]
    yield "alarm.levels: finite rates", ~FINITE.holds(levels[:, rates])
    kept = [alarm.LOCATION, alarm.START_LOCATION, alarm.HEIGHT, alarm.START_HEIGHT]
    yield "alarm.levels: finite numbers", limited[:, None] & ~FINITE.holds(levels[:, kept])
    yield f"alarm.recent: {BOUNDED.words}", limited[:, None] & ~BOUNDED.holds(recent)


def _wrong_changes(arrays: Arrays, fitted: Sequence[Fitted]) -> Iterator[Wrong]:
    lengths = [
        each.acceptance.timing.review_length if isinstance(each.acceptance, TimedAcceptance) else 0
        for each in fitted
    ]
    length = np.array(lengths)
    seen = arrays["model.step.counts"][:, step.SEEN]
    reviews = arrays["review.counts"][:, REVIEWS]
    left = (np.minimum(reviews, LARGEST_COUNT // np.maximum(length, 1)) + 1) * length - seen
    window = arrays["model.step.samples"].shape[1]
    yield (
        "review.counts.reviews: as many as the samples seen make",
        (left < 1) | (left > length + window),
    )
    C = arrays["drift.levels"].shape[1]
    for name in ("position", "start"):  # a change's levels are taken from these
        levels = arrays[f"drift.{name}"][:, C : 2 * C]
        yield f"drift.{name}: {LEVEL.words}", ~LEVEL.holds(levels)
    changes = arrays["changes.counts"]
    number, state = changes[..., CHANGE_NUMBER], changes[..., CHANGE_STATE]
    yield "changes.counts.state: pending or rejected", (number > 0) != (state > 0)
    numbers = np.sort(number, axis=1)
    yield (
        "changes.counts.number: different ones",
        ((numbers[:, 1:] == numbers[:, :-1]) & (numbers[:, 1:] > 0)).any(axis=1),
    )
