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
    """A change, and what state it was in from which sample on.

    Attributes
    ----------
    change
        As it was last reported.
    steps
        (sample, state), in order: "pending" from its start on, then what it became.
    end
        The last sample at which it was open: pending or rejected.
    """

    change: Change
    steps: tuple[tuple[int, str], ...]
    end: int


@dataclass(frozen=True, eq=False)
class Timeline:
    """Consecutive samples of one stream, what was expected of them, and what happened.

    Attributes
    ----------
    name
        Of the stream or of the file; for titles.
    verdicts
        One a sample. They have `observed`.
    """

    name: str
    verdicts: Verdicts
    observed: Observed

    @classmethod
    def of(cls, verdicts: Verdicts, name: str = "", labels: Any = None) -> Timeline:
        """Return the timeline of a run.

        Parameters
        ----------
        verdicts
            From `run` or `score`.
        name
            For the title.
        labels
            1 for a sample that is labelled as a fault, 0 for another; None: as in the input.
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
        newest: dict[int, Alarm] = {}
        for found in self._reported():
            if isinstance(found, Alarm):
                newest[found.number] = found
        inside = (each for each in newest.values() if self._inside(each.start, each.end))
        return tuple(sorted(inside, key=lambda alarm: alarm.number))

    @cached_property
    def changes(self) -> tuple[ChangeSpan, ...]:
        """The changes that reach into it, in order of their numbers."""
        newest: dict[int, Change] = {}
        steps: dict[int, list[tuple[int, str]]] = {}
        for event in self.observed.events:
            if event.change is not None:
                number = event.change.number
                begin = REJECTED if number in self.observed.rejected else PENDING
                own = steps.setdefault(number, [(event.change.start, begin)])
                if event.change.state != own[-1][1]:
                    own.append((event.sample, event.change.state))
        for found in self._reported():
            if isinstance(found, Change):
                newest[found.number] = found
        spans = []
        for number, change in sorted(newest.items()):
            own = steps.get(number, [(change.start, change.state)])
            end = self.last if change.open else own[-1][0]
            spans.append(ChangeSpan(change, tuple(own), end))
        return tuple(each for each in spans if self._inside(each.change.start, each.end))

    @cached_property
    def concern(self) -> Floats:
        """How much each channel has to do with the alarms and changes, shape (C,); 0: nothing."""
        found = np.zeros(len(self.channels))
        place = {name: at for at, name in enumerate(self.channels)}
        for alarm in self.alarms:
            for name, share in _shares(alarm).items():
                found[place[name]] += share
        for span in self.changes:
            for name in span.change.channels:
                found[place[name]] += 1 / len(span.change.channels)
        return found

    @cached_property
    def order(self) -> Ints:
        """The channels: those of what is open first, then those concerned, then the others.

        The channels with which the sentences of the highest alarms begin follow those of open
        alarms, or the first: a picture of few channels has them.
        """
        urgency = self._urgency
        found = np.lexsort((-self.concern, -urgency))
        first = max(1, int((urgency > 1).sum()))
        highest = sorted(self.alarms, key=lambda each: -each.peak.ratio)[:_LEADING]
        leading = [
            self.channels.index(each.evidence[0].channel) for each in highest if each.evidence
        ]
        kept = dict.fromkeys([*found[:first].tolist(), *leading, *found.tolist()])
        return np.array([*kept], dtype=found.dtype)

    @property
    def _urgency(self) -> Floats:
        """How much each channel has to do with what is open; alarms before changes."""
        found = np.zeros(len(self.channels))
        place = {name: at for at, name in enumerate(self.channels)}
        for each in self.observed.remaining:
            if isinstance(each, Alarm):
                for name, share in _shares(each).items():
                    found[place[name]] += 1 + share
            else:  # of a change the channels that moved most come first
                for rank, name in enumerate(each.channels):
                    found[place[name]] += 1 / (1 + rank)
        return found

    @property
    def status(self) -> str:
        """How the stream is after the last sample of the run, as `Detector.status_`.

        Of some rows of a run: what begins after them does not count.
        """
        remaining = [each for each in self.observed.remaining if each.start <= self.last]
        if any(isinstance(each, Alarm) for each in remaining):
            return "in alarm"
        states = {each.state for each in remaining if isinstance(each, Change)}
        if PENDING in states:
            return "change pending"
        return "change rejected" if states else "normal"

    @property
    def accepted(self) -> tuple[ChangeSpan, ...]:
        """The changes that were accepted meanwhile."""
        return tuple(each for each in self.changes if each.change.state == ACCEPTED)

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
    return alarm.channels or dict.fromkeys((each.channel for each in alarm.evidence), 1.0)


def _truth(labels: Any, length: int) -> Bools:
    """Return labels as they are shown; raise an InputError unless each is 0 or 1."""
    hint = "pass 0 or 1 a sample, in the order of the series"
    truth = np.asarray(labels)
    if truth.shape != (length,):
        raise InputError(
            f"labels: expected one for each of {length} samples, found shape {truth.shape}",
            hint=hint,
        )
    wrong = [each for each in truth.tolist() if each not in (0, 1)]
    if wrong:
        raise InputError(f"labels: expected 0 and 1, found {wrong[0]!r}", hint=hint)
    return truth.astype(bool)
