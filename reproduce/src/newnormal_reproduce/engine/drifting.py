"""Generated streams whose normal changes at known samples, for the benchmark of drift.

Three kinds, a few seeds each: a plant that is retuned twice, a wave whose level moves, and a wave
that grows. None of the changes is an anomaly; the anomalies before and after them are labelled.
There are also the same streams without a change, but with a sensor that fails and stays failed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from newnormal.datasets import Dataset, neurips_ts_uni, plant
from newnormal_reproduce.engine.arrays import Floats

_SEEDS = (1, 2, 3)
SAMPLES_PER_DAY = 1440  # the streams have no times: one sample a minute
ONSET = SAMPLES_PER_DAY  # the normal sample of the live part at which a sensor fails


@dataclass(frozen=True)
class DriftKind:
    """One kind of stream."""

    name: str  # of a stream, before its seed
    changes: tuple[str, ...]  # what changes at each of the data's `shifts`
    make: Callable[[int], Dataset]  # from a seed
    # The same history, and a live part that changes late or never, for faults; None if another
    # kind has the same.
    calm: Callable[[int], Dataset] | None = None


def grown(seed: int, *, factor: float = 1.6) -> Dataset:
    """Return a wave that swings `factor` times as far from half-way through the live part on.

    Outliers grow with it.

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
    DriftKind("drift/plant", ("level", "dynamics"), plant, partial(plant, level_shift=0.0)),
    DriftKind("drift/wave-level", ("level",), neurips_ts_uni, partial(neurips_ts_uni, shift=0.0)),
    DriftKind("drift/wave-scale", ("scale",), grown),
)

# The streams by name, such as "drift/plant-1".
DRIFTING: dict[str, Callable[[], Dataset]] = {
    f"{kind.name}-{seed}": partial(kind.make, seed) for kind in KINDS for seed in _SEEDS
}


def kind_of(stream: str) -> DriftKind | None:
    """Return the kind of a stream, or None if it is not generated here.

    >>> kind_of("drift/plant-1").changes, kind_of("SMD/1-4")
    (('level', 'dynamics'), None)
    """
    name = stream.rpartition("-")[0]
    return next((kind for kind in KINDS if kind.name == name), None)


def normal_part(data: Dataset) -> tuple[Floats, tuple[int, ...]]:
    """Return the live part without labelled samples, and the places of its shifts in that.

    >>> samples, shifts = normal_part(plant(1))
    >>> len(samples), shifts
    (19187, (3862, 10583))
    """
    normal = data.labels == 0
    return data.test[normal], tuple(int(normal[:shift].sum()) for shift in data.shifts)


class Faulty(NamedTuple):
    """A live part in which one sensor has failed, from the sample `ONSET` on."""

    fault: str
    channel: int
    samples: Floats


# From a sensor's readings, its mean and standard deviation in history, and a random generator, to
# its readings after the failure. The first of the given readings is the last good one.
_Fault = Callable[[Floats, float, float, np.random.Generator], Floats]
FAULTS: dict[str, _Fault] = {
    "stuck": lambda readings, _mean, _std, _rng: np.full(len(readings) - 1, readings[0]),
    "dropped": lambda readings, mean, std, _rng: np.full(len(readings) - 1, mean - 6 * std),
    "offset": lambda readings, _mean, std, _rng: np.asarray(readings[1:] + 5 * std),
    "noise": lambda readings, mean, std, rng: rng.normal(mean, 5 * std, len(readings) - 1),
}


def faulty(stream: str, length: int) -> Iterator[Faulty]:
    """Yield a stream's live part with each fault in each channel, `length` samples of fault each.

    Labelled samples and the stream's changes are left out. Nothing is yielded for a stream that
    differs from another in its change alone.

    >>> [(case.fault, case.channel) for case in faulty("drift/wave-level-1", 100)]
    [('stuck', 0), ('dropped', 0), ('offset', 0), ('noise', 0)]
    """
    kind = kind_of(stream)
    if kind is None or kind.calm is None:
        return
    seed = int(stream.rpartition("-")[2])
    data = kind.calm(seed)
    samples = normal_part(data)[0][: ONSET + length]
    means, stds = data.train.mean(axis=0), data.train.std(axis=0)
    for fault, fail in FAULTS.items():
        for channel in range(samples.shape[1]):
            failed = samples.copy()
            readings = samples[ONSET - 1 :, channel]
            rng = np.random.default_rng([seed, channel])
            failed[ONSET:, channel] = fail(readings, means[channel], stds[channel], rng)
            yield Faulty(fault, channel, failed)
