"""Obvious faults: small streams with one fault each that a person would see in a plot.

Every kind of fault is put on every kind of stream. A detector that misses one of these misses
something that its user will not understand.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from newnormal.errors import ParameterError
from newnormal_reproduce.engine.arrays import Floats, Ints, Times

_START = np.datetime64("2024-01-01T00:00", "m")  # a Monday
_ROOM = 10  # samples after the fault, in which a detector may still report it
_NOISE = 0.08  # of the amplitude


@dataclass(frozen=True)
class Rate:
    """How often a stream has a sample, and how much of it there is."""

    period: np.timedelta64  # the time between samples
    # Samples of history and of the live part.
    history: int
    live: int
    lengths: Mapping[str, int]  # samples that each kind of fault lasts

    @property
    def samples_per_day(self) -> int:
        """Samples a day."""
        return int(np.timedelta64(1, "D") / self.period)


def _rate(minutes: int, history_days: int, live_days: int, **lengths: int) -> Rate:
    day = 1440 // minutes
    named = {fault.replace("_", " "): length for fault, length in lengths.items()}
    return Rate(np.timedelta64(minutes, "m"), history_days * day, live_days * day, named)


RATES: Mapping[str, Rate] = {
    "1min": _rate(
        1, 7, 3, spike=1, step=120, drop=60, stuck=240, noise=120, ramp=240, lost_cycle=360,
        broken_coupling=360,
    ),
    "15min": _rate(
        15, 20, 10, spike=1, step=12, drop=8, stuck=24, noise=12, ramp=24, lost_cycle=36,
        broken_coupling=36,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """A stream with one fault, or the same stream without it."""

    name: str  # unique for a rate and a seed, such as "sine-3/step"
    # the part of the name before the slash. Cases of one stream have the same history and, but for
    # the fault, the same live part, so that one fit serves all of them
    stream: str
    kind: str  # the kind of stream, one of `KINDS`
    fault: str | None  # one of `FAULTS`, or None
    history: Floats  # samples, shape (T, C), as `live`
    history_times: Times
    live: Floats
    live_times: Times
    # start, length, channel: the first sample of the fault in the live part, its length in samples,
    # and the channel that has it; 0, 0 and -1 without a fault
    start: int
    length: int
    channel: int
    rate: Rate

    @property
    def channels(self) -> int:
        """How many channels the stream has."""
        return int(self.live.shape[1])

    @property
    def samples_per_day(self) -> int:
        """Samples a day."""
        return self.rate.samples_per_day

    @property
    def labels(self) -> Ints:
        """1 where a live sample has the fault, else 0."""
        labels = np.zeros(len(self.live), dtype=np.int64)
        labels[self.start : self.start + self.length] = 1
        return labels

    def __repr__(self) -> str:
        fault = (
            f"{self.fault} at {self.start} for {self.length} in channel {self.channel}"
            if self.fault
            else "no fault"
        )
        return f"Case({self.name!r}, {fault})"


# ---------------------------------------------------------------------- streams


class _Stream(NamedTuple):
    """A stream without faults: what it would be without noise, and the noise, both (T, C)."""

    signal: Floats
    noise: Floats
    whole: bool = False  # whether values are whole numbers, 0 or more


def _sine(day: Floats, channels: int, rng: np.random.Generator) -> _Stream:
    """Return daily sines, of another amplitude, level and phase in each channel."""
    amplitude, level = rng.uniform(2, 20, channels), rng.uniform(20, 100, channels)
    wave = np.sin(2 * np.pi * (day[:, None] + rng.uniform(0, 1, channels)))
    noise = _NOISE * amplitude * rng.standard_normal(wave.shape)
    return _Stream(level + amplitude * wave, noise)


def _autoregressive(count: int, channels: int, memory: float, rng: np.random.Generator) -> Floats:
    """Return x[t] = memory · x[t-1] + e[t] of unit variance, shape (count, channels)."""
    steps = np.sqrt(1 - memory**2) * rng.standard_normal((count, channels))
    steps[0] = rng.standard_normal(channels)
    for sample in range(1, count):
        steps[sample] += memory * steps[sample - 1]
    return np.asarray(steps)


def _ar(day: Floats, channels: int, rng: np.random.Generator) -> _Stream:
    """Return autoregressive processes with coefficient 0.9, without further noise."""
    scale, level = rng.uniform(1, 10, channels), rng.uniform(-50, 100, channels)
    process = _autoregressive(len(day), channels, 0.9, rng)
    return _Stream(level + scale * process, np.zeros_like(process))


def _duty(day: Floats, channels: int, rng: np.random.Generator) -> _Stream:
    """Return channels that are on and off in turn, each for 20 to 90 samples."""
    signal = np.empty((len(day), channels))
    level, swing = rng.uniform(0, 50, channels), rng.uniform(5, 50, channels)
    for column in signal.T:
        lengths = rng.integers(20, 91, size=len(day) // 20 + 2)
        on = np.repeat(np.arange(len(lengths)) % 2, lengths)
        column[:] = on[rng.integers(20) :][: len(day)]
    noise = _NOISE * swing / 2 * rng.standard_normal(signal.shape)
    return _Stream(level + swing * signal, noise)


def _counts(day: Floats, channels: int, rng: np.random.Generator) -> _Stream:
    """Return Poisson counts; their mean is 1.5 times the usual by day and half of it by night."""
    mean, phase = rng.uniform(30, 100, channels), rng.uniform(0, 1, channels)
    expected = mean * (1 + 0.5 * np.sin(2 * np.pi * (day[:, None] + phase)))
    return _Stream(expected, rng.poisson(expected) - expected, whole=True)


def _coupled(day: Floats, channels: int, rng: np.random.Generator) -> _Stream:
    """Return one signal, an autoregressive process and a daily sine, at a gain in each channel."""
    process = _autoregressive(len(day), 1, 0.95, rng)
    shared = process + 0.5 * np.sin(2 * np.pi * (day[:, None] + rng.uniform()))
    gain = rng.choice((-1.0, 1.0), channels) * rng.uniform(2, 10, channels)
    level = rng.uniform(20, 100, channels)
    noise = _NOISE * gain * rng.standard_normal((len(day), channels))
    return _Stream(level + gain * shared, noise)


class _StreamKind(NamedTuple):
    make: Callable[[Floats, int, np.random.Generator], _Stream]
    channels: tuple[int, ...]


_MAKERS = {
    "sine": _StreamKind(_sine, (1, 2, 3, 8)),
    "ar": _StreamKind(_ar, (1, 2, 3, 8)),
    "duty": _StreamKind(_duty, (1, 2, 3, 8)),
    "counts": _StreamKind(_counts, (1, 2, 3, 8)),
    "coupled": _StreamKind(_coupled, (2, 3, 8)),
}
KINDS: tuple[str, ...] = tuple(_MAKERS)


# ---------------------------------------------------------------------- faults


class _Channel(NamedTuple):
    """The channel that gets the fault: all of it, with history before the live part."""

    signal: Floats
    noise: Floats
    mean: float  # of history, as its standard deviation
    std: float
    whole: bool

    @property
    def values(self) -> Floats:
        return self.signal + self.noise


def _spike(channel: _Channel, rows: slice, _: np.random.Generator) -> Floats:
    return np.asarray(channel.values[rows] + 10 * channel.std)


def _step(channel: _Channel, rows: slice, _: np.random.Generator) -> Floats:
    return np.asarray(channel.values[rows] + 5 * channel.std)


def _drop(channel: _Channel, rows: slice, _: np.random.Generator) -> Floats:
    """Return zero, or mean - 6 std where zero is nearer to the mean; counts drop to zero."""
    level = 0.0 if channel.whole else min(0.0, channel.mean - 6 * channel.std)
    return np.full(rows.stop - rows.start, level)


def _stuck(channel: _Channel, rows: slice, _: np.random.Generator) -> Floats:
    return np.full(rows.stop - rows.start, channel.values[rows.start - 1])


def _noise(channel: _Channel, rows: slice, rng: np.random.Generator) -> Floats:
    values = channel.values[rows]
    return np.asarray(values + rng.normal(0, 3 * channel.std, len(values)))


def _ramp(channel: _Channel, rows: slice, _: np.random.Generator) -> Floats:
    values = channel.values[rows]
    return np.asarray(values + 8 * channel.std * np.arange(1, len(values) + 1) / len(values))


def _lost_cycle(channel: _Channel, rows: slice, _: np.random.Generator) -> Floats:
    """Return the signal at 5 % of its distance from history's mean, with its noise."""
    signal = channel.mean + 0.05 * (channel.signal[rows] - channel.mean)
    return np.asarray(signal + channel.noise[rows])


