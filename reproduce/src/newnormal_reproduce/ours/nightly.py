"""A nightly job: an extreme that is normal at its hour."""

from typing import Literal

import numpy as np

from newnormal.datasets import Dataset
from newnormal.errors import ParameterError

_PERIOD = np.timedelta64(5, "m")
DAY = 288  # samples
_DAYS = 30  # of history, and as many live
JOB_BEGIN, JOB_END = 42, 46  # samples since midnight: 03:30 to 03:50
_NOON_DAY = 15  # the live day on which the job runs at noon
_SIZE = (50.0, 20.0)

# Level, amplitude of the daily swing and noise of both channels.
_LEVEL, _SWING, _NOISE = (100.0, 60.0), (10.0, 5.0), (2.0, 1.0)


def nightly_job(
    seed: int = 0, variant: Literal["usual", "noon", "new"] = "usual", *, days: int = _DAYS
) -> Dataset:
    """Return two channels with a daily swing, and a job that adds 50 and 20 to them each night.

    A sample every 5 minutes; the job runs from 03:30 to 03:50.

    `seed`: same seed, same data. The variants of a seed differ in the job alone.
    `variant`: ``"usual"``: the job runs every night of history and of the live part; no sample is
    labelled. ``"noon"``: on live day 15 it runs at noon as well, and those samples are labelled.
    ``"new"``: it is not in history; `Dataset.shifts` has the first night of it.
    `days`: days of history, and of the live part.

    >>> data = nightly_job(variant="noon")
    >>> data
    Dataset('nightly/noon', 2 channels, 8640 train and 8640 test samples, 4 anomalous)
    >>> print(data.test_times[data.labels == 1][0])
    2024-02-14T12:00
    """
    if variant not in ("usual", "noon", "new"):
        raise ParameterError(f"variant: expected usual, noon or new, found {variant!r}")
    if days < 1 or (variant == "noon" and days < _NOON_DAY):
        least = _NOON_DAY if variant == "noon" else 1
        raise ParameterError(f"days: expected at least {least}, found {days}")
    rng = np.random.default_rng(seed)
    count, live = 2 * days * DAY, days * DAY
    sample = np.arange(count)
    phase = rng.uniform(0, 1, 2)
    swing = np.array(_SWING) * np.sin(2 * np.pi * (sample[:, None] / DAY + phase))
    values = np.array(_LEVEL) + swing + np.array(_NOISE) * rng.standard_normal((count, 2))
    job = (sample % DAY >= JOB_BEGIN) & (sample % DAY < JOB_END)
    if variant == "new":
        job[:live] = False
    labels = np.zeros(live, dtype=np.int64)
    if variant == "noon":
        noon = (_NOON_DAY - 1) * DAY + DAY // 2
        labels[noon : noon + JOB_END - JOB_BEGIN] = 1
        job[live:] |= labels == 1
    values[job] += _SIZE
    times = np.datetime64("2024-01-01T00:00", "m") + sample * _PERIOD
    return Dataset(
        name=f"nightly/{variant}",
        train=values[:live],
        test=values[live:],
        labels=labels,
        channels=("requests", "cpu"),
        period=_PERIOD,
        train_times=times[:live],
        test_times=times[live:],
        shifts=(JOB_BEGIN,) if variant == "new" else (),
    )
