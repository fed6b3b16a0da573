"""Generated streams whose normal changes at known samples, for the benchmark of drift.

Three kinds, a few seeds each: a plant that is retuned twice, a wave whose level moves, and a wave
that grows. None of the changes is an anomaly; the anomalies before and after them are labelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from newnormal.datasets import Dataset, neurips_ts_uni, plant

__all__ = ["DRIFTING", "KINDS", "Kind", "grown", "kind_of"]

_SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Kind:
    """One kind of stream.

    Attributes
    ----------
    name
        What comes before the seed in a stream's name.
    changes
        What changes at each of the data's `shifts`.
    make
        From a seed to the data.
    """

    name: str
    changes: tuple[str, ...]
    make: Callable[[int], Dataset]


def grown(seed: int, *, factor: float = 1.6) -> Dataset:
    """Return a wave that swings `factor` times as far from half-way through the live part on.

    Outliers grow with it.

    Examples
    --------
    >>> data = grown(1)
    >>> data.shifts, data.test[:5000].std() < data.test[5000:].std()
    ((5000,), np.True_)
    """
    data = neurips_ts_uni(seed, shift=0.0)
    since, middle = len(data.test) // 2, data.train.mean(axis=0)
    test = data.test.copy()
    test[since:] = middle + factor * (test[since:] - middle)
    return replace(data, test=test, shifts=(since,))


KINDS = (
    Kind("drift/plant", ("level", "dynamics"), plant),
    Kind("drift/wave-level", ("level",), neurips_ts_uni),
    Kind("drift/wave-scale", ("scale",), grown),
)

# The streams by name, such as "drift/plant-1".
DRIFTING: dict[str, Callable[[], Dataset]] = {
    f"{kind.name}-{seed}": partial(kind.make, seed) for kind in KINDS for seed in _SEEDS
}


def kind_of(stream: str) -> Kind | None:
    """Return which kind a stream is of, or None where it is not generated here.

    Examples
    --------
    >>> kind_of("drift/plant-1").changes, kind_of("SMD/1-4")
    (('level', 'dynamics'), None)
    """
    name = stream.rpartition("-")[0]
    return next((kind for kind in KINDS if kind.name == name), None)
