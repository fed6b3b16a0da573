"""newnormal: anomaly detection for live metrics that keeps learning what normal is.

The names below are the public ones; each is imported when first used, so that importing the
package costs next to nothing.
"""

from typing import TYPE_CHECKING

from newnormal import hooks
from newnormal.lazy import lazy_names

if TYPE_CHECKING:
    from newnormal.checks import Check, check
    from newnormal.detector import M2N2, Detector, load
    from newnormal.errors import (
        DatasetError,
        FeedbackError,
        InputError,
        MissingExtraError,
        NewnormalError,
        NewnormalWarning,
        NotFittedError,
        ParameterError,
        StateError,
    )
    from newnormal.fleet import Fleet
    from newnormal.plots.stream import plot
    from newnormal.reports import report
    from newnormal.thresholds import Fixed, MovingThreshold, Quantile, Threshold
    from newnormal.types import Alarm, Change, Event, Evidence, Incident, Verdict, Verdicts

__version__ = "0.1.0"

hooks.show_with(
    plot="newnormal.plots.stream:plot",
    html="newnormal.reports:html",
    one_stream="newnormal.fleet.fleet:load_one_stream",
    open_fleet="newnormal.engine.open_fleet:open_fleet",
)

__all__ = [
    "M2N2",
    "Alarm",
    "Change",
    "Check",
    "DatasetError",
    "Detector",
    "Event",
    "Evidence",
    "FeedbackError",
    "Fixed",
    "Fleet",
    "Incident",
    "InputError",
    "MissingExtraError",
    "MovingThreshold",
    "NewnormalError",
    "NewnormalWarning",
    "NotFittedError",
    "ParameterError",
    "Quantile",
    "StateError",
    "Threshold",
    "Verdict",
    "Verdicts",
    "__version__",
    "check",
    "load",
    "plot",
    "report",
]

__getattr__, __dir__ = lazy_names(__name__, __all__)
