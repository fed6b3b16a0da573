"""Who takes part: the paper's models, any other by name, and classes of one's own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from newnormal.errors import ParameterError
from newnormal.experiments.admission import DEFAULT, admit
from newnormal.experiments.paper import Options, title

__all__ = ["FIVE", "PAPER_MODELS", "Entrant", "entrants", "overrides"]

PAPER_MODELS = ("mlp", "lstm", "lstm-diagonal", "usad", "thoc", "transformer")
FIVE = tuple(model for model in PAPER_MODELS if model != "lstm-diagonal")
# What tables call models that the paper does not have, or has in another form.
_NAMES = {
    "lstm-diagonal": "LSTM (diagonal)",
    "torch-mlp": "MLP (PyTorch)",
    "icl": "ICL",
    "bert": "BERT",
    DEFAULT: "default",
}
_OPTIONS = {field.name: field.type for field in fields(Options)}


@dataclass(frozen=True)
class Entrant:
    """A model that takes part.

    Attributes
    ----------
    name
        What tables call it.
    model
        A name `newnormal.models` knows, ``"package.module:Class"``, or ``"default"``.
    options
        Options of the detector that it wants otherwise than the MLP has them.
    """

    name: str
    model: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, model: str) -> Entrant:
        """Return a model by its name alone.

        >>> Entrant.of("transformer").name, Entrant.of("pyod:ECOD").name
        ('AT', 'ECOD')
        """
        return cls(_NAMES.get(model) or title(model) or model.rpartition(":")[2], model)


def entrants(
    models: Sequence[str] | None,
    default: Sequence[str],
    extra: str | PathLike[str] | None = None,
) -> list[Entrant]:
    """Return who takes part: the models named, else the default; and the rows of a TOML file.

    Parameters
    ----------
    models
        Names, or import paths; each is looked up now.
    default
        Names for where `models` is None; one that cannot be had makes rows that say so.
    extra
        A TOML file with a ``[[row]]`` a model: ``model``, and where wanted ``name`` and any of
        window, stride, fit_stride, latent, decay, lr, epochs, batch.
    """
    for model in models or ():
        admit(model)
    chosen = [Entrant.of(model) for model in (default if models is None else models)]
    return chosen + ([] if extra is None else _read(Path(extra)))


def overrides(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return options by model, or model and data set, written as ``model@data set.option=value``.

    >>> overrides(["thoc.batch=8", "thoc@CreditCard.batch=64"])
    {'thoc': {'batch': 8}, 'thoc@CreditCard': {'batch': 64}}
    """
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        model, _, option = place.rpartition(".")
        if not equals or not model:
            raise ParameterError(
                f"expected MODEL.OPTION=VALUE, found {text!r}",
                hint="such as thoc.batch=8, or thoc@CreditCard.batch=64 for one data set",
            )
        found.setdefault(model, {})[option] = _option(option, value, text)
    return found


def _read(path: Path) -> list[Entrant]:
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")).get("row")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ParameterError(
            f"{path}: expected a TOML file of rows, found none that can be read: {error}",
            hint='write [[row]] and under it model = "package.module:Class"',
        ) from error
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ParameterError(
            f"{path}: expected [[row]] tables, found none",
            hint='write [[row]] and under it model = "package.module:Class"',
        )
    return [_entrant(path, dict(row)) for row in rows]


def _entrant(path: Path, row: dict[str, Any]) -> Entrant:
    if not isinstance(row.get("model"), str):
        raise ParameterError(
            f"{path}: expected a model in each [[row]], found {row!r}",
            hint='such as model = "package.module:Class"',
        )
    model = row.pop("model")
    admit(model)
    name = str(row.pop("name", Entrant.of(model).name))
    return Entrant(
        name, model, tuple((each, _option(each, row[each], f"{path}: {each}")) for each in row)
    )


def _option(name: str, value: Any, where: str) -> int | float:
    if name not in _OPTIONS:
        raise ParameterError(
            f"{where}: expected an option of the detector, found {name!r}",
            hint=f"they are {', '.join(_OPTIONS)}",
        )
    try:
        return float(value) if name in ("decay", "lr") else int(value)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{where}: expected a number for {name}, found {value!r}", hint=f"such as {name}=1"
        ) from None
