"""t-SNE: samples of many channels in a plane."""

from __future__ import annotations

import numpy as np

from newnormal_reproduce.engine.arrays import Floats


def t_sne(samples: Floats, seed: int) -> Floats:
    """Return samples (T, C) as points (T, 2) by t-SNE, each channel scaled to unit variance.

    The time grows with the square of the samples.

    Examples
    --------
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
