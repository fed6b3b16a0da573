"""Routes of streams: lists, series, pictures, models."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from newnormal.engine.values import COLLECTING, FAILED, FITTING, LIVE, StreamView
from newnormal.errors import InputError
from newnormal.io.decoders.base import check_name
from newnormal.service.api import schemas
from newnormal.service.api.bodies import body_of, check_encoding, gunzip, lease_of, read_body
from newnormal.service.api.parameters import (
    OPERATES,
    READS,
    ADecision,
    AStream,
    Limit,
    Operator,
    TheService,
    Threads,
    cursor_of,
    cursor_text,
    listed,
)
from newnormal.service.api.pictures import picture_json, series_json
from newnormal.service.api.problems import HttpProblem, problem_of
from newnormal.service.api.schemas import gives
from newnormal.service.api.shown import answer, item_json, model_json, nanoseconds, stream_json

_T = TypeVar("_T")
_APPLIED = 30.0  # seconds that a request waits until what it asks for is done
_STATES = (COLLECTING, FITTING, LIVE, FAILED)
_ATTENTION = ("alarm", "change", "silence", "channels", "failed")
_MOST_POINTS = 5_000
_FAR = 2**62
_MOST_CHANNELS = 50  # of a series at once

router = APIRouter(prefix="/streams", tags=["streams"])
_Order = Literal["attention", "name", "newest", "ratio"]


async def applied(begin: Callable[[], Future[_T]]) -> _T:
    """Begin something, and wait until it was applied; what cannot be is a conflict."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(begin()), _APPLIED)
    except InputError as error:
        raise problem_of(error, 409) from None
    except TimeoutError:
        raise HttpProblem(
            503,
            f"expected an end within {_APPLIED:g} s; it is logged, and will be done",
            "look again later",
            {"Retry-After": "10"},
        ) from None


@router.get("", dependencies=READS, responses=gives(schemas.StreamPage))
async def streams(
    service: TheService,
    reading: Threads,
    search: Annotated[str, Query(max_length=200, description="a part of the name")] = "",
    state: Annotated[str, Query(description="collecting, fitting, live, failed; commas")] = "",
    attention: Annotated[
        str, Query(description="alarm, change, silence, channels, failed; or any, none")
    ] = "",
    sort: _Order = "attention",
    cursor: str | None = None,
    offset: Annotated[int, Query(ge=0, le=10**9, description="entries to skip")] = 0,
    limit: Limit = 50,
) -> Response:
    """List streams: those that need attention first, or in another order."""

    def listing() -> Response:
        views = service.streams()
        chosen = _chosen(views, search, state, attention)
        return _page(views, chosen, sort, cursor, offset, limit)

    return await reading(listing)


def _page(
    views: Sequence[StreamView],
    chosen: list[StreamView],
    sort: str,
    cursor: str | None,
    offset: int,
    limit: int,
) -> Response:
    key = _KEYS[sort]
    chosen.sort(key=key)
    total = len(chosen)
    if cursor is not None:
        last = tuple(cursor_of(cursor, _KINDS[sort]))
        chosen = [view for view in chosen if key(view) > last]
    page = chosen[offset : offset + limit]
    more = len(chosen) > offset + limit
    counts: dict[str, int] = {}
    for view in views:
        for name in {view.state, view.attention} - {""}:
            counts[name] = counts.get(name, 0) + 1
    return answer(
        {
            "items": [stream_json(view, full=False) for view in page],
            "cursor": cursor_text(list(key(page[-1]))) if more and page else None,
            "total": total,
            "streams": len(views),
            "counts": counts,
        }
    )


def _chosen(
    views: Sequence[StreamView], search: str, state: str, attention: str
) -> list[StreamView]:
    states = listed(state, "state", _STATES)
    wanted = listed(attention, "attention", (*_ATTENTION, "any", "none"))
    if wanted is not None:
        kinds = {*wanted} - {"any", "none"}
        kinds |= {*_ATTENTION} if "any" in wanted else set()
        kinds |= {""} if "none" in wanted else set()
    part = search.casefold()
    return [
        view
        for view in views
        if (not part or part in view.name.casefold())
        and (states is None or view.state in states)
        and (wanted is None or view.attention in kinds)
    ]


