"""How far test lies from train: fig:main_kld, fig:Main_Figure (a) and fig:A_vis.

One number a data set, the closed-form divergence of two Gaussians, beside the authors'; and
pictures of both parts in a plane (t-SNE), or as histograms if there is one channel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from newnormal.datasets import Dataset
from newnormal.errors import DatasetError
from newnormal_reproduce.engine.arrays import Floats
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.plan import command
from newnormal_reproduce.engine.published import SEEDS, printed_values, settings
from newnormal_reproduce.engine.streams import (
    SYNTHETIC,
    DataStreams,
    Roots,
    forget_data,
    load_stream,
    where_to_get,
)
from newnormal_reproduce.engine.sweep import Progress
from newnormal_reproduce.report import pages
from newnormal_reproduce.report.charts import Cloud, ComparedBar, bars, clouds
from newnormal_reproduce.report.figures import INK, SMALL, blank, figure_link, label_of, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_COMPONENTS, _EXPLAINED = 30, 0.99
_DRAWN = {"train": 500, "test, normal": 500, "test, anomalous": 200}


_TEXT = pages.texts("shift")


_MOTION = "Train, normal test samples and test anomalies of each data set (fig:A_vis), by t-SNE."
_SINGLE = "Univariate data sets: histograms of train, normal test samples and anomalies."


@dataclass(frozen=True)
class Shift:
    """The distance of one data set's test part from its train part."""

    dataset: str
    channels: int
    components: int | None  # principal components kept; None if there is one channel
    explained: float | None  # the share of variance they explain
    divergence: float  # KL(test ‖ train) in nats; infinite if train is constant along a component


def gaussian_divergence(of: Floats, given: Floats) -> float:
    """Return KL(N_of ‖ N_given) of the Gaussians with the samples' moments, in nats.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 2))
    >>> gaussian_divergence(x, x), round(gaussian_divergence(x + [1, 0], x), 1)
    (0.0, 0.5)

    Notes
    -----
    ½ (tr(Σ₁⁻¹Σ₀) + (μ₁ - μ₀)ᵀΣ₁⁻¹(μ₁ - μ₀) - k + ln(|Σ₁| / |Σ₀|)), with 0 for `of` and 1 for
    `given`.
    """
    spread, base = (np.atleast_2d(np.cov(part, rowvar=False)) for part in (of, given))
    apart = given.mean(axis=0) - of.mean(axis=0)
    sign, log_base = np.linalg.slogdet(base)
    if sign <= 0:
        return math.inf
    try:
        whitened = np.linalg.solve(base, np.column_stack([spread, apart]))
    except np.linalg.LinAlgError:
        return math.inf
    traces = np.trace(whitened[:, :-1]) + apart @ whitened[:, -1] - len(apart)
    return max(0.0, float(traces + log_base - np.linalg.slogdet(spread)[1]) / 2)


def measure(data: Dataset) -> Shift:
    """Measure one data set as the authors do, without samples that have missing values.

    >>> from newnormal.datasets import neurips_ts_uni
    >>> measure(neurips_ts_uni()).components is None
    True
    """
    train, test = (_complete(part) for part in (data.train, data.test[data.labels == 0]))
    channels = train.shape[1]
    if channels == 1:
        return Shift(data.name, 1, None, None, gaussian_divergence(test, train))
    variances, axes = _principal_components(np.concatenate([train, test]))
    shares = np.cumsum(variances) / variances.sum()
    most = min(_COMPONENTS, channels)
    count = min(int(np.searchsorted(shares, _EXPLAINED, side="right")) + 1, most)
    kept = axes[:, :count]
    divergence = gaussian_divergence(test @ kept, train @ kept)
    return Shift(data.name, channels, count, float(shares[count - 1]), divergence)


