"""Routes of the inbox: alarms, changes, incidents, and what people decide and write."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from newnormal.engine.values import Comment, Item
from newnormal.service.api import schemas
from newnormal.service.api.bodies import body_of
from newnormal.service.api.parameters import (
    READS,
    ADecision,
    AnItem,
    Limit,
    Operator,
    TheService,
    Threads,
    listed,
)
from newnormal.service.api.problems import HttpProblem
from newnormal.service.api.schemas import gives
from newnormal.service.api.shown import answer, comment_json, item_json, nanoseconds
from newnormal.service.api.streams import applied
from newnormal.service.service import Service

_KINDS = ("alarm", "change", "incident", "silence", "channels")
_STATES = ("open", "closed", "pending", "accepted", "rejected", "reverted")
_RELATED = 20
_NEAR = 60 * 10**9  # ns around an item in which others belong to it

router = APIRouter(prefix="/items", tags=["items"])


@router.get("", dependencies=READS, responses=gives(schemas.ItemList))
async def items(
    service: TheService,
    reading: Threads,
    kind: Annotated[str, Query(description=", ".join(_KINDS) + "; commas")] = "",
    state: Annotated[str, Query(description=", ".join(_STATES) + "; commas")] = "",
    stream: Annotated[int | None, Query(description="the number of a stream")] = None,
    open: Annotated[bool, Query(description="only what is open, pending or rejected")] = False,  # noqa: A002
    begin: Annotated[str | None, Query(alias="from", description="ISO 8601 or Unix time")] = None,
    to: Annotated[str | None, Query(description="ISO 8601 or Unix time")] = None,
    cursor: Annotated[str | None, Query(max_length=300)] = None,
    limit: Limit = 50,
) -> Response:
    """List items, those that were reported last first."""
    if stream is not None and service.stream(stream) is None:
        raise HttpProblem(
            404,
            f"stream: expected the number of a stream, found {str(stream)[:40]}",
            "GET api/v1/streams lists them",
        )
    page = await reading(
        service.store.items.page,
        kinds=listed(kind, "kind", _KINDS),
        states=listed(state, "state", _STATES),
        stream=stream,
        open_only=open,
        begin=None if begin is None else nanoseconds(begin, "from"),
        end=None if to is None else nanoseconds(to, "to"),
        cursor=cursor,
        limit=limit,
    )
    return answer({"items": [_json(service, item) for item in page.items], "cursor": page.cursor})


@router.get("/{key}", dependencies=READS, responses=gives(schemas.ItemDetail))
async def item(item: AnItem, service: TheService, reading: Threads) -> Response:
    """Return an item with its comments and what belongs to it."""

    def read() -> Response:
        comments = [comment_json(written) for written in service.store.items.comments(item.key)]
        related = [_json(service, other) for other in _related(service, item)]
        return answer({**_json(service, item), "comments": comments, "related": related})

    return await reading(read)


@router.post(
    "/{key}/accept", responses=gives(schemas.Decided), openapi_extra=schemas.takes(schemas.Decision)
)
async def accept(
    caller: Operator, item: AnItem, service: TheService, decision: ADecision
) -> Response:
    """Accept an alarm or a change: what it is about is normal from now on."""
    return await _decide(decision, caller.who, item, service, "accept")


@router.post(
    "/{key}/reject", responses=gives(schemas.Decided), openapi_extra=schemas.takes(schemas.Decision)
)
async def reject(
    caller: Operator, item: AnItem, service: TheService, decision: ADecision
) -> Response:
    """Reject an alarm or a change: it is not to be learned."""
    return await _decide(decision, caller.who, item, service, "reject")


@router.post(
    "/{key}/comments",
    status_code=201,
    responses=gives(schemas.CommentFacts, 201),
    openapi_extra=schemas.takes(schemas.NewComment),
)
async def comment(
    caller: Operator,
    item: AnItem,
    service: TheService,
    reading: Threads,
    body: Annotated[schemas.NewComment, body_of(schemas.NewComment)],
) -> Response:
    """Write a comment."""
    made = Comment(item.key, time.time_ns(), caller.who, body.text)
    await reading(service.store.items.add_comment, made)
    return answer(comment_json(made), 201)


async def _decide(
    decision: schemas.Decision, who: str, item: Item, service: Service, verb: str
) -> Response:
    text = decision.comment
    changed = await applied(
        lambda: service.decide(item.key, verb, stream=item.stream, who=who, comment=text)
    )
    return answer({"item": _json(service, item if changed is None else changed)})


def _json(service: Service, item: Item) -> dict[str, Any]:
    return item_json(item, None if item.stream is None else service.stream(item.stream))


def _related(service: Service, item: Item) -> list[Item]:
    """Return what happened at the same time in the same stream, and incidents it is part of."""
    begin = item.opened - _NEAR
    end = (item.updated if item.ended is None else item.ended) + _NEAR
    if item.stream is None:
        return _of_incident(service, item)
    page = service.store.items.page(stream=item.stream, begin=begin, end=end, limit=_RELATED)
    related = [other for other in page.items if other.key != item.key]
    view = service.stream(item.stream)
    if view is not None and item.kind == "alarm":
        incidents = service.store.items.page(
            kinds=["incident"], begin=begin, end=end, limit=_RELATED
        )
        related += [it for it in incidents.items if view.name in it.body.get("streams", {})]
    return related[:_RELATED]


def _of_incident(service: Service, item: Item) -> list[Item]:
    first = []
    for name, number in list(item.body.get("streams", {}).items())[:_RELATED]:
        view = service.stream_named(name)
        if view is None:
            continue
        alarms = service.store.items.page(
            kinds=["alarm"], stream=view.id, begin=item.opened - _NEAR, limit=_RELATED
        )
        first += [alarm for alarm in alarms.items if alarm.number == number][:1]
    return first
