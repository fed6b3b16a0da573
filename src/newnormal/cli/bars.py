"""Bars of progress on standard error, none without a terminal; compiling, which has one."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

from newnormal.cli.console import announce_compiling, say
from newnormal.texts import number_text

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
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


def prepare(detector: "BaseDetector") -> None:
    """Compile what a detector needs to judge; report what is compiled later."""
    from newnormal.detector import Detector

    if isinstance(detector, Detector):
        compile_first("watch")
    else:
        announce_compiling()


def compile_first(
    command: str,
    on_share: Callable[[float, float], None] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Compile what `fit`, `watch` or `serve` needs and is not in the cache.

    A line on standard error announces it, once; a terminal has a bar as well. `on_share` is called
    with the share that is compiled and the seconds that all of it takes, about. Once `is_stopped`
    is true, no other kernel is begun.
    """
    from newnormal.runtime.first_start import compile_all, missing, processes

    if not (jobs := missing(command)):
        announce_compiling()
        return
    count = processes()
    work = sum(job.seconds for job in jobs)
    seconds = max(work / min(count, len(jobs)), jobs[0].seconds)
    together = f" with {count} processes" if count > 1 else ""
    announce_compiling().said = True  # what is compiled later says nothing more
    say(f"compiling for this machine{together}, once: about {seconds:.0f} s ...")
    if on_share is not None:
        on_share(0.0, seconds)
    with progress("compiling") as draw:

        def on_compiled(name: str, done: float) -> None:
            del name
            if draw is not None:
                draw(done)
            if on_share is not None:
                on_share(done, seconds)

        compile_all(jobs, command, count, on_compiled, is_stopped)
