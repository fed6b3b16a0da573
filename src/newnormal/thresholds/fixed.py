"""A threshold known beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from newnormal.errors import ParameterError
from newnormal.thresholds.base import is_number
from newnormal.types import Floats


@dataclass(frozen=True)
class Fixed:
    """A threshold known beforehand; infinity never alarms and learns from everything.

    Examples
    --------
    >>> import numpy as np
    >>> Fixed(4.0).fit(np.array([1.0, 2.0]))
    4.0
    """

    value: float
    kind: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        if not is_number(self.value) or math.isnan(self.value):
            raise ParameterError(
                f"threshold: expected a number, found {self.value!r}",
                hint="a score at or above this number is called anomalous",
            )

    def fit(self, scores: Floats) -> float:  # noqa: ARG002 - the protocol's signature
        """Return the value, whatever the scores."""
        return float(self.value)
