"""Fitting many streams in two processes beside fitting them in one."""

from __future__ import annotations

import time

from benchmarks.series import correlated
from newnormal import Detector
from newnormal.fleet.fitting import fit_streams
from newnormal.tabular import to_table

CASES = ((16, 3_000, 5), (8, 5_000, 38))  # streams, samples and channels of each


def fitting_ratio(
    streams: int, samples: int, channels: int, workers: int = 2
) -> tuple[float, float]:
    """Return the seconds by the wall clock that one process takes, and that `workers` take.

    What is compiled is loaded before the clock of one process starts; starting the others counts.
    """
    series = correlated(samples * streams, channels).reshape(streams, samples, channels)
    histories = {f"stream-{at}": to_table(values) for at, values in enumerate(series)}
    detectors = {name: Detector() for name in histories}
    first = next(iter(histories))
    detectors[first].fit(histories[first])
    seconds = []
    for count in (1, workers):
        began = time.perf_counter()
        fitted = dict(fit_streams(detectors, histories, workers=count))
        seconds.append(time.perf_counter() - began)
        assert not any(isinstance(each, Exception) for each in fitted.values())
    return seconds[0], seconds[1]
