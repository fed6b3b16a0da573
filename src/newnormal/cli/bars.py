"""Bars of progress on standard error; nothing where that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["sample_progress"]


@contextmanager
def sample_progress(what: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """Give a callback of how many samples are done, which draws a bar; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        def on_samples(done: int) -> None:
            bar.update(task, completed=done)

        yield on_samples
