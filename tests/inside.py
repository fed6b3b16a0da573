"""What is inside a detector, for tests that compare it with a twin or change one thing of it."""

from dataclasses import replace
from typing import Any

from newnormal.base import BaseDetector
from newnormal.kernels.step import StepParams, StepState


def stream(detector: BaseDetector) -> StepState:
    """Return what the step kernel changes while the stream runs."""
    return detector._state.model.step


def params(detector: BaseDetector) -> StepParams:
    """Return what the step kernel was given by `fit`."""
    return detector._fitted.step


def set_params(detector: BaseDetector, *, threshold: float | None = None, **changes: Any) -> None:
    """Change parameters of the step kernel; `threshold` is both that of alarms and of learning."""
    if threshold is not None:
        changes |= {"alarm_threshold": threshold, "learn_threshold": threshold}
        detector._state.learn_threshold[0] = threshold
    step = detector._fitted.step._replace(**changes)
    detector._fitted = replace(detector._fitted, step=step)
