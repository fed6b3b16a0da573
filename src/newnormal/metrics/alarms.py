"""What an operator gets: events found, false alarms a day, and how long alarms are open.

The other metrics judge samples. These judge openings: an alarm that opens, or a change that is
reported, is one thing for a person to look at, however long it lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from newnormal.errors import InputError, ParameterError
from newnormal.metrics.inputs import labels_and_predictions, runs
from newnormal.types import Bools, Ints

BEFORE = 5  # samples before the start of an event from which on an opening finds it
AFTER = 10  # samples after its end until which an opening finds it

_SAMPLES_PER_DAY = 1440.0


@dataclass(frozen=True)
class AlarmCounts:
    """The operator's table as counts, so that streams can be pooled: ``one + other``.

    Attributes
    ----------
    events
        Runs of labelled samples.
    openings
        Alarms that opened and changes that were reported.
    true
        Those that found an event.
    normal, days
        Normal samples, and the days that they are.
    in_alarm, pending
        Normal samples with an alarm open, and with a change pending.
    delays
        Samples from the start of each found event to the first opening that found it.
    """

    events: int = 0
    openings: int = 0
    true: int = 0
    normal: int = 0
    days: float = 0.0
    in_alarm: int = 0
    pending: int = 0
    delays: tuple[int, ...] = ()

    def __add__(self, other: AlarmCounts) -> AlarmCounts:
        return AlarmCounts(**{name: own + vars(other)[name] for name, own in vars(self).items()})

    @classmethod
    def pooled(cls, counts: Iterable[AlarmCounts]) -> AlarmCounts:
        """Return the sum of counts."""
        return sum(counts, start=cls())

    @property
    def found(self) -> int:
        """How many events were found."""
        return len(self.delays)

    @property
    def found_share(self) -> float:
        """The share of events that were found; 0 without events."""
        return _share(self.found, self.events)

    @property
    def false(self) -> int:
        """Openings that found no event."""
        return self.openings - self.true

    @property
    def false_per_day(self) -> float:
        """False openings for each day of normal samples; 0 without normal samples.

        Days of labelled samples do not count: nothing false can open there, and counting them would
        lower the rate of a stream with many events.
        """
        return _share(self.false, self.days)

    @property
    def true_share(self) -> float:
        """The share of openings that found an event; 0 without openings."""
        return _share(self.true, self.openings)

    @property
    def in_alarm_share(self) -> float:
        """The share of normal samples with an alarm open."""
        return _share(self.in_alarm, self.normal)

    @property
    def pending_share(self) -> float:
        """The share of normal samples with a change pending."""
        return _share(self.pending, self.normal)

    @property
    def mean_delay(self) -> float:
        """The mean delay of found events, in samples; NaN without any."""
        return float(np.mean(self.delays)) if self.delays else np.nan

    @property
    def median_delay(self) -> float:
        """The median delay of found events, in samples; NaN without any."""
        return float(np.median(self.delays)) if self.delays else np.nan

    @property
    def longest_delay(self) -> float:
        """The longest delay of found events, in samples; NaN without any."""
        return float(max(self.delays)) if self.delays else np.nan


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def count_alarms(
    labels: ArrayLike,
    openings: Sequence[int] | Ints,
    *,
    in_alarm: ArrayLike | None = None,
    pending: ArrayLike | None = None,
    samples_per_day: float = _SAMPLES_PER_DAY,
) -> AlarmCounts:
    """Count the events that openings found, and those openings that are false.

    An event, a run of labelled samples, is found if something opens from 5 samples before its start
    to 10 samples after its end. An opening that finds an event is true, also if another one found
    it before; every other opening is false. An opening before the event has a delay of 0.

    Parameters
    ----------
    labels
        1 for a labelled sample, 0 for a normal one.
    openings
        The samples at which an alarm opened or a change was reported; one twice counts twice.
    in_alarm, pending
        1 where an alarm is open, and where a change is pending; none if left out.
    samples_per_day
        Samples a day; the default is one a minute.

    Examples
    --------
    >>> labels = np.zeros(2880, dtype=int)
    >>> labels[1000:1060] = 1
    >>> counts = count_alarms(labels, [200, 1004, 1069, 1070])
    >>> counts.found, counts.true, counts.false, counts.delays
    (1, 2, 2, (4,))
    >>> round(counts.false_per_day, 3)
    1.021
    """
    nothing = np.zeros(np.size(labels), dtype=bool)
    truth, alarm = labels_and_predictions(labels, nothing if in_alarm is None else in_alarm)
    _, waiting = labels_and_predictions(labels, nothing if pending is None else pending)
    if not 0 < samples_per_day < np.inf:
        raise ParameterError(f"samples_per_day: expected more than 0, found {samples_per_day!r}")
    opened = np.sort(np.asarray(openings, dtype=np.int64))
    if opened.size and not (opened[0] >= 0 and opened[-1] < len(truth)):
        wrong = opened[0] if opened[0] < 0 else opened[-1]
        raise InputError(f"openings: expected samples from 0 to {len(truth) - 1}, found {wrong}")
    starts, stops = runs(truth)
    firsts = np.searchsorted(opened, starts - BEFORE)
    hit = firsts < np.searchsorted(opened, stops + AFTER)
    delays = np.maximum(opened[firsts[hit]] - starts[hit], 0)
    normal = ~truth
    count = int(normal.sum())
    return AlarmCounts(
        events=len(starts),
        openings=len(opened),
        true=int(np.count_nonzero(find_events(truth, opened))),
        normal=count,
        days=count / samples_per_day,
        in_alarm=int((alarm & normal).sum()),
        pending=int((waiting & normal).sum()),
        delays=tuple(int(delay) for delay in delays),
    )


def find_events(labels: ArrayLike, openings: Sequence[int] | Ints) -> Bools:
    """Return whether each opening finds an event, as `count_alarms` counts the true ones.

    >>> labels = np.zeros(100, dtype=int)
    >>> labels[50:60] = 1
    >>> find_events(labels, [40, 47, 69, 70]).tolist()
    [False, True, True, False]
    """
    truth, _ = labels_and_predictions(labels, labels)
    opened = np.asarray(openings, dtype=np.int64)
    starts, stops = runs(truth)
    if not len(starts):
        return np.zeros(len(opened), dtype=bool)
    # The last event that may have found room before this sample. Stops rise as starts do.
    event = np.searchsorted(starts - BEFORE, opened, side="right") - 1
    return np.asarray((event >= 0) & (opened < stops[np.maximum(event, 0)] + AFTER))


def true_alarms(events: Iterable[Any], labels: ArrayLike, *, first: int = 0) -> dict[int, bool]:
    """Return whether each alarm that opened in a labelled run finds an event, by its number.

    As `trace_alarms` and `count_alarms` have it; `first` is the number of the first sample.
    """
    opened = {each.alarm.number: each.sample - first for each in events if each.kind == "opened"}
    inside = {number: row for number, row in opened.items() if 0 <= row < np.size(labels)}
    return dict(zip(inside, find_events(labels, [*inside.values()]).tolist(), strict=True))


class Span(NamedTuple):
    """The samples from `start` to before `stop` over which one alarm or change was open.

    `opening` is whether its beginning is one of the openings: not for a change that began with an
    alarm, and not for what was open before the first sample.
    """

    start: int
    stop: int
    opening: bool


@dataclass(frozen=True, eq=False)
class AlarmTrace:
    """Where alarms and changes are, sample by sample.

    Attributes
    ----------
    openings
        The sample of each opening, in order.
    in_alarm, pending
        Whether an alarm is open, and whether a change is pending, at each sample.
    alarms, changes
        The same as a span for each alarm, and for each change, by their beginning.
    """

    openings: Ints
    in_alarm: Bools
    pending: Bools
    alarms: tuple[Span, ...] = ()
    changes: tuple[Span, ...] = ()

    def count(self, labels: ArrayLike, *, samples_per_day: float = _SAMPLES_PER_DAY) -> AlarmCounts:
        """Return `count_alarms` of this."""
        return count_alarms(
            labels,
            self.openings,
            in_alarm=self.in_alarm,
            pending=self.pending,
            samples_per_day=samples_per_day,
        )


def trace_alarms(events: Iterable[Any], samples: int, *, first: int = 0) -> AlarmTrace:
    """Return where alarms and changes of a detector are, from all of its events.

    Openings are alarms with ``"opened"`` and changes with ``"changed"``, at the sample at which
    they were known. A change that began with an alarm is one opening with that alarm. An alarm is
    open until ``"closed"``; a change is pending until ``"accepted"``, ``"rejected"`` or
    ``"reverted"``. What is open or pending at the end stays so; what ends without a beginning was
    open or pending from the first sample on.

    Parameters
    ----------
    events
        Events of `Detector.take_events`, all of them, in order. The detector keeps the newest
        thousand: take them often enough.
    samples
        How many samples there are.
    first
        The number of the first one. Events of earlier samples are not openings here.
    """
    openings = []
    alarms, changes = _Spans(samples), _Spans(samples)
    for event in events:
        sample = event.sample - first
        if event.kind == "opened":
            alarms.begin(event.alarm.number, sample, True)
            openings.append(sample)
        elif event.kind == "closed":
            alarms.end(event.alarm.number, sample)
        elif event.kind == "changed":
            changes.begin(_change(event), sample, event.alarm is None)
            if event.alarm is None:
                openings.append(sample)
        elif event.kind in ("accepted", "rejected", "reverted"):
            changes.end(_change(event), sample)
    inside = [sample for sample in openings if 0 <= sample < samples]
    return AlarmTrace(
        np.array(inside, dtype=np.int64),
        alarms.mask(),
        changes.mask(),
        alarms.sorted(),
        changes.sorted(),
    )


def _change(event: Any) -> int:
    number: int = event.change.number
    return number


class _Spans:
    """Spans of samples that begin and end by number."""

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._open: dict[int, tuple[int, bool]] = {}
        self._over: list[Span] = []

    def begin(self, number: int, sample: int, opening: bool) -> None:
        self._open.setdefault(number, (sample, opening))

    def end(self, number: int, sample: int) -> None:
        self._add(*self._open.pop(number, (0, False)), sample)

    def sorted(self) -> tuple[Span, ...]:
        """Return the spans by their start; what is open ends with the last sample."""
        for start, opening in self._open.values():
            self._add(start, opening, self._samples)
        self._open.clear()
        return tuple(sorted(self._over))

    def mask(self) -> Bools:
        steps = np.zeros(self._samples + 1, dtype=np.int64)
        for span in self.sorted():
            steps[span.start] += 1
            steps[span.stop] -= 1
        return np.asarray(np.cumsum(steps)[:-1] > 0)

    def _add(self, start: int, opening: bool, stop: int) -> None:
        begin, end = (min(max(edge, 0), self._samples) for edge in (start, stop))
        if begin < end:
            self._over.append(Span(begin, end, opening and start >= 0))
