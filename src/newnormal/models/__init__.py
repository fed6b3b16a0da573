"""Models of normal windows, by name; each is imported when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from newnormal.errors import ParameterError

if TYPE_CHECKING:
    from newnormal.models.base import Model

__all__ = ["MODELS", "find"]

MODELS = {
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
    """Return the model class called `name`; "pyod:" and a class name is a PyOD detector."""
    if isinstance(name, str) and name.startswith("pyod:"):
        peer: type[Model] = import_module("newnormal.models.peers").adapter(name[5:])
        return peer
    if not isinstance(name, str) or name not in MODELS:
        raise ParameterError(
            f"model: expected one of {', '.join(sorted(MODELS))}, found {name!r}",
            hint='model="mlp" is the compiled autoencoder, "pyod:ECOD" PyOD\'s ECOD',
        )
    module, attribute = MODELS[name].split(":")
    model: type[Model] = getattr(import_module(module), attribute)
    return model
