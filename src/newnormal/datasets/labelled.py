"""A labelled file of one's own as a data set."""

from os import PathLike
from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, numbered
from newnormal.errors import DatasetError


def read_labelled(path: str | PathLike[str], *, label: str, history: int) -> Dataset:
    """Read a labelled file of your own: its first `history` samples become train, the others test.

    It may be in any form that `newnormal fit` reads. Column `label` has 1 where a sample is
    anomalous, else 0; labels of history are not used.
    """
    from newnormal.tabular import read  # it loads Numba

    table = read(path, label=label)
    samples, labels = len(table.values), np.asarray(table.labels, dtype=np.int64)
    if not 0 < history < samples:
        raise DatasetError(
            f"{path}: expected history of 1 to {samples - 1:,} of its {samples:,} samples, "
            f"found {history:,}",
            hint="the samples after it are judged",
        )
    if not labels[history:].any():
        raise DatasetError(
            f"{path}: expected samples after history with 1 in column {label!r}, found none",
            hint=f"{labels.sum():,} of all samples have 1; a shorter history leaves more after it",
        )
    parts = (slice(history), slice(history, None))
    train, test = (table.values[part] for part in parts)
    times = (None, None) if table.times is None else tuple(table.times[part] for part in parts)
    channels = table.channels or numbered(train.shape[1])
    return Dataset(Path(path).stem, train, test, labels[history:], channels, None, *times)
