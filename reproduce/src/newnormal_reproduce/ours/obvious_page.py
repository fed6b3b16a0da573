"""The page and the picture of `newnormal_reproduce.ours.obvious`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from newnormal_reproduce.engine.arrays import Bools, Floats, runs
from newnormal_reproduce.ours.obvious_cases import FAULTS, KINDS
from newnormal_reproduce.report import figures, pages

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LIMIT = 1  # alarms a day


class FaultExcerpt(NamedTuple):
    """The samples of a faulty channel around its fault, for a picture."""

    values: Floats
    start: int  # of the fault in these
    length: int
    openings: tuple[int, ...]
    in_alarm: Bools


class FaultRun(NamedTuple):
    """One run over a stream with a fault, or without one."""

    rate: str
    stream: str
    kind: str
    channels: int
    seed: int
    fault: str | None
    found: int | None  # 1 or 0; None without a fault
    delay: float  # samples; NaN without a fault
    openings: int
    false: int  # openings
    days: float  # of normal samples
    in_alarm: float  # share of normal samples
    pending: float
    shown: FaultExcerpt | None = None


class Night(NamedTuple):
    """One run over the nightly job."""

    stream: str
    seed: int
    openings: int  # in all nights; in the first night for nightly/new
    at_job: int | None = None  # of these, at the nightly job or up to ten samples after it
    false: int | None = None
    found: int | None = None  # the job at noon, 1 or 0
    accepted: bool | None = None  # for nightly/new: what opened in the first night
    later: int | None = None  # alarms in the five days after that


class Quiet(NamedTuple):
    """Alarms a day on streams without a fault."""

    runs: int
    mean: float
    decile: float  # the 9th
    in_alarm: float
    pending: float


@dataclass(frozen=True, eq=False)
class ObviousResults:
    """Runs over faults and over the nightly job."""

    judged: tuple[FaultRun, ...] = ()
    nights: tuple[Night, ...] = ()

    def __add__(self, other: "ObviousResults") -> "ObviousResults":
        return ObviousResults(self.judged + other.judged, self.nights + other.nights)

    @property
    def rates(self) -> list[str]:
        """The rates of sampling that were run."""
        return list(dict.fromkeys(run.rate for run in self.judged))

    @property
    def seeds(self) -> list[int]:
        """The seeds that were run."""
        judged = {run.seed for run in self.judged}
        return sorted(judged | {night.seed for night in self.nights})

    def with_fault(self, rate: str, **where: object) -> list[FaultRun]:
        """Return the runs with a fault at a rate, of a kind, fault or number of channels."""
        return [
            run
            for run in self.judged
            if run.rate == rate
            and run.fault is not None
            and all(getattr(run, name) == value for name, value in where.items())
        ]

    def share_found(self, rate: str, **where: object) -> float | None:
        """Return the share of these faults that were found; None without faults."""
        return mean_of(self.with_fault(rate, **where), "found")

    def quiet(self, rate: str, kind: str | None = None) -> Quiet | None:
        """Return the alarms a day on streams without a fault; None without such streams."""
        runs = [
            run
            for run in self.judged
            if run.rate == rate and run.fault is None and kind in (None, run.kind)
        ]
        if not runs:
            return None
        daily = [run.openings / run.days for run in runs]
        in_alarm, pending = fmean(run.in_alarm for run in runs), fmean(run.pending for run in runs)
        return Quiet(len(runs), fmean(daily), float(np.quantile(daily, 0.9)), in_alarm, pending)

    def nights_of(self, variant: str) -> list[Night]:
        """Return the runs over a variant of the nightly job."""
        return [night for night in self.nights if night.stream.endswith(f"/{variant}")]

    def example(self, fault: str) -> FaultRun | None:
        """Return a run to draw, of the first rate and seed; faults are on different kinds."""
        runs = [run for run in self.judged if run.fault == fault and run.shown is not None]
        usual = KINDS[FAULTS.index(fault) % len(KINDS)]

        def order(run: FaultRun) -> tuple[bool, bool, bool, int]:
            return run.rate != self.rates[0], run.kind != usual, run.channels != 2, run.seed

        return min(runs, key=order, default=None)


def mean_of(runs: Iterable[FaultRun | Night], part: str) -> float | None:
    """Return the mean of a part over the runs that have it; None if none has."""
    values = [value for run in runs if (value := getattr(run, part)) is not None]
    return fmean(values) if values else None


_NAMES = {"1min": "one sample a minute", "15min": "one sample in 15 minutes"}
_MOST = 40  # missed faults that are listed

_TEXT = pages.texts("obvious")


def page_of(results: ObviousResults, failures: Mapping[str, str], command: str) -> str:
    """Return the page."""
    parts = [
        _TEXT["introduction"].format(
            limit=LIMIT,
            command=command,
            seeds=f"seeds {', '.join(map(str, results.seeds)) or 'none'}",
            versions=pages.versions(),
        ),
        *_summary(results),
        *_faults(results),
        *_quiet(results),
        *_nightly(results),
    ]
    if failures:
        parts += ["## Not run\n", pages.table(("what", "why"), list(failures.items()))]
    return "\n".join(parts)


def _summary(results: ObviousResults) -> list[str]:
    sentences = []
    for rate in results.rates:
        share, quiet = results.share_found(rate), results.quiet(rate)
        if share is not None:
            count = len(results.with_fault(rate))
            sentences.append(f"At {_NAMES[rate]} it found {share:.3f} of {count} faults.")
        if quiet is not None:
            sentences.append(
                f"Without a fault it opened {quiet.mean:.2f} alarms a day at {_NAMES[rate]}; "
                f"nine streams of ten have at most {quiet.decile:.2f}."
            )
    nights = results.nights_of("usual")
    usual, every = mean_of(nights, "at_job"), mean_of(nights, "openings")
    if usual is not None:
        sentences.append(
            f"A nightly job that is in history: {usual:.1f} alarms at the job in 30 nights, "
            f"{every:.1f} in all."
        )
    return pages.summary(sentences)


def _faults(results: ObviousResults) -> list[str]:
    parts = [_TEXT["faults"]]
    for rate in results.rates:
        if not (runs := results.with_fault(rate)):
            continue
        kinds = [kind for kind in KINDS if any(run.kind == kind for run in runs)]
        widths = sorted({run.channels for run in runs})
        faults = [fault for fault in FAULTS if any(run.fault == fault for run in runs)]
        lines = []
        for fault in (*faults, "all"):
            where = {} if fault == "all" else {"fault": fault}
            cells = [_two(results.share_found(rate, kind=kind, **where)) for kind in kinds]
            cells += [_two(results.share_found(rate, channels=width, **where)) for width in widths]
            delays = [run.delay for run in results.with_fault(rate, **where) if run.found]
            median = f"{np.median(delays):.0f}" if delays else "-"
            lines.append([fault, *cells, _two(results.share_found(rate, **where)), median])
        columns = [*kinds, *(f"{width} ch." for width in widths)]
        header = ["found", *columns, "all", "median delay, samples"]
        parts += [f"### At {_NAMES[rate]}\n", pages.table(header, lines), *_missed(runs)]
    if len(parts) == 1:
        return []
    return [*parts, figures.figure_link("obvious-faults", _TEXT["caption"]) + "\n"]


def _missed(runs: list[FaultRun]) -> list[str]:
    names: dict[str, list[str]] = {}
    for run in runs:
        if not run.found:
            names.setdefault(f"{run.fault} on {run.stream}", []).append(str(run.seed))
    if not names:
        return ["None was missed.\n"]
    listed = [f"{name} ({', '.join(seeds)})" for name, seeds in names.items()]
    more = f"; and {len(listed) - _MOST} more" if len(listed) > _MOST else ""
    return [f"Missed, with their seeds: {'; '.join(listed[:_MOST])}{more}.\n"]


def _quiet(results: ObviousResults) -> list[str]:
    lines = []
    for rate in results.rates:
        for kind in (*KINDS, None):
            if (quiet := results.quiet(rate, kind)) is not None:
                shares = [f"{quiet.in_alarm:.1%}", f"{quiet.pending:.1%}"]
                rates = [f"{quiet.mean:.2f}", f"{quiet.decile:.2f}"]
                lines.append([_NAMES[rate], kind or "all", str(quiet.runs), *rates, *shares])
    if not lines:
        return []
    header = ["rate", "kind", "runs", "alarms a day", "9th decile", "in alarm", "change pending"]
    return [_TEXT["quiet"].format(limit=LIMIT), pages.table(header, lines)]


def _nightly(results: ObviousResults) -> list[str]:
    measures = [
        ("usual", "alarms at the nightly job in 30 nights", "at_job"),
        ("usual", "alarms in 30 days in all", "openings"),
        ("noon", "alarms at the nightly job in 30 nights", "at_job"),
        ("noon", "alarms in 30 days in all", "openings"),
        ("noon", "job at noon found", "found"),
        ("new", "alarms in the first night", "openings"),
        ("new", "accepted", "accepted"),
        ("new", "alarms in the next 5 days", "later"),
    ]
    lines = [
        [variant, text, ", ".join(_number(getattr(night, part)) for night in nights)]
        for variant, text, part in measures
        if (nights := results.nights_of(variant))
    ]
    return (
        [_TEXT["nightly"], pages.table(["variant", "measure", "by seed"], lines)] if lines else []
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(int(value))


def _two(share: float | None) -> str:
    return "-" if share is None else f"{share:.2f}"


def draw(results: ObviousResults, folder: Path) -> list[Path]:
    """Draw one panel for each kind of fault: an example, and its alarms."""
    examples = [run for fault in FAULTS if (run := results.example(fault)) is not None]
    if not examples:
        return []
    rows = -(-len(examples) // 2)
    figure = figures.blank(10, 1.6 * rows + 0.2)
    for number, run in enumerate(examples, start=1):
        _panel(figure.add_subplot(rows, 2, number), run)
    figure.tight_layout()
    return figures.save_figure(figure, folder, "obvious-faults")


def _panel(axes: "Axes", run: FaultRun) -> None:
    shown = run.shown
    assert shown is not None
    values, stop = shown.values, shown.start + shown.length
    low, high = float(values.min()), float(values.max())
    room = 0.12 * ((high - low) or 1.0)
    axes.axvspan(shown.start - 0.5, stop - 0.5, color=figures.PALE, alpha=0.6, linewidth=0)
    axes.plot(values, color=figures.INK, linewidth=0.7)
    for first, last in runs(shown.in_alarm):
        axes.hlines(low - room, first, last, color=figures.LINE, linewidth=3)
    for opening in shown.openings:
        true = shown.start - 5 <= opening < stop + 10
        axes.axvline(opening, color=figures.TRUE if true else figures.FALSE, linewidth=0.9)
    axes.set_ylim(low - 2 * room, high + room)
    axes.set_title(f"{run.fault}: {run.stream}, {run.rate}", fontsize=figures.SMALL, loc="left")
    axes.tick_params(labelsize=figures.SMALL - 2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
