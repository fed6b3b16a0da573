"""Rules that turn history's scores into the threshold τ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from newnormal.errors import ParameterError, StateError
from newnormal.thresholds.budget import Budget, check_target
from newnormal.types import Floats

__all__ = [
    "Budget",
    "Fixed",
    "Quantile",
    "Threshold",
    "as_threshold",
    "check_target",
    "from_json",
    "to_json",
]


@runtime_checkable
class Threshold(Protocol):
    """Anything with this `fit` can be a detector's `threshold`."""

    def fit(self, scores: Floats) -> float:
        """Return τ, given history's scores."""
        ...


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
        if not _is_number(self.q) or not 0 <= self.q <= 1:
            raise ParameterError(
                f"threshold: expected a quantile between 0 and 1, found {self.q!r}",
                hint="0.99 flags about one history sample in a hundred; "
                "for a score of your own use newnormal.Fixed(score)",
            )

    def fit(self, scores: Floats) -> float:
        """Return the quantile of `scores`."""
        return float(np.quantile(scores, self.q))


@dataclass(frozen=True)
class Fixed:
    """A threshold known beforehand; infinity never alarms and learns from everything.

    Examples
    --------
    >>> Fixed(4.0).fit(np.array([1.0, 2.0]))
    4.0
    """

    value: float
    kind: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        if not _is_number(self.value) or math.isnan(self.value):
            raise ParameterError(
                f"threshold: expected a number, found {self.value!r}",
                hint="a score at or above this number is called anomalous",
            )

    def fit(self, scores: Floats) -> float:  # noqa: ARG002 - the protocol's signature
        """Return the value, whatever the scores."""
        return float(self.value)


def as_threshold(value: object) -> Threshold:
    """Return the rule meant by the detector's `threshold`: a number is a quantile."""
    if _is_number(value):
        return Quantile(value)  # type: ignore[arg-type]
    if isinstance(value, Threshold) and not isinstance(value, type):
        return value
    raise ParameterError(
        f"threshold: expected a quantile between 0 and 1 or a Threshold object, found {value!r}",
        hint="for example threshold=0.99, or threshold=newnormal.Fixed(4.0)",
    )


def to_json(rule: Threshold) -> dict[str, Any]:
    """Return a rule as values JSON knows; only this package's own rules have such a form."""
    if isinstance(rule, Quantile):
        return {"kind": rule.kind, "q": float(rule.q)}
    if isinstance(rule, Fixed):
        return {"kind": rule.kind, "value": repr(float(rule.value))}
    raise StateError(
        f"a threshold of type {type(rule).__name__} cannot be saved: a state file holds no code",
        hint="fit with threshold=newnormal.Fixed(detector.threshold_) to save its present value",
    )


def from_json(rule: Mapping[str, Any]) -> Quantile | Fixed:
    """Return what `to_json` was made from."""
    if rule.get("kind") == Quantile.kind:
        return Quantile(float(rule["q"]))
    if rule.get("kind") == Fixed.kind:
        return Fixed(float(rule["value"]))
    raise StateError(f"expected a threshold of kind quantile or fixed, found {rule.get('kind')!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
