"""A clean stop on SIGINT and SIGTERM."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Turns SIGINT and SIGTERM into a clean stop after the batch; a second one stops at once."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle the signals inside this context; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
