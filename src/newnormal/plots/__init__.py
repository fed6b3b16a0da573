"""Pictures of verdicts. Needs the extra ``plot``; nothing of Matplotlib is loaded before use.

`newnormal.plot` draws the verdicts of one detector, `compare` those of several beside labels.
"""

from newnormal.plots.canvas import check_target, save
from newnormal.plots.stack import DetectorRun, compare

__all__ = ["DetectorRun", "check_target", "compare", "save"]
