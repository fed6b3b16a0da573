"""The models that take part: the paper's, any other by name, and classes by import path."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from newnormal.errors import ParameterError
from newnormal.models import find
from newnormal_reproduce.engine.published import DEFAULT, TrialOptions, title

PAPER_MODELS = ("mlp", "lstm", "lstm-diagonal", "usad", "thoc", "transformer")
FIVE = tuple(model for model in PAPER_MODELS if model != "lstm-diagonal")
MOST_ROWS = 20_000  # of history, which newnormal gives to PyOD's detectors of quadratic cost
# Names in tables of models that the paper does not have, or has in another form.
_NAMES = {
    "lstm-diagonal": "LSTM (diagonal)",
    "torch-mlp": "MLP (PyTorch)",
    "icl": "ICL",
    "bert": "BERT",
    DEFAULT: "default",
}
_OPTIONS = {field.name: field.type for field in fields(TrialOptions)}


@dataclass(frozen=True)
class Competitor:
    """A model that takes part, with options of the detector that differ from the MLP's."""

    name: str  # in tables
    model: str  # a name of `newnormal.models`, "package.module:Class", or "default"
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, model: str) -> "Competitor":
        """Return a competitor by its model alone.

        >>> Competitor.of("transformer").name, Competitor.of("pyod:ECOD").name
        ('AT', 'ECOD')
        """
        return cls(_NAMES.get(model) or title(model) or model.rpartition(":")[2], model)


def competitors(
    models: Sequence[str] | None, default: Sequence[str], extra: str | PathLike[str] | None = None
) -> list[Competitor]:
    """Return the models named, or else the default ones; and those of a TOML file.

    Parameters
    ----------
    models
        Names or import paths. A model that cannot be imported is an error now.
    default
        Names that are used if `models` is None. A model that cannot be imported makes failed
        trials.
    extra
        A TOML file with a ``[[row]]`` for each model: ``model``, and optionally ``name`` and any of
        window, stride, fit_stride, latent, decay, lr, epochs, batch.
    """
    for model in models or ():
        _check(model)
    chosen = [Competitor.of(model) for model in (default if models is None else models)]
    return chosen + ([] if extra is None else _read(Path(extra)))


def overrides(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return options by model, or model and data set, written as ``model@data set.option=value``.

    >>> overrides(["thoc.batch=8", "thoc@CreditCard.batch=64"])
    {'thoc': {'batch': 8}, 'thoc@CreditCard': {'batch': 64}}
    """
    options_by_model: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        model, _, option = place.rpartition(".")
        if not equals or not model:
            raise ParameterError(
                f"expected MODEL.OPTION=VALUE, found {text!r}",
                hint="such as thoc.batch=8, or thoc@CreditCard.batch=64 for one data set",
            )
        options_by_model.setdefault(model, {})[option] = _option(option, value, text)
    return options_by_model


def _check(model: str) -> None:
    if model != DEFAULT:
        find(model)


def _read(path: Path) -> list[Competitor]:
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
    return [_competitor(path, dict(row)) for row in rows]


def _competitor(path: Path, row: dict[str, Any]) -> Competitor:
    if not isinstance(row.get("model"), str):
        raise ParameterError(
            f"{path}: expected a model in each [[row]], found {row!r}",
            hint='such as model = "package.module:Class"',
        )
    model = row.pop("model")
    _check(model)
    name = str(row.pop("name", Competitor.of(model).name))
    return Competitor(
        name,
        model,
        tuple((option, _option(option, row[option], f"{path}: {option}")) for option in row),
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