def _urgency(view: StreamView) -> tuple[Any, ...]:
    rank = _ATTENTION.index(view.attention) if view.attention in _ATTENTION else len(_ATTENTION)
    return (rank, -(view.last_alarm or 0), view.name, view.id)


def _badness(view: StreamView) -> tuple[Any, ...]:
    is_number = view.ratio == view.ratio
    return (-min(float(view.ratio), 1e300) if is_number else 1.0, view.name, view.id)


_KEYS: dict[str, Callable[[StreamView], tuple[Any, ...]]] = {
    "attention": _urgency,
    "name": lambda view: (view.name, view.id),
    "newest": lambda view: (-(view.newest or 0), view.name, view.id),
    "ratio": _badness,
}
_KINDS: dict[str, tuple[type, ...]] = {
    "attention": (int, int, str, int),
    "name": (str, int),
    "newest": (int, str, int),
    "ratio": (float, str, int),
}


@router.get("/by-name/{name:path}", dependencies=READS, responses=gives(schemas.StreamFacts))
async def by_name(service: TheService, name: str) -> Response:
    """Return a stream by its name."""
    view = service.stream_named(name)
    if view is None:
        raise HttpProblem(
            404,
            f"expected the name of a stream, found {name[:200]!r}",
            "GET api/v1/streams?search= finds names by a part",
        )
    return answer(stream_json(view))


@router.get("/{id}", dependencies=READS, responses=gives(schemas.StreamFacts))
async def stream(view: AStream) -> Response:
    """Return a stream."""
    return answer(stream_json(view))


@router.delete("/{id}", dependencies=OPERATES, responses=gives(schemas.Done))
async def remove(view: AStream, service: TheService) -> Response:
    """Remove a stream with all that is kept of it."""
    await applied(lambda: service.remove(view.id))
    return answer({"done": True})


@router.get("/{id}/series", dependencies=READS, responses=gives(schemas.SeriesColumns))
async def series(
    view: AStream,
    service: TheService,
    reading: Threads,
    begin: Annotated[str | None, Query(alias="from", description="ISO 8601 or Unix time")] = None,
    to: Annotated[str | None, Query(description="ISO 8601 or Unix time")] = None,
    points: Annotated[int, Query(ge=1, le=_MOST_POINTS, description="about how many")] = 500,
    channels: Annotated[str | None, Query(description="names, commas between; none: all")] = None,
) -> Response:
    """Return a stretch of a stream, thinned so that no extreme is lost."""
    names = _channels(view, channels)
    start, end = _range(begin, to)
    if view.newest is None or start > end:
        return answer({"x": [], "columns": {}, "per": 1, "exact": False, "anomalous": []})

    def read() -> Response:
        stretch = service.store.samples.series(view.id, start, end, points, names)
        return answer(series_json(stretch, view.channels, view.period))

    return await reading(read)


def _range(begin: str | None, to: str | None) -> tuple[int, int]:
    start = -_FAR if begin is None else nanoseconds(begin, "from")
    return start, _FAR if to is None else nanoseconds(to, "to")


def _channels(view: StreamView, text: str | None) -> tuple[str, ...]:
    """Return the channels that are asked for: by name, or by position where no name fits."""
    if text is None:
        return view.channels[:_MOST_CHANNELS]
    if text in view.channels:  # a name may have commas
        return (text,)
    names = []
    for word in text.split(",") if text else ():
        if word in view.channels:
            names.append(word)
        elif word.isascii() and word.isdigit() and len(word) < 6 and int(word) < len(view.channels):
            names.append(view.channels[int(word)])
        else:
            raise HttpProblem(
                422,
                f"channels: expected channels of {view.name!r}, found {word[:100]!r}",
                "GET api/v1/streams/ID lists them; commas separate names or positions",
            )
    if len(names) > _MOST_CHANNELS:
        raise HttpProblem(
            422,
            f"channels: expected at most {_MOST_CHANNELS}, found {len(names)}",
            "ask for the others in another request",
        )
    return tuple(dict.fromkeys(names))


