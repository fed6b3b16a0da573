"""Models by name, import path or entry point; each is imported when first used.

A model is given as

- a name of `BUILT_IN`, such as ``"mlp"``;
- ``"package.module:Class"``, a class that can be imported;
- the name of an entry point in the group ``newnormal.models`` of an installed package;
- ``"pyod:NAME"`` or ``"river:NAME"``, a detector of PyOD or River;
- the class itself.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from newnormal.errors import ParameterError, StateError

if TYPE_CHECKING:
    from newnormal.models.base import Model

GROUP = "newnormal.models"

BUILT_IN = {
    "mlp": "newnormal.models.mlp:MLP",
    "pca": "newnormal.models.pca:PCA",
    "thoc": "newnormal.models.deep.thoc:THOC",
    "torch-mlp": "newnormal.models.deep.mlp:TorchMLP",
    "lstm": "newnormal.models.deep.lstm:LSTM",
    "lstm-diagonal": "newnormal.models.deep.lstm:DiagonalLSTM",
    "usad": "newnormal.models.deep.usad:USAD",
    "icl": "newnormal.models.deep.icl:ICL",
    "bert": "newnormal.models.deep.bert:BERT",
    "transformer": "newnormal.models.deep.transformer:AnomalyTransformer",
}

# Other libraries' detectors: the module that makes a model of each by name.
_ADAPTERS = {"pyod": "newnormal.models.peers", "river": "newnormal.models.river"}


def find(model: object) -> type[Model]:
    """Return the model class that a name, an import path or a class means."""
    if isinstance(model, type):
        return _checked(model, model.__name__)
    if not isinstance(model, str):
        raise _unknown(model)
    if model in BUILT_IN:
        module, _, name = BUILT_IN[model].partition(":")
        built_in: type[Model] = getattr(import_module(module), name)
        return built_in
    library, colon, name = model.partition(":")
    if colon and library in _ADAPTERS:
        adapted: type[Model] = import_module(_ADAPTERS[library]).adapter(name)
        return adapted
    if colon:
        return _checked(imported(model, "model"), model)
    if (entry := registered(GROUP, model)) is None:
        raise _unknown(model)
    return _checked(imported(entry.value, "model"), model)


def find_for_file(name: str, given: object = None) -> type[Model]:
    """Return the model class that a state file names: loading runs no code of the file's choosing.

    It is a built-in model, an installed entry point, or the class that the caller names by `given`.
    """
    known = name in BUILT_IN or registered(GROUP, name) is not None
    if given is not None:
        model = find(given)
        same = find(name) is model if known else name.partition(":")[2] == model.__qualname__
        if not same:
            raise StateError(
                f"model: expected {name}, which this was fitted with, found {path_of(given)}",
                hint=f"pass model={name!r}" if not known else "leave model out",
            )
        return model
    if not known:
        raise StateError(
            f"the model {name!r} is neither built in nor an installed entry point, and a state "
            "file does not choose what is imported",
            hint=f"newnormal.load(path, model={name!r}), or --model {name}, if you trust it",
        )
    entry = registered(GROUP, name)
    return find(name if entry is None else entry.value)


def path_of(model: object) -> str:
    """Return the import path of a class, or the name that is given instead of one."""
    if isinstance(model, type):
        return f"{model.__module__}:{model.__qualname__}"
    return str(model)


def registered(group: str, name: object) -> EntryPoint | None:
    """Return the installed entry point of this name or import path, which is not imported here."""
    for entry in entry_points(group=group):
        if name in (entry.name, entry.value):
            return entry
    return None


def imported(path: str, option: str) -> Any:
    """Return what an import path leads to; `option` is named in the error."""
    module, _, attribute = path.partition(":")
    try:
        target = import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ParameterError(
            f"{option}: expected a class by import path, found {path!r}: {error}",
            hint='write it as "package.module:Class"; the module must be importable from here',
        ) from error
    return target


def _checked(model: Any, name: str) -> type[Model]:
    from newnormal.models.base import Model

    if not isinstance(model, type) or not issubclass(model, Model):
        raise ParameterError(
            f"model: expected a subclass of newnormal.models.base.Model, found {name!r}, "
            f"which is {model!r}",
            hint="docs/guides/extending.md has an example of a model",
        )
    if missing := sorted(getattr(model, "__abstractmethods__", ())):
        raise ParameterError(
            f"model: expected {name} to have {' and '.join(missing)}, found neither"
            if len(missing) > 1
            else f"model: expected {name} to have {missing[0]}, found none",
            hint="docs/guides/extending.md has an example of a model",
        )
    return model


def _unknown(name: object) -> ParameterError:
    return ParameterError(
        f"model: expected one of {', '.join(sorted(BUILT_IN))}, an entry point of {GROUP}, "
        f'"package.module:Class", "pyod:NAME" or "river:NAME", found {name!r}',
        hint='model="mlp" is the compiled autoencoder, "pyod:ECOD" PyOD\'s ECOD',
    )
