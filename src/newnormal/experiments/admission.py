"""Models from outside: a class by import path takes part like any other."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from newnormal.errors import ParameterError
from newnormal.models import MODELS, find
from newnormal.models.base import Model

__all__ = ["admit"]


def admit(model: str) -> type[Model]:
    """Return a model's class: by newnormal's name for it, or by ``"package.module:Class"``.

    Modules in the working folder are found too. From then on a `Detector` of this process takes
    the import path as its `model`.
    """
    if ":" not in model or model.startswith("pyod:"):
        return find(model)
    module, _, name = model.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found: type[Model] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ParameterError(
            f"model: expected a class by import path, found {model!r}: {error}",
            hint='write it as "package.module:Class"; the module must be importable from here',
        ) from error
    MODELS[model] = model
    return found
