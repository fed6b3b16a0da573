"""What scikit-learn expects of an estimator, without scikit-learn."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, Self

from newnormal.errors import NewnormalWarning, ParameterError
from newnormal.metrics import average_precision
from newnormal.metrics.inputs import labels_and_scores
from newnormal.types import Floats


def figure_of_merit(labels: Any, scores: Floats) -> float:
    """Return the average precision; 0 and a warning where no sample is anomalous, as scikit-learn.

    An error would be NaN in `cross_val_score`, and one fold would leave no best one to
    `GridSearchCV`.
    """
    truth, _ = labels_and_scores(labels, scores)
    if truth.any():
        return 1.0 if truth.all() else average_precision(truth, scores)
    warnings.warn(
        "y: expected labels of anomalous samples, found none: the average precision is set to 0\n"
        "hint: use folds in the order of time that each have some, such as "
        "cv=TimeSeriesSplit(n_splits=2), or pass a scoring",
        NewnormalWarning,
        stacklevel=2,
    )
    return 0.0


class Parameters:
    """Gives a class whose constructor stores each parameter under its name `get_params` and such.

    A subclass implements `_validate`, which raises if the parameters cannot work together.
    """

    _estimator_type = "outlier_detector"  # scikit-learn's word for it

    def _validate(self) -> Any:
        raise NotImplementedError

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = inspect.signature(cls.__init__).parameters.values()
        return {each.name: each.default for each in parameters if each.kind == each.KEYWORD_ONLY}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters as they were given."""
        del deep  # there are no estimators inside
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters; they take effect at the next `fit`."""
        before = self.get_params()
        unknown = sorted(set(params) - set(before))
        if unknown:
            raise ParameterError(
                f"unknown parameter {', '.join(map(repr, unknown))}",
                hint=f"the parameters are {', '.join(before)}",
            )
        vars(self).update(params)
        try:
            self._validate()
        except ParameterError:
            vars(self).update(before)
            raise
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name] and value != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type="outlier_detector",
            target_tags=TargetTags(required=False),
            input_tags=InputTags(allow_nan=True),
        )
