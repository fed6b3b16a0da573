"""Parameters of requests that several routes have."""

import base64
import binascii
import json
import re
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request

from newnormal.engine.values import Item, StreamView
from newnormal.service.api import schemas
from newnormal.service.api.access import Caller, needs
from newnormal.service.api.bodies import body_of
from newnormal.service.api.problems import HttpProblem
from newnormal.service.api.threads import ReadingThreads
from newnormal.service.config import OPERATE, READ, WRITE
from newnormal.service.service import Service

MOST = 500  # entries of a list at once
_KEY = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _reading(request: Request) -> ReadingThreads:
    reading: ReadingThreads = request.app.state.reading
    return reading


READS, WRITES, OPERATES = ([Depends(needs(role))] for role in (READ, WRITE, OPERATE))
Operator = Annotated[Caller, Depends(needs(OPERATE))]
TheService = Annotated[Service, Depends(_service)]
Threads = Annotated[ReadingThreads, Depends(_reading)]
Limit = Annotated[int, Query(ge=1, le=MOST, description="how many entries at most")]


async def _stream(
    id: Annotated[int, Path(description="the number of a stream")],  # noqa: A002
    service: TheService,
) -> StreamView:
    view = service.stream(id)
    if view is None:
        raise HttpProblem(
            404,
            f"expected the number of a stream, found {str(id)[:40]}",
            "GET api/v1/streams lists them",
        )
    return view


async def _item(
    key: Annotated[str, Path(description="the key of an item")],
    service: TheService,
    reading: Threads,
) -> Item:
    item = await reading(service.store.items.get, key) if _KEY.fullmatch(key) else None
    if item is None:
        raise HttpProblem(
            404,
            f"expected the key of an alarm, a change or an incident, found {key[:100]!r}",
            "GET api/v1/items lists them",
        )
    return item


ADecision = Annotated[schemas.Decision, body_of(schemas.Decision)]
AStream = Annotated[StreamView, Depends(_stream)]
AnItem = Annotated[Item, Depends(_item)]


def cursor_text(key: list[Any]) -> str:
    """Return the sorting key of a list's last entry as text that nobody needs to read."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def cursor_of(text: str, kinds: tuple[type, ...]) -> list[Any]:
    """Return what `cursor_text` was made from; a Problem unless its parts are of these kinds.

    >>> cursor_of(cursor_text([1, "a"]), (int, str))
    [1, 'a']
    """
    try:
        key = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        fits = isinstance(key, list) and len(key) == len(kinds)
        if not fits or not all(isinstance(a, b) for a, b in zip(key, kinds, strict=True)):
            raise ValueError
    except (ValueError, binascii.Error, RecursionError):
        raise HttpProblem(
            422,
            f"cursor: expected one that a list of the same order gave, found {text[:60]!r}",
            "leave it out to begin with the first entry",
        ) from None
    return list(key)


def listed(text: str | None, name: str, known: tuple[str, ...]) -> list[str] | None:
    """Return the words of a parameter with commas between; None if it is empty.

    >>> listed("alarm,change", "kind", ("alarm", "change", "silence"))
    ['alarm', 'change']
    """
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise HttpProblem(
                422, f"{name}: expected {', '.join(known)}, found {word[:60]!r}", "commas separate"
            )
    return words or None