def plane(data: Dataset, seed: int = 0) -> Cloud:
    """Return some samples of the data set's parts in a plane."""
    rng = np.random.default_rng(seed)
    parts = [data.train, data.test[data.labels == 0], data.test[data.labels == 1]]
    drawn = {
        name: _some(_complete(part), most, rng)
        for (name, most), part in zip(_DRAWN.items(), parts, strict=True)
    }
    if data.train.shape[1] == 1:
        return Cloud(data.name, {name: part[:, 0] for name, part in drawn.items()})
    placed = t_sne(np.concatenate([*drawn.values()]), seed)
    ends = np.cumsum([len(part) for part in drawn.values()])[:-1]
    return Cloud(data.name, dict(zip(drawn, np.split(placed, ends), strict=True)))


@dataclass(frozen=True, eq=False)
class Shifts:
    """The measured shift, or why it is missing, by the stream's name; and the parts in a plane."""

    measured: dict[str, Shift | str]
    planes: list[Cloud]
    command: str

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write ``shift.md``, ``shift.csv`` and the pictures, and return their paths."""
        folder, measured = Path(folder), self.measured
        text = [_TEXT["introduction"].format(command=self.command)]
        pictures: list[Path] = []

        def show(figure: Figure, name: str, caption: str) -> None:
            pictures.extend(save_figure(figure, folder, name))
            text.append(figure_link(name, caption) + "\n")

        nine = [setting.name for setting in settings()]
        of_paper = {name: result for name, result in measured.items() if name in nine}
        others = {name: result for name, result in measured.items() if name not in nine}
        if any(isinstance(result, Shift) for result in measured.values()):
            show(_chart(measured), "shift-kl", _TEXT["bars"])
        if of_paper:
            text.append(pages.table(_HEADER, [_line(*item) for item in of_paper.items()]))
        if others:
            lines = [_line(*item)[:-2] for item in others.items()]
            text += [_TEXT["others"], pages.table(_HEADER[:-2], lines)]
        flat = [cloud for cloud in self.planes if next(iter(cloud.groups.values())).ndim == 2]
        single = [
            cloud._replace(title=label_of(cloud.title))
            for cloud in self.planes
            if cloud not in flat
        ]
        if self.planes:
            text.append(_TEXT["planes"])
        if flat:
            show(clouds(flat), "shift-planes", _MOTION)
        if single:
            show(clouds(single), "shift-histograms", _SINGLE)
        if missing := {name: why for name, why in measured.items() if isinstance(why, str)}:
            text += ["## Not run\n", pages.table(("data set", "why"), missing.items())]
        texts = {"shift.md": "\n".join(text), "shift.csv": _csv(measured)}
        return (*write_texts(folder, texts), *pictures)


def shift(
    roots: Roots | DataStreams,
    *,
    datasets: Sequence[str] | None = None,
    seed: int = SEEDS[0],
    progress: Progress | None = None,
) -> Shifts:
    """Measure the shift of every data set that is found; the seed is that of t-SNE.

    Of the names None: the paper's nine, NAB's realKnownCause, and the synthetic streams.
    """
    streams = roots if isinstance(roots, DataStreams) else DataStreams(roots)
    nine = [setting.name for setting in settings()]
    extra = [name for name in streams.places if name.startswith("NAB/realKnownCause/")]
    wanted = streams.chosen(datasets, [*nine, *extra, *SYNTHETIC])
    measured: dict[str, Shift | str] = {}
    planes = []
    for done, name in enumerate(wanted, start=1):
        if not streams.has(name):
            measured[name] = where_to_get(name)
            continue
        try:
            data = replace(load_stream(name, streams.places.get(name, Path())), name=name)
            measured[name] = measure(data)
            planes.append(plane(data, seed))
        except DatasetError as error:
            measured[name] = f"failed: {error}"
        if progress is not None:
            progress(done, len(wanted), name)
    forget_data()
    return Shifts(measured, planes, command("shift", datasets=datasets))


def authors_divergence(dataset: str) -> float | None:
    """Return the authors' divergence of one of their nine data sets, or None.

    >>> authors_divergence("SMAP/T-3"), authors_divergence("mine")
    (2.927, None)
    """
    values = printed_values("shift", "dataset", dataset)
    return None if values is None else values["divergence"]


_HEADER = ("data set", "channels", "components", "explained", "KL", "authors", "difference")


def _line(name: str, result: Shift | str) -> list[str]:
    theirs = authors_divergence(name)
    printed = "-" if theirs is None else f"{theirs:.5g}"
    if isinstance(result, str):
        return [name, "", "", "", "not run", printed, ""]
    kept = ["-", "-"]
    if result.components is not None and result.explained is not None:
        kept = [str(result.components), f"{result.explained:.4f}"]
    away = "" if theirs is None else f"{(result.divergence / theirs - 1):+.2%}"
    return [name, str(result.channels), *kept, f"{result.divergence:.5g}", printed, away]


def _chart(measured: dict[str, Shift | str]) -> Figure:
    rows = []
    for name, result in measured.items():
        theirs = authors_divergence(name)
        value = result.divergence if isinstance(result, Shift) else math.nan
        if theirs is None and math.isnan(value):
            continue
        text = f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
        rows.append(
            ComparedBar(
                _short(name),
                value,
                math.nan if theirs is None else theirs,
                "no data here" if math.isnan(value) else text,
            )
        )
    return bars(rows, axis="KL(test ‖ train)", ours="ours", beside="the authors'")


def _csv(measured: dict[str, Shift | str]) -> str:
    numbers = ["channels", "components", "explained", "divergence"]
    rows = []
    for name, result in measured.items():
        theirs = authors_divergence(name)
        row = {"dataset": name, "authors": None if theirs is None else str(theirs)}
        if isinstance(result, str):
            rows.append({**row, "status": "absent", "note": result})
        else:
            rows.append({**asdict(result), **row, "status": "ok"})
    return csv_text(["status", "dataset", *numbers, "authors", "note"], rows)


def _principal_components(samples: Floats) -> tuple[Floats, Floats]:
    """Return variances, largest first, and axes as columns."""
    variances, axes = np.linalg.eigh(np.cov(samples, rowvar=False))
    return np.maximum(variances[::-1], 0), axes[:, ::-1]


def _complete(samples: Floats) -> Floats:
    return samples[~np.isnan(samples).any(axis=1)]


def _some(samples: Floats, most: int, rng: np.random.Generator) -> Floats:
    if len(samples) <= most:
        return samples
    return samples[np.sort(rng.choice(len(samples), most, replace=False))]


def _short(name: str) -> str:
    """Return a name short enough to stand beside a bar."""
    return name.replace("realKnownCause/", "").removeprefix("synthetic/")


_MOST = 300  # samples of a group: the time of t-SNE grows with their square


def t_sne(samples: Floats, seed: int) -> Floats:
    """Return samples (T, C) as points (T, 2) by t-SNE, each channel scaled to unit variance.

    The time grows with the square of the samples.

    >>> t_sne(np.random.default_rng(0).normal(size=(20, 5)), seed=0).shape
    (20, 2)
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    spread = samples.std(axis=0)
    scaled = (samples - samples.mean(axis=0)) / np.where(spread > 0, spread, 1)
    perplexity = max(1, min(30, (len(samples) - 1) // 3))
    model = TSNE(perplexity=perplexity, random_state=seed, init="pca", max_iter=500)
    with threadpool_limits(1):  # on a busy machine several threads take ten times as long
        return np.asarray(model.fit_transform(scaled), dtype=np.float64)


def years_apart(groups: Mapping[str, Floats], seed: int = 0) -> Figure:
    """Draw groups of samples (T, C), in the order of time, by t-SNE; later groups are darker."""
    rng = np.random.default_rng(seed)
    some = {
        name: rows[np.sort(rng.permutation(len(rows))[:_MOST])] for name, rows in groups.items()
    }
    points = t_sne(np.concatenate(list(some.values())), seed)

    from matplotlib import colormaps

    figure = blank(6.2, 4.6)
    axes = figure.add_axes((0.03, 0.03, 0.72, 0.94))
    shades = colormaps["viridis_r"](np.linspace(0.08, 1.0, len(some)))
    start = 0
    for shade, (name, rows) in zip(shades, some.items(), strict=True):
        group = points[start : start + len(rows)]
        start += len(rows)
        axes.scatter(group[:, 0], group[:, 1], s=7, color=shade, label=name, linewidths=0)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.legend(
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        markerscale=2.5,
    )
    return figure
