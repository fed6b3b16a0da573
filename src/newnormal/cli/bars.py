"""Bars of progress on standard error; nothing where that is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

from newnormal.texts import number_text

if TYPE_CHECKING:
    from newnormal.fleet.fitting import Progress
    from newnormal.models.base import OnEpoch, OnPhase


class FitCallbacks(TypedDict):
    """What `fit` calls on its way."""

    on_epoch: "OnEpoch | None"
    on_phase: "OnPhase | None"


@contextmanager
def _bar(what: str, total: float, *columns: Any) -> Iterator[Callable[..., None]]:
    """Draw a bar; give what updates it."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda **changes: bar.update(task, **changes)


@contextmanager
def fit_progress() -> Iterator[FitCallbacks]:
    """Give the callbacks of `fit` that draw a bar: its share, what is done now, and the loss."""
    if not sys.stderr.isatty():
        yield {"on_epoch": None, "on_phase": None}
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), text)
    with _bar("starting", 1.0, *columns) as update:
        now, last = "starting", ""

        def on_phase(what: str, share: float) -> None:
            nonlocal now, last
            now, last = what, last if what == now else ""
            update(completed=share, description=now + last)

        def on_epoch(done: int, loss: float) -> None:
            nonlocal last
            del done  # it begins anew for each model of a committee
            last = f", loss {number_text(loss)}"
            update(description=now + last)

        yield {"on_epoch": on_epoch, "on_phase": on_phase}


@contextmanager
def progress(what: str, total: float = 1.0) -> Iterator[Callable[[float], None] | None]:
    """Give a callback of how much is done, which draws a bar; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with _bar(what, total) as update:
        yield lambda done: update(completed=done)


@contextmanager
def stream_progress() -> "Iterator[Callable[[Progress], None] | None]":
    """Give a callback that draws a bar of streams with the time left; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, TextColumn

    columns = (TextColumn("fitting"), BarColumn(), TextColumn("{task.description}"))
    with _bar("", 100.0, *columns) as update:
        yield lambda streams: update(
            completed=streams.done, total=streams.total, description=progress_text(streams)
        )


def progress_text(streams: "Progress") -> str:
    """Return how many streams are done, and the time left."""
    text = f"{streams.done:,} of {streams.total:,} streams"
    if streams.failed:
        text += f", {streams.failed:,} failed"
    if streams.seconds_left is None:
        return text
    minutes, seconds = divmod(round(streams.seconds_left), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{text}, {hours}:{minutes:02}:{seconds:02} left"
