"""Constructor parameters as scikit-learn expects them, without scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, Self

from newnormal.errors import ParameterError

__all__ = ["Parameters"]


class Parameters:
    """Gives a class whose constructor stores each parameter under its name `get_params` and such.

    A subclass implements `_validated`, which raises if the parameters cannot work together.
    """

    def _validated(self) -> Any:
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
            self._validated()
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
