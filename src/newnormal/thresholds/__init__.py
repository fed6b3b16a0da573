"""Rules that turn history's scores into the threshold τ, one file each."""

from newnormal.thresholds.base import MovingThreshold as MovingThreshold
from newnormal.thresholds.base import Threshold as Threshold
from newnormal.thresholds.base import start_of as start_of
from newnormal.thresholds.budget import Budget as Budget
from newnormal.thresholds.budget import check_target as check_target
from newnormal.thresholds.fixed import Fixed as Fixed
from newnormal.thresholds.quantile import Quantile as Quantile
from newnormal.thresholds.registry import as_threshold as as_threshold
from newnormal.thresholds.registry import for_file as for_file
from newnormal.thresholds.registry import from_json as from_json
from newnormal.thresholds.registry import to_json as to_json
