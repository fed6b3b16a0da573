"""`Detector` as an anomaly detector of aeon."""

from typing import Any, ClassVar

from newnormal.adapters.parameters import DetectorParameters
from newnormal.errors import extra
from newnormal.types import Floats

with extra("aeon", "aeon"):
    from aeon.anomaly_detection.series.base import BaseSeriesAnomalyDetector


class AeonDetector(DetectorParameters, BaseSeriesAnomalyDetector):
    """`Detector` with aeon's interface: `fit` takes mostly normal history, `predict` gives scores.

    `predict` judges a series as the stream that follows history, and learns on a copy: the same
    call gives the same scores again. A sample without any value has the score NaN. `fit_predict`
    fits on the series that it judges, so its scores are not causal. An array is
    (channels, samples), as everywhere in aeon, unless ``axis=0``.

    Parameters
    ----------
    alarms_per_day, risk, threshold, accept_after, epochs, batch, period, seed
        As for `Detector`. The fitted one is `detector_`.

    Examples
    --------
    >>> import numpy as np
    >>> from newnormal.adapters.aeon import AeonDetector
    >>> rng = np.random.default_rng(0)
    >>> history = np.sin(np.arange(600) / 9) + rng.normal(0, 0.1, (2, 600))
    >>> live = history[:, :205].copy()
    >>> live[:, 200] += 3
    >>> scores = AeonDetector(epochs=2).fit(history).predict(live)
    >>> bool(scores[200] > scores[:200].max())
    True
    """

    base_arguments: ClassVar[dict[str, Any]] = {"axis": 0}
    _tags: ClassVar[dict[str, Any]] = {
        "X_inner_type": ["pd.DataFrame", "np.ndarray"],  # the first also for a Series: it has times
        "anomaly_output_type": "anomaly_scores",
        "capability:missing_values": True,
        "capability:multivariate": True,
        "fit_is_empty": False,
        "learning_type:semi_supervised": True,
        "learning_type:unsupervised": True,
    }

    def _fit(self, X: Any, y: object = None) -> None:
        self.detector_ = self.unfitted_detector().fit(X, y)

    def _predict(self, X: Any) -> Floats:
        return self.detector_.decision_function(X)
