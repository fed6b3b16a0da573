"""A clock for tests."""

from typing import Generic, TypeVar

N = TypeVar("N", bound=float)


class StillClock(Generic[N]):
    """Stands still until a test moves it."""

    def __init__(self, now: N) -> None:
        self.now = now

    def __call__(self) -> N:
        return self.now
