"""Pictures of verdicts. Needs the extra ``plot``; nothing of Matplotlib is loaded before use."""

from newnormal.plots.canvas import check_target, save
from newnormal.plots.demo import demo_figure
from newnormal.plots.plotting import plot
from newnormal.plots.stack import Judged

__all__ = ["Judged", "check_target", "demo_figure", "plot", "save"]
