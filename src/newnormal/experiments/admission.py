"""Models from outside, a class by import path; and the detector that is given no model at all."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from newnormal.errors import ParameterError
from newnormal.models import MODELS, find
from newnormal.models.base import Model
from newnormal.models.committee import Committee

__all__ = ["DEFAULT", "admit"]

DEFAULT = "default"  # stands for `Detector()`, which chooses for itself


def admit(model: str) -> type[Model]:
    """Return a model's class: by newnormal's name for it, or by ``"package.module:Class"``.

    `DEFAULT` is the committee that the detector makes where nothing is given.

    Modules in the working folder are found too. From then on a `Detector` of this process takes
    the import path as its `model`.
    """
    if model == DEFAULT:
        return Committee
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