def _broken_coupling(channel: _Channel, rows: slice, _: np.random.Generator) -> Floats:
    """Return the stretch before the fault, backwards: it does not jump where it begins."""
    length = rows.stop - rows.start
    return np.asarray(channel.values[rows.start - length : rows.start][::-1])


_FAULTS: dict[str, Callable[[_Channel, slice, np.random.Generator], Floats]] = {
    "spike": _spike,
    "step": _step,
    "drop": _drop,
    "stuck": _stuck,
    "noise": _noise,
    "ramp": _ramp,
    "lost cycle": _lost_cycle,
    "broken coupling": _broken_coupling,
}
FAULTS: tuple[str, ...] = tuple(_FAULTS)


# ---------------------------------------------------------------------- cases


def cases(
    rate: str,
    seed: int = 0,
    *,
    kinds: Collection[str] = KINDS,
    channels: Collection[int] = (1, 2, 3, 8),
    faults: Collection[str] = FAULTS,
) -> Iterator[Case]:
    """Yield each fault on each kind of stream, and each stream without a fault before these.

    The fault is in one channel drawn at random, and begins at random after the first tenth of the
    live part. Sizes are in standard deviations (std) of the channel's history.

    `rate`: ``"1min"`` (7 days of history, 3 live) or ``"15min"`` (20 days, 10 live). `seed`: same
    seed, same data. `kinds`, `channels`, `faults`: only these. They do not change the data of a
    case.

    Faults: a spike of 10 std; a step of 5 std; a drop to zero, or to mean - 6 std where zero is
    nearer to the mean (counts drop to zero); a sensor stuck at its last value; added white noise of
    3 std; a ramp to 8 std; a lost cycle (the signal at 5 % of its distance from history's mean, the
    noise unchanged); a broken coupling (the preceding stretch backwards), which only coupled
    channels have. Counts are rounded and at least 0, with a fault as well.

    Streams: a daily sine with noise of 0.08 of its amplitude; an autoregressive process with
    coefficient 0.9; on and off in turn for 20 to 90 samples each; Poisson counts with a daily
    shape; and channels that follow one signal. Channels of the first four are independent.

    >>> for case in cases("15min", kinds=["coupled"], channels=[3], faults=["step"]):
    ...     print(case.name, case.history.shape, case.live.shape, case.labels.sum())
    coupled-3/none (1920, 3) (960, 3) 0
    coupled-3/step (1920, 3) (960, 3) 12
    """
    _check("rate", [rate], RATES)
    _check("kinds", kinds, KINDS)
    _check("faults", faults, FAULTS)
    sampling = RATES[rate]
    count = sampling.history + sampling.live
    times = _START + np.arange(count) * sampling.period
    day = np.arange(count) / sampling.samples_per_day
    for kind, maker in _MAKERS.items():
        for width in maker.channels:
            if kind not in kinds or width not in channels:
                continue
            key = list(RATES).index(rate), KINDS.index(kind), width
            stream = maker.make(day, width, np.random.default_rng([seed, *key]))
            for fault in (None, *(name for name in FAULTS if name in faults)):
                if fault != "broken coupling" or kind == "coupled":
                    yield _case(
                        f"{kind}-{width}", kind, fault, stream, times, sampling, (seed, *key)
                    )


