"""A quantile of history's scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from newnormal.errors import ParameterError
from newnormal.thresholds.base import is_number
from newnormal.types import Floats


@dataclass(frozen=True)
class Quantile:
    """The `q`-quantile of history's scores, with linear interpolation.

    Examples
    --------
    >>> Quantile(0.5).fit(np.array([1.0, 2.0, 4.0, 8.0]))
    3.0
    """

    q: float
    kind: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        if not is_number(self.q) or not 0 <= self.q <= 1:
            raise ParameterError(
                f"threshold: expected a quantile between 0 and 1, found {self.q!r}",
                hint="0.99 flags about one history sample in a hundred; "
                "for a score of your own use newnormal.Fixed(score)",
            )

    def fit(self, scores: Floats) -> float:
        """Return the quantile of `scores`."""
        return float(np.quantile(scores, self.q))
