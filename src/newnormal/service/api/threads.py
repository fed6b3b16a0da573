"""Threads for what takes a while."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_THREADS = 4  # that read the store; each has a connection of its own


class ReadingThreads:
    """Some threads for what takes a while, so that requests do not wait for each other."""

    def __init__(self, count: int = _THREADS) -> None:
        self._threads = ThreadPoolExecutor(count, "newnormal-api")

    async def __call__(
        self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Return what a function returns that is called in one of the threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
