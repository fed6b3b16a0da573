"""newnormal: anomaly detection for live metrics that keeps learning what normal is.

The names below are the public ones; each is imported when first used, so that importing the
package costs next to nothing.
"""

from typing import TYPE_CHECKING

from newnormal import hooks
from newnormal.lazy import lazy_names

if TYPE_CHECKING:
    from newnormal.checks import Check as Check
    from newnormal.checks import check as check
    from newnormal.detector import M2N2 as M2N2
    from newnormal.detector import Detector as Detector
    from newnormal.detector import load as load
    from newnormal.errors import DatasetError as DatasetError
    from newnormal.errors import FeedbackError as FeedbackError
    from newnormal.errors import InputError as InputError
    from newnormal.errors import MissingExtraError as MissingExtraError
    from newnormal.errors import NewnormalError as NewnormalError
    from newnormal.errors import NewnormalWarning as NewnormalWarning
    from newnormal.errors import NotFittedError as NotFittedError
    from newnormal.errors import ParameterError as ParameterError
    from newnormal.errors import StateError as StateError
    from newnormal.fleet import Fleet as Fleet
    from newnormal.plots.stream import plot as plot
    from newnormal.reports import report as report
    from newnormal.thresholds import Fixed as Fixed
    from newnormal.thresholds import MovingThreshold as MovingThreshold
    from newnormal.thresholds import Quantile as Quantile
    from newnormal.thresholds import Threshold as Threshold
    from newnormal.types import Alarm as Alarm
    from newnormal.types import Change as Change
    from newnormal.types import Event as Event
    from newnormal.types import Evidence as Evidence
    from newnormal.types import Incident as Incident
    from newnormal.types import Verdict as Verdict
    from newnormal.types import Verdicts as Verdicts

__version__ = "0.1.0"

hooks.show_with(
    plot="newnormal.plots.stream:plot",
    html="newnormal.reports:html",
    one_stream="newnormal.fleet.fleet:load_one_stream",
    open_fleet="newnormal.engine.open_fleet:open_fleet",
)

__getattr__, __dir__ = lazy_names(__name__, "__version__")