@router.get("/{id}/picture", dependencies=READS, responses=gives(schemas.PictureFacts))
async def picture(
    view: AStream,
    service: TheService,
    reading: Threads,
    begin: Annotated[str | None, Query(alias="from", description="ISO 8601 or Unix time")] = None,
    to: Annotated[str | None, Query(description="ISO 8601 or Unix time")] = None,
) -> Response:
    """Return alarms, changes and channels of a stream as a report's page has them."""
    start, end = _range(begin, to)
    limits = (None if begin is None else start, None if to is None else end)
    return answer(await reading(picture_json, service, view, *limits))


@router.post(
    "/{id}/undo",
    responses=gives(schemas.Decided),
    openapi_extra=schemas.takes(schemas.Decision),
)
async def undo(
    caller: Operator, view: AStream, service: TheService, decision: ADecision
) -> Response:
    """Undo the last change that was accepted."""
    who, comment = caller.who, decision.comment
    item = await applied(
        lambda: service.decide(None, "undo", stream=view.id, who=who, comment=comment)
    )
    return answer({"item": None if item is None else item_json(item, view)})


_BYTES = "application/octet-stream"


@router.put(
    "/model",
    dependencies=OPERATES,
    responses=gives(schemas.Done),
    openapi_extra={"requestBody": {"required": True, "content": {_BYTES: {}}}},
)
async def put(
    request: Request,
    service: TheService,
    reading: Threads,
    stream: Annotated[str, Query(description="the name of the stream, which may be new")],
) -> Response:
    """Put a model that `newnormal fit` or `watch` wrote into a stream, which goes on with it."""
    check_name(stream, "stream", "address")
    limits, compressed = service.config.limits, check_encoding(request)
    with lease_of(request, 2) as lease:
        content = await read_body(request, limits.max_body, lease)
        if compressed:
            content = await reading(gunzip, content, limits.decompressed, lease)
        lease.take(3 * len(content))
        done = await reading(service.put_model, stream, content, lease.writer)
        await applied(lambda: done)
    return answer({"done": True})


@router.get("/{id}/model", dependencies=READS, responses={200: {"content": {_BYTES: {}}}})
async def take(view: AStream, service: TheService, reading: Threads) -> Response:
    """Return the model of a stream as it is now: a state file, which `newnormal.load` reads."""
    try:
        content = await reading(service.take_model, view.id)
    except InputError as error:
        raise problem_of(error, 409) from None
    return Response(content, media_type=_BYTES)


@router.get("/{id}/models", dependencies=READS, responses=gives(schemas.ModelList))
async def models(view: AStream, service: TheService, reading: Threads) -> Response:
    """List the models that a stream has had, newest first."""
    fitted = [model_json(model) for model in await reading(service.models, view.id)]
    fitted.sort(key=lambda model: -model["generation"])
    return answer({"items": fitted, "generation": view.generation})


@router.post(
    "/{id}/models/{generation}/restore", dependencies=OPERATES, responses=gives(schemas.Done)
)
async def restore(view: AStream, service: TheService, generation: int) -> Response:
    """Go back to an older model."""
    if not 0 <= generation < 2**31:
        raise HttpProblem(422, f"generation: expected a number, found {str(generation)[:40]}")
    await applied(lambda: service.restore_model(view.id, generation))
    return answer({"done": True})


@router.post(
    "/{id}/refit",
    dependencies=OPERATES,
    responses=gives(schemas.Done),
    openapi_extra=schemas.takes(schemas.Refit),
)
async def refit(
    view: AStream, service: TheService, body: Annotated[schemas.Refit, body_of(schemas.Refit)]
) -> Response:
    """Fit again, on the newest history or on the samples `first` to `last`."""
    numbers = body.model_dump(exclude_none=True)
    for name, number in numbers.items():
        if number >= view.samples:
            raise HttpProblem(
                422,
                f"{name}: expected the number of a sample of {view.name!r}, found {number}",
                f"it has {view.samples:,} samples, counted from 0",
            )
    if numbers.get("last", view.samples) < numbers.get("first", 0):
        raise HttpProblem(422, "expected first before last, found it after", "exchange them")
    await applied(lambda: service.refit(view.id, **numbers))
    return answer({"done": True})
