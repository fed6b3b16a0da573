"""Scores over time: fig:Main_Figure (c), fig:main_ion, fig:ab_qual, fig:A_anosc.

Scores with threshold, labels and alarms of each line of the main table; the expectations of the
ablation's variants around an event; and two generated streams that show the use of the trend and
of learning.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from newnormal import M2N2, Verdicts
from newnormal.datasets import Dataset, neurips_ts_uni
from newnormal.datasets.synthetic import Wave
from newnormal.metrics import auroc, confusion
from newnormal.plots import DetectorRun, compare
from newnormal_reproduce.engine.arrays import AnyDetector, Bools, Floats, runs
from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.files import write_texts
from newnormal_reproduce.engine.plan import Request, TrialPlan
from newnormal_reproduce.engine.published import APPENDIX_SEED
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import Roots, forget_data, load_stream
from newnormal_reproduce.engine.trial import TrialOutcome
from newnormal_reproduce.engine.variants import VARIANTS
from newnormal_reproduce.paper.curves import runs_behind
from newnormal_reproduce.report import pages
from newnormal_reproduce.report.charts import Band, bands
from newnormal_reproduce.report.figures import INK, LINE, PALE, colour_of, figure_link, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AROUND = 300  # samples shown before and after an event

_TEXT = pages.texts("traces")


def changed_dynamics(seed: int = 0, *, length: int = 6_000) -> Dataset:
    """Return a wave that swings wider and faster from the middle of the live part on.

    Its mean stays, so that the trend does not change.

    >>> data = changed_dynamics()
    >>> data.shifts
    (3000,)
    """
    base = neurips_ts_uni(seed, length=length, shift=0.0)
    half = length // 2
    rng = np.random.default_rng([seed, 1])
    times = np.arange(length, 2 * length, dtype=np.int64)
    slow, fast = Wave(), Wave(amplitude=2.0, frequency=0.05)
    test = base.test[:, 0].copy()
    outlying = test - slow.amplitude * np.sin(2 * np.pi * slow.frequency * times)
    new = fast.at(times, rng)
    marked = base.labels.astype(bool)
    test[half:] = np.where(marked, new + outlying * fast.amplitude / slow.amplitude, new)[half:]
    return Dataset(
        "changed dynamics", base.train, test[:, None], base.labels, base.channels, shifts=(half,)
    )


def farthest_channels(data: Dataset, count: int) -> list[int]:
    """Return the channels whose normal mean moved farthest, in train's standard deviations.

    There is at least one; others are returned if they moved by half a deviation.

    >>> farthest_channels(neurips_ts_uni(), 2)
    [0]
    """
    normal = data.test[data.labels == 0]
    spread = np.nanstd(data.train, axis=0)
    moved = np.abs(np.nanmean(normal, axis=0) - np.nanmean(data.train, axis=0))
    varies = np.nanstd(data.test, axis=0) > 0
    far = np.where(varies, moved / np.where(spread > 0, spread, 1), -1.0)
    order = np.argsort(-far, kind="stable")[:count]
    return [int(channel) for nth, channel in enumerate(order) if nth == 0 or far[channel] >= 0.5]


@dataclass(frozen=True, eq=False)
class Traces:
    """The runs that are drawn: the main table's of one seed, and the ablation's of all seeds."""

    scored: Experiment
    variants: Experiment
    seed: int
    seeds: tuple[int, ...]
    command: str

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write ``traces.md`` and the pictures, and return their paths.

        The two illustrations are computed each time.
        """
        folder = Path(folder)
        text = [_TEXT["introduction"].format(command=self.command)]
        pictures: list[Path] = []

        def show(figure: "Figure", name: str, caption: str) -> None:
            pictures.extend(save_figure(figure, folder, name))
            text.append(figure_link(name, caption) + "\n")

        if self.scored.outcomes:
            text.append(_TEXT["scores"].format(seed=self.seed))
        for name in dict.fromkeys(line.stream.name for line, _ in self.scored.lines):
            figure = _scores(self.scored, name, self.seed)
            show(figure, f"traces-scores-{_file(name)}", _TEXT["scores caption"].format(name=name))
        if self.variants.outcomes:
            text.append(_TEXT["expected"].format(seeds=", ".join(map(str, self.variants.seeds))))
        for name in dict.fromkeys(line.stream.name for line, _ in self.variants.lines):
            if (drawn := _expectations(self.variants, name)) is not None:
                figure, channel = drawn
                caption = _TEXT["expected caption"].format(name=name, channel=channel)
                show(figure, f"traces-expected-{_file(name)}", caption)
        forget_data()
        text.append(_TEXT["why"].format(window=_WINDOW, quantile=100 * _QUANTILE))
        for file, make, caption in (
            ("traces-trend", neurips_ts_uni, _TEXT["trend caption"]),
            ("traces-dynamics", changed_dynamics, _TEXT["dynamics caption"]),
        ):
            figure, table = _illustration([make(seed) for seed in self.seeds], self.seeds)
            show(figure, file, caption)
            text.append(table)
        text += pages.not_run(self.scored, self.variants)
        return (*write_texts(folder, {"traces.md": "\n".join(text)}), *pictures)


