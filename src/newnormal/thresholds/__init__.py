"""Rules that turn history's scores into the threshold τ, one file each."""

from newnormal.thresholds.base import MovingThreshold, Threshold, start_of
from newnormal.thresholds.budget import Budget, check_target
from newnormal.thresholds.fixed import Fixed
from newnormal.thresholds.quantile import Quantile
from newnormal.thresholds.registry import as_threshold, for_file, from_json, to_json

__all__ = [
    "Budget",
    "Fixed",
    "MovingThreshold",
    "Quantile",
    "Threshold",
    "as_threshold",
    "check_target",
    "for_file",
    "from_json",
    "start_of",
    "to_json",
]
