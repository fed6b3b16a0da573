"""Thresholds as a detector takes them, and as a state file names them.

A threshold is a number (a quantile), an object, or the name of a class: ``"package.module:Class"``,
or an entry point in the group ``newnormal.thresholds``. A state file names the class of another
package's rule and has its options; loading imports no class that the caller has not named or
installed.
"""

import json
from collections.abc import Mapping
from typing import Any

from newnormal.errors import ParameterError, StateError
from newnormal.models.registry import imported, path_of, registered
from newnormal.thresholds.base import MovingThreshold, Threshold, is_number
from newnormal.thresholds.fixed import Fixed
from newnormal.thresholds.quantile import Quantile

GROUP = "newnormal.thresholds"
_BUILT_IN = {Quantile.kind: Quantile, Fixed.kind: Fixed}


def as_threshold(value: object) -> Threshold | MovingThreshold:
    """Return the rule meant by the detector's `threshold`: a number is a quantile."""
    if is_number(value):
        return Quantile(value)
    if isinstance(value, str):
        value = _class(value)()
    if _is_rule(value):
        return value  # type: ignore[return-value]
    raise ParameterError(
        f"threshold: expected a quantile between 0 and 1 or a Threshold object, found {value!r}",
        hint="for example threshold=0.99, or threshold=newnormal.Fixed(4.0)",
    )


def to_json(rule: Threshold | MovingThreshold) -> dict[str, Any]:
    """Return a rule as values of JSON; another package's rule has a `to_json` of its own."""
    if isinstance(rule, Quantile):
        return {"kind": rule.kind, "q": float(rule.q)}
    if isinstance(rule, Fixed):
        return {"kind": rule.kind, "value": repr(float(rule.value))}
    if not callable(getattr(rule, "to_json", None)):
        raise StateError(
            f"a threshold of type {type(rule).__name__} cannot be saved: a state file holds no "
            "code",
            hint="fit with threshold=newnormal.Fixed(detector.threshold_) to save its present "
            "value, or give the class a to_json() that returns its options",
        )
    options = rule.to_json()  # type: ignore[union-attr]
    try:
        plain = isinstance(options, dict) and json.loads(json.dumps(options, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        plain = None
    if plain != options:
        raise StateError(
            f"a threshold of type {type(rule).__name__} cannot be saved: expected a dict of plain "
            f"values from its to_json(), found {options!r}",
            hint="return the arguments of its constructor: numbers, texts, lists and dicts",
        )
    return {"kind": path_of(type(rule)), "options": options}


def for_file(named: object) -> object:
    """Return the class or the rule that a caller names for a state file; None if none is named."""
    if named is None or isinstance(named, type) or _is_rule(named):
        return named
    if isinstance(named, str):
        return _class(named)
    raise ParameterError(
        f"threshold: expected the class of a threshold or its import path, found {named!r}",
        hint="leave it out where the threshold is built in",
    )


def from_json(rule: Mapping[str, Any], named: object = None) -> Threshold | MovingThreshold:
    """Return what `to_json` was made from.

    `named` is the class of another package's rule, or a rule to use instead; see `for_file`.
    """
    kind = rule.get("kind")
    if kind in _BUILT_IN and named not in (None, _BUILT_IN[kind]):
        raise StateError(
            f"threshold: expected none given, since the file has a {kind} one, "
            f"found {path_of(named)}",
            hint="leave threshold out; with_options(threshold=...) sets another",
        )
    if kind == Quantile.kind:
        return Quantile(float(rule["q"]))
    if kind == Fixed.kind:
        return Fixed(float(rule["value"]))
    if not isinstance(kind, str) or not isinstance(rule.get("options"), dict):
        raise StateError(
            f"threshold: expected quantile, fixed, or a class and its options, found {kind!r}"
        )
    if _is_rule(named):
        return named  # type: ignore[return-value]
    if named is None and registered(GROUP, kind) is None:
        raise StateError(
            f"the threshold {kind!r} is neither built in nor an installed entry point, and a state "
            "file does not choose what is imported",
            hint=f"newnormal.load(path, threshold={kind!r}), or --threshold {kind}, "
            "if you trust it",
        )
    kind_class = _class(kind) if named is None else named
    assert isinstance(kind_class, type)
    if named is not None and kind_class.__qualname__ != kind.partition(":")[2]:
        raise StateError(
            f"threshold: expected {kind}, which this was fitted with, found {path_of(named)}",
            hint=f"pass threshold={kind!r}, or an object to use instead",
        )
    made = kind_class(**rule["options"])
    if not _is_rule(made):
        raise StateError(f"threshold: expected {kind} to be a threshold, found {made!r}")
    return made  # type: ignore[no-any-return]


def _class(name: str) -> Any:
    if ":" in name:
        return imported(name, "threshold")
    if (entry := registered(GROUP, name)) is None:
        raise ParameterError(
            "threshold: expected a quantile between 0 and 1 or a Threshold object, an entry point "
            f'of {GROUP} or "package.module:Class", found {name!r}',
            hint="for example threshold=0.99, or threshold=newnormal.Fixed(4.0)",
        )
    return imported(entry.value, "threshold")


def _is_rule(value: object) -> bool:
    return isinstance(value, Threshold | MovingThreshold) and not isinstance(value, type)
