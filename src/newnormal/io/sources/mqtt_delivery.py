"""What a source of MQTT remembers of messages: which are in the log, and which cannot be read."""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import islice

from newnormal.io.mqtt_connection import Message

_SIZE = 8  # bytes of a digest
_RECENT = 600.0  # s for which a message that could not be read is reported
_EVERY = 60.0  # s between two changes of what is reported
_SHOWN = 200  # characters


def digest_of(message: Message) -> bytes:
    """Return what tells a message that is sent again from others: number, topic and payload.

    A broker that sends a message again has to keep its number.
    """
    found = blake2b(message.number.to_bytes(2, "big"), digest_size=_SIZE)
    topic = (message.topic or "").encode()
    found.update(len(topic).to_bytes(2, "big"))
    found.update(topic)
    found.update(message.payload)
    return found.digest()


class Delivered:
    """Messages that are in the log and that the broker may send again.

    It does so where the connection ends before it has the acknowledgement. That it has it is known
    when it answers to something that was sent behind the acknowledgement.

    Parameters
    ----------
    most
        How many are kept.

    Examples
    --------
    >>> delivered = Delivered(4)
    >>> delivered.add([b"first---", b"second--"])
    >>> sent = delivered.count
    >>> delivered.add([b"third---"])
    >>> delivered.confirm(sent)
    >>> b"second--" in delivered, b"third---" in delivered
    (False, True)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._digests: dict[bytes, None] = {}  # in order
        self.count = 0  # of all that were ever added

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, digests: Sequence[bytes]) -> None:
        """Add messages, the newest last."""
        for each in digests:
            self._digests.pop(each, None)
            self._digests[each] = None
        self.count += len(digests)
        self._leave(self._most)

    def confirm(self, count: int) -> None:
        """Remove all but those that were added when there were more than `count`."""
        self._leave(self.count - count)

    def clear(self) -> None:
        """Remove all."""
        self._digests.clear()

    def _leave(self, newest: int) -> None:
        for each in list(islice(self._digests, max(0, len(self._digests) - newest))):
            del self._digests[each]

    def text(self, more: Sequence[bytes] = ()) -> str:
        """Return all of them and `more` as a text."""
        return b64encode(b"".join((*self._digests, *more))[-self._most * _SIZE :]).decode()

    def read(self, text: str) -> None:
        """Add those of a text."""
        found = b64decode(text)
        self.add([found[at : at + _SIZE] for at in range(0, len(found), _SIZE)])


class Unread:
    """Messages that gave no values, and what to say of them.

    Broken ones are reported for ten minutes. Texts and objects without the field that is wanted
    are usual beside numbers, so they are reported only if no message of their pattern ever had a
    number. What is reported changes once a minute at most: each change is logged.

    Parameters
    ----------
    patterns
        The patterns of topics.
    clock
        Gives seconds.
    """

    def __init__(
        self, patterns: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patterns, self._clock = patterns, clock
        self._has_numbers = [False] * len(patterns)
        self._without = [0] * len(patterns)
        self._last_without = [""] * len(patterns)
        self._broken = 0
        self._last_broken = ""
        self._broken_at = 0.0
        self._said = ""
        self._said_at = -_EVERY

    def is_read(self, pattern: int) -> None:
        """Take note that a message of a pattern had a number."""
        self._has_numbers[pattern] = True

    def has_none(self, pattern: int, topic: str, why: str) -> None:
        """Take note of a message that has no number, and is not broken."""
        self._without[pattern] += 1
        self._last_without[pattern] = _shown(f"{topic}: {why}")

    def is_broken(self, topic: str, why: str) -> None:
        """Take note of a message that could not be read."""
        self._broken += 1
        self._last_broken = _shown(f"{topic}: {why}")
        self._broken_at = self._clock()

    def report(self) -> str:
        """Return what people should know; empty: nothing."""
        now = self._clock()
        if self._said_at + _EVERY <= now:
            found = self._now(now)
            if found != self._said:
                self._said, self._said_at = found, now
        return self._said

    def _now(self, now: float) -> str:
        parts = []
        if self._broken and self._broken_at + _RECENT > now:
            parts.append(f"{_messages(self._broken)} could not be read, lastly {self._last_broken}")
        for at, pattern in enumerate(self._patterns):
            if self._without[at] and not self._has_numbers[at]:
                parts.append(
                    f"no message of {pattern} has a number, {_messages(self._without[at])} so far, "
                    f"lastly {self._last_without[at]}"
                )
        return "; ".join(parts)


def _messages(count: int) -> str:
    return f"{count:,} message" if count == 1 else f"{count:,} messages"


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
