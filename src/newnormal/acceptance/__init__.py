"""What is accepted as normal: the range a stream may be in, and the policy that widens it."""

from newnormal.acceptance.policy import TimedAcceptance
from newnormal.acceptance.range import NormalRange

__all__ = ["NormalRange", "TimedAcceptance"]
