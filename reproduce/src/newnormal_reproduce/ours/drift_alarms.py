"""The alarms and changes of `newnormal_reproduce.ours.drift`.

What an operator gets from each row; how long until a new normal is accepted; and how faults that
stay are handled.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import fmean
from typing import Any, NamedTuple

from newnormal import Event
from newnormal.metrics import AlarmCounts, trace_alarms
from newnormal_reproduce.engine.arrays import AnyDetector, Bools
from newnormal_reproduce.engine.drifting import ONSET, SAMPLES_PER_DAY, DriftKind, faulty, kind_of
from newnormal_reproduce.engine.experiment import Experiment
from newnormal_reproduce.engine.published import Figure
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import load_stream
from newnormal_reproduce.engine.trial import TrialOutcome
from newnormal_reproduce.ours.drift_around import Around, Shares, shares
from newnormal_reproduce.ours.drift_figures import OURS, TUNED, collection
from newnormal_reproduce.ours.watching import watch

LIMIT = 1  # alarms a day, of the default detector
ACCEPT_AFTER = SAMPLES_PER_DAY  # samples: the default of `Detector`
FOLLOWED = 3  # multiples of ACCEPT_AFTER for which a fault is followed
_ENDS = ("closed", "accepted", "rejected", "reverted")  # kinds of event
NOTHING = "nothing"  # changed before the first shift


class ChangeResponse(NamedTuple):
    """How one change of normal was accepted, or not.

    Attributes
    ----------
    change
        What changed.
    after
        Samples from the change until it was accepted; NaN if it was not before the next change.
    age
        Samples for which the accepted change had lasted; NaN if nothing was accepted.
    alarms
        Alarms and changes open or pending at some time until then, or until the next change; a
        change that began with an alarm counts once.
    longest
        Samples of the longest of these, counted from the change.
    """

    change: str
    after: float
    age: float
    alarms: int
    longest: int

    @property
    def accepted(self) -> bool:
        """Whether it was accepted."""
        return not math.isnan(self.after)


class Fault(NamedTuple):
    """How one fault that stays was handled.

    Attributes
    ----------
    fault, channel
        The fault and the failed channel.
    noticed
        Whether an alarm was open or a change pending at some time in the first quarter of
        `ACCEPT_AFTER`.
    absorbed
        Whether fewer than half of the samples in the second half of it were in alarm or with a
        change pending.
    early, late
        Whether it was accepted without feedback within `ACCEPT_AFTER`, and within `FOLLOWED` times
        that.
    rejected
        Whether a change was pending after a quarter of it, and was rejected.
    learned
        Whether it was accepted after the rejection; None if it was not rejected. These four are
        None for the paper's method, which has no acceptance.
    """

    fault: str
    channel: int
    noticed: bool
    absorbed: bool
    early: bool | None = None
    late: bool | None = None
    rejected: bool | None = None
    learned: bool | None = None


# ---------------------------------------------------------------------- counting


def accepted(events: Iterable[Event]) -> list[Event]:
    """Return the events that report an accepted new normal."""
    return [
        event
        for event in events
        if event.kind == "accepted"
        or (event.kind == "closed" and event.alarm and event.alarm.reason == "accepted")
    ]


def acceptances(
    events: Sequence[Event], changes: Sequence[str], shifts: Sequence[int], samples: int
) -> list[ChangeResponse]:
    """Return the first acceptance after each change and before the next, if there is one."""
    found = []
    for change, start, end in zip(changes, shifts, [*shifts[1:], samples], strict=True):
        done = next((each for each in accepted(events) if start <= each.sample < end), None)
        until, after, age = end, math.nan, math.nan
        if done is not None:
            until, after, age = done.sample, done.sample - start, done.sample - _subject(done).start
        spans = [
            (span.opening, length)
            for span in _spans(events, samples)
            if (length := min(span.stop, until) - max(span.start, start)) > 0
        ]
        openings = sum(opening for opening, _ in spans)
        longest = max((length for _, length in spans), default=0)
        found.append(ChangeResponse(change, after, age, openings, longest))
    return found


def _subject(event: Event) -> Any:
    """Return what an event is about: a change, or else an alarm."""
    return event.change or event.alarm


class _Span(NamedTuple):
    """From where to where an alarm was open or a change pending, and whether it is an opening."""

    start: int
    stop: int
    opening: bool


def _spans(events: Iterable[Any], samples: int) -> list[_Span]:
    """Return the span of each alarm and change; the last may be open at the end.

    A change that began with an alarm is no opening of its own.
    """
    spans: dict[tuple[bool, int], _Span] = {}
    for event in events:
        subject = _subject(event)
        if subject is None:  # a rollback is of neither
            continue
        alarm = subject is event.alarm
        new = _Span(subject.start, samples, alarm or event.alarm is None)
        start, _, opening = spans.get((alarm, subject.number), new)
        if event.kind != "rolled_back":
            stop = event.sample if event.kind in _ENDS else samples
            spans[alarm, subject.number] = _Span(start, stop, opening)
    return list(spans.values())


def noticed(reported: Bools, onset: int) -> bool:
    """Whether something is open or pending at some time in the first quarter of `ACCEPT_AFTER`."""
    return bool(reported[onset : onset + ACCEPT_AFTER // 4].any())


def absorbed(reported: Bools, onset: int) -> bool:
    """Whether of the second half of it fewer than half are in alarm or with a change pending."""
    return bool(reported[onset + ACCEPT_AFTER // 2 : onset + ACCEPT_AFTER].mean() < 0.5)


# ---------------------------------------------------------------------- measuring


def reject_pending(detector: AnyDetector) -> bool:
    """Reject every pending change; return whether there was one."""
    rejected = False
    for each in detector.changes_:
        detector.reject(each)
        rejected = True
    return rejected


def _faults(detector: AnyDetector, stream: str, *, accepts: bool) -> Iterator[Fault]:
    """Run a detector over every fault; with `accepts`, also reject what it reports of each."""
    for fault, channel, samples in faulty(stream, FOLLOWED * ACCEPT_AFTER):
        events = watch(detector.reset(), samples)
        trace = trace_alarms(events, len(samples))
        reported = trace.in_alarm | trace.pending
        found = Fault(fault, channel, noticed(reported, ONSET), absorbed(reported, ONSET))
        if accepts:
            late = [each.sample for each in accepted(events) if each.sample >= ONSET]
            early = any(at < ONSET + ACCEPT_AFTER for at in late)
            found = found._replace(early=early, late=bool(late), rejected=False)
            judged = ONSET + ACCEPT_AFTER // 4
            watch(detector.reset(), samples[:judged], flush=False)
            if reject_pending(detector):
                learned = accepted(watch(detector, samples[judged:]))
                found = found._replace(rejected=True, learned=bool(learned))
        yield found


class Run(NamedTuple):
    """The run on which something was measured."""

    stream: str
    row: str
    seed: int


@dataclass(frozen=True, eq=False)
class DriftAlarms:
    """The alarms of each row, computed again from the stored fits; the results are not stored.

    The default detector has a limit of `LIMIT` alarms a day, every other row its own threshold.

    Attributes
    ----------
    counts
        What an operator gets, of every row on every stream.
    around
        Normal samples in alarm around each change, of every row on generated streams.
    acceptances
        Of the default detector on generated streams.
    faults
        Of every row on generated streams.
    """

    counts: dict[Run, AlarmCounts] = field(default_factory=dict)
    around: dict[Run, list[Shares]] = field(default_factory=dict)
    acceptances: dict[Run, list[ChangeResponse]] = field(default_factory=dict)
    faults: dict[Run, list[Fault]] = field(default_factory=dict)

    @classmethod
    def of(cls, experiment: Experiment) -> DriftAlarms:
        """Measure all runs of an experiment whose fits are stored, or may be computed."""
        alarms = cls()
        for line, trials in experiment.lines:
            stream, row = line.stream.name, line.competitor.name
            if row == TUNED:
                continue
            for trial in trials:
                outcome = experiment.outcomes.get(trial)
                if outcome is not None and experiment.runner.has_fit(outcome):
                    of = Run(stream, row, trial.seed)
                    alarms._measure(of, outcome, kind_of(stream), experiment.runner)
        return alarms

    def _measure(
        self, of: Run, outcome: TrialOutcome, kind: DriftKind | None, runner: Runner
    ) -> None:
        ours = of.row == OURS
        detector = runner.fit(outcome).with_limit(LIMIT) if ours else runner.detector(outcome)
        detector.track_alarms()
        stream = runner.streams.about(of.stream)
        data = load_stream(stream.name, stream.root)
        events = watch(detector, data.test)
        trace = trace_alarms(events, len(data.test))
        self.counts[of] = trace.count(data.labels, samples_per_day=SAMPLES_PER_DAY)
        if kind is not None:
            self.around[of] = shares(trace.in_alarm, data.labels, data.shifts)
        if kind is not None and ours:
            changes, shifts = (NOTHING, *kind.changes), (0, *data.shifts)
            self.acceptances[of] = acceptances(events, changes, shifts, len(data.test))
        if kind is not None and kind.calm is not None:
            self.faults[of] = list(_faults(detector, of.stream, accepts=ours))

    # ------------------------------------------------------------------ figures

    def around_changes(self) -> dict[tuple[str, str], dict[str, Around]]:
        """Return each row's shares around each change, by the streams' kind and the change."""
        parts: dict[tuple[str, str], dict[str, dict[int, list[Shares]]]] = {}
        for of, every in self.around.items():
            kind = kind_of(of.stream)
            assert kind is not None
            for what, each in zip(kind.changes, every, strict=True):
                rows = parts.setdefault((kind.name, what), {})
                rows.setdefault(of.row, {}).setdefault(of.seed, []).append(each)
        return {
            which: {row: _around(list(seeds.values())) for row, seeds in rows.items()}
            for which, rows in parts.items()
        }

    def changes(self) -> dict[tuple[str, str], list[ChangeResponse]]:
        """Return the acceptances of each change, over streams and seeds, by the streams' kind.

        The change before the first one is `NOTHING`.
        """
        found: dict[tuple[str, str], list[ChangeResponse]] = {}
        for of, every in self.acceptances.items():
            for each in every:
                found.setdefault((collection(of.stream), each.change), []).append(each)
        return found

    def fault_shares(self, part: str) -> dict[tuple[str, str], dict[str, Figure]]:
        """Return the share of faults for which `part` is true, by kind and fault, of each row."""
        found: dict[tuple[str, str], dict[str, dict[int, list[float]]]] = {}
        for of, every in self.faults.items():
            for each in every:
                rows = found.setdefault((collection(of.stream), each.fault), {})
                seeds = rows.setdefault(of.row, {})
                seeds.setdefault(of.seed, []).append(float(getattr(each, part)))
        return {
            which: {
                row: Figure.of([fmean(shares) for shares in seeds.values()])
                for row, seeds in rows.items()
            }
            for which, rows in found.items()
        }

    def mine(self) -> list[Fault]:
        """Return all faults of the default detector, over streams and seeds."""
        return [each for of, every in self.faults.items() if of.row == OURS for each in every]

    def csv(self) -> str:
        """Return a line for each measure of each run."""
        text = io.StringIO()
        counted = [each.name for each in fields(AlarmCounts) if each.name != "delays"]
        counted += ["found", "median_delay"]
        own = dict.fromkeys([*counted, "change", *Shares._fields, *ChangeResponse._fields])
        own |= dict.fromkeys(Fault._fields)
        head = ["dataset", "collection", "row", "seed", "measure"]
        table = csv.DictWriter(text, [*head, *own], lineterminator="\n")
        table.writeheader()

        def write(of: Run, measure: str, parts: dict[str, object]) -> None:
            where = [of.stream, collection(of.stream), of.row, of.seed, measure]
            cells = {name: _cell(value) for name, value in parts.items()}
            table.writerow({**dict(zip(head, where, strict=True)), **cells})

        for of, counts in self.counts.items():
            parts = {**asdict(counts), "found": counts.found, "median_delay": counts.median_delay}
            del parts["delays"]
            write(of, "alarms", parts)
        for of, around in self.around.items():
            kind = kind_of(of.stream)
            assert kind is not None
            for what, share in zip(kind.changes, around, strict=True):
                write(of, "around", {"change": what, **share._asdict()})
        for of, every in self.acceptances.items():
            for each in every:
                write(of, "acceptance", each._asdict())
        for of, faults in self.faults.items():
            for fault in faults:
                write(of, "fault", fault._asdict())
        return text.getvalue()


def _around(seeds: Sequence[Sequence[Shares]]) -> Around:
    """Return figures over seeds of the mean over streams."""
    every = (
        [fmean(getattr(each, part) for each in streams) for streams in seeds]
        for part in Shares._fields
    )
    return Around._make(map(Figure.of, every))


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return value
