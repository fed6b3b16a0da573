"""Learning that can be trusted: an accepted normal, what leads away from it, and the way back."""

from newnormal.trust.anchor import Anchor, Bearing
from newnormal.trust.keeper import Keeper, Normal, Running

__all__ = ["Anchor", "Bearing", "Keeper", "Normal", "Running"]
