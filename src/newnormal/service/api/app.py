"""The app: everything that the service answers over HTTP."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from newnormal import __version__
from newnormal.service.api import events, files, history, items, operations, session, streams
from newnormal.service.api.access import Access, Guard
from newnormal.service.api.parameters import READS
from newnormal.service.api.problems import answer_problems
from newnormal.service.api.samples import mount_decoders
from newnormal.service.api.shown import answer
from newnormal.service.api.threads import ReadingThreads
from newnormal.service.service import Service

PREFIX = "/api/v1"
# What any address may answer. Some protocols have more beside the sentence, or no hint.
_REFUSED = {
    "description": "Client Error",
    "content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}},
}


def make_app(service: Service) -> FastAPI:
    """Return the app of a service, which must be started by somebody else.

    `app.state.closing` is an event: set it so that subscribers are let go before the server stops.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.closing.set()
        app.state.reading.close()
        app.state.one_by_one.close()

    app = FastAPI(
        title="newnormal",
        version=__version__,
        description="Watch many streams: push samples, read alarms and changes, decide.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    reading = ReadingThreads()
    app.state.service = service
    app.state.reading = reading
    app.state.one_by_one = ReadingThreads(1)  # for large bodies
    app.state.access = Access(service, reading)
    app.state.seats = set()
    app.state.closing = threading.Event()
    answer_problems(app)
    mount_decoders(app, PREFIX)  # first, since routes are tried in their order
    app.include_router(files.router)
    app.include_router(operations.root)
    for module in (history, streams, items, events, session, operations):
        app.include_router(module.router, prefix=PREFIX)

    @app.get(f"{PREFIX}/openapi.json", include_in_schema=False, dependencies=READS)
    async def document(request: Request) -> Response:
        return answer(_document(request.app))

    app.add_middleware(Guard, service=service, access=app.state.access)
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with how to say who one is."""
    document = app.openapi()
    document.setdefault("components", {})["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "newnormal_session"},
    }
    document["security"] = [{"token": []}, {"session": []}, {}]
    for methods in document["paths"].values():
        for described in methods.values():
            described["responses"].setdefault("4XX", _REFUSED)
    return document
