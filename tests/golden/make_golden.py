"""Make the golden state file of a version: ``python tests/golden/make_golden.py``.

A file once made is never made again: it stands for the files users have. A new version of the
state gets a new pair of files beside the old ones, and the old ones must go on loading.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from newnormal import M2N2, state
from newnormal.types import Floats

FOLDER = Path(__file__).parent


def series(begin: int, end: int) -> Floats:
    """Return a stretch of a series made without a random generator, with a value missing."""
    t = np.arange(begin, end)[:, None]
    values: Floats = np.sin(t / 4 + np.array([0.0, 1.0])) + 0.1 * np.cos(t * np.array([1.3, 2.9]))
    values[t[:, 0] % 17 == 5, 1] = np.nan
    values *= np.array([3.0, 0.5])
    values += np.array([20.0, 1.0])
    return values


def times(begin: int, end: int) -> list[str]:
    first = np.datetime64("2026-01-01T00:00:00", "s")
    return [str(first + 30 * number) for number in range(begin, end)]


def frame(begin: int, end: int) -> object:
    import polars as pl

    values = series(begin, end)
    return pl.DataFrame({"time": times(begin, end), "flow": values[:, 0], "pressure": values[:, 1]})


def main() -> None:
    detector = M2N2(
        window=6,
        stride=3,
        fit_stride=2,
        latent=3,
        half_life="30m",
        lr=0.01,
        epochs=3,
        seed=7,
        accept_after="10m",
    )
    detector.fit(frame(0, 200))
    detector.run(frame(200, 252), flush=False)  # ends in the middle of a stride
    target = FOLDER / f"state_v{state.VERSION}.nn"
    if target.exists():
        raise SystemExit(f"{target} exists: a golden file is never made again")
    detector.save(target)
    threshold = detector.threshold_
    verdicts = detector.run(frame(252, 300))
    assert verdicts.late is not None
    record = {
        "threshold": threshold,
        "late": verdicts.late.scores.tolist(),
        "scores": verdicts.scores.tolist(),
        "anomalous": verdicts.anomalous.tolist(),
        "counters": detector.counters,
    }
    target.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
