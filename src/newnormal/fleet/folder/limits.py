"""Counters of streams that are used as positions, checked for many streams at once.

The same limits as `newnormal.packing` has for one stream: a file that is whole but wrong must not
make compiled code read elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.acceptance import TimedAcceptance, changes, shadow
from newnormal.alarms import log, silence
from newnormal.core import times
from newnormal.core.state import Fitted
from newnormal.errors import StateError
from newnormal.kernels import accepted, alarm, drift, members, step
from newnormal.state.schema import LARGEST_COUNT

Fields = Mapping[str, NDArray[Any]]  # (N, ...) by name
Found = tuple[str, NDArray[np.bool_]]  # what was expected, and the streams that it is not true of


def check_counters(fields: Fields, fitted: Sequence[Fitted], names: Sequence[str]) -> None:
    """Raise a StateError unless the counters of all streams are what they can be.

    `fields` has an array (N, ...) for each array of a stream; `fitted` and `names` are the N
    streams'.
    """
    for expected, wrong in _all(fields, fitted):
        if wrong.any():
            at = int(np.flatnonzero(wrong.reshape(len(names), -1).any(axis=1))[0])
            raise StateError(f"stream {names[at]!r}: expected {expected}, found others")


def _all(fields: Fields, fitted: Sequence[Fitted]) -> Iterator[Found]:
    stride = np.array([each.step.stride for each in fitted])
    for name, check in _CHECKS.items():
        if name in fields:
            yield from check(fields[name], name, fields)
    for name in ("model.step.counts", "model.own.counts"):
        if name in fields:
            counts = fields[name]
            window = fields["model.step.samples"].shape[1]
            full = counts[..., step.HELD] == window
            limit = stride.reshape(-1, *[1] * (counts.ndim - 2))
            yield (
                f"{name}: less pending than the stride",
                full & (counts[..., step.PENDING] >= limit),
            )
    if "review.counts" in fields and "model.step.samples" in fields:
        yield from _reviews(fields, fitted)


def _reviews(fields: Fields, fitted: Sequence[Fitted]) -> Iterator[Found]:
    lengths = [
        each.acceptance.timing.review_length if isinstance(each.acceptance, TimedAcceptance) else 0
        for each in fitted
    ]
    length = np.array(lengths)
    seen = fields["model.step.counts"][:, step.SEEN]
    reviews = fields["review.counts"][:, changes.REVIEWS]
    window = fields["model.step.samples"].shape[1]
    left = (np.minimum(reviews, LARGEST_COUNT // np.maximum(length, 1)) + 1) * length - seen
    yield (
        "review.counts: as many reviews as the samples seen make",
        (left < 1) | (left > length + window),
    )


def _steps(counts: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    window = fields[name.partition(".")[0] + ".step.samples"].shape[1]
    yield f"{name}: counts of at least 0", (counts < 0) | (counts > LARGEST_COUNT)
    held, pending = counts[..., step.HELD], counts[..., step.PENDING]
    wrong = (held > window) | (pending > held) | (counts[..., step.CYCLE] > window)
    yield f"{name}: at most the window's {window} samples", wrong


def _members(counts: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    del fields
    head, held = counts[:, members.HEAD], counts[:, members.HELD]
    wrong = (head < 0) | (head >= members.LONG) | (held < 0) | (held > members.LONG)
    yield f"{name}: at most {members.LONG}", wrong


def _accepted(counts: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    del fields
    grows = counts[:, accepted.GROWS]
    wrong = ((counts < 0) | (counts > LARGEST_COUNT)).any(axis=1) | (grows > accepted.GROWING)
    yield (
        f"{name}: numbers of acceptances",
        wrong | ((grows > 0) & (counts[:, accepted.NEXT_PATTERN] == 0)),
    )


def _binary(array: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    del fields
    yield f"{name}: 0 or 1", (array != 0) & (array != 1)


def _not_negative(array: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    del fields
    yield f"{name}: counts of at least 0", (array < 0) | (array > LARGEST_COUNT)


def _channels(array: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    channels = fields["silence.missing"].shape[1]
    yield f"{name}: channels, or -1", (array < -1) | (array >= channels)


def _times(counts: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    held, window = counts[:, times.HELD], fields["times.times"].shape[1]
    yield f"{name}: at most the window's {window} samples", (held < 0) | (held > window)
    yield from _binary(counts[:, times.TIMED], name, fields)


def _alarm(counts: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    lead, channels = counts[:, alarm.LEAD], fields["silence.missing"].shape[1]
    yield f"{name}.lead: a channel, or -1", (lead < -1) | (lead >= channels)
    others = np.delete(counts, alarm.LEAD, axis=1)
    yield f"{name}: counts of at least 0", (others < 0) | (others > LARGEST_COUNT)
    yield f"{name}.next: less than {alarm.RECENT}", counts[:, alarm.NEXT] >= alarm.RECENT
    wrong = counts[:, alarm.OPEN] > counts[:, alarm.ALARMS]
    yield f"{name}.open: the number of an alarm", wrong


def _log(counts: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    yield from _not_negative(counts, name, fields)
    number, newest = counts[:, log.NUMBER], counts[:, log.NEWEST]
    wrong = ((number != 0) & (number != newest)) | (
        newest > fields["alarm.counts"][:, alarm.ALARMS]
    )
    yield f"{name}.open: 0 or the newest", wrong
    last = np.maximum(counts[:, log.END], counts[:, log.PEAK])
    first = np.minimum(counts[:, log.END], counts[:, log.PEAK])
    seen = fields["model.step.counts"][:, step.SEEN]
    yield f"{name}: samples in their order", (counts[:, log.START] > first) | (last > seen)


def _silence(counts: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    yield from _not_negative(counts, name, fields)
    alarms = fields["alarm.counts"][:, alarm.ALARMS]
    yield f"{name}.open: the number of an alarm", counts[:, silence.NUMBER] > alarms
    seen = fields["model.step.counts"][:, step.SEEN]
    yield f"{name}.start: a sample seen", counts[:, silence.START] > seen


def _drift(counts: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    seen, mark = counts[:, drift.SEEN], counts[:, drift.MARK]
    wrong = (seen < 0) | (seen > LARGEST_COUNT) | (mark < -1) | (mark > seen)
    yield f"{name}: samples seen", wrong
    yield from _binary(counts[:, drift.CROSSED], name, fields)


def _changes(counts: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    yield from _not_negative(counts, name, fields)
    number, state = counts[..., changes.NUMBER], counts[..., changes.STATE]
    newest = fields["review.counts"][:, changes.NEWEST]
    yield f"{name}.number: up to the newest", number > newest[:, None]
    known = (state == changes.IS_PENDING) | (state == changes.IS_REJECTED)
    yield f"{name}.state: pending or rejected", (number > 0) & ~known
    seen = fields["model.step.counts"][:, step.SEEN]
    samples = counts[..., [changes.START, changes.KNOWN, changes.SINCE, changes.PLACED]]
    yield f"{name}: samples seen", (number > 0)[..., None] & (samples > seen[:, None, None])


def _shadow(counts: NDArray[Any], name: str, fields: Fields) -> Iterator[Found]:
    scores, positions = fields["scores"].shape[1], fields["positions"].shape[1]
    yield from _binary(counts[:, shadow.TRAINS], name, fields)
    kept, following = counts[:, shadow.SCORES], counts[:, shadow.NEXT]
    wrong = (kept < 0) | (kept > scores) | (following < 0) | (following >= max(scores, 1))
    yield f"{name}: at most {scores} scores", wrong
    reviewed = counts[:, shadow.POSITIONS]
    yield f"{name}: 1 to {positions} positions", (reviewed < 1) | (reviewed > positions)


_CHECKS: dict[str, Callable[[NDArray[Any], str, Fields], Iterator[Found]]] = {
    "model.step.counts": _steps,
    "model.own.counts": _steps,
    "model.own.members.counts": _members,
    "model.own.accepted.counts": _accepted,
    "model.own.accepted.used": _binary,
    "model.own.accepted.at": _binary,
    "last_quiet.accepted.counts": _accepted,
    "last_quiet.accepted.used": _binary,
    "last_quiet.accepted.at": _binary,
    "accepted.counts": _accepted,  # of a baseline by itself
    "accepted.used": _binary,
    "accepted.at": _binary,
    "times.counts": _times,
    "alarm.counts": _alarm,
    "log.counts": _log,
    "log.channels": _channels,
    "silence.counts": _silence,
    "silence.missing": _not_negative,
    "silence.channels": _channels,
    "drift.counts": _drift,
    "review.counts": _not_negative,
    "changes.counts": _changes,
    "changes.channels": _binary,
    "counts": _shadow,  # of a shadow
}
