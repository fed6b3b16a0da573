"""A process that fits streams: one message in, one message out, until its input ends."""

from __future__ import annotations

import os
from contextlib import suppress

from newnormal.fleet.jobs import answer_of, fit_job
from newnormal.fleet.messages import receive, send


def main() -> None:
    """Fit the streams that come over standard input, and answer over standard output."""
    with (
        suppress(BrokenPipeError),  # who asked was killed
        open(0, "rb", closefd=False) as jobs,
        os.fdopen(os.dup(1), "wb") as answers,
    ):
        os.dup2(2, 1)  # what a library prints is no answer
        while (job := receive(jobs)) is not None:
            send(answers, answer_of(fit_job(job)))