def _case(
    name: str,
    kind: str,
    fault: str | None,
    stream: _Stream,
    times: Times,
    rate: Rate,
    key: tuple[int, ...],
) -> Case:
    values, start, length, channel = stream.signal + stream.noise, 0, 0, -1
    if fault is not None:
        rng = np.random.default_rng([*key, FAULTS.index(fault)])
        length = rate.lengths[fault]
        channel = int(rng.integers(values.shape[1]))
        start = int(rng.integers(rate.live // 10, rate.live - length - _ROOM))
        rows = slice(rate.history + start, rate.history + start + length)
        before = values[: rate.history, channel]
        target = _Channel(
            stream.signal[:, channel],
            stream.noise[:, channel],
            float(before.mean()),
            float(before.std()),
            stream.whole,
        )
        values[rows, channel] = _FAULTS[fault](target, rows, rng)
    if stream.whole:
        values = np.maximum(np.rint(values), 0)
    return Case(
        name=f"{name}/{fault or 'none'}",
        stream=name,
        kind=kind,
        fault=fault,
        history=values[: rate.history],
        history_times=times[: rate.history],
        live=values[rate.history :],
        live_times=times[rate.history :],
        start=start,
        length=length,
        channel=channel,
        rate=rate,
    )


def _check(name: str, names: Collection[str], choices: Collection[str]) -> None:
    for given in names:
        if given not in choices:
            raise ParameterError(f"{name}: expected {', '.join(choices)}, found {given!r}")
