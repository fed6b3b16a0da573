"""Arrays by the kind of number they hold, runs of flags, and the type of both detectors."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from newnormal import M2N2, Detector

Floats: TypeAlias = NDArray[np.float64]
Floats32: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Times: TypeAlias = NDArray[np.datetime64]
AnyDetector: TypeAlias = Detector | M2N2


def runs(flags: Bools) -> list[tuple[int, int]]:
    """Return the start of each run of set flags, and the sample after its last one.

    >>> runs(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
