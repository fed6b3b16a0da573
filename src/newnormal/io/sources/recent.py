"""The last bytes before any place that an input has reached."""

from __future__ import annotations

from collections import deque


class Recent:
    r"""Bytes that were read, as far back as a digest needs them.

    Parameters
    ----------
    count
        How many bytes before a place are needed.
    offset
        The place where reading begins.
    before
        The bytes before it.

    Examples
    --------
    >>> recent = Recent(4)
    >>> recent.add(b"time,a\n")
    >>> recent.add(b"1,2\n")
    >>> recent.before(7), recent.before(11)
    (b'e,a\n', b'1,2\n')
    """

    def __init__(self, count: int, offset: int = 0, before: bytes = b"") -> None:
        self._count = count
        self._pieces: deque[tuple[int, bytes]] = deque()  # with the places where they begin
        self._end = offset
        if before:
            self._pieces.append((offset - len(before), before))

    def add(self, piece: bytes) -> None:
        """Add what was read."""
        self._pieces.append((self._end, piece))
        self._end += len(piece)

    def before(self, offset: int) -> bytes:
        """Return the last bytes before a place."""
        start = max(offset - self._count, 0)
        return b"".join(
            piece[max(start - at, 0) : offset - at]
            for at, piece in self._pieces
            if at < offset and at + len(piece) > start
        )

    def forget(self, offset: int, *, between: bool = False) -> None:
        """Drop what is not needed for places from `offset` on.

        With `between` only the places `offset` and the end are left: a line is being skipped.
        """
        if between and self._end - offset > 2 * self._count:
            here, end = self.before(offset), self.before(self._end)
            self._pieces = deque([(offset - len(here), here), (self._end - len(end), end)])
        start = offset - self._count
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= start:
            self._pieces.popleft()