def traces(roots: Roots | Runner, **request: Unpack[Request]) -> Traces:
    """Run the main table's lines and the MLP's variants of the ablation, and draw them over time.

    The request is as in `TrialPlan.of`. By default: the paper's nine data sets, the scores of its
    five models. Scores are those of one seed, 2023 if it is among the seeds.
    """
    plan = TrialPlan.of(roots, **request)
    seed = APPENDIX_SEED if APPENDIX_SEED in plan.seeds else plan.seeds[0]
    # One seed is enough to compute. Without computing, only another one may be stored.
    shown = [seed] if plan.runner.compute else plan.seeds
    scored, variants = runs_behind(plan, shown)
    return Traces(scored, variants, seed, plan.seeds, plan.command("traces"))


def _scores(experiment: Experiment, name: str, seed: int) -> "Figure":
    data = load_stream(name, experiment.runner.streams.about(name).root)
    judged = []
    for line, trials in experiment.lines:
        run = experiment.shown(trials, line.rules.f1)
        if line.stream.name == name and run is not None:
            other = "" if run.trial.seed == seed else f", seed {run.trial.seed}"
            judged.append(DetectorRun(line.name + other, _remark(run), _verdicts(run, data)))
    channels = [data.channels[channel] for channel in farthest_channels(data, 2)]
    return compare(data, judged, channels=channels, heading=name, comparable=False)


def _remark(run: TrialOutcome) -> str:
    rule = run.trial.rule
    chosen = "Q*, an oracle" if rule.oracle else str(rule)
    scores = f"F1 {run.report.f1:.3f} · AUROC {run.report.auroc:.3f}"
    return f"τ = {run.tau:.3g} ({chosen}) · {scores}"


def _verdicts(run: TrialOutcome, data: Dataset) -> Verdicts:
    judged = run.judgement
    return Verdicts(
        judged.scores, judged.thresholds, judged.anomalous, None, None, None, data.channels
    )


def _expectations(experiment: Experiment, name: str) -> "tuple[Figure, str] | None":
    """Draw each variant's expectation around the longest event, of the channel that varies most."""
    runner = experiment.runner
    data = load_stream(name, runner.streams.about(name).root)
    labels = data.labels.astype(bool)
    if not (events := runs(labels)):
        return None
    start, stop = max(events, key=lambda event: event[1] - event[0])
    middle = (start + stop) // 2
    low = max(0, middle - _AROUND)
    shown = slice(low, min(len(labels), middle + _AROUND))
    spread = np.nanstd(data.train, axis=0)
    channel = int(np.argmax(np.nanstd(data.test[shown], axis=0) / np.where(spread > 0, spread, 1)))
    x = np.arange(shown.start, shown.stop, dtype=np.float64)
    signal = Band("signal", x, data.test[shown, channel], None, LINE, 1.0)
    panels = []
    for line, trials in experiment.lines:
        if line.stream.name != name:
            continue
        made = [
            _expected(runner, run, data, shown.stop)[shown, channel]
            for run in experiment.outcomes_of(trials, line.rules.f1)
            if runner.has_fit(run)
        ]
        if made:
            all_seeds = len(made) == len(experiment.seeds)
            called = line.name + ("" if all_seeds else f", seeds: {len(made)}")
            panels.append((called, [signal, _band(line, x, made)], x, labels[shown]))
    if not panels:
        return None
    return bands(panels, axis="sample", together=True), data.channels[channel]


