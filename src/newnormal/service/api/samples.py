"""Routes that take samples: a decoder each."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError, NewnormalError
from newnormal.io.decoders.base import QUERY, Decoder, DecoderLimits, Refusal
from newnormal.io.registry import decoder_names, find_decoder
from newnormal.service.api import schemas
from newnormal.service.api.bodies import check_encoding, gunzip, lease_of, read_body
from newnormal.service.api.parameters import WRITES
from newnormal.service.api.schemas import gives
from newnormal.service.api.threads import ReadingThreads
from newnormal.service.limits import Lease
from newnormal.service.service import Service

_LOGGER = logging.getLogger("newnormal.service")
_SMALL = 1 << 15  # bytes that are decoded at once, without another thread
_LARGE = 1 << 20  # bytes from which on bodies are decoded one by one: Python decodes nothing beside
_FORMS = ("application/json", "application/x-ndjson", "text/csv")


def mount_decoders(app: FastAPI, prefix: str) -> None:
    """Mount all decoders that are known."""
    for name in decoder_names():
        kind = find_decoder(name)
        content: dict[str, Any] = {each: {} for each in _FORMS if name == "samples"}
        route = _route(name, kind)
        for number, path in enumerate((kind.path, *kind.aliases)):
            app.add_api_route(
                path if path.startswith("/") else f"{prefix}/{path}",
                route,
                methods=["POST"],
                name=name,
                operation_id=f"push_{name}{f'_{number}' if number else ''}",
                dependencies=WRITES,
                status_code=kind.status,
                responses=gives(schemas.Pushed, kind.status) if name == "samples" else None,
                openapi_extra={
                    "requestBody": {"required": True, "content": content or {"*/*": {}}}
                },
                description=kind.__doc__,
                summary=f"Push samples: {name}",
                tags=["samples"],
            )


def _route(name: str, kind: type[Decoder]) -> Callable[[Request], Awaitable[Response]]:
    made: dict[DecoderLimits, Decoder] = {}  # one, until the limits are others

    async def push(request: Request) -> Response:
        service: Service = request.app.state.service
        reading: ReadingThreads = request.app.state.reading
        limits = service.config.limits
        of_decoder = DecoderLimits(limits.samples_per_request, limits.channels, limits.decompressed)
        decoder = made.get(of_decoder)
        if decoder is None:
            made.clear()
            decoder = made[of_decoder] = kind(of_decoder)
        compressed = check_encoding(request, kind.encodings)
        headers = {header.lower(): value for header, value in request.headers.items()}
        headers[QUERY] = request.url.query
        with lease_of(request) as lease:
            body = await read_body(request, limits.max_body, lease)
            if len(body) <= _SMALL and not compressed:
                body = _plain(name, decoder, body, headers, lease)
                arrivals = _decoded(name, decoder, body, headers)
            else:
                most = limits.decompressed if compressed else None
                body = await reading(_plain, name, decoder, body, headers, lease, most)
                threads = request.app.state.one_by_one if len(body) > _LARGE else reading
                arrivals = await threads(_decoded, name, decoder, body, headers)
            del body
            position, refused = await _taken(service, arrivals, lease.writer, partial=kind.partial)
        reply = decoder.response(arrivals, position, refused)
        if refused:
            _LOGGER.warning("%s: %d streams refused: %s", name, len(refused), refused[0].why)
        kept = {"Cache-Control": "no-store"}
        return Response(reply.body or None, reply.status or kind.status, kept, reply.media or None)

    return push


def _plain(
    name: str,
    decoder: Decoder,
    body: bytes,
    headers: dict[str, str],
    lease: Lease,
    decompressed: int | None = None,
) -> bytes:
    """Return a body without its compression, once there is room to decode it."""
    if decompressed is not None:
        body = gunzip(body, decompressed, lease)
    with _read_by(name):
        body = decoder.unpack(body, headers)
        weight = decoder.weight(body, headers)
    lease.take(weight)
    return body


def _decoded(
    name: str, decoder: Decoder, body: bytes, headers: dict[str, str]
) -> Sequence[Arrival]:
    with _read_by(name):
        return decoder.decode(body, headers)


@contextmanager
def _read_by(name: str) -> Iterator[None]:
    """Refuse whatever a stranger's decoder could not read."""
    try:
        yield
    except NewnormalError:
        raise
    except Exception as error:
        _LOGGER.warning("the decoder %s failed: %r", name, error)
        raise InputError(
            f"expected a body that the decoder {name} can read, found one that it failed on: "
            f"{type(error).__name__}",
            hint="the log of the service has more",
        ) from error


async def _taken(
    service: Service, arrivals: Sequence[Arrival], writer: str, *, partial: bool
) -> tuple[int, list[Refusal]]:
    """Return the position of samples once they are durable, and what was refused."""
    try:
        return await pushed(service, arrivals, writer), []
    except ValueError as error:  # a limit, or a time that cannot be
        if not partial:
            raise
        if len(arrivals) == 1:
            await asyncio.sleep(0)  # others go on, where many are refused
            return 0, [Refusal(arrivals[0], str(error))]
    half = len(arrivals) // 2
    first, refused = await _taken(service, arrivals[:half], writer, partial=True)
    last, others = await _taken(service, arrivals[half:], writer, partial=True)
    return max(first, last), refused + others


async def pushed(
    service: Service, arrivals: Sequence[Arrival], writer: str, *, history: bool = False
) -> int:
    """Return the position of samples once they are durable; 0 if there are none."""
    some = [arrival for arrival in arrivals if len(arrival.times)]
    if not some:
        return 0
    return await asyncio.wrap_future(service.push(some, writer=writer, history=history))
