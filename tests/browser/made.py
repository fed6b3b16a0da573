"""Runs made by hand, without a model: what a page shows is known to the number."""

from collections.abc import Sequence

import numpy as np

from newnormal import types
from newnormal.reports.writing import Contents

START = np.datetime64("2026-03-02T08:00:00", "ns")
MINUTE = np.timedelta64(60, "s")
HEIGHT = 14.0  # of what is planted, above what is expected


def run(
    length: int = 600,
    channels: int | Sequence[str] = 3,
    spans: Sequence[tuple[int, int]] = ((400, 430),),
    *,
    name: str = "plant",
    still: bool = False,
    pending: bool = False,
    accepted: bool = False,
    labels: Sequence[tuple[int, int]] | None = None,
    times: bool = True,
    zone: str | None = None,
    seed: int = 0,
) -> types.Timeline:
    """Return a run whose channels leave what is expected inside `spans`, each of them an alarm.

    Alarm k is about channel k modulo their number. `still`: the last one is open.
    """
    if isinstance(channels, int):
        channels = [f"sensor {k + 1}" for k in range(channels)]
    names = tuple(channels)
    rng = np.random.default_rng(seed)
    at = np.arange(length)[:, None]
    expected = 20 + 5 * np.sin(at / (30 + 7 * np.arange(len(names))))
    values = expected + rng.normal(0, 0.4, expected.shape)
    scores = rng.gamma(2, 0.1, length)
    clock = START + np.arange(length) * MINUTE if times else None
    found = []
    for k, (begin, stop) in enumerate(spans):
        channel = k % len(names)
        values[begin:stop, channel] = expected[begin:stop, channel] + HEIGHT
        scores[begin:stop] += 3
        is_open = still and k + 1 == len(spans)
        found.append(
            _alarm(k + 1, begin, stop, names, channel, values, expected, clock, is_open, zone)
        )
    events = [types.Event(types.OPENED, each.start, None, each) for each in found]
    events += [types.Event(types.CLOSED, each.end, None, each) for each in found if not each.open]
    remaining: list[types.Alarm | types.Change] = [each for each in found if each.open]
    if pending or accepted:
        begin = spans[-1][0] if spans else length // 2
        change = types.Change(
            number=1,
            start=begin,
            start_time=None if clock is None else clock[begin],
            channels=names[:1],
            before={names[0]: 20.0},
            after={names[0]: 29.0},
            alarm=1,
            distance=1.5,
            sentence=f"{names[0]} from 20 to 29",
            zone=zone,
        )
        events.append(types.Event(types.CHANGED, begin + 5, None, None, change))
        if pending:
            remaining.append(change)
        else:
            done = types.Change(**{**vars(change), "state": types.ACCEPTED})
            events.append(
                types.Event(types.ACCEPTED, begin + (length - begin) // 2, None, None, done)
            )
    truth = None
    if labels is not None:
        truth = np.zeros(length, bool)
        for begin, stop in labels:
            truth[begin:stop] = True
    observed = types.Observed(
        values, np.full(len(names), 1.2), tuple(events), tuple(remaining), truth
    )
    numbers = np.zeros(length, np.int64)
    for each in found:
        numbers[each.start : each.end + 1] = each.number
    verdicts = types.Verdicts(
        scores=scores,
        thresholds=np.ones(length),
        anomalous=scores >= 1,
        expected=expected,
        shares=None,
        times=clock,
        channels=names,
        ratios=scores,
        alarms=numbers,
        zone=zone,
        observed=observed,
    )
    return types.Timeline.of(verdicts, name)


def _alarm(
    number: int,
    begin: int,
    stop: int,
    names: tuple[str, ...],
    channel: int,
    values: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    expected: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    clock: np.ndarray[tuple[int], np.dtype[np.datetime64]] | None,
    is_open: bool,
    zone: str | None,
) -> types.Alarm:
    def time(sample: int) -> np.datetime64 | None:
        return None if clock is None else clock[sample]

    seen, usual = float(values[begin, channel]), float(expected[begin, channel])
    other = names[(channel + 1) % len(names)]
    return types.Alarm(
        number=number,
        start=begin,
        start_time=time(begin),
        end=stop - 1,
        end_time=time(stop - 1),
        peak=types.Peak(begin, time(begin), 3.4, 3.4, 1e-6, {names[channel]: 0.8, other: 0.2}),
        reason=None if is_open else types.BACK_TO_NORMAL,
        evidence=(types.Evidence(names[channel], seen, usual, usual - 1.2, usual + 1.2),),
        sentence=f"{names[channel]} {seen:.1f}, expected about {usual:.1f}; high",
        zone=zone,
    )


def spread(count: int, length: int, long: int = 5) -> list[tuple[int, int]]:
    """Return spans of some samples, evenly over a run."""
    step = length // (count + 1)
    return [(step * (k + 1), step * (k + 1) + long) for k in range(count)]


ODD = 'press/2 <b>"ö" & 100%</b></script>#=+ ' r"\n"


def fleet(count: int = 50) -> Contents:
    """Return a fleet: three streams in alarm, one with a change pending, some with past alarms."""
    streams = []
    for k in range(count):
        name = ODD if k == 7 else f"machine-{k + 1:02d}"
        spans = [(480, 500)] if k in (7, 11, 30) else [(100 + k, 112 + k)] if k % 9 == 4 else []
        streams.append(
            run(500, 3, spans, name=name, still=k in (7, 11, 30), pending=k == 20, seed=k)
        )
    time = START + 480 * MINUTE
    together = types.Incident(
        1,
        0,
        time,
        0,
        time,
        {ODD: 1, "machine-12": 1, "machine-31": 1},
        sentence="3 streams since 16:00",
    )
    return Contents(
        "metrics.csv judged by plant.fleet",
        tuple(streams),
        (types.IncidentEvent("incident", together),),
        True,
    )
