"""newnormal: anomaly detection for live metrics that keeps learning what normal is.

The names below are the public ones; each is imported when first used, so that importing the
package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from newnormal import hooks

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
    from newnormal.plots import plot
    from newnormal.reports import report
    from newnormal.thresholds import Fixed, MovingThreshold, Quantile, Threshold
    from newnormal.types import Alarm, Change, Event, Evidence, Incident, Verdict, Verdicts

__version__ = "0.1.0"

hooks.show_with(plot="newnormal.plots:plot", html="newnormal.reports:html")

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

_MODULES = {
    "Alarm": "newnormal.types",
    "Change": "newnormal.types",
    "Check": "newnormal.checks",
    "check": "newnormal.checks",
    "Event": "newnormal.types",
    "Evidence": "newnormal.types",
    "Detector": "newnormal.detector",
    "M2N2": "newnormal.detector",
    "load": "newnormal.detector",
    "plot": "newnormal.plots",
    "Fixed": "newnormal.thresholds",
    "Fleet": "newnormal.fleet",
    "Incident": "newnormal.types",
    "MovingThreshold": "newnormal.thresholds",
    "Quantile": "newnormal.thresholds",
    "report": "newnormal.reports",
    "Threshold": "newnormal.thresholds",
    "Verdict": "newnormal.types",
    "Verdicts": "newnormal.types",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "newnormal.errors")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
