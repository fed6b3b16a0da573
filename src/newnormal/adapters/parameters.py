"""The parameters that both adapters have."""

from typing import Any, ClassVar

from newnormal.detector import Detector, Duration
from newnormal.thresholds import MovingThreshold, Threshold


class DetectorParameters:
    """Keeps the options of `Detector` as they are given; `Detector` checks them in `fit`."""

    base_arguments: ClassVar[dict[str, Any]] = {}  # of the library's own constructor

    def __init__(
        self,
        *,
        alarms_per_day: float | None = None,
        risk: float | None = None,
        threshold: float | str | Threshold | MovingThreshold | None = None,
        accept_after: Duration | None = None,
        epochs: int | None = None,
        batch: int | None = None,
        period: Duration | None = None,
        seed: int = 0,
    ) -> None:
        self.alarms_per_day = alarms_per_day
        self.risk = risk
        self.threshold = threshold
        self.accept_after = accept_after
        self.epochs = epochs
        self.batch = batch
        self.period = period
        self.seed = seed
        super().__init__(**self.base_arguments)

    def unfitted_detector(self) -> Detector:
        """Return a `Detector` with these options."""
        return Detector(**self.get_params(deep=False))  # type: ignore[attr-defined]
