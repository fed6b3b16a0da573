"""Models by name, import path or entry point; each is imported when first asked for.

A name is one of `BUILT_IN`, ``"pyod:NAME"`` for a PyOD detector, ``"package.module:Class"`` for a class
that can be imported, or the name of an entry point in the group ``newnormal.models``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from newnormal.errors import ParameterError, StateError

if TYPE_CHECKING:
    from newnormal.models.base import Model

__all__ = ["BUILT_IN", "GROUP", "find", "find_for_file", "path_of"]

GROUP = "newnormal.models"

BUILT_IN = {
    "mlp": "newnormal.models.mlp:MLP",
    "thoc": "newnormal.models.deep.thoc:THOC",
    "torch-mlp": "newnormal.models.deep.mlp:TorchMLP",
    "lstm": "newnormal.models.deep.lstm:LSTM",
    "lstm-diagonal": "newnormal.models.deep.lstm:DiagonalLSTM",
    "usad": "newnormal.models.deep.usad:USAD",
    "icl": "newnormal.models.deep.icl:ICL",
    "bert": "newnormal.models.deep.bert:BERT",
    "transformer": "newnormal.models.deep.transformer:AnomalyTransformer",
}


def find(name: object) -> type[Model]:
    """Return the model class that a name or import path means."""
    if isinstance(name, type):
        return _checked(name, name.__name__)
    if not isinstance(name, str):
        raise _unknown(name)
    if name.startswith("pyod:"):
        peer: type[Model] = import_module("newnormal.models.peers").adapter(name[5:])
        return peer
    if name in BUILT_IN:
        built_in: type[Model] = _imported(BUILT_IN[name])
        return built_in
    for entry in entry_points(group=GROUP, name=name):
        return _checked(entry.load(), name)
    if ":" in name:
        return _checked(_imported(name), name)
    raise _unknown(name)


def find_for_file(name: str, given: object = None) -> type[Model]:
    """Return the model class that a state file names: loading runs no code of the file's choosing.

    It is a built-in model, an installed entry point, or the class that the caller names by `given`.
    """
    if given is not None:
        return find(given)
    if name in BUILT_IN or entry_points(group=GROUP, name=name):
        return find(name)
    raise StateError(
        f"the model {name!r} is neither built in nor an installed entry point, and a state file does "
        "not choose what is imported",
        hint=f"newnormal.load(path, model={name!r}), or --model {name}, if you trust it",
    )


def path_of(model: object) -> str:
    """Return the name of a model that is given as a class, or the name itself."""
    if isinstance(model, type):
        return f"{model.__module__}:{model.__qualname__}"
    return str(model)


def _imported(path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        found = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        if path in BUILT_IN.values():
            raise
        raise ParameterError(
            f"model: expected a class by import path, found {path!r}: {error}",
            hint='write it as "package.module:Class"; the module must be importable from here',
        ) from error
    return found


def _checked(found: Any, name: str) -> type[Model]:
    from newnormal.models.base import Model

    if not isinstance(found, type) or not issubclass(found, Model):
        raise ParameterError(
            f"model: expected a subclass of newnormal.models.base.Model, found {name!r}, "
            f"which is {found!r}",
            hint="newnormal.testing.check_model tells what a model needs",
        )
    return found


def _unknown(name: object) -> ParameterError:
    return ParameterError(
        f"model: expected one of {', '.join(sorted(BUILT_IN))}, an entry point of {GROUP}, "
        f'"package.module:Class" or "pyod:NAME", found {name!r}',
        hint='model="mlp" is the compiled autoencoder, "pyod:ECOD" PyOD\'s ECOD',
    )
