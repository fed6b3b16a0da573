"""The route that takes history: files as people have them."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from newnormal.errors import InputError, MissingExtraError
from newnormal.io.arrivals import Arrival
from newnormal.io.decoders.base import check_name
from newnormal.service.api import schemas
from newnormal.service.api.bodies import Gunzip, receive_body
from newnormal.service.api.parameters import OPERATES, TheService, Threads
from newnormal.service.api.problems import HttpProblem
from newnormal.service.api.samples import pushed
from newnormal.service.api.schemas import gives
from newnormal.service.api.shown import answer
from newnormal.tabular import Table, default_channels, read, read_tables

_GZIP = b"\x1f\x8b"
_OTHERS = {b"PAR1": "Parquet", b"PK\x03\x04": "Excel or zip", b"\x28\xb5\x2f\xfd": "zstd"}
_FORMATS = {
    "text/csv": "csv",
    "application/csv": "csv",
    "text/tab-separated-values": "csv",
    "application/x-ndjson": "jsonl",
    "application/ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/json": "jsonl",
}
_NAME = "the file"
_MOST_NOTES = 20

router = APIRouter(prefix="/streams", tags=["samples"])


@router.post(
    "/history",
    dependencies=OPERATES,
    responses=gives(schemas.Uploaded),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"text/csv": {}, "application/x-ndjson": {}, "application/octet-stream": {}},
        }
    },
)
async def history(
    request: Request,
    service: TheService,
    reading: Threads,
    stream: Annotated[str, Query(description="the name of the stream")] = "",
    by: Annotated[str, Query(description="columns that name the stream; commas")] = "",
    long: Annotated[bool, Query(description="whether a row is time, tag and value")] = False,
    time: Annotated[str, Query(description="the column of the time")] = "",
    zone: Annotated[str, Query(description="of times without one, such as Europe/Berlin")] = "",
) -> Response:
    """Upload the history of a stream, or of several: it is fitted at once.

    The file is read as `newnormal fit` does: CSV with any delimiter, decimal point and way to write
    dates, or JSON lines; compressed by gzip or not. It must have times.
    """
    if bool(stream) == bool(by):
        raise HttpProblem(
            422,
            "expected stream or by, found " + ("both" if stream else "neither"),
            "?stream=NAME for a file of one stream, ?by=COLUMN for one of several",
        )
    if stream:
        check_name(stream, "stream", "address")
    options: dict[str, Any] = {}
    if zone:
        options["tz"] = zone
    if time and not long:
        options["time"] = time
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _FORMATS:
        options["format"] = _FORMATS[kind]
    limits = service.config.limits
    with _room():
        handle, name = tempfile.mkstemp(prefix="newnormal-history-")
    path = Path(name)
    try:
        with _room(), os.fdopen(handle, "wb") as file:
            taken = _HistoryFile(file, limits.decompressed)
            await receive_body(request, taken.take, limits.decompressed, limits.decompressed)
            taken.end()
        arrivals, notes = await reading(
            _read, path, stream, tuple(filter(None, by.split(","))), long, options
        )
        channels = max((len(arrival.channels) for arrival in arrivals), default=0)
        if channels > limits.channels:
            raise HttpProblem(
                413,
                f"expected at most {limits.channels} channels, found {channels}",
                "leave columns out, or raise limits.channels",
            )
        position = await pushed(service, arrivals, history=True)
    finally:
        path.unlink(missing_ok=True)
    return answer(
        {
            "samples": sum(len(arrival.times) for arrival in arrivals),
            "streams": len(arrivals),
            "position": position,
            "found": notes,
        }
    )


@contextmanager
def _room() -> Iterator[None]:
    """Answer 503 where the file cannot be kept until it is read."""
    try:
        yield
    except OSError as error:
        raise HttpProblem(
            503,
            f"cannot write to {tempfile.gettempdir()}: {error.strerror or error}",
            "make room there, and send the same file again",
            {"Retry-After": "10"},
        ) from None


class _HistoryFile:
    """Write pieces to a file; undo gzip where the file itself is compressed."""

    def __init__(self, file: Any, most: int) -> None:
        self._file = file
        self._most = most
        self._head = b""
        self._begun = False
        self._unpack: Gunzip | None = None

    def take(self, piece: bytes) -> None:
        """Write a piece."""
        if not self._begun:
            self._head += piece
            if len(self._head) < 4:
                return
            self._begin()
            piece = self._head
        for part in (piece,) if self._unpack is None else self._unpack.pieces(piece):
            self._file.write(part)

    def _begin(self) -> None:
        self._begun = True
        for magic, name in _OTHERS.items():
            if self._head.startswith(magic):
                raise HttpProblem(
                    415,
                    f"expected CSV or JSON lines, found {name}",
                    "save it as CSV; newnormal fit reads it as it is",
                )
        if self._head.startswith(_GZIP):
            self._unpack = Gunzip(self._most)

    def end(self) -> None:
        """Write what is left."""
        if not self._begun:
            self._file.write(self._head)
        if self._unpack is not None:
            self._unpack.end()


def _read(
    path: Path, stream: str, by: tuple[str, ...], long: bool, options: dict[str, Any]
) -> tuple[list[Arrival], list[str]]:
    """Return the samples of a file, and what was found out about it."""
    try:
        if by or long:
            several = read_tables(path, by=by or None, long=long or None, **options)
            if not several.tables and several.errors:
                raise next(iter(several.errors.values()))
            tables = {stream or name: table for name, table in several.tables.items()}
            notes = [f"{name}: {error.message}" for name, error in several.errors.items()]
            notes += several.profile.notes if several.profile is not None else []
        else:
            table = read(path, **options)
            tables, notes = (
                {stream: table},
                table.profile.notes if table.profile is not None else [],
            )
    except InputError as error:
        message = error.message.replace(str(path), _NAME)
        raise InputError(message, hint=error.hint) from None
    except MissingExtraError as error:
        raise HttpProblem(415, error.message.replace(str(path), _NAME), "save it as CSV") from None
    arrivals = [_arrival(name, table) for name, table in tables.items()]
    return arrivals, [note.replace(str(path), _NAME)[:300] for note in notes[:_MOST_NOTES]]


def _arrival(name: str, table: Table) -> Arrival:
    check_name(name, "stream", _NAME)
    if table.times is None:
        raise InputError(
            f"{_NAME}: expected a column of times, found none",
            hint="add one, such as time with 2026-01-31T12:00:00Z, or name it with ?time=COLUMN",
        )
    channels = table.channels or default_channels(table.values.shape[1])
    for channel in channels:
        check_name(channel, "channel", _NAME)
    values = np.ascontiguousarray(table.values, np.float64)
    times = table.times.astype("datetime64[ns]").astype(np.int64)
    return Arrival(name, tuple(channels), times, np.where(np.isinf(values), np.nan, values))
