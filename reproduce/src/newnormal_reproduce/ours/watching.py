"""Run a detector over samples and keep every event."""

from newnormal import Event
from newnormal_reproduce.engine.arrays import AnyDetector, Floats, Times

_STRETCH = 1000  # samples: the detector keeps 1000 events, and a stretch has fewer


def watch(
    detector: AnyDetector,
    samples: Floats,
    times: Times | None = None,
    *,
    flush: bool = True,
    scores: list[Floats] | None = None,
) -> list[Event]:
    """Run a detector over samples and return all of its events; add its scores to a list."""
    events: list[Event] = []
    for start in range(0, len(samples), _STRETCH):
        end = start + _STRETCH
        verdicts = detector.run(
            samples[start:end],
            times=None if times is None else times[start:end],
            flush=flush and end >= len(samples),
        )
        if scores is not None:
            scores.append(verdicts.scores)
        events += detector.take_events()
    return events
