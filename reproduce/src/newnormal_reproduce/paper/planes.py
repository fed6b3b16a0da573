"""Samples of many channels in a plane, by t-SNE; fig:anoshift (a) has one colour a year."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from newnormal_reproduce.engine.arrays import Floats
from newnormal_reproduce.report.figures import INK, SMALL, blank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def years_apart(groups: Mapping[str, Floats], seed: int = 0) -> "Figure":
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
