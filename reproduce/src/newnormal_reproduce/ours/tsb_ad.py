"""`Detector`, untuned and causal, on series of TSB-AD-M, beside figures that others published."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, Unpack

import numpy as np

from newnormal.metrics import AlarmCounts, auprc, auroc, trace_alarms, vus_pr
from newnormal_reproduce.engine.arrays import Floats
from newnormal_reproduce.engine.competitors import Competitor
from newnormal_reproduce.engine.drifting import SAMPLES_PER_DAY
from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.plan import Request, TrialPlan
from newnormal_reproduce.engine.published import DEFAULT, SEEDS, Figure, Rules
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.series import TSB_AD, period, published_figures
from newnormal_reproduce.engine.streams import DataStream, Roots, load_stream
from newnormal_reproduce.engine.trial import Trial, TrialOutcome
from newnormal_reproduce.engine.variants import BOTH
from newnormal_reproduce.ours import drift_operator
from newnormal_reproduce.ours.drift import row_lines
from newnormal_reproduce.ours.drift_alarms import Run, with_alarms
from newnormal_reproduce.ours.drift_figures import Figures
from newnormal_reproduce.ours.peers import by_stream
from newnormal_reproduce.ours.watching import watch
from newnormal_reproduce.report import figures, pages

_ADAPTED = "SMD/2-1"  # the stream on which methods that adapt have published figures
_M2N2 = Competitor("M2N2, here", "mlp")
_MEASURES = {"auc_pr": "AUC-PR", "vus_pr": "VUS-PR"}
_HERE = "here"  # the kind of rows that are computed
_COLOURS = {_HERE: figures.FALSE, "online": figures.TRUE, "streaming": "#009E73"}
_BARS, _COLUMNS = {"auc_pr": 4, "vus_pr": 12}, 8  # at most: bars of a kind, rows by series
_CAPTION = "Means: rows computed here red; published ones frozen blue, learning green, other grey."
_COUNTED = ("events", "found", "openings", "false_per_day", "median_delay", "in_alarm_share")
_TEXT = pages.texts("tsb-ad")


class WholeRun(NamedTuple):
    """The figures of a run over a whole series; its alarms are those after history."""

    tolerance: int  # of VUS-PR, in samples
    auroc: float
    auc_pr: float
    vus_pr: float
    alarms: AlarmCounts


class BesidePublished(Figures):
    """The results, and the published figures by column and series."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(experiment)
        self.published = published_figures(experiment.runner.streams.folders)
        every = {line.stream.name: line.stream for line, _ in experiment.lines}
        self.streams = {name: stream for name, stream in every.items() if name != _ADAPTED}

    def groups(self, streams: Iterable[str]) -> dict[str, list[str]]:
        """Return series by the data set that they are from, and all of them."""
        groups: dict[str, list[str]] = {}
        for name in dict.fromkeys(streams):
            owner, _, rest = name.partition("/")
            groups.setdefault(rest.split("_")[1] if owner == TSB_AD else owner, []).append(name)
        return {**groups, "all": [name for group in groups.values() for name in group]}

    @cached_property
    def runs(self) -> dict[Trial, WholeRun]:
        """Every run. The detectors run again, the default one with its limit of alarms."""
        runner = self.experiment.runner
        return {
            outcome.trial: _whole(outcome, runner)
            for line, trials in self.experiment.lines
            for outcome in self.experiment.outcomes_of(trials)
            if line.competitor != _M2N2 and runner.has_fit(outcome)
        }

    def by_row(self, measure: str) -> dict[tuple[str, str], dict[str, float]]:
        """Return figures by method and kind, and series; of rows computed here means over seeds."""
        ours = self.values(lambda one: getattr(self.runs.get(one.trial), measure, math.nan))
        rows = {
            (row, _HERE): {name: fmean(seeds.values()) for name, seeds in of.items()}
            for row, of in ours.items()
        }
        for column, figures_of in self.published.items():
            first, *kind, method = column.split(":")
            if first == measure:
                rows[method, kind[0] if kind else "TSB-AD"] = figures_of
        return rows

    def mean_rows(self, measure: str) -> tuple[int, list[tuple[float, str, str]]]:
        """Return how many series all rows have, and their means, methods and kinds, best first.

        If they have none in common, they are the rows computed here.
        """
        rows = self.by_row(measure)
        for compared in (rows, {row: of for row, of in rows.items() if _HERE in row}):
            every = [name for name in self.streams if all(name in of for of in compared.values())]
            means = [
                (fmean(map(of.__getitem__, every)), *row) for row, of in compared.items() if every
            ]
            if means:
                break
        return len(every), sorted(means, reverse=True)

    def markdown(self) -> str:
        """Return the page."""
        text = _TEXT["introduction"].format(
            command=self.experiment.command,
            seeds=", ".join(map(str, sorted({trial.seed for trial in self.runs}))) or "none",
            versions=pages.versions(),
        )
        parts = [text, *pages.summary([*self._summary()])]
        if self.runs:
            parts += [figures.figure_link("tsb-ad", _CAPTION) + "\n"]
            for measure, title in _MEASURES.items():
                count, means = self.mean_rows(measure)
                lines = [[method, kind, f"{mean:.3f}"] for mean, method, kind in means]
                lines = [[f"**{cell}**" for cell in row] if _HERE in row else row for row in lines]
                parts += [_TEXT[measure].format(series=count)]
                parts += [pages.table(("method", "kind", f"mean {title}"), lines)]
                parts += [_TEXT["series"].format(title=title), self._series(measure)]
            parts += [_TEXT["operator"]]
            counts = {
                Run(trial.dataset, line.competitor.name, trial.seed): self.runs[trial].alarms
                for line, trials in self.experiment.lines
                for trial in trials
                if trial in self.runs and trial.dataset != _ADAPTED
            }
            over = drift_operator.Operator(self, counts).by_collection()
            lines = [line for it in over.items() for line in drift_operator.lines_of(*it)]
            parts += [pages.table(drift_operator.HEADER, lines)]
        if adaptation := "".join(f"| {' | '.join(cells)} |\n" for cells in self._adaptation()):
            parts += [_TEXT["adaptation"].format(rows=adaptation.rstrip())]
        return "\n".join([*parts, *pages.not_run(self.experiment)])

    def _summary(self) -> Iterator[str]:
        for measure, title in _MEASURES.items():
            count, means = self.mean_rows(measure)
            best = {kind: f"{mean:.3f} ({row}, {kind})" for mean, row, kind in reversed(means)}
            if _HERE in best:
                others = [text for kind, text in best.items() if kind != _HERE]
                beside = f"; the best published rows have {', '.join(others)}" if others else ""
                yield f"{title} on {count} series: {best[_HERE]}{beside}."
        if not self.published:
            yield _TEXT["none published"].strip()

    def _series(self, measure: str) -> str:
        """Return the table of every series, with the rows that have the highest means."""
        rows, best = self.by_row(measure), self.mean_rows(measure)[1]
        best = [row for row in best if row[2] == _HERE] + [row for row in best if row[2] != _HERE]
        names = {f"{method}, {kind}": rows[method, kind] for _, method, kind in best[:_COLUMNS]}
        table = {
            series.partition("/")[2]: row
            for series in self.streams
            if (
                row := {
                    name: Figure(of[series], None) for name, of in names.items() if series in of
                }
            )
        }
        return by_stream(table, list(names))

    def _adaptation(self) -> Iterator[list[str]]:
        """Yield the lines of M2N2 and of the rows computed here in the table of `_ADAPTED`."""
        areas = [c for c in self.experiment.comparisons() if c.measure in ("auroc", "auprc")]
        if areas := [c for c in areas if c.model == _M2N2.name]:
            yield ["M2N2", "its paper", *(str(c.paper) for c in areas), "5"]
            yield ["M2N2", _HERE, *(str(c.ours) for c in areas), str(areas[0].seeds)]
        for line, trials in self.experiment.lines:
            runs = [self.runs[trial] for trial in trials if trial in self.runs]
            if runs and line.stream.name == _ADAPTED:
                both = (Figure.of([getattr(run, m) for run in runs]) for m in ("auroc", "auc_pr"))
                yield [line.competitor.name, _HERE, *map(str, both), str(len(runs))]

    def csv(self) -> str:
        """Return a line a trial, one for the published figures of each series, and what failed."""

        def cells(line: Line, trial: Trial, _: TrialOutcome | None) -> Mapping[str, object]:
            row, stream = line.competitor.name, line.stream
            about = {"row": row, "samples": stream.test, "history": stream.train}
            if (run := self.runs.get(trial)) is None:
                return about
            counts = {name: getattr(run.alarms, name) for name in _COUNTED}
            return {**about, "anomalous": stream.anomalous, **run._asdict(), **counts}

        head = ["status", "dataset", "row", "seed", "samples", "history", "anomalous"]
        rows = [row for row in self.experiment.rows(cells) if row.get("row") != _M2N2.name]
        for name in self.streams:
            row = {column: of[name] for column, of in self.published.items() if name in of}
            rows += [{"status": "published", "dataset": name, **row}] if row else []
        columns = [*head, *WholeRun._fields[:-1], *_COUNTED, *self.published, "note"]
        return csv_text(columns, rows)

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write page, table and picture into a folder, and return their paths."""
        texts = {"tsb-ad.md": self.markdown(), "tsb-ad.csv": self.csv()}
        return (*write_texts(Path(folder), texts), *(self._draw(Path(folder)) if self.runs else ()))

    def _draw(self, folder: Path) -> list[Path]:
        """Draw the mean of the rows computed here and of the best published ones of each kind."""
        figure = figures.blank(10, 4.2)
        for column, (measure, title) in enumerate(_MEASURES.items()):
            axes = figure.add_axes((0.17 + column / 2, 0.02, 0.28, 0.89))
            means, kinds = self.mean_rows(measure)[1], list[str]()
            for mean, method, kind in means:
                kinds.append(kind)
                if kinds.count(kind) <= _BARS[measure]:
                    here = method.replace(DEFAULT, "newnormal")
                    name = here if kind == _HERE else f"{method}, {kind}"
                    bar = axes.barh(name, mean, color=_COLOURS.get(kind, figures.LINE))
                    axes.bar_label(bar, fmt=" %.3f", fontsize=figures.SMALL)
            axes.set_title(f"Mean {title}", fontsize=figures.NORMAL, loc="left")
            axes.tick_params(labelsize=figures.SMALL, labelcolor=figures.INK, length=0)
            axes.spines[["top", "right", "bottom"]].set_visible(False)
            axes.set_xticks([])
            axes.invert_yaxis()
        return figures.save_figure(figure, folder, "tsb-ad")


def tsb_ad(roots: Roots | Runner, **request: Unpack[Request]) -> BesidePublished:
    """Run `Detector` on the series of TSB-AD-M that are found, or can be rebuilt from other data.

    The request is as in `TrialPlan.of`. By default: every series, and SMD 2-1 with M2N2 as in the
    paper; `Detector`; seeds 2021 to 2023. Other models have the rows that they have in drift.
    """
    if request.get("seeds") is None:
        request["seeds"] = SEEDS[:3]
    plan = TrialPlan.of(roots, **request)
    taking_part = plan.competitors([DEFAULT])
    series = [name for name in plan.runner.streams.places if name.startswith(f"{TSB_AD}/")]

    def lines_of(stream: DataStream) -> Iterator[Line]:
        for competitor in taking_part:
            yield from row_lines(stream, competitor, plan.seeds)
        if stream.name == _ADAPTED:
            rule = stream.setting.thresholds[BOTH.name].f1
            yield Line(stream, _M2N2, BOTH, Rules(rule, rule), SEEDS)

    usual = [*(series or [TSB_AD]), _ADAPTED]
    return BesidePublished(plan.conduct("tsb-ad", usual, lines_of, pages={}))


def _whole(outcome: TrialOutcome, runner: Runner) -> WholeRun:
    stream = runner.streams.about(outcome.trial.dataset)
    data, pieces = load_stream(stream.name, stream.root), list[Floats]()
    detector = with_alarms(outcome, runner, ours=outcome.trial.model == DEFAULT)
    events = watch(detector, data.test, scores=pieces)
    scores, tolerance = np.concatenate(pieces), period(data.test[:, 0])
    first = stream.train if stream.name.startswith(f"{TSB_AD}/") else 0
    trace = trace_alarms(events, stream.test - first, first=first)
    return WholeRun(
        tolerance,
        auroc(data.labels, scores),
        auprc(data.labels, scores),
        vus_pr(data.labels, scores, window=tolerance),
        trace.count(data.labels[first:], samples_per_day=SAMPLES_PER_DAY),
    )
