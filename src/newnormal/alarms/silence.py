"""Silence: no samples, nothing but missing values, or a channel missing that never was.

An alarm of its own cause, outside the limit on alarms. It is known when the next sample comes: a
gap opens one that closes at once, missing values one that closes when they are there again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from newnormal.alarms.words import ended, missing_sentence, silence_sentence
from newnormal.kernels.alarm import ALARMS
from newnormal.kernels.stream import (
    LAST_TIME,
    SILENCE_ALL,
    SILENCE_ANY,
    SILENCE_NUMBER,
    SILENCE_START,
    START_TIME,
    SilenceState,
)
from newnormal.types import (
    CLOSED,
    NO_TIME,
    OPENED,
    SAMPLES_AGAIN,
    SILENCE,
    UPDATED,
    Alarm,
    Event,
    Evidence,
    Floats,
    Peak,
    Times,
    Verdicts,
    ns_of_time,
    time_at,
    time_of_ns,
)

if TYPE_CHECKING:
    from newnormal.core.state import Fitted, StreamState
    from newnormal.kernels.stream import SilenceState

_PERIODS = 5
_SECONDS = 60.0


class Silence(NamedTuple):
    """What was found at one row: a gap before it, or missing values that begin or end there."""

    row: int
    gap: float = 0.0  # seconds
    samples: int = 0  # for which values have been missing; 0 where they are there again


def longest_silence(period: np.timedelta64 | None) -> tuple[int, float]:
    """Return the samples and the seconds that may be missing: 5 periods, and a minute at least.

    >>> longest_silence(np.timedelta64(15, "s")), longest_silence(np.timedelta64(1, "h"))
    ((5, 75.0), (5, 18000.0))
    >>> longest_silence(np.timedelta64(1, "s"))
    (60, 60.0)
    """
    if period is None:
        return _PERIODS, math.inf
    seconds = float(period / np.timedelta64(1, "s"))
    longest = max(_PERIODS * seconds, _SECONDS)
    return math.ceil(longest / seconds), longest


def find_silence(
    fitted: Fitted, silence: SilenceState, times: Times | None, samples: Floats
) -> Iterator[Silence]:
    """Give the rows of these samples (R, C) at which an alarm by silence opens or closes.

    The state is that of the row when each is given.
    """
    most, longest = longest_silence(fitted.period)
    gaps = _gaps(silence, times, longest)
    # A minimum is NaN where a value is, and cannot overflow: the quickest way to know that nothing
    # is missing.
    if (
        gaps is None
        and not silence.counts[SILENCE_ANY]
        and not np.isnan(samples.min(initial=np.inf))
    ):
        _keep_time(silence, times)
        return
    missing = np.isnan(samples)
    watched = fitted.never_missing
    for row in range(len(samples)):
        if gaps is not None and gaps[row]:
            yield Silence(row, gap=float(gaps[row]))
        silence.missing[:] = np.where(missing[row], silence.missing + 1, 0)
        silence.counts[SILENCE_ALL] = silence.counts[SILENCE_ALL] + 1 if missing[row].all() else 0
        silence.counts[SILENCE_ANY] = missing[row].any()
        gone = silence.missing > most
        if silence.counts[SILENCE_ALL] <= most:
            gone &= False if watched is None else watched
        if (
            silence.counts[SILENCE_NUMBER]
            and not gone[silence.channels[silence.channels >= 0]].any()
        ):
            yield Silence(row)  # those it is about are there again
        is_open = bool(silence.counts[SILENCE_NUMBER])
        silent = silence.channels[silence.channels >= 0].tolist() if is_open else []
        new = [channel for channel in np.flatnonzero(gone).tolist() if channel not in silent]
        if new and len(silent) < len(silence.channels):
            named = [*silent, *new][: len(silence.channels)]
            silence.channels[:] = -1
            silence.channels[: len(named)] = named
            yield Silence(row, samples=int(silence.missing[named].max()))
    _keep_time(silence, times)


def open_silence(
    fitted: Fitted, state: StreamState, verdicts: Verdicts, row: int, gone: Silence
) -> list[Event]:
    """Open an alarm by silence at a row of the verdicts; a gap is over at once.

    A channel that goes missing while others are joins their alarm.
    """
    sample, time = verdicts.first + row, time_at(verdicts.times, row)
    silence = state.silence
    if silence.counts[SILENCE_NUMBER] and not gone.gap:
        return [Event(UPDATED, sample, time, silence_alarm(fitted, silence, sample, time))]
    state.alarm.counts[ALARMS] += 1
    number = int(state.alarm.counts[ALARMS])
    if gone.gap:
        assert time is not None and fitted.period is not None
        period = float(fitted.period / np.timedelta64(1, "s"))
        alarm = Alarm(
            number,
            sample,
            time - np.timedelta64(round(gone.gap * 1e9), "ns"),
            sample,
            time,
            Peak(sample, time, 0.0, 0.0, 1.0, {}),
            cause=SILENCE,
            sentence=silence_sentence((), round(gone.gap / period), gone.gap, period),
        )
        closed = replace(alarm, reason=SAMPLES_AGAIN)
        return [Event(OPENED, sample, time, alarm), Event(CLOSED, sample, time, closed)]
    silence.counts[SILENCE_NUMBER] = number
    silence.counts[SILENCE_START] = max(0, sample - gone.samples + 1)
    silence.times[START_TIME] = NO_TIME
    if time is not None and fitted.period is not None:
        silence.times[START_TIME] = ns_of_time(time - (gone.samples - 1) * fitted.period)
    return [Event(OPENED, sample, time, silence_alarm(fitted, silence, sample, time))]


def close_silence(fitted: Fitted, state: StreamState, verdicts: Verdicts, row: int) -> list[Event]:
    """Close the alarm by missing values at a row of the verdicts."""
    sample, time = verdicts.first + row, time_at(verdicts.times, row)
    before = time_of_ns(int(state.silence.times[LAST_TIME]))  # of the sample before this call
    end = time_at(verdicts.times, row - 1) if row else None
    alarm = silence_alarm(fitted, state.silence, sample - 1, before if end is None else end)
    state.silence.counts[SILENCE_NUMBER] = 0
    assert alarm is not None
    return [Event(CLOSED, sample, time, ended(alarm, SAMPLES_AGAIN))]


def silence_alarm(
    fitted: Fitted, silence: SilenceState, newest: int, time: np.datetime64 | None
) -> Alarm | None:
    """Return the open alarm by missing values, given the newest sample, or None."""
    if not silence.counts[SILENCE_NUMBER]:
        return None
    start = int(silence.counts[SILENCE_START])
    named = [fitted.channels[channel] for channel in silence.channels.tolist() if channel >= 0]
    return Alarm(
        int(silence.counts[SILENCE_NUMBER]),
        start,
        time_of_ns(int(silence.times[START_TIME])),
        newest,
        time,
        Peak(newest, time, 0.0, 0.0, 1.0, {name: 1 / len(named) for name in named}),
        cause=SILENCE,
        evidence=tuple(Evidence(name, None) for name in named),
        sentence=missing_sentence(named),
    )


def forget_silence(silence: SilenceState) -> None:
    """Forget the open alarm by missing values, which are missing, and the newest time."""
    silence.counts[:] = 0
    silence.missing[:] = 0
    silence.times[:] = NO_TIME


def forget_time(silence: SilenceState) -> None:
    """Forget the time of the newest sample: the next one is of another input."""
    silence.times[LAST_TIME] = NO_TIME


def _gaps(silence: SilenceState, times: Times | None, longest: float) -> Floats | None:
    """Return the seconds before each row that are too many, else 0; None where there are none."""
    if times is None or len(times) == 0 or math.isinf(longest):
        return None
    if len(times) == 1:
        return _gap(silence, times[0], longest)
    stamps = times.astype("datetime64[ns]").astype(np.int64)
    before = np.concatenate([silence.times[LAST_TIME:], stamps[:-1]])
    timed = (before != NO_TIME) & (stamps != NO_TIME)
    apart = np.where(timed, (stamps - np.where(timed, before, stamps)) / 1e9, 0.0)
    return np.where(apart > longest, apart, 0.0) if (apart > longest).any() else None


def _gap(silence: SilenceState, time: np.datetime64, longest: float) -> Floats | None:
    """Return what `_gaps` does for one sample."""
    before = int(silence.times[LAST_TIME])
    if before == NO_TIME or np.isnat(time):
        return None
    apart = (ns_of_time(time) - before) / 1e9
    return np.array([apart]) if apart > longest else None


def _keep_time(silence: SilenceState, times: Times | None) -> None:
    if times is not None and len(times) and not np.isnat(times[-1]):
        silence.times[LAST_TIME] = ns_of_time(times[-1])
