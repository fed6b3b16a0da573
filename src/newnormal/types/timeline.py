"""A stretch of a stream as a picture shows it: samples, verdicts, alarms, changes, labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from newnormal.errors import InputError
from newnormal.types.alarms import ACCEPTED, PENDING, REJECTED, Alarm, Change
from newnormal.types.arrays import Bools, Floats, Ints, Times
from newnormal.types.observed import Observed

if TYPE_CHECKING:
    from newnormal.types.verdicts import Verdicts

_LEADING = 5  # alarms whose first channel is shown early


@dataclass(frozen=True)
class ChangeSpan:
    """A change, and what state it was in from which sample on."""

    change: Change  # as it was last reported
    # (sample, state), in order: "pending" from its start on, then what it became
    steps: tuple[tuple[int, str], ...]
    end: int  # the last sample at which it was open: pending or rejected


@dataclass(frozen=True, eq=False)
class Timeline:
    """Consecutive samples of one stream, what was expected of them, and what happened."""

    name: str  # of the stream or of the file; for titles
    verdicts: Verdicts  # one a sample. They have `observed`
    observed: Observed

    @classmethod
    def of(cls, verdicts: Verdicts, name: str = "", labels: Any = None) -> Timeline:
        """Return the timeline of a run.

        `verdicts`: from `run` or `score`. `name`: for the title. `labels`: 1 for a sample that is
        labelled as a fault, 0 for another; None: as in the input.
        """
        observed = verdicts.observed
        if observed is None:
            raise InputError(
                "expected verdicts that know the samples they are about, found none",
                hint="take those that detector.run(series) or detector.score(series) returns",
            )
        if labels is not None:
            observed = replace(observed, labels=_truth(labels, len(verdicts)))
        return cls(name, verdicts, observed)

    def __len__(self) -> int:
        return len(self.verdicts)

    @property
    def values(self) -> Floats:
        """The samples, shape (T, C)."""
        return self.observed.values

    @cached_property
    def ranges(self) -> tuple[Floats, Floats] | None:
        """The expected range of each channel, low and high, each (T, C); None if not known."""
        verdicts, margins = self.verdicts, self.observed.margins
        if verdicts.lows is not None and verdicts.highs is not None:
            return verdicts.lows, verdicts.highs
        if verdicts.expected is None or margins is None:
            return None
        return verdicts.expected - margins, verdicts.expected + margins

    @property
    def labels(self) -> Bools | None:
        """Which samples are labelled as a fault; None without labels."""
        return self.observed.labels

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels' names."""
        return self.verdicts.channels

    @property
    def times(self) -> Times | None:
        """The samples' times; None where one is missing, since they cannot be an axis then."""
        times = self.verdicts.times
        return None if times is None or np.isnat(times).any() else times

    @property
    def first(self) -> int:
        """The number of the first sample."""
        return self.verdicts.first

    @property
    def last(self) -> int:
        """The number of the last sample."""
        return self.verdicts.first + len(self) - 1

    @cached_property
    def alarms(self) -> tuple[Alarm, ...]:
        """The alarms that reach into it, as they were last reported, in order of their numbers."""
        newest = {item.number: item for item in self._reported() if isinstance(item, Alarm)}
        inside = (alarm for alarm in newest.values() if self._inside(alarm.start, alarm.end))
        return tuple(sorted(inside, key=lambda alarm: alarm.number))

    @cached_property
    def changes(self) -> tuple[ChangeSpan, ...]:
        """The changes that reach into it, in order of their numbers."""
        steps: dict[int, list[tuple[int, str]]] = {}
        for event in self.observed.events:
            if event.change is not None:
                number = event.change.number
                begin = REJECTED if number in self.observed.rejected else PENDING
                states = steps.setdefault(number, [(event.change.start, begin)])
                if event.change.state != states[-1][1]:
                    states.append((event.sample, event.change.state))
        newest = {item.number: item for item in self._reported() if isinstance(item, Change)}
        spans = []
        for number, change in sorted(newest.items()):
            states = steps.get(number, [(change.start, change.state)])
            end = self.last if change.open else states[-1][0]
            spans.append(ChangeSpan(change, tuple(states), end))
        return tuple(span for span in spans if self._inside(span.change.start, span.end))

    @cached_property
    def concern(self) -> Floats:
        """How much each channel has to do with the alarms and changes, shape (C,); 0: nothing."""
        concern = dict.fromkeys(self.channels, 0.0)
        for alarm in self.alarms:
            for name, share in _shares(alarm).items():
                concern[name] += share
        for span in self.changes:
            for name in span.change.channels:
                concern[name] += 1 / len(span.change.channels)
        return np.array([*concern.values()])

    @cached_property
    def order(self) -> Ints:
        """The channels: those of what is open first, then those concerned, then the others.

        The channels with which the sentences of the highest alarms begin follow those of open
        alarms, or the first: a picture of few channels has them.
        """
        urgency = self._urgency
        order = np.lexsort((-self.concern, -urgency))
        first = max(1, int((urgency > 1).sum()))
        highest = sorted(self.alarms, key=lambda alarm: -alarm.peak.ratio)[:_LEADING]
        leading = [
            self.channels.index(alarm.evidence[0].channel) for alarm in highest if alarm.evidence
        ]
        once = dict.fromkeys([*order[:first].tolist(), *leading, *order.tolist()])
        return np.array([*once], dtype=order.dtype)

    @property
    def _urgency(self) -> Floats:
        """How much each channel has to do with what is open; alarms before changes."""
        urgency = dict.fromkeys(self.channels, 0.0)
        for item in self.observed.remaining:
            if isinstance(item, Alarm):
                for name, share in _shares(item).items():
                    urgency[name] += 1 + share
            else:  # of a change the channels that moved most come first
                for rank, name in enumerate(item.channels):
                    urgency[name] += 1 / (1 + rank)
        return np.array([*urgency.values()])

    @property
    def status(self) -> str:
        """How the stream is after the last sample of the run, as `Detector.status_`.

        Of some rows of a run: what begins after them does not count.
        """
        remaining = [item for item in self.observed.remaining if item.start <= self.last]
        if any(isinstance(item, Alarm) for item in remaining):
            return "in alarm"
        states = {item.state for item in remaining if isinstance(item, Change)}
        if PENDING in states:
            return "change pending"
        return "change rejected" if states else "normal"

    @property
    def accepted(self) -> tuple[ChangeSpan, ...]:
        """The changes that were accepted meanwhile."""
        return tuple(span for span in self.changes if span.change.state == ACCEPTED)

    def _reported(self) -> Iterable[Alarm | Change]:
        """Give alarms and changes as they were reported, the newest report of each last."""
        for event in self.observed.events:
            if event.change is not None:
                yield event.change
            elif event.alarm is not None:
                yield event.alarm
        yield from self.observed.remaining

    def _inside(self, start: int, end: int) -> bool:
        return start <= self.last and end >= self.first


def _shares(alarm: Alarm) -> Mapping[str, float]:
    """Return the channels of an alarm with their shares; one by silence has evidence alone."""
    return alarm.channels or dict.fromkeys((part.channel for part in alarm.evidence), 1.0)


def _truth(labels: Any, length: int) -> Bools:
    """Return labels as they are shown; raise an InputError unless each is 0 or 1."""
    hint = "pass 0 or 1 a sample, in the order of the series"
    truth = np.asarray(labels)
    if truth.shape != (length,):
        raise InputError(
            f"labels: expected one for each of {length} samples, found shape {truth.shape}",
            hint=hint,
        )
    if wrong := [label for label in truth.tolist() if label not in (0, 1)]:
        raise InputError(f"labels: expected 0 and 1, found {wrong[0]!r}", hint=hint)
    return truth.astype(bool)
