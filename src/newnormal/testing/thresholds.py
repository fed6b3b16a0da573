"""A check for thresholds that others write."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from newnormal.detector import M2N2
from newnormal.errors import NewnormalError, StateError
from newnormal.kernels.decision import decide
from newnormal.testing.expecting import plant, require, stepwise
from newnormal.thresholds import MovingThreshold, Threshold, as_threshold, from_json, to_json
from newnormal.types import Floats

_SCORES = 500


def check_threshold(threshold: object, *, seed: int = 0) -> None:
    """Check a threshold, one that stays or one that moves: the object, or its import path.

    Parameters
    ----------
    threshold
        As a detector takes it.
    seed
        Of the scores.

    Examples
    --------
    >>> check_threshold(0.99)
    """
    try:
        rule = as_threshold(threshold)
    except NewnormalError as error:
        raise AssertionError(str(error)) from error
    scores = np.random.default_rng(seed).exponential(size=_SCORES)
    if isinstance(rule, MovingThreshold):
        _check_start(rule, scores)
        _check_update(rule, scores)
        _check_streams_apart(rule, scores)
    else:
        _check_fit(rule, scores)
    _check_options(rule, scores)
    _check_detector(rule, seed)


def _check_fit(rule: Threshold, scores: Floats) -> None:
    kept = scores.copy()
    first = rule.fit(scores)
    again = rule.fit(scores)
    require(_is_number(first), f"fit: expected a number, found {first!r}")
    require(first == again, "fit: expected the same scores to give the same, found another")
    require(np.array_equal(scores, kept), "fit: expected the scores as they were, found changes")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.floating) and not math.isnan(value)


def _check_start(rule: MovingThreshold, scores: Floats) -> None:
    kept = scores.copy()
    state: Any = rule.start(scores)
    is_state = isinstance(state, np.ndarray) and state.dtype == np.float64 and state.ndim == 1
    kind = f"{state.dtype} of shape {state.shape}" if isinstance(state, np.ndarray) else state
    require(is_state, f"start: expected a float64 array of one axis, found {kind!s}")
    require(np.array_equal(scores, kept), "start: expected the scores as they were, found changes")
    again = rule.start(scores)
    require(again is not state, "start: expected a new array each time, found the same one")
    same = np.array_equal(again, state, equal_nan=True)
    require(same, "start: expected the same scores to give the same state, found another")
    before = state.copy()
    level = rule.threshold(state)
    require(_is_number(level), f"threshold: expected a number, found {level!r}")
    require(
        np.array_equal(state, before, equal_nan=True),
        "threshold: expected the state as it was, found it changed; only update moves it",
    )


def _check_update(rule: MovingThreshold, scores: Floats) -> None:
    state = rule.start(scores)
    start = state.copy()
    level = float(rule.threshold(state))
    for score in [*(10 * scores).tolist(), 0.0, 1e30, 0.0]:
        returned = _updated(rule, state, score, level)
        level = float(rule.threshold(state))
        message = f"threshold: expected a number after a score of {score:g}, found NaN"
        require(not math.isnan(level), message)
        require(
            returned is None,
            f"update: expected it to change the state in place and return None, found {returned!r}",
        )
    require(
        not np.array_equal(state, start, equal_nan=True),
        "update: expected the state to change over scores ten times as high, found it as it was; "
        "write state[0] += ..., which `state = ...` does not do. A threshold that stays has `fit`",
    )


def _updated(rule: MovingThreshold, state: Floats, score: float, level: float) -> object:
    """Hand a rule a score as the loop does; return what it returns, which must be nothing."""
    anomalous, _ = decide(score, level, level)
    return rule.update(state, score, anomalous)  # type: ignore[func-returns-value]


def _check_streams_apart(rule: MovingThreshold, scores: Floats) -> None:
    def alone(series: Floats, other: Floats | None = None) -> list[float]:
        state, beside = rule.start(scores), rule.start(scores)
        levels = []
        for t, score in enumerate(series.tolist()):
            levels.append(float(rule.threshold(state)))
            _updated(rule, state, score, levels[-1])
            if other is not None:
                rule.update(beside, float(other[t]), False)
        return levels

    require(
        alone(scores) == alone(scores, 10 * scores),
        "two streams: expected each to move its own threshold, found that one moves the other's; "
        "keep all that changes in the state, and none of it in self",
    )


def _check_options(rule: Any, scores: Floats) -> None:
    """Its options, where it can be saved, make the same rule again."""
    if not callable(getattr(rule, "to_json", None)):
        return
    try:
        again = from_json(to_json(rule), type(rule))
    except (NewnormalError, TypeError) as error:
        raise AssertionError(
            f"to_json: expected the arguments of the constructor as plain values, found {error}"
        ) from error
    same = _start(again, scores) == _start(rule, scores)
    require(same, "to_json: expected its options to make the same threshold again, found another")


def _start(rule: Any, scores: Floats) -> float:
    if isinstance(rule, MovingThreshold):
        return float(rule.threshold(rule.start(scores)))
    return float(rule.fit(scores))


def _check_detector(rule: Any, seed: int) -> None:
    """In a detector: at once, in pieces, sample by sample, and from a state file."""
    live = plant(120, 2, seed + 1)
    live[40:60] += 2.0
    fitted = M2N2(window=4, latent=2, epochs=1, seed=seed, threshold=rule).fit(plant(200, 2, seed))
    ref = fitted.with_options().run(live)
    detector = fitted.with_options()
    steps = np.array([verdict.threshold for verdict in stepwise(detector, live)])
    require(
        np.array_equal(steps, ref.thresholds),
        "run and step: expected the same thresholds, found others; update must depend on its "
        "arguments alone",
    )
    detector = fitted.with_options()
    detector.run(live[:50], flush=False)
    parts = [copy.deepcopy(detector)]
    try:
        state = detector.to_state()
    except StateError:
        pass  # it has no to_json
    else:
        parts.append(M2N2.from_state(state, "the saved detector", threshold=type(rule)))
    for part in parts:
        rest = part.run(live[50:]).thresholds
        require(
            np.array_equal(rest, ref.thresholds[50:]),
            "copy, save and load: expected the same thresholds afterwards, found others; keep all "
            "that changes in the state",
        )
