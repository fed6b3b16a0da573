"""The alarms and changes of `newnormal_reproduce.ours.drift`.

What an operator gets from each row; how long until a new normal is accepted; and how faults that
stay are handled.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from statistics import fmean
from typing import Any, NamedTuple

from newnormal import Event
from newnormal.metrics import AlarmCounts, trace_alarms
from newnormal_reproduce.engine.arrays import AnyDetector, Bools, Ints
from newnormal_reproduce.engine.drifting import ONSET, SAMPLES_PER_DAY, DriftKind, faulty, kind_of
from newnormal_reproduce.engine.experiment import Experiment
from newnormal_reproduce.engine.files import csv_text
from newnormal_reproduce.engine.published import Figure
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import load_stream
from newnormal_reproduce.engine.trial import TrialOutcome
from newnormal_reproduce.ours.drift_figures import OURS, TUNED, collection
from newnormal_reproduce.ours.today import NAMES
from newnormal_reproduce.ours.watching import watch

LIMIT = 1  # alarms a day, of the default detector
ACCEPT_AFTER = SAMPLES_PER_DAY  # samples: the default of `Detector`
FOLLOWED = 3  # multiples of ACCEPT_AFTER for which a fault is followed
_ENDS = ("closed", "accepted", "rejected", "reverted")  # kinds of event
LATER = 1000  # samples after a change, by which a detector should have adapted to it
NOTHING = "nothing"  # changed before the first shift


class ChangeResponse(NamedTuple):
    """How one change of normal was accepted, or not before the next one."""

    change: str  # what changed
    after: float  # samples from the change until it was accepted; NaN if it was not
    age: float  # samples for which the accepted change had lasted; NaN if nothing was accepted
    # Alarms and changes open or pending at some time until then, or until the next change; a
    # change that began with an alarm counts once.
    alarms: int
    longest: int  # samples of the longest of these, counted from the change

    @property
    def accepted(self) -> bool:
        """Whether it was accepted."""
        return not math.isnan(self.after)


class Fault(NamedTuple):
    """How one fault that stays was handled.

    The last four are None for the paper's method, which has no acceptance.
    """

    fault: str
    channel: int
    noticed: bool  # as the function of this name
    absorbed: bool
    early: bool | None = None  # accepted without feedback within `ACCEPT_AFTER`
    late: bool | None = None  # within `FOLLOWED` times that
    rejected: bool | None = None  # a change was pending after a quarter of it, and was rejected
    learned: bool | None = None  # accepted after the rejection; None if it was not rejected


class Shares(NamedTuple):
    """The share of normal samples in alarm around a change; NaN if there are none."""

    before: float
    after: float
    later: float


class Around(NamedTuple):
    """The same as figures over streams and seeds."""

    before: Figure
    after: Figure
    later: Figure


# ---------------------------------------------------------------------- counting


def shares(in_alarm: Bools, labels: Ints, shifts: Sequence[int]) -> list[Shares]:
    """Return the shares around each of the samples at which normal changed.

    Before is since the previous change. After is until the next. Later is the same without its
    first `LATER` samples.
    """
    ends = [*shifts[1:], len(labels)]

    def share(start: int, stop: int) -> float:
        normal = labels[start:stop] == 0
        return float(in_alarm[start:stop][normal].mean()) if normal.any() else math.nan

    return [
        Shares(share(since, shift), share(shift, end), share(shift + LATER, end))
        for since, shift, end in zip([0, *shifts], shifts, ends, strict=False)
    ]


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
    responses = []
    for change, start, end in zip(changes, shifts, [*shifts[1:], samples], strict=True):
        first = next((event for event in accepted(events) if start <= event.sample < end), None)
        until, after, age = end, math.nan, math.nan
        if first is not None:
            until = first.sample
            after, age = until - start, until - _subject(first).start
        spans = [
            (span.opening, length)
            for span in _spans(events, samples)
            if (length := min(span.stop, until) - max(span.start, start)) > 0
        ]
        openings = sum(opening for opening, _ in spans)
        longest = max((length for _, length in spans), default=0)
        responses.append(ChangeResponse(change, after, age, openings, longest))
    return responses


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
        if (subject := _subject(event)) is None:  # what is undone is of neither
            continue
        alarm = subject is event.alarm
        new = _Span(subject.start, samples, alarm or event.alarm is None)
        start, _, opening = spans.get((alarm, subject.number), new)
        if event.kind != "undone":
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


def with_alarms(outcome: TrialOutcome, runner: Runner, *, ours: bool) -> AnyDetector:
    """Return the detector of an outcome; the default one has a limit of `LIMIT` alarms a day."""
    detector = runner.fit(outcome).with_limit(LIMIT) if ours else runner.detector(outcome)
    detector.track_alarms()
    return detector


def reject_pending(detector: AnyDetector) -> bool:
    """Reject every pending change; return whether there was one."""
    pending = list(detector.changes_)
    for change in pending:
        detector.reject(change)
    return bool(pending)


def _faults(detector: AnyDetector, stream: str, *, accepts: bool) -> Iterator[Fault]:
    """Run a detector over every fault; with `accepts`, also reject what it reports of each."""
    for fault, channel, samples in faulty(stream, FOLLOWED * ACCEPT_AFTER):
        events = watch(detector.reset(), samples)
        trace = trace_alarms(events, len(samples))
        reported = trace.in_alarm | trace.pending
        result = Fault(fault, channel, noticed(reported, ONSET), absorbed(reported, ONSET))
        if accepts:
            late = [event.sample for event in accepted(events) if event.sample >= ONSET]
            early = any(sample < ONSET + ACCEPT_AFTER for sample in late)
            result = result._replace(early=early, late=bool(late), rejected=False)
            judged = ONSET + ACCEPT_AFTER // 4
            watch(detector.reset(), samples[:judged], flush=False)
            if reject_pending(detector):
                learned = accepted(watch(detector, samples[judged:]))
                result = result._replace(rejected=True, learned=bool(learned))
        yield result


class Run(NamedTuple):
    """The run on which something was measured."""

    stream: str
    row: str
    seed: int


@dataclass(frozen=True, eq=False)
class DriftAlarms:
    """The alarms of each row, computed again from the stored fits; the results are not stored.

    The default detector has a limit of `LIMIT` alarms a day, every other row its own threshold.
    `counts` has every stream, the others generated streams; `acceptances` the default detector.
    """

    counts: dict[Run, AlarmCounts] = field(default_factory=dict)
    around: dict[Run, list[Shares]] = field(default_factory=dict)
    acceptances: dict[Run, list[ChangeResponse]] = field(default_factory=dict)
    faults: dict[Run, list[Fault]] = field(default_factory=dict)

    @classmethod
    def of(cls, experiment: Experiment) -> "DriftAlarms":
        """Measure all runs of an experiment whose fits are stored, or may be computed."""
        alarms = cls()
        for line, trials in experiment.lines:
            stream, row = line.stream.name, line.competitor.name
            if row == TUNED:
                continue
            for outcome in experiment.outcomes_of(trials):
                if experiment.runner.has_fit(outcome):
                    of = Run(stream, row, outcome.trial.seed)
                    alarms._measure(of, outcome, kind_of(stream), experiment.runner)
        return alarms

    def _measure(
        self, of: Run, outcome: TrialOutcome, kind: DriftKind | None, runner: Runner
    ) -> None:
        ours = of.row == OURS
        detector = with_alarms(outcome, runner, ours=ours)
        stream = runner.streams.about(of.stream)
        data = load_stream(stream.name, stream.root)
        events = watch(detector, data.test)
        trace = trace_alarms(events, len(data.test))
        self.counts[of] = trace.count(data.labels, samples_per_day=SAMPLES_PER_DAY)
        if of.row in NAMES:
            return
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
        changes: dict[tuple[str, str], dict[str, dict[int, list[Shares]]]] = {}
        for of, around in self.around.items():
            for change, share in zip(_changes(of.stream), around, strict=True):
                rows = changes.setdefault((collection(of.stream), change), {})
                rows.setdefault(of.row, {}).setdefault(of.seed, []).append(share)
        return {
            change: {row: _around(list(seeds.values())) for row, seeds in rows.items()}
            for change, rows in changes.items()
        }

    def changes(self) -> dict[tuple[str, str], list[ChangeResponse]]:
        """Return the acceptances of each change, over streams and seeds, by the streams' kind.

        The change before the first one is `NOTHING`.
        """
        changes: dict[tuple[str, str], list[ChangeResponse]] = {}
        for of, responses in self.acceptances.items():
            for response in responses:
                key = (collection(of.stream), response.change)
                changes.setdefault(key, []).append(response)
        return changes

    def fault_shares(self, part: str) -> dict[tuple[str, str], dict[str, Figure]]:
        """Return the share of faults for which `part` is true, by kind and fault, of each row."""
        shares: dict[tuple[str, str], dict[str, dict[int, list[float]]]] = {}
        for of, faults in self.faults.items():
            for fault in faults:
                rows = shares.setdefault((collection(of.stream), fault.fault), {})
                seeds = rows.setdefault(of.row, {})
                seeds.setdefault(of.seed, []).append(float(getattr(fault, part)))
        return {
            key: {row: Figure.of([*map(fmean, seeds.values())]) for row, seeds in rows.items()}
            for key, rows in shares.items()
        }

    def mine(self) -> list[Fault]:
        """Return all faults of the default detector, over streams and seeds."""
        return [fault for of, faults in self.faults.items() if of.row == OURS for fault in faults]

    def tables(self) -> dict[str, str]:
        """Return the files of a line for each run, and of one for each change and fault."""
        about = ["dataset", "collection", "row", "seed", "measure"]
        counted = [field.name for field in fields(AlarmCounts) if field.name != "delays"]
        counted += ["found", "median_delay"]
        others = dict.fromkeys(["change", *Shares._fields, *ChangeResponse._fields])
        columns = {"alarms": [*about, *counted], "changes": [*about, *others, *Fault._fields]}
        rows: dict[str, list[dict[str, object]]] = {name: [] for name in columns}
        for row in self._rows(counted):
            rows["alarms" if row["measure"] == "alarms" else "changes"].append(row)
        return {f"drift-{name}.csv": csv_text(columns[name], rows[name]) for name in columns}

    def _rows(self, counted: Sequence[str]) -> Iterator[dict[str, object]]:
        def row(of: Run, measure: str, **cells: object) -> dict[str, object]:
            about = {"dataset": of.stream, "collection": collection(of.stream), "row": of.row}
            return {**about, "seed": of.seed, "measure": measure, **cells}

        for of, counts in self.counts.items():
            yield row(of, "alarms", **{name: getattr(counts, name) for name in counted})
        for of, around in self.around.items():
            for change, share in zip(_changes(of.stream), around, strict=True):
                yield row(of, "around", change=change, **share._asdict())
        for of, responses in self.acceptances.items():
            for response in responses:
                yield row(of, "acceptance", **response._asdict())
        for of, faults in self.faults.items():
            for fault in faults:
                yield row(of, "fault", **fault._asdict())


def _changes(stream: str) -> tuple[str, ...]:
    kind = kind_of(stream)
    assert kind is not None
    return kind.changes


def _around(seeds: Sequence[Sequence[Shares]]) -> Around:
    """Return figures over seeds of the mean over streams."""
    means = (
        [fmean(getattr(shares, part) for shares in streams) for streams in seeds]
        for part in Shares._fields
    )
    return Around._make(map(Figure.of, means))
