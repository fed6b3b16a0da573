"""What a decoder of pushed bodies is."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.texts import shortened

QUERY = ":query"  # what `headers` has the text behind the question mark under
_LONGEST_NAME = 200
# Bytes that a part of a text takes once it is read, and how often the text itself is there.
_JSON_PARTS = {b",": 48, b"[": 64, b"{": 480, b":": 24, b"\n": 16}
_OTHER_PARTS = {b",": 128, b";": 128, b"\t": 128, b"=": 128, b"\n": 144}
_COPIES = 4
# The same for a part of a message, whose tag has this wire type.
_PART, _WITH_LENGTH = 80, 2


class UnknownFormError(InputError):
    """A body in a form that the decoder does not read: HTTP's 415."""

    status = 415


class TooManyError(InputError):
    """A body with more than the limits allow: HTTP's 413."""

    status = 413


@dataclass(frozen=True)
class DecoderLimits:
    """What a body may hold.

    Attributes
    ----------
    samples
        Samples, of all streams together. Where a line has one channel, lines.
    channels
        Channels of a stream.
    decompressed
        Bytes, once a compression is undone that the decoder undoes.
    """

    samples: int = 100_000
    channels: int = 500
    decompressed: int = 64 << 20


class Refusal(NamedTuple):
    """Samples of a body that the service does not take, and why."""

    arrival: Arrival
    why: str


class Reply(NamedTuple):
    """The answer to a body: its own body, the type of that, and the status if it is another one."""

    body: bytes = b""
    media: str = ""
    status: int | None = None


class Decoder(ABC):
    """Makes samples of the bodies of one address. Derive from it, and register your class.

    The service mounts each registered decoder as a route, ``POST`` to `path`, that needs the role
    ``write``. It reads the body, up to its limits, undoes gzip, calls `unpack`, `weight` and
    `decode` in any of several threads, and answers once the samples are durable.

    Parameters
    ----------
    limits
        What `decode` must refuse.
    clock
        Gives the time in ns since 1970, for samples without one.

    Attributes
    ----------
    path
        Where it is mounted: below ``/api/v1`` if it does not begin with ``/``.
    aliases
        Other places where it is mounted, too.
    encodings
        Values of Content-Encoding besides gzip that `unpack` undoes, such as ``"snappy"``.
    status
        Of the answer.
    partial
        Whether to take the other streams of a body where one is refused, as a limit is reached or
        its times are far ahead. Without it nothing of such a body is taken. For senders that do
        not mend and repeat a request that was refused, which would lose all of it.
    """

    path: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    encodings: ClassVar[tuple[str, ...]] = ()
    status: ClassVar[int] = 200
    partial: ClassVar[bool] = False

    def __init__(
        self,
        limits: DecoderLimits = DecoderLimits(),  # noqa: B008 - it is frozen
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.limits = limits
        self.clock = clock

    def unpack(self, body: bytes, headers: Mapping[str, str]) -> bytes:  # noqa: ARG002 - others do
        """Return a body without a compression of `encodings`; the rest is as for `decode`."""
        return body

    def weight(self, body: bytes, headers: Mapping[str, str]) -> int:  # noqa: ARG002 - others do
        """Return about how many bytes of memory `decode` takes at most; by default those of text.

        The service calls it before `decode`, and refuses a body where there is no room for so much.
        """
        return text_weight(body)

    @abstractmethod
    def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
        """Return the samples of a body.

        Parameters
        ----------
        body
            As it was sent, without gzip and as `unpack` returned it.
        headers
            Of the request, by their names in lower case; under ``":query"`` the text behind the
            question mark of the address.

        Raises
        ------
        InputError
            If the body is not what was expected: the request is refused with 400, or with the
            error's `status`. The message names the line or the sample.
        """

    def response(
        self, arrivals: Sequence[Arrival], position: int, refused: Sequence[Refusal] = ()
    ) -> Reply:
        """Return the answer once the samples are durable. By default JSON, or nothing with 204.

        Parameters
        ----------
        arrivals
            What `decode` returned, the same object.
        position
            Of the log.
        refused
            What was not taken; empty unless the decoder is `partial`.
        """
        import json

        if self.status == 204 and not refused:
            return Reply()
        taken = [
            arrival for arrival in arrivals if not any(arrival is other for other, _ in refused)
        ]
        answer: dict[str, Any] = {
            "samples": sum(len(arrival.times) for arrival in taken),
            "streams": len({arrival.stream for arrival in taken}),
            "position": position,
        }
        if refused:
            count = sum(len(arrival.arrival.times) for arrival in refused)
            answer["error"] = f"{count} samples were refused: {refused[0].why}"
        return Reply(json.dumps(answer).encode(), "application/json", 400 if refused else None)


def text_weight(body: bytes) -> int:
    """Return about how many bytes reading a text takes at most: its parts become objects of Python.

    Of JSON, of CSV and of line protocol the bytes a part were measured, as tests do.

    >>> text_weight(b"[" + b"0," * 499 + b"0]") < text_weight(b"time" + b",0" * 500)
    True
    """
    parts = _JSON_PARTS if body[:64].lstrip()[:1] in (b"{", b"[") else _OTHER_PARTS
    copies = _COPIES if body.isascii() else 2 * _COPIES
    return copies * len(body) + sum(size * body.count(part) for part, size in parts.items())


def message_weight(body: bytes) -> int:
    """Return about how many bytes reading a message of protobuf takes at most."""
    tags = np.frombuffer(body, np.uint8) & 0x87 == _WITH_LENGTH
    return _COPIES * len(body) + _PART * int(np.count_nonzero(tags))


def check_name(name: object, what: str, where: str) -> str:
    """Return the name of a stream or a channel; raise an InputError unless it can be one.

    >>> check_name("press-1", "stream", "sample 0")
    'press-1'
    >>> check_name("", "stream", "sample 0")
    Traceback (most recent call last):
    ...
    newnormal.errors.InputError: sample 0: stream: expected a name of 1 to 200 printable characters, found ''
    hint: such as press-1
    """  # noqa: E501 - the message is one line
    good = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()
    if not good or not str(name).strip():
        raise InputError(
            f"{where}: {what}: expected a name of 1 to {_LONGEST_NAME} printable characters, "
            f"found {shortened(ascii(name))}",
            hint=_name_hint(name),
        )
    return str(name)


def _name_hint(name: object) -> str:
    r"""Return what to do about a name that cannot be one.

    >>> _name_hint("pump\u200d1")
    'leave out U+200D, which shows nothing by itself: two names could look the same'
    """
    hidden = next((each for each in str(name) if not each.isprintable()), "")
    if isinstance(name, str) and hidden:
        code = f"U+{ord(hidden):04X}"
        return f"leave out {code}, which shows nothing by itself: two names could look the same"
    return "such as press-1"


def too_many_samples(limits: DecoderLimits) -> TooManyError:
    """Return the error of a body with too many samples."""
    return TooManyError(
        f"expected at most {limits.samples:,} samples, found more",
        hint="send them in several requests, or raise limits.samples_per_request",
    )
