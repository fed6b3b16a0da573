"""The route that takes history: files as people have them."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError, MissingExtraError
from newnormal.io.decoders.base import check_name
from newnormal.service.api import schemas
from newnormal.service.api.bodies import Gunzip, check_encoding, lease_of, receive_body
from newnormal.service.api.parameters import OPERATES, TheService
from newnormal.service.api.problems import HttpProblem
from newnormal.service.api.samples import pushed
from newnormal.service.api.schemas import gives
from newnormal.service.api.shown import answer
from newnormal.service.config import Limits
from newnormal.service.limits import Lease
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
_PIECE = 1 << 16  # bytes of a file that are read at once
# Bytes that the values behind a part of a file take, as measured.
_PARTS = {b",": 24, b";": 24, b"\t": 24, b":": 24, b"\n": 48}

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
    compressed = check_encoding(request)
    with _room():
        folder = tempfile.TemporaryDirectory(prefix="newnormal-history-")
    with folder as name:
        path = Path(name) / "sent"
        with _room(), path.open("wb") as file:
            await receive_body(request, file.write, limits.decompressed)
        with lease_of(request, 2) as lease:
            arrivals, notes = await request.app.state.one_by_one(
                _read, path, compressed, limits, lease, stream, by, long, options
            )
            position = await pushed(service, arrivals, lease.writer, history=True)
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


def _without_gzip(path: Path, most: int) -> Path:
    """Return the file of what a compressed file has: at most so many bytes."""
    plain, unpack = path.with_name(path.name + "-plain"), Gunzip(most)
    with path.open("rb") as source, _room(), plain.open("wb") as target:
        while piece := source.read(_PIECE):
            target.writelines(unpack.pieces(piece))
    unpack.end()
    path.unlink()
    return plain


def _weight(path: Path) -> int:
    """Return about how many bytes the values of a file take once they are read."""
    weight = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            weight += sum(size * piece.count(part) for part, size in _PARTS.items())
    return weight


def _read(
    path: Path,
    compressed: bool,
    limits: Limits,
    lease: Lease,
    stream: str,
    by: str,
    long: bool,
    options: dict[str, Any],
) -> tuple[list[Arrival], list[str]]:
    """Return the samples of a file, and what was found out about it."""
    if compressed:
        path = _without_gzip(path, limits.decompressed)
    with path.open("rb") as file:
        head = file.read(4)
    for magic, other in _OTHERS.items():
        if head.startswith(magic):
            raise HttpProblem(
                415,
                f"expected CSV or JSON lines, found {other}",
                "save it as CSV; newnormal fit reads it as it is",
            )
    if head.startswith(_GZIP):
        path = _without_gzip(path, limits.decompressed)
    lease.take(_weight(path))
    columns = tuple(filter(None, by.split(","))) or None
    try:
        if columns or long:
            several = read_tables(path, by=columns, long=long or None, **options)
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
    channels = max((len(arrival.channels) for arrival in arrivals), default=0)
    if channels > limits.channels:
        raise HttpProblem(
            413,
            f"expected at most {limits.channels} channels, found {channels}",
            "leave columns out, or raise limits.channels",
        )
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
