"""How `Detector` tunes itself, from its history alone."""

from newnormal.tuning.choose import LATENT, WINDOW, Choice, choose
from newnormal.tuning.explain import explain

__all__ = ["LATENT", "WINDOW", "Choice", "choose", "explain"]