def _expected(runner: Runner, run: TrialOutcome, data: Dataset, until: int) -> Floats:
    verdicts = runner.detector(run).run(data.test[:until])
    assert verdicts.expected is not None
    return verdicts.expected


def _band(line: Line, x: Floats, made: Sequence[Floats]) -> Band:
    spread = np.std(made, axis=0) if len(made) > 1 else None
    colour = colour_of(line.name)
    return Band(f"expected by {line.name}", x, np.mean(made, axis=0), spread, colour, 1.3)


_WINDOW, _LATENT, _DECAY, _LR, _QUANTILE = 12, 4, 0.9, 0.05, 0.999
_PERIOD = 100  # samples over which a score's median is taken: four periods of the wave


def _illustration(streams: Sequence[Dataset], seeds: Sequence[int]) -> "tuple[Figure, str]":
    """Run three variants over each stream; draw the first stream, and scores over all of them."""
    first = streams[0]
    change = first.shifts[0]
    around = slice(max(0, change - 6 * _PERIOD), min(len(first.test), change + 18 * _PERIOD))
    x = np.arange(around.start, around.stop, dtype=np.float64)
    after = first.test[change:][first.labels[change:] == 0, 0]
    nothing: Bools = np.zeros(len(x), dtype=np.bool_)
    top = [
        Band("signal", x, first.test[around, 0], None, LINE, 0.7),
        _level("train", x, first.train[:, 0], PALE),
        _level("test after the change", x[x >= change], after, colour_of("MLP + TTA")),
    ]
    scores, table = [], []
    for variant in VARIANTS:
        if variant.name == "TTA":
            continue
        name = "MLP" if variant.name == "frozen" else f"MLP + {variant.name}"
        runs, areas, alarms = [], [], []
        for data, seed in zip(streams, seeds, strict=True):
            detector = M2N2(
                window=_WINDOW,
                latent=_LATENT,
                decay=_DECAY,
                lr=_LR,
                threshold=_QUANTILE,
                detrend=variant.detrend,
                adapt=variant.adapt,
                seed=seed,
            ).fit(data.train)
            if variant.name == "DT+TTA" and data is first:
                top.append(Band("trend", x, _trend(detector, data)[around], None, INK, 1.2))
                detector.reset()
            verdicts = detector.run(data.test)
            runs.append(_medians(verdicts.scores)[around])
            late = slice(change, None)
            areas.append(auroc(data.labels[late], verdicts.scores[late]))
            counts = confusion(data.labels[late], verdicts.anomalous[late])
            alarms.append(counts.fp / (counts.fp + counts.tn))
        scores.append(Band(name, x, np.mean(runs, axis=0), np.std(runs, axis=0), colour_of(name)))
        table.append([name, _mean(areas), _mean(alarms)])
    figure = bands(
        [(first.name, top, x, nothing), ("score", scores, x, nothing)],
        axis="sample",
        changes=[float(change)],
    )
    return figure, pages.table(
        ("variant", "AUROC after the change", "false alarms after it"), table
    )


def _trend(detector: AnyDetector, data: Dataset) -> Floats:
    """Return the trend at each sample."""
    trend = np.empty(len(data.test))
    for start in range(0, len(trend), _WINDOW):
        detector.run(data.test[start : start + _WINDOW], flush=False)
        trend[start : start + _WINDOW] = detector.trend_[0]
    return trend


def _level(name: str, x: Floats, values: Floats, colour: str) -> Band:
    level = np.full(len(x), values.mean())
    return Band(f"{name}, mean ± deviation", x, level, np.full(len(x), values.std()), colour, 1.0)


def _medians(scores: Floats) -> Floats:
    """Return for each sample the median score of the stretch that contains it."""
    medians = np.empty_like(scores)
    for start in range(0, len(scores), _PERIOD):
        medians[start : start + _PERIOD] = np.median(scores[start : start + _PERIOD])
    return medians


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"


def _file(name: str) -> str:
    return name.lower().replace("/", "-")
