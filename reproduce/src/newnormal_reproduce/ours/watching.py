"""Run a detector over samples and keep every event."""

from newnormal import Event
from newnormal_reproduce.engine.arrays import AnyDetector, Floats, Times

_STRETCH = 1000  # samples: the detector keeps 1000 events, and a stretch has fewer


def watch(
    detector: AnyDetector, samples: Floats, times: Times | None = None, *, flush: bool = True
) -> list[Event]:
    """Run a detector over samples and return all of its events."""
    events: list[Event] = []
    for start in range(0, len(samples), _STRETCH):
        end = start + _STRETCH
        detector.run(
            samples[start:end],
            times=None if times is None else times[start:end],
            flush=flush and end >= len(samples),
        )
        events += detector.take_events()
    return events
