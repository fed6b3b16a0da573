"""The first command after an install: that it compiles, for how long, and how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newnormal.cli.bars import share_progress
from newnormal.cli.console import announce_compiling, say

if TYPE_CHECKING:
    from newnormal.detector import BaseDetector

__all__ = ["compile_first", "compile_fleet", "prepare"]

_NAMES = ("a", "b")


def prepare(detector: BaseDetector) -> None:
    """Compile what a detector needs to judge; report what is compiled later."""
    from newnormal.detector import Detector

    if isinstance(detector, Detector):
        compile_first("watch")
    else:
        announce_compiling()


def compile_first(command: str) -> None:
    """Compile what `fit` or `watch` needs and is not in the cache.

    A line on standard error announces it, once; a terminal has a bar as well.
    """
    from newnormal.runtime.first_start import compile_all, missing, processes

    jobs = missing(command)
    if not jobs:
        announce_compiling()
        return
    count = processes()
    work = sum(job.seconds for job in jobs)
    seconds = max(work / min(count, len(jobs)), jobs[0].seconds)
    together = f" with {count} processes" if count > 1 else ""
    say(f"compiling for this machine{together}, once: about {seconds:.0f} s ...")
    with share_progress("compiling") as on_share:

        def on_compiled(name: str, done: float) -> None:
            del name
            if on_share is not None:
                on_share(done)

        compile_all(jobs, command, count, on_compiled)


def compile_fleet() -> None:
    """Compile what judges many streams, by judging a few samples; milliseconds if it is compiled.

    Otherwise the service would compile it when its first stream goes live, and answer nobody for
    as long.
    """
    import warnings

    import numpy as np

    from newnormal import Detector, Fleet, NewnormalWarning
    from newnormal.tabular import Table

    announce_compiling()
    values = np.random.default_rng(0).normal(size=(460, 2))
    values[100:] += 20.0  # a change, which is accepted: other kernels than those of quiet samples
    times = np.datetime64("2026-01-01", "ns") + np.arange(len(values)) * np.timedelta64(60, "s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewnormalWarning)
        detector = Detector(epochs=1, accept_after=30).fit(Table(values[:60], _NAMES, times[:60]))
    fleet = Fleet()
    fleet.add("noise", detector)
    fleet.run({"noise": Table(values[60:], _NAMES, times[60:])})
