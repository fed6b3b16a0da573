"""Prometheus' remote write 1.0: the messages, and their compression.

The schema (``prompb``): a request has series (1) and metadata (3); a series has labels (1) and
samples (2); a label a name (1) and a value (2); a sample a value (1) and a time in ms (2). The
package `protobuf` needs no generated file for it.
"""

from functools import cache
from typing import Any

from newnormal.errors import InputError, extra
from newnormal.io.decoders.base import TooManyError

# The NaN by which Prometheus says that a series has ended.
STALE = 0x7FF0000000000002
HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
_DOUBLE, _INT64, _STRING, _MESSAGE, _BYTES = 1, 3, 9, 11, 12  # types of protobuf
_Messages = dict[str, list[tuple[str, int, int, str | None, bool]]]
_MESSAGES: _Messages = {
    "Label": [("name", 1, _STRING, None, False), ("value", 2, _STRING, None, False)],
    "Sample": [("value", 1, _DOUBLE, None, False), ("timestamp", 2, _INT64, None, False)],
    "TimeSeries": [
        ("labels", 1, _MESSAGE, "Label", True),
        ("samples", 2, _MESSAGE, "Sample", True),
    ],
    # Its type is an enumeration; as a number it is the same on the wire.
    "Metadata": [("type", 1, _INT64, None, False), ("family", 2, _STRING, None, False)],
    "WriteRequest": [
        ("timeseries", 1, _MESSAGE, "TimeSeries", True),
        ("metadata", 3, _MESSAGE, "Metadata", True),
    ],
}
# The same bytes, read with labels as they were sent: a series is known by them, unread.
_RAW: _Messages = {
    "Sample": _MESSAGES["Sample"],
    "TimeSeries": [("labels", 1, _BYTES, None, True), ("samples", 2, _MESSAGE, "Sample", True)],
    "WriteRequest": [("timeseries", 1, _MESSAGE, "TimeSeries", True)],
}
_NAMED: _Messages = {
    "Label": _MESSAGES["Label"],
    "TimeSeries": [("labels", 1, _MESSAGE, "Label", True)],
    "WriteRequest": [("timeseries", 1, _MESSAGE, "TimeSeries", True)],
}
# A copy of 64 bytes takes at least 3: more than this, a body of snappy cannot become.
_MOST_EXPANSION = 22


@cache
def request_kind() -> type[Any]:
    """Return the class of a request."""
    return _kind(_MESSAGES)


@cache
def raw_kind() -> type[Any]:
    """Return the class of a request whose labels are bytes, as they were sent."""
    return _kind(_RAW)


@cache
def named_kind() -> type[Any]:
    """Return the class of a request that has labels and nothing else."""
    return _kind(_NAMED)


def _kind(messages: _Messages) -> type[Any]:
    with extra("prometheus", "protobuf"):
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    file = descriptor_pb2.FileDescriptorProto(
        name="newnormal_remote_write.proto", package="newnormal_remote_write", syntax="proto3"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind, inner, repeated in fields:
            message.field.add(
                name=field,
                number=number,
                type=kind,
                label=3 if repeated else 1,
                type_name=None if inner is None else f".newnormal_remote_write.{inner}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("newnormal_remote_write.WriteRequest")
    return message_factory.GetMessageClass(descriptor)


def pack(request: Any) -> bytes:
    """Return the body of a request."""
    return bytes(_snappy().compress_raw(request.SerializeToString()))


def unpack(body: bytes, most: int) -> Any:
    """Return the request of a body.

    `most`: bytes that it may have once it is decompressed.
    """
    return parse(decompress(body, most), request_kind())


def decompress(body: bytes, most: int) -> bytes:
    """Return a body without snappy; `most` as `unpack` has it."""
    snappy = _snappy()
    size = _declared(body)
    if size > most:
        raise TooManyError(
            f"expected a body of at most {most:,} bytes once it is decompressed, found {size:,}",
            hint="lower max_samples_per_send of the sender, or raise limits.decompressed",
        )
    if size > _MOST_EXPANSION * len(body):
        raise InputError(f"expected a body of snappy, found one that cannot become {size:,} bytes")
    try:
        return bytes(snappy.decompress_raw(body))
    except Exception as error:  # noqa: BLE001 - its own class, which is a direct child of Exception
        raise InputError(f"expected a body of snappy, found other bytes: {error}") from None


def parse(plain: bytes, kind: type[Any]) -> Any:
    """Return the message of a kind that bytes hold."""
    from google.protobuf.message import DecodeError

    message = kind()
    try:
        message.ParseFromString(plain)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"expected a write request of Prometheus, found {error}") from None
    return message


def _declared(body: bytes) -> int:
    size = 0
    for at, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return size
    raise InputError("expected a body of snappy, found other bytes")


def _snappy() -> Any:
    with extra("prometheus", "cramjam"):
        import cramjam
    return cramjam.snappy
