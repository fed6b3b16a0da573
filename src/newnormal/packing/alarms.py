"""The alarms of a stream as data, and back: every name checked before it is used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal.alarms import log, silence
from newnormal.core.state import Fitted, LogState, SilenceState, StreamState
from newnormal.errors import StateError
from newnormal.kernels import alarm
from newnormal.kernels.alarm import RECENT, AlarmState
from newnormal.packing.fitted import FittedReader
from newnormal.packing.names import (
    ALARM_COUNTS,
    ALARM_LEVELS,
    LOG_COUNTS,
    LOG_LEVELS,
    SILENCE_COUNTS,
)
from newnormal.state import schema
from newnormal.state.schema import Facts, as_json, packed


def alarm_facts(fitted: Fitted, state: StreamState) -> dict[str, Any]:
    """Return the facts of the threshold, of the newest alarm by the score, and of silence."""
    return {
        "params": {name: as_json(value) for name, value in fitted.alarm._asdict().items()},
        "fitted_height": as_json(float(fitted.alarm_start.levels[alarm.HEIGHT])),
        "counts": named(ALARM_COUNTS, state.alarm.counts),
        "levels": levels_of(ALARM_LEVELS, state.alarm.levels),
        "log": {
            "counts": named(LOG_COUNTS, state.log.counts),
            "levels": levels_of(LOG_LEVELS, state.log.levels),
        },
        "silence": named(SILENCE_COUNTS, state.silence.counts),
    }


def alarm_tensors(state: StreamState) -> dict[str, NDArray[Any]]:
    """Return the tensors of the same, without the tail of the scores."""
    return {
        "live.recent": state.alarm.recent,
        "live.raised": state.alarm.raised,
        **packed(schema.LOG, "live.log.", state.log),
        **packed(schema.SILENCE, "live.silence.", state.silence),
    }


def named(positions: Mapping[str, int], counts: NDArray[Any]) -> dict[str, int]:
    """Return counters by name."""
    return {name: min(int(counts[at]), schema.LARGEST_COUNT) for name, at in positions.items()}


def levels_of(positions: Mapping[str, int], levels: NDArray[Any]) -> dict[str, float | str]:
    """Return levels by name."""
    return {name: as_json(float(levels[at])) for name, at in positions.items()}


def placed(
    positions: Mapping[str, int], facts: Facts, unknown: Collection[str] = ()
) -> NDArray[np.int64]:
    """Take counters out, each to its position; those in `unknown` may be -1. None may be left."""
    found = np.zeros(len(positions), np.int64)
    for name, at in positions.items():
        found[at] = facts.count(name, -1 if name in unknown else 0)
    facts.done()
    return found


class AlarmReader(FittedReader):
    """Reads the alarms of a stream."""

    seen: int  # samples of the stream

    def _alarm_state(self, fitted: Fitted) -> AlarmState:
        counts = placed(ALARM_COUNTS, self.alarm_facts.part("counts"), ("lead",))
        if counts[alarm.OPEN] > counts[alarm.ALARMS]:
            raise StateError(
                f"alarm.counts.open: expected the number of an alarm, up to "
                f"{counts[alarm.ALARMS]}, found {counts[alarm.OPEN]}"
            )
        if counts[alarm.NEXT] >= RECENT:
            raise StateError(
                f"alarm.counts.next: expected less than {RECENT}, found {counts[alarm.NEXT]}"
            )
        if counts[alarm.LEAD] >= len(self.channels):
            raise StateError(
                f"alarm.counts.lead: expected a channel, less than {len(self.channels)}, or -1, "
                f"found {counts[alarm.LEAD]}"
            )
        levels = self._levels(self.alarm_facts.part("levels"), ALARM_LEVELS)
        is_limited = fitted.alarm.rate > 0
        for name in ("location", "start_location", "height", "start_height"):
            if is_limited and not np.isfinite(levels[ALARM_LEVELS[name]]):
                raise StateError(f"alarm.levels.{name}: expected a finite number, found another")
        self.dims["Z"] = RECENT
        check = "bounded" if is_limited else "known"
        fields = [schema.Field("recent", "Z", check), schema.Field("raised", "A", "not negative")]
        found = {name: array.copy() for name, array in self.take(fields, "live.").items()}
        tail, excess = self._tail("live.")
        return AlarmState(levels, counts, **found, tail_levels=tail, tail_excess=excess)

    def _log_state(self, fitted: Fitted, state: AlarmState) -> LogState:
        facts = self.alarm_facts.part("log")
        counts = placed(LOG_COUNTS, facts.part("counts"))
        own = facts.part("levels")
        levels = np.zeros(len(LOG_LEVELS))
        for name, at in LOG_LEVELS.items():
            levels[at] = own.number(name, 0, 1) if at == log.PEAK_P_VALUE else own.number(name)
        own.done()
        facts.done()
        number, newest = counts[log.NUMBER], counts[log.NEWEST]
        if number not in (0, newest) or newest > state.counts[alarm.ALARMS]:
            raise StateError(
                f"alarm.log.counts.open: expected 0 or the newest, found {number} of {newest}"
            )
        if fitted.alarms.active and number != state.counts[alarm.OPEN]:
            raise StateError(
                f"alarm.log.counts.open: expected {state.counts[alarm.OPEN]}, found {number}"
            )
        start, end, peak = counts[[log.START, log.END, log.PEAK]].tolist()
        if start > min(end, peak) or max(end, peak) > self.seen:
            raise StateError("alarm.log.counts: expected samples in their order, found others")
        self.dims["V"] = fitted.model.vote_count
        found = self.take(schema.LOG, "live.log.")
        self._check_channels("live.log.channels", found["channels"])
        parts = {name: array.copy() for name, array in found.items()}
        return LogState(counts=counts, levels=levels, **parts)

    def _silence_state(self, state: AlarmState) -> SilenceState:
        counts = placed(SILENCE_COUNTS, self.alarm_facts.part("silence"))
        if counts[silence.NUMBER] > state.counts[alarm.ALARMS]:
            raise StateError("alarm.silence.open: expected the number of an alarm, found another")
        if counts[silence.START] > self.seen:
            raise StateError("alarm.silence.start: expected a sample seen, found a later one")
        found = self.take(schema.SILENCE, "live.silence.")
        self._check_channels("live.silence.channels", found["channels"])
        if (found["missing"] > schema.LARGEST_COUNT).any():
            raise StateError("live.silence.missing: expected samples, found more")
        parts = {name: array.copy() for name, array in found.items()}
        return SilenceState(counts=counts, **parts)

    def _levels(self, facts: Facts, positions: Mapping[str, int]) -> NDArray[np.float64]:
        found = np.zeros(len(positions))
        for name, at in positions.items():
            found[at] = facts.number(name)
        facts.done()
        return found

    def _check_channels(self, name: str, found: NDArray[np.int64]) -> None:
        """Raise a StateError unless these are different channels, or -1 for none."""
        own = found[found != -1]
        if ((own < 0) | (own >= len(self.channels))).any() or len(np.unique(own)) < len(own):
            raise StateError(f"{name}: expected channels, each once, or -1, found others")
