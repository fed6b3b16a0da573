"""One stream to fit: here, or as a message to a process that fits it, and its answer."""

from __future__ import annotations

import json
import warnings
from typing import Any, NamedTuple

import numpy as np

from newnormal import errors, thresholds
from newnormal.base import BaseDetector
from newnormal.config import option_as_json
from newnormal.detector import M2N2, Detector
from newnormal.errors import NewnormalError, NewnormalWarning
from newnormal.fitting import HistoryScores
from newnormal.fleet.messages import Message
from newnormal.state import State
from newnormal.tabular import Table
from newnormal.thresholds import Fixed, Quantile
from newnormal.thresholds.base import is_number

# Those whose fit has the same bits whatever the number of threads is, and whose state has it all.
_MODELS = ("mlp", "pca")
_SCORES = ("scores.ordered", "scores.for_rule")  # of history, beside the tensors of a state


class Outcome(NamedTuple):
    """What fitting a stream gave: the fitted detector, or its error; and the warnings."""

    result: BaseDetector | NewnormalError
    warned: tuple[tuple[type[Warning], str], ...] = ()


def fit_here(detector: BaseDetector, history: Table) -> Outcome:
    """Fit a copy of a detector in this process; an error is a value."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result: BaseDetector | NewnormalError
        try:
            result = type(detector)(**detector.get_params()).fit(history)
        except NewnormalError as error:
            result = error
        except Exception as error:  # noqa: BLE001  (of a user's model; the other streams go on)
            result = failure(error)
    return Outcome(result, tuple((each.category, str(each.message)) for each in caught))


def failure(error: Exception) -> NewnormalError:
    """Return the error of a stream whose history or model raised another one."""
    found = NewnormalError(
        f"expected this stream to be fitted, found {type(error).__name__}: {error}",
        hint="fit this stream alone to see where it comes from",
    )
    found.__cause__ = error
    return found


def can_be_sent(detector: BaseDetector) -> bool:
    """Whether another process can fit it: not with code that is known here alone."""
    if type(detector) not in (Detector, M2N2):
        return False
    options = detector.get_params()
    rule = options["threshold"]
    if not (rule is None or is_number(rule) or type(rule) in (Fixed, Quantile)):
        return False
    if options.get("model", "mlp") not in _MODELS:
        return False
    try:
        json.dumps(_options(detector), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def as_job(detector: BaseDetector, history: Table) -> Message:
    """Return the message to a process that is to fit a stream."""
    facts = {
        "method": detector.method,
        "options": _options(detector),
        "channels": None if history.channels is None else list(history.channels),
        "zone": history.zone,
    }
    tensors: dict[str, Any] = {"values": history.values}
    if history.times is not None:
        tensors["times"] = history.times.astype("datetime64[ns]").astype(np.int64)
    return Message(facts, tensors)


def fit_job(job: Message) -> Outcome:
    """Fit the stream of a message."""
    facts, tensors = job
    options = dict(facts["options"])
    if isinstance(options["threshold"], dict):
        options["threshold"] = thresholds.from_json(options["threshold"])
    times = tensors.get("times")
    history = Table(
        np.array(tensors["values"]),  # its own: to compiled code a read-only one is another type
        None if facts["channels"] is None else tuple(facts["channels"]),
        None if times is None else times.astype("datetime64[ns]"),
        zone=facts["zone"],
    )
    return fit_here(BaseDetector.kinds[facts["method"]](**options), history)


def answer_of(outcome: Outcome) -> Message:
    """Return an outcome as a message."""
    facts: dict[str, Any] = {"warned": [[each.__name__, text] for each, text in outcome.warned]}
    result = outcome.result
    if isinstance(result, NewnormalError):
        kind = type(result).__name__
        facts["error"] = [kind, result.message, result.hint]
        return Message(facts, {})
    state = result.to_state()
    ordered, for_rule = result.ordered_scores_, result.history_scores_
    assert ordered is not None and for_rule is not None
    scores = dict(zip(_SCORES, (ordered, for_rule), strict=True))
    return Message({**facts, "state": state.facts}, {**state.tensors, **scores})


def outcome_of(answer: Message, detector: BaseDetector) -> Outcome:
    """Return the outcome that a message was made from; the detector has the options as given."""
    facts, tensors = answer.facts, dict(answer.tensors)
    warned = tuple((_category(name), str(text)) for name, text in facts["warned"])
    if "error" in facts:
        name, message, hint = facts["error"]
        kind = getattr(errors, name) if name in errors.__all__ else NewnormalError
        return Outcome(kind(message, hint=hint), warned)
    ordered, for_rule = (tensors.pop(name).copy() for name in _SCORES)
    state, scores = State(facts["state"], tensors), HistoryScores(ordered, for_rule)
    fitted = BaseDetector.from_state(state, "a fitted stream", scores=scores)
    return Outcome(fitted.set_params(**detector.get_params()), warned)


def _category(name: str) -> type[Warning]:
    return NewnormalWarning if name == NewnormalWarning.__name__ else RuntimeWarning


def _options(detector: BaseDetector) -> dict[str, Any]:
    """Return the options of a detector as values of JSON."""
    options = {name: option_as_json(value) for name, value in detector.get_params().items()}
    rule = detector.threshold
    if isinstance(rule, Fixed | Quantile):
        options["threshold"] = thresholds.to_json(rule)
    return options
