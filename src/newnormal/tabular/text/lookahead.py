"""Bytes whose beginning is looked at first."""

from collections import deque

from newnormal.tabular.text.compression import Poll
from newnormal.tabular.text.line_cutting import HEAD


class Lookahead:
    """Bytes whose beginning can be looked at before it is given out.

    With `live` it does not wait where none have come yet; with `hasty` the first line is enough.
    """

    def __init__(self, poll: Poll, *, live: bool, hasty: bool) -> None:
        self.ended = False
        self._source = poll
        self._live, self._hasty = live, hasty
        self._held: deque[bytes] = deque()

    def look(self, enough: int = HEAD) -> bytes | None:
        """Return the first `HEAD` bytes, or all that have come; None if these are too few.

        A line or `enough` bytes are not too few.
        """
        head = b"".join(self._held)
        while len(head) < HEAD and not self.ended:
            is_enough = len(head) >= enough or b"\n" in head or b"\r" in head
            if self._hasty and is_enough:
                break
            piece = self._source()
            if piece is None:
                self.ended = True
            elif piece:
                self._held.append(piece)
                head += piece
            elif self._live:
                return head if is_enough else None
        return head[:HEAD]

    def poll(self) -> bytes | None:
        """Return the next bytes; b"" if none have come yet, None at the end."""
        if self._held:
            return self._held.popleft()
        return None if self.ended else self._source()

    def forget(self) -> None:
        """Drop what is held: the source is at another place."""
        self._held.clear()
        self.ended = False
