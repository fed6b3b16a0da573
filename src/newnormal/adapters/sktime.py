"""`Detector` as a detector of sktime."""

from typing import Any, ClassVar

import numpy as np

from newnormal.adapters.parameters import DetectorParameters
from newnormal.errors import extra

with extra("sktime", "sktime"):
    import pandas as pd  # type: ignore[import-untyped]
    from sktime.detection.base import BaseDetector as SktimeBase


class SktimeDetector(DetectorParameters, SktimeBase):
    """`Detector` with sktime's interface: `fit` takes mostly normal history.

    `predict` returns the positions of anomalous samples (`ilocs`), `transform` 0 or 1 a sample,
    `transform_scores` the scores; a sample without any value has the score NaN. They judge a series
    as the stream that follows, and learn on a copy. `update` continues the stream and keeps what is
    learned; `update_predict` returns the anomalous samples, too, each judged before it is learned.

    Parameters
    ----------
    alarms_per_day, risk, threshold, accept_after, epochs, batch, period, seed
        As for `Detector`. The fitted one is `detector_`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from newnormal.adapters.sktime import SktimeDetector
    >>> rng = np.random.default_rng(0)
    >>> history = np.sin(np.arange(600) / 9)[:, None] + rng.normal(0, 0.1, (600, 2))
    >>> live = history[:205].copy()
    >>> live[200] += 3
    >>> SktimeDetector(epochs=2).fit(pd.DataFrame(history)).predict(live).ilocs.tolist()
    [200]
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "The newnormal contributors",
        "maintainers": "The newnormal contributors",
        "task": "anomaly_detection",
        "learning_type": "unsupervised",
        "capability:missing_values": True,
        "capability:multivariate": True,
        "capability:update": True,
    }

    def update_predict(self, X: Any, y: object = None) -> Any:
        """Continue the stream, learn, and return its anomalous samples."""
        del y
        self.check_is_fitted()
        return _points(self.detector_.run(_with_times(self._check_X(X))).anomalous)

    def _fit(self, X: Any) -> None:
        self.detector_ = self.unfitted_detector().fit(_with_times(X))

    def _predict(self, X: Any) -> Any:
        return _points(self.detector_.predict(_with_times(X)))

    def _transform_scores(self, X: Any) -> Any:
        scores = self.detector_.decision_function(_with_times(X))
        return pd.DataFrame({"scores": scores}, index=X.index)

    def _predict_scores(self, X: Any) -> Any:
        return self._transform_scores(X).iloc[self._predict(X).ilocs].reset_index(drop=True)

    def _update(self, X: Any) -> None:
        self.detector_.run(_with_times(X))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's checks, which have a sample a day."""
        del parameter_set
        return [{"epochs": 1, "risk": 0.01}, {"epochs": 2, "threshold": 0.99, "seed": 1}]


def _with_times(X: Any) -> Any:
    return X.to_timestamp() if isinstance(X.index, pd.PeriodIndex) else X


def _points(anomalous: Any) -> Any:
    return pd.DataFrame({"ilocs": np.flatnonzero(anomalous)})
