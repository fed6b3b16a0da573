"""Streams, items, events, comments and times as the JSON of the API."""

import math
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np
import orjson
from fastapi.responses import Response

from newnormal.engine.values import Comment, EventRow, Item, StreamView
from newnormal.errors import InputError
from newnormal.service.api.problems import HttpProblem
from newnormal.tabular import parse_time
from newnormal.types.arrays import time_text


def iso(time: int | None) -> str | None:
    """Return a time in ns as text.

    >>> iso(1_767_225_600_500_000_000), iso(None)
    ('2026-01-01T00:00:00.5Z', None)
    """
    return None if time is None else f"{time_text(np.datetime64(time, 'ns'))}Z"


def seconds(time: int) -> float:
    """Return a time in ns as seconds since 1970, as the axis of a picture has it.

    >>> seconds(1_500_000_000), seconds(2_000_000_000)
    (1.5, 2)
    """
    whole, rest = divmod(time, 10**9)
    return whole if rest == 0 else round(time / 1e9, 6)


def nanoseconds(value: object, name: str) -> int:
    """Return a time of a request in ns; a Problem that names the parameter if it is none.

    >>> nanoseconds("2026-01-01T00:00:00Z", "from") == nanoseconds(1767225600, "from")
    True
    """
    try:
        return int(parse_time(value).astype(np.int64))
    except InputError as error:
        raise HttpProblem(422, f"{name}: {error.message}", error.hint) from None


def encoded(value: Any) -> bytes:
    """Return JSON; what is not finite is null.

    >>> import numpy as np
    >>> encoded({"ratio": float("nan"), "values": np.arange(2.0)})
    b'{"ratio":null,"values":[0.0,1.0]}'
    """
    return orjson.dumps(value, _plain, orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value)


def answer(value: Any, status: int = 200) -> Response:
    """Return an answer of JSON that no cache keeps."""
    return Response(encoded(value), status, {"Cache-Control": "no-store"}, "application/json")


def _points(values: Sequence[float], *, full: bool) -> list[float | None]:
    """Return the ratios of a sparkline in few digits; in lists half as many, none above lost.

    >>> _points([0.126, 0.2, 1.5, float("nan"), -0.3], full=False)
    [0.13, 1.5, 0]
    >>> _points([0.126, 1234.5], full=True)
    [0.13, 1234]
    """
    if not full:
        first = len(values) % 2  # the newest two are always together
        pairs = [values[:first], *(values[at : at + 2] for at in range(first, len(values), 2))]
        values = [_highest(pair) for pair in pairs if len(pair)]
    return [None if isnan(each) else _few_digits(each) for each in values]


def _highest(values: Sequence[float]) -> float:
    return max((each for each in values if not isnan(each)), default=math.nan)


def _few_digits(ratio: float) -> float:
    short = round(ratio, 2) if ratio < 100 else round(min(ratio, 1e6))
    return short if short > 0 else 0


def _short(value: float) -> float | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.4g}")
    return int(short) if short.is_integer() else short


def stream_json(view: StreamView, *, full: bool = True) -> dict[str, Any]:
    """Return a stream; in lists in brief, since there may be thousands."""
    shown: dict[str, Any] = {
        "id": view.id,
        "name": view.name,
        "state": view.state,
        "channel_count": len(view.channels),
        "samples": view.samples,
        "needed": view.needed,
        "period": None if view.period is None else seconds(view.period),
        "newest": iso(view.newest),
        "ratio": _short(view.ratio),
        "distance": _short(view.distance),
        "sparkline": _points(view.sparkline, full=full),
        "attention": view.attention,
        "sentence": view.sentence,
        "item": view.item,
        "item_state": view.item_state,
        "last_alarm": iso(view.last_alarm),
        "generation": view.generation,
        "problem": view.problem,
    }
    if full:
        shown |= {"channels": list(view.channels), "counts": dict(view.counts)}
    return shown


def item_json(item: Item, stream: StreamView | None) -> dict[str, Any]:
    """Return an item, with the name of its stream."""
    return {
        "key": item.key,
        "kind": item.kind,
        "stream": item.stream,
        "stream_name": None if stream is None else stream.name,
        "generation": item.generation,
        "number": item.number,
        "state": item.state,
        "open": item.open,
        "opened": iso(item.opened),
        "updated": iso(item.updated),
        "ended": iso(item.ended),
        "ratio": item.ratio,
        "sentence": item.sentence,
        "body": item.body,
    }


def comment_json(comment: Comment) -> dict[str, Any]:
    """Return a comment."""
    return {"time": iso(comment.time), "who": comment.who, "text": comment.text}


def event_json(event: EventRow) -> dict[str, Any]:
    """Return an event."""
    return {
        "id": event.id,
        "kind": event.kind,
        "time": iso(event.time),
        "stream": event.stream,
        "item": event.item,
        "body": event.body,
    }


def model_json(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model; where its file is stays unsaid."""
    kept = {name: value for name, value in model.items() if name not in ("file", "time")}
    when = model.get("time", model.get("fitted"))
    return {**kept, "fitted": iso(when)}
