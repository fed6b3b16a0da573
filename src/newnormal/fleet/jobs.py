"""One stream to fit: here, or as a message to a process that fits it, and its answer.

A message is facts, which are JSON values, and arrays by name: two lengths, the facts as JSON, and
the arrays as safetensors. There is nothing in it that could run.
"""

import json
import os
import struct
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from newnormal import errors
from newnormal.base import BaseDetector
from newnormal.detector import M2N2, Detector
from newnormal.errors import NewnormalError, NewnormalWarning
from newnormal.fitting import HistoryScores
from newnormal.state import State
from newnormal.tabular import Table
from newnormal.thresholds import Fixed, Quantile
from newnormal.thresholds.base import is_number

# Those whose fit has the same bits whatever the number of threads is, and whose state has it all.
_MODELS = ("mlp", "pca")
_SCORES = ("scores.ordered", "scores.for_rule")  # of history, beside the tensors of a state
_LENGTHS = struct.Struct("<QQ")


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
    return Outcome(result, tuple((item.category, str(item.message)) for item in caught))


def failure(error: Exception) -> NewnormalError:
    """Return the error of a stream whose history or model raised another one."""
    failed = NewnormalError(
        f"expected this stream to be fitted, found {type(error).__name__}: {error}",
        hint="fit this stream alone to see where it comes from",
    )
    failed.__cause__ = error
    return failed


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
        json.dumps(detector.options_as_json(), allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def as_job(detector: BaseDetector, history: Table) -> "Message":
    """Return the message to a process that is to fit a stream."""
    facts = {
        **detector.options_as_json(),
        "channels": None if history.channels is None else list(history.channels),
        "zone": history.zone,
    }
    tensors: dict[str, Any] = {"values": history.values}
    if history.times is not None:
        tensors["times"] = history.times.astype("datetime64[ns]").astype(np.int64)
    return Message(facts, tensors)


def fit_job(job: "Message") -> Outcome:
    """Fit the stream of a message."""
    facts, tensors = job
    times = tensors.get("times")
    history = Table(
        np.array(tensors["values"]),  # its own: to compiled code a read-only one is another type
        None if facts["channels"] is None else tuple(facts["channels"]),
        None if times is None else times.astype("datetime64[ns]"),
        zone=facts["zone"],
    )
    return fit_here(BaseDetector.from_options(facts), history)


def answer_of(outcome: Outcome) -> "Message":
    """Return an outcome as a message."""
    facts: dict[str, Any] = {"warned": [[kind.__name__, text] for kind, text in outcome.warned]}
    result = outcome.result
    if isinstance(result, NewnormalError):
        facts["error"] = [type(result).__name__, result.message, result.hint]
        return Message(facts, {})
    state = result.to_state()
    ordered, for_rule = result.ordered_scores_, result.history_scores_
    assert ordered is not None and for_rule is not None
    scores = dict(zip(_SCORES, (ordered, for_rule), strict=True))
    return Message({**facts, "state": state.facts}, {**state.tensors, **scores})


def outcome_of(answer: "Message", detector: BaseDetector) -> Outcome:
    """Return the outcome that a message was made from; the detector has the options as given."""
    facts, tensors = answer.facts, dict(answer.tensors)
    ours = NewnormalWarning.__name__
    warned = tuple(
        (NewnormalWarning if name == ours else RuntimeWarning, str(text))
        for name, text in facts["warned"]
    )
    if "error" in facts:
        name, message, hint = facts["error"]
        kind = getattr(errors, name) if name in errors.__all__ else NewnormalError
        return Outcome(kind(message, hint=hint), warned)
    ordered, for_rule = (tensors.pop(name).copy() for name in _SCORES)
    state, scores = State(facts["state"], tensors), HistoryScores(ordered, for_rule)
    fitted = BaseDetector.from_state(state, "a fitted stream", scores=scores)
    return Outcome(fitted.set_params(**detector.get_params()), warned)


class Message(NamedTuple):
    """Facts, and arrays by name."""

    facts: dict[str, Any]
    tensors: Mapping[str, NDArray[Any]]


def send(file: IO[bytes], message: Message) -> None:
    """Write a message.

    >>> import io
    >>> file = io.BytesIO()
    >>> send(file, Message({"name": "web-1"}, {"values": np.zeros(2)}))
    >>> _ = file.seek(0)
    >>> receive(file)
    Message(facts={'name': 'web-1'}, tensors={'values': array([0., 0.])})
    """
    text = json.dumps(message.facts, allow_nan=False).encode()
    body = safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in message.tensors.items()}
    )
    for part in (_LENGTHS.pack(len(text), len(body)), text, body):
        file.write(part)
    file.flush()


def receive(file: IO[bytes]) -> Message | None:
    """Read a message; None where the other side has ended, also in the middle of one."""
    start = file.read(_LENGTHS.size)
    if len(start) < _LENGTHS.size:
        return None
    lengths = _LENGTHS.unpack(start)
    text, body = (file.read(length) for length in lengths)
    if (len(text), len(body)) != lengths:
        return None
    return Message(json.loads(text), safetensors.numpy.load(body))


def main() -> None:
    """Fit the streams that come over standard input, and answer over standard output."""
    with (
        suppress(BrokenPipeError),  # who asked was killed
        open(0, "rb", closefd=False) as jobs,
        os.fdopen(os.dup(1), "wb") as answers,
    ):
        os.dup2(2, 1)  # what a library prints is no answer
        while (job := receive(jobs)) is not None:
            send(answers, answer_of(fit_job(job)))
