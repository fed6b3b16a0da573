"""Bars of progress on standard error; nothing where that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from newnormal.models.base import OnEpoch, OnPhase


class FitCallbacks(TypedDict):
    """What `fit` calls on its way."""

    on_epoch: OnEpoch | None
    on_phase: OnPhase | None


@contextmanager
def fit_progress() -> Iterator[FitCallbacks]:
    """Give the callbacks of `fit` that draw a bar: its share, what is done now, and the loss."""
    if not sys.stderr.isatty():
        yield {"on_epoch": None, "on_phase": None}
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    shown = (*columns, TextColumn("{task.description}", markup=False))
    with Bar(*shown, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        now, last = "starting", ""

        def on_phase(what: str, share: float) -> None:
            nonlocal now, last
            now, last = what, last if what == now else ""
            bar.update(task, completed=share, description=now + last)

        def on_epoch(done: int, loss: float) -> None:
            nonlocal last
            del done  # it begins anew for each model of a committee
            last = f", loss {loss:.4g}"
            bar.update(task, description=now + last)

        yield {"on_epoch": on_epoch, "on_phase": on_phase}


@contextmanager
def share_progress(what: str) -> Iterator[Callable[[float], None] | None]:
    """Give a callback of the share that is done, which draws a bar; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1.0)

        def on_share(done: float) -> None:
            bar.update(task, completed=done)

        yield on_share


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
