"""Runs whose alarms and changes are made by hand, for pictures and tables."""

from typing import Any

import numpy as np

from newnormal.types import Alarm, Change, Event, Evidence, Observed, Peak, Times, Verdicts

START = np.datetime64("2026-03-09T10:00", "ns")
MINUTE = np.timedelta64(1, "m")
BACK = "back to normal"


def time_of(sample: int, timed: bool = True) -> np.datetime64 | None:
    return START + sample * MINUTE if timed else None


def alarm(
    number: int,
    start: int,
    end: int,
    *,
    reason: str | None = BACK,
    ratio: float = 2.0,
    channel: str = "c1",
    timed: bool = True,
) -> Alarm:
    peak = Peak(start, time_of(start, timed), 9.0, ratio, 1e-3, {channel: 1.0})
    evidence = (Evidence(channel, 71.0, 25.0, 20.0, 30.0),)
    lasted = "" if reason is None else f" for {end - start + 1} min"
    sentence = f"{channel} 71, expected 20 to 30; high{lasted}"
    return Alarm(
        number,
        start,
        time_of(start, timed),
        end,
        time_of(end, timed),
        peak,
        reason,
        evidence=evidence,
        sentence=sentence,
    )


def change(
    number: int, start: int, state: str = "pending", channels: tuple[str, ...] = ("c0",)
) -> Change:
    sentence = f"{', '.join(f'{each} from 1 to 2' for each in channels)} since {time_of(start)}"
    one, two = dict.fromkeys(channels, 1.0), dict.fromkeys(channels, 2.0)
    return Change(number, start, time_of(start), channels, one, two, state, sentence=sentence)


def run(
    samples: int = 300,
    channels: int = 3,
    *,
    events: tuple[Event, ...] = (),
    remaining: tuple[Alarm | Change, ...] = (),
    labels: Any = None,
    timed: bool = True,
    first: int = 0,
    **more: Any,
) -> Verdicts:
    """Return verdicts of a quiet run with these events."""
    rng = np.random.default_rng(samples + channels)
    values = rng.normal(25, 1, (samples, channels))
    scores = np.abs(rng.normal(1, 0.1, samples))
    times: Times | None = START + (first + np.arange(samples)) * MINUTE if timed else None
    observed = Observed(values, np.full(channels, 5.0), events, remaining, labels)
    return Verdicts(
        scores,
        np.full(samples, 4.0),
        scores >= 4.0,
        np.full((samples, channels), 25.0),
        np.full((samples, channels), 1 / max(channels, 1), dtype=np.float32),
        times,
        tuple(f"c{at}" for at in range(channels)),
        first,
        ratios=scores / 4.0,
        p_values=np.full(samples, 0.5),
        alarms=np.zeros(samples, dtype=np.int64),
        distances=np.zeros(samples),
        changes=np.zeros(samples, dtype=np.int64),
        observed=observed,
        **more,
    )


def over(*alarms: Alarm) -> tuple[Event, ...]:
    """Return the events of alarms that opened and closed."""
    return tuple(
        event
        for each in alarms
        for event in (
            Event("opened", each.start, each.start_time, each),
            Event("closed", each.end + 1, each.end_time, each),
        )
    )
