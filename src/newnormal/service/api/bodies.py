"""Read the body of a request: never more than the limit, however it is sent and compressed."""

import asyncio
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from newnormal.service.api.problems import HttpProblem

_PATIENCE = 60.0  # seconds for a body to come
_SMALL = 65_536  # bytes of a body that is not samples
_STEP = 1 << 18  # bytes that are decompressed at once


async def read_body(
    request: Request, most: int, decompressed: int, encodings: Sequence[str] = ()
) -> bytes:
    """Return the body of a request, decompressed.

    It has at most `most` bytes as they are sent, and `decompressed` after gzip was undone; the
    reader undoes other `encodings` itself.
    """
    parts: list[bytes] = []
    await receive_body(request, parts.append, most, decompressed, encodings)
    return b"".join(parts)


async def receive_body(
    request: Request,
    take: Callable[[bytes], object],
    most: int,
    decompressed: int,
    encodings: Sequence[str] = (),
) -> None:
    """Call `take` with each piece of the body, as `read_body` has it."""
    unpack = _unpacker(request, decompressed, encodings)
    _check_declared(request, most)
    size = 0
    try:
        async with asyncio.timeout(_PATIENCE):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                for piece in (chunk,) if unpack is None else unpack.pieces(chunk):
                    take(piece)
    except TimeoutError:
        raise HttpProblem(
            408,
            f"expected the whole body within {_PATIENCE:g} s, found only a part",
            "send less in a request",
            {"Connection": "close"},
        ) from None
    except ClientDisconnect:
        raise HttpProblem(400, "expected the whole body, found a connection that ended") from None
    if unpack is not None:
        unpack.end()


async def read_json(request: Request) -> Mapping[str, Any]:
    """Return the object that a request's body is; an empty body is an empty object."""
    body = await read_body(request, _SMALL, _SMALL)
    if not body.strip():
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HttpProblem(
            400, f"expected a body of JSON, found other text: {error}", "send an object"
        ) from None
    if not isinstance(value, Mapping):
        raise HttpProblem(422, f"expected a JSON object, found {_kind(value)}", "such as {}")
    return value


class Gunzip:
    """Undo gzip, of one member or several, up to a limit."""

    def __init__(self, most: int) -> None:
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
                    {"Connection": "close"},
                )
            if piece:
                pieces.append(piece)
            chunk = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
        return pieces

    def end(self) -> None:
        """Complain if the end is missing."""
        if self._begun and not self._inner.eof:
            raise HttpProblem(400, "expected a body of gzip, found only its beginning")


def _unpacker(request: Request, most: int, encodings: Sequence[str]) -> Gunzip | None:
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity", *encodings):
        return None
    if encoding in ("gzip", "x-gzip"):
        return Gunzip(most)
    known = ", ".join(("gzip", *encodings))
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
        {"Connection": "close"},
    )


def _kind(value: object) -> str:
    names = {list: "an array", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
