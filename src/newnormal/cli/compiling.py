"""The first command after an install: that it compiles, for how long, and how far it is."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from newnormal.cli.bars import progress
from newnormal.cli.console import announce_compiling, say

if TYPE_CHECKING:
    from newnormal.base import BaseDetector


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
