"""Look at data before it is fitted: what there is, what is suspicious, what `fit` would do."""

from newnormal.checks.checking import (
    Check,
    StreamsSummary,
    check,
    check_streams,
    check_table,
    summary_of,
)
from newnormal.checks.facts import ChannelFacts, Gap, InputFacts, Sampling
from newnormal.checks.findings import LEVELS, Finding
from newnormal.checks.plan import FitPlan, Need

__all__ = [
    "LEVELS",
    "ChannelFacts",
    "Check",
    "Finding",
    "FitPlan",
    "Gap",
    "InputFacts",
    "Need",
    "Sampling",
    "StreamsSummary",
    "check",
    "check_streams",
    "check_table",
    "summary_of",
]
