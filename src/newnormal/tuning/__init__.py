"""How a detector that nobody tuned tunes itself, from its history alone.

`choose` is the whole of it: rehearse on held-out history (`rehearsal`), decide who sits in the
committee and how it works (`choice`), and train it on all of history.
"""

from __future__ import annotations

from newnormal.tuning.choice import LATENT, WINDOW, Choice, choose

__all__ = ["LATENT", "WINDOW", "Choice", "choose"]
