"""The operator's table of `newnormal_reproduce.ours.drift`: what a person gets from each row."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from newnormal.metrics import AlarmCounts
from newnormal_reproduce.engine.published import Figure
from newnormal_reproduce.ours.averages import listed, percent, shared, two
from newnormal_reproduce.ours.drift_alarms import LIMIT, Run
from newnormal_reproduce.ours.drift_figures import COLLECTIONS, OURS, PLAIN, Figures
from newnormal_reproduce.ours.today import NAMES
from newnormal_reproduce.report import pages
from newnormal_reproduce.report.bars import Group, grouped_bars
from newnormal_reproduce.report.figures import figure_link, save_figure

# What is shown of the counts, pooled over the streams of a collection.
MEASURES: dict[str, Callable[[AlarmCounts], float]] = {
    "found": lambda counts: counts.found_share,
    "true": lambda counts: counts.true_share,
    "false a day": lambda counts: counts.false_per_day,
    "in alarm": lambda counts: counts.in_alarm_share,
    "change pending": lambda counts: counts.pending_share,
    "median delay": lambda counts: counts.median_delay,
}

HEADER = ("over", "row", "streams", "events", *MEASURES)
_TEXT = pages.texts("drift")
_CHARTS = {
    "drift-found": "Share of events found, of each row on each collection.",
    "drift-false": f"False openings a day; the default detector's limit is {LIMIT}.",
}


class Over(NamedTuple):
    """A row over the streams of a collection; a figure is None where it has none."""

    streams: int
    events: int
    figures: dict[str, Figure | None]


class Operator:
    """The operator's table of each row, from the figures of drift and the counts of each run."""

    def __init__(self, drift: Figures, counts: Mapping[Run, AlarmCounts]) -> None:
        self.rows = [row for row in drift.names if any(of.row == row for of in counts)]
        by_row: dict[str, dict[str, dict[int, AlarmCounts]]] = {}
        for of, alarms in counts.items():
            by_row.setdefault(of.row, {}).setdefault(of.stream, {})[of.seed] = alarms
        groups = drift.groups(of.stream for of in counts)
        self._pooled: dict[str, dict[str, tuple[int, dict[int, AlarmCounts]]]] = {}
        for name, group in groups.items():
            having = [
                {stream: dict.fromkeys(seeds, 1.0) for stream, seeds in by_row[row].items()}
                for row in self.rows
            ]
            streams = shared(having, group)
            for row in self.rows:
                if pooled := _pool(by_row[row], streams):
                    self._pooled.setdefault(name, {})[row] = (len(streams), pooled)

    def by_collection(self) -> dict[str, dict[str, Over]]:
        """Return each row over each collection, on the streams that all rows have."""
        return {
            name: {row: _over(streams, seeds) for row, (streams, seeds) in rows.items()}
            for name, rows in self._pooled.items()
        }

    def mean(self) -> dict[str, Over]:
        """Return each row's mean over `COLLECTIONS`, each with the same weight."""
        collections = [self._pooled[name] for name in COLLECTIONS if name in self._pooled]
        means = {}
        for row in self.rows:
            pooled = [rows[row] for rows in collections if row in rows]
            seeds = set.intersection(*(set(counts) for _, counts in pooled)) if pooled else set()
            if len(pooled) == len(collections) and seeds:
                by_seed = [[counts[seed] for _, counts in pooled] for seed in sorted(seeds)]
                figures = {
                    name: _figure([_mean(map(measure, counts)) for counts in by_seed])
                    for name, measure in MEASURES.items()
                }
                events = sum(counts.events for counts in by_seed[0])
                means[row] = Over(sum(streams for streams, _ in pooled), events, figures)
        return means


def _pool(
    counts: Mapping[str, Mapping[int, AlarmCounts]], streams: Sequence[str]
) -> dict[int, AlarmCounts]:
    """Return the counts of streams, pooled, for each seed that all of them have."""
    if not streams or any(stream not in counts for stream in streams):
        return {}
    seeds = set.intersection(*(set(counts[stream]) for stream in streams))
    return {
        seed: AlarmCounts.pooled(counts[stream][seed] for stream in streams)
        for seed in sorted(seeds)
    }


def _over(streams: int, seeds: Mapping[int, AlarmCounts]) -> Over:
    counts = list(seeds.values())
    figures = {name: _figure(map(measure, counts)) for name, measure in MEASURES.items()}
    return Over(streams, counts[0].events, figures)


def _figure(values: Iterable[float]) -> Figure | None:
    numbers = [value for value in values if not math.isnan(value)]
    return Figure.of(numbers) if numbers else None


def _mean(values: Iterable[float]) -> float:
    figure = _figure(values)
    return math.nan if figure is None else figure.mean


def summary(operator: Operator) -> str | None:
    """Return the means over collections in a sentence; None without the default detector."""
    means = operator.mean()
    if OURS not in means:
        return None

    def described(row: str) -> str:
        figures = {name: value for name, value in means[row].figures.items() if value is not None}
        return (
            f"{figures['found'].mean:.2f} of events found, {figures['false a day'].mean:.2f} false "
            f"openings a day, {figures['in alarm'].mean:.2f} of normal samples in alarm, "
            f"{figures['change pending'].mean:.2f} with a change pending"
        )

    other = f" (the {PLAIN}: {described(PLAIN)})" if PLAIN in means else ""
    return f"With a limit of {LIMIT} alarm a day, mean of collections: {described(OURS)}{other}."


def sections(operator: Operator) -> list[str]:
    """Return the section with the table."""
    if not (collections := operator.by_collection()):
        return []
    lines, macro = [], [name for name in COLLECTIONS if name in collections]
    for name in macro:
        lines += lines_of(name, collections[name])
    if macro:
        lines += lines_of(f"mean of {listed(macro)}", operator.mean())
    for name, rows in collections.items():
        if name not in COLLECTIONS:
            lines += lines_of(name, rows)
    parts = [_TEXT["operator"].format(limit=LIMIT), pages.table(HEADER, lines)]
    if macro:
        parts += [figure_link(name, caption) + "\n" for name, caption in _CHARTS.items()]
    return parts


def lines_of(name: str, rows: Mapping[str, Over]) -> list[list[str]]:
    """Return the cells of each row over some streams, as in `HEADER`."""
    return [
        [name, row, str(over.streams), str(over.events), *_cells(over.figures)]
        for row, over in rows.items()
    ]


def _cells(figures: Mapping[str, Figure | None]) -> list[str]:
    shares = ("found", "true", "in alarm", "change pending")
    cells = []
    for name, figure in figures.items():
        if figure is None:
            cells.append("-")
        elif name in shares:
            cells.append(percent(figure))
        else:
            cells.append(f"{figure.mean:.1f}" if name == "median delay" else two(figure))
    return cells


def draw(operator: Operator, folder: Path) -> list[Path]:
    """Draw the share of events found and the false openings a day, of each row."""
    collections = operator.by_collection()
    macro = {name: collections[name] for name in COLLECTIONS if name in collections}
    if not macro:
        return []
    paths = []
    for name, measure, axis, level in (
        ("drift-found", "found", "events found", None),
        ("drift-false", "false a day", "false openings a day", float(LIMIT)),
    ):
        groups: dict[str, Group] = {
            owner: {
                row: (figure, None)
                for row, over in rows.items()
                if row not in NAMES and (figure := over.figures[measure]) is not None
            }
            for owner, rows in macro.items()
        }
        paths += save_figure(grouped_bars(groups, axis=axis, level=level), folder, name)
    return paths
