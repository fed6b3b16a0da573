"""How `Detector` tunes itself, from its history alone."""

from newnormal.tuning.choice import Choice, Member
from newnormal.tuning.choose import LATENT, WINDOW, choose, early_samples
from newnormal.tuning.explain import explain

__all__ = ["LATENT", "WINDOW", "Choice", "Member", "choose", "early_samples", "explain"]
