"""Routes of events: a stream of server-sent ones, and the same as a list."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse

from newnormal.engine.hub import Tick
from newnormal.engine.values import EventRow
from newnormal.service.api import schemas
from newnormal.service.api.parameters import MOST, READS, Limit, TheService, Threads
from newnormal.service.api.problems import HttpProblem
from newnormal.service.api.schemas import gives
from newnormal.service.api.shown import answer, encoded, event_json
from newnormal.service.api.threads import ReadingThreads
from newnormal.service.service import Service

_ID = re.compile(r"(\d{1,18})-(\d{1,9})", re.ASCII)
_HEARTBEAT = 15.0  # seconds between two signs of life
_LOOK = 1.0  # seconds until a subscriber learns that the server stops
_MOST_MISSED = 5_000  # events that are sent again; after more, a subscriber reads everything anew
_WAITING = 1_000  # messages that a slow subscriber may be behind

router = APIRouter(tags=["events"])
_After = Annotated[str | None, Query(description="the id of an event")]
_Only = Annotated[int | None, Query(description="the number of a stream")]


@router.get("/events.json", dependencies=READS, responses=gives(schemas.EventList))
async def listed_events(
    service: TheService,
    reading: Threads,
    after: _After = None,
    stream: _Only = None,
    limit: Limit = 100,
) -> Response:
    """List events in the order in which they happened."""
    start = None if after is None else _event_id(after, "after")
    _check_stream(stream)
    read = await reading(service.store.events.read, after=start, stream=stream, limit=limit)
    cursor = read[-1].id if read else after
    return answer({"items": [event_json(event) for event in read], "cursor": cursor})


@router.get(
    "/events",
    dependencies=READS,
    response_class=StreamingResponse,
    responses={
        200: {"description": "server-sent events", "content": {"text/event-stream": {}}},
        "4XX": {"model": schemas.ProblemFacts},
    },
)
async def events(
    request: Request,
    service: TheService,
    reading: Threads,
    after: _After = None,
    stream: _Only = None,
    ticks: Annotated[bool, Query(description="whether to tell which streams have news")] = True,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Send events as they happen, those after `Last-Event-ID` or `after` first.

    The name of an event is its kind; its id is where to go on after the connection was lost. A
    ``tick`` has the number of the newest sample of each stream that has news; ``resync`` says that
    events were left out.
    """
    text, name = (last_event_id, "Last-Event-ID") if last_event_id else (after, "after")
    start = None if not text else _event_id(text, name)
    _check_stream(stream)
    seats = request.app.state.seats
    if len(seats) >= service.config.limits.subscribers:
        raise HttpProblem(
            429,
            f"expected at most {service.config.limits.subscribers} subscribers, found more",
            "close a page, or raise limits.subscribers",
            {"Retry-After": "10"},
        )
    seat = object()
    seats.add(seat)
    return StreamingResponse(
        _sent(request, service, reading, seat, start, stream, ticks),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _sent(
    request: Request,
    service: Service,
    reading: ReadingThreads,
    seat: object,
    start: str | None,
    stream: int | None,
    ticks: bool,
) -> AsyncIterator[str]:
    subscription = service.hub.subscribe(_WAITING)
    try:
        yield "retry: 2000\n\n"
        # What the store has is read after subscribing: an event is in one of the two, or in both.
        newest = (-1, -1)
        if start is not None:
            missed, complete = await reading(_missed, service, start, stream)
            if not complete:
                yield _message("resync", {})
            for event in missed:
                newest = (event.position, event.order)
                yield _message(event.kind, event_json(event), event.id)
        silent = 0
        while not (request.app.state.closing.is_set() or subscription.closed):
            message = await subscription.aget(_LOOK)
            if message is None:
                silent += 1
                if silent * _LOOK >= _HEARTBEAT:
                    silent = 0
                    yield ": alive\n\n"
            elif isinstance(message, EventRow):
                here = (message.position, message.order)
                if here > newest and stream in (None, message.stream):
                    newest = here
                    yield _message(message.kind, event_json(message), message.id)
            elif isinstance(message, Tick):
                moved = _moved(message.streams, stream)
                if ticks and moved:
                    yield _message("tick", {"streams": moved})
            else:
                yield _message("resync", {})
    finally:
        subscription.close()
        request.app.state.seats.discard(seat)


def _missed(service: Service, start: str, stream: int | None) -> tuple[list[EventRow], bool]:
    """Return the events after one; none, and False, if there are too many."""
    missed: list[EventRow] = []
    while len(missed) <= _MOST_MISSED:
        after = missed[-1].id if missed else start
        page = service.store.events.read(after=after, stream=stream, limit=MOST)
        missed += page
        if len(page) < MOST:
            return missed, True
    return [], False


def _moved(streams: Any, only: int | None) -> dict[str, int]:
    if only is None:
        return {str(stream): int(number) for stream, number in streams.items()}
    return {str(only): int(streams[only])} if only in streams else {}


def _message(kind: str, body: Any, id: str | None = None) -> str:  # noqa: A002
    first = "" if id is None else f"id: {id}\n"
    return f"{first}event: {kind}\ndata: {encoded(body).decode()}\n\n"  # JSON has no line ends


def _event_id(text: str, name: str) -> str:
    """Return the id of an event in its plain form."""
    match = _ID.fullmatch(text.strip())
    if match is None:
        raise HttpProblem(
            422,
            f"{name}: expected the id of an event, such as 12-0, found {text[:60]!r}",
            "leave it out for what happens from now on",
        )
    return f"{int(match[1])}-{int(match[2])}"


def _check_stream(stream: int | None) -> None:
    if stream is not None and not 0 <= stream < 2**62:
        raise HttpProblem(422, f"stream: expected the number of a stream, found {str(stream)[:40]}")
