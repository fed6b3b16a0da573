"""Read the body of a request: never more than the limit, however it is sent and compressed."""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from newnormal.io.decoders.base import text_weight
from newnormal.service.api.access import LOCAL, Caller
from newnormal.service.api.problems import HttpProblem
from newnormal.service.limits import Lease
from newnormal.service.service import Service

_PATIENCE = 60.0  # seconds for a body to come
_SMALL = 65_536  # bytes of a body that is not samples
_STEP = 1 << 18  # bytes that are decompressed at once
_MEMBERS = 10_000  # of a body of gzip: each takes a while, also an empty one


def lease_of(request: Request, longest: int = 4) -> Lease:
    """Return what a request takes of the service's memory: a `longest` part of it at most.

    A writer is a token by its name, or an address where nobody needs a token.
    """
    service: Service = request.app.state.service
    caller: Caller | None = getattr(request.state, "caller", None)
    writer = caller.who if caller is not None else LOCAL
    if writer == LOCAL:
        writer = request.client.host if request.client is not None else LOCAL
    most = service.config.limits.memory
    return service.bodies.lease(writer, most, most // longest)


async def read_body(request: Request, most: int, lease: Lease) -> bytes:
    """Return the body of a request as it was sent; at most so many bytes."""
    parts: list[bytes] = []

    def take(part: bytes) -> None:
        lease.take(len(part))
        parts.append(part)

    await receive_body(request, take, most)
    return b"".join(parts)


async def receive_body(request: Request, take: Callable[[bytes], object], most: int) -> None:
    """Call `take` with each piece of the body as it was sent; at most so many bytes."""
    _check_declared(request, most)
    size = 0
    try:
        async with asyncio.timeout(_PATIENCE):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                take(chunk)
    except TimeoutError:
        raise HttpProblem(
            408,
            f"expected the whole body within {_PATIENCE:g} s, found only a part",
            "send less in a request",
            {"Connection": "close"},
        ) from None
    except ClientDisconnect:
        raise HttpProblem(400, "expected the whole body, found a connection that ended") from None


def body_of(model: type[BaseModel]) -> Any:
    """Return what reads the body of a route as a model; an empty body is an empty object."""

    async def read(request: Request) -> BaseModel:
        compressed = check_encoding(request)
        with lease_of(request) as lease:
            body = await read_body(request, _SMALL, lease)
            if compressed:
                body = gunzip(body, _SMALL, lease)
            lease.take(text_weight(body))
            try:
                return model.model_validate_json(body.strip() or b"{}", strict=True)
            except ValidationError as error:
                shown = not model.model_config.get("hide_input_in_errors")
                raise RequestValidationError(error.errors(include_input=shown)) from None

    return Depends(read)


def gunzip(body: bytes, most: int, lease: Lease) -> bytes:
    """Return a body without gzip, of at most so many bytes; in a thread."""
    unpack = Gunzip(most)
    parts: list[bytes] = []
    for at in range(0, len(body), _SMALL):
        for part in unpack.pieces(body[at : at + _SMALL]):
            lease.take(len(part))
            parts.append(part)
    unpack.end()
    return b"".join(parts)


class Gunzip:
    """Undo gzip, of one member or several, up to a limit."""

    def __init__(self, most: int) -> None:
        self._members = 1
        self._most = most
        self._left = most
        self._inner = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._begun = False

    def pieces(self, chunk: bytes) -> list[bytes]:
        """Return what a chunk becomes."""
        pieces = []
        while chunk:
            if self._inner.eof:
                chunk = chunk.lstrip(b"\0")  # some programs fill up the last block
                if not chunk:
                    break
                self._inner = zlib.decompressobj(zlib.MAX_WBITS | 16)
                self._members += 1
                if self._members > _MEMBERS:
                    raise HttpProblem(
                        413,
                        f"expected gzip of at most {_MEMBERS:,} members, found more",
                        "compress the body as one",
                    )
            self._begun = True
            try:
                piece = self._inner.decompress(chunk, min(_STEP, self._left + 1))
            except zlib.error as error:
                raise HttpProblem(
                    400, f"expected a body of gzip, found other bytes: {error}"
                ) from None
            self._left -= len(piece)
            if self._left < 0:
                raise HttpProblem(
                    413,
                    f"expected a body of at most {self._most:,} bytes once it is decompressed, "
                    "found more",
                    "send less in a request, or raise limits.decompressed",
                )
            if piece:
                pieces.append(piece)
            chunk = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
        return pieces

    def end(self) -> None:
        """Complain if the end is missing."""
        if self._begun and not self._inner.eof:
            raise HttpProblem(400, "expected a body of gzip, found only its beginning")


def check_encoding(request: Request, others: Sequence[str] = ()) -> bool:
    """Return whether a body is gzip; a problem if it is neither plain nor of the `others`."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity", *others):
        return False
    if encoding in ("gzip", "x-gzip"):
        return True
    known = ", ".join(("gzip", *others))
    raise HttpProblem(
        415,
        f"Content-Encoding: expected {known} or none, found {encoding[:60]!r}",
        "send the body as it is, or as gzip",
        {"Accept-Encoding": known},
    )


def _check_declared(request: Request, most: int) -> None:
    declared = request.headers.get("content-length")
    if declared is None:
        return
    if not (declared.isascii() and declared.isdigit()):
        raise HttpProblem(400, f"Content-Length: expected a number, found {declared[:60]!r}")
    if len(declared) > 18 or int(declared) > most:
        raise _too_large(most)


def _too_large(most: int) -> HttpProblem:
    return HttpProblem(
        413,
        f"expected a body of at most {most:,} bytes, found more",
        "send less in a request, or raise limits.max_body",
    )
