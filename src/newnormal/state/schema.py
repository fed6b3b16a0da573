"""The name, type, shape and range of everything in a state file, and the way there and back.

Nothing here depends on the names of fields in the code: a field can be renamed, and files keep
their names. `newnormal.packing` checks a file before anything is allocated or indexed by it; what
does not fit is a StateError that names it.

Shapes: L window length, C channels, Q = 4 C, P weights, J experts, E votes of experts, V votes, R
rank, K knots of the tail, F = 5 C, W = 10 C, H shapes, D rank of the windows' subspace, X and Y the
samples that the members keep, Z scores that the alarm threshold keeps, A channels for which it can
be raised, G accepted places, O accepted patterns, U rows for open changes; N, M and B (bins of a
rhythm) are as many as there are.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal.errors import StateError

VERSION = 7
AGAIN = "restore it from a backup, or fit again with `newnormal fit`"  # the hint of its errors
LARGEST_COUNT = 2**62 - 1  # of samples: far from an overflow
# Scaled values saturate at 1e15; trends and what is left of them stay within their sum.
_FARTHEST = 1e17
# A level of a change: 40 as levels are measured (`newnormal.acceptance.range.unsqueezed`).
# Extrapolated positions are within ±500.
_FAR_LEVEL = 2.001e6
_FAR_SHIFT = 1e9  # accepted shifts are added up


class Field(NamedTuple):
    """One tensor."""

    name: str  # in the file
    shape: str  # letters, as in the module's docstring; a digit is itself
    check: str  # a name in _CHECKS
    dtype: str = "f8"


def _finite(array: NDArray[Any]) -> bool:
    return bool(np.isfinite(array).all())


def _observed(array: NDArray[Any]) -> bool:
    return not np.isinf(array).any()


def _known(array: NDArray[Any]) -> bool:
    return not np.isnan(array).any()


def _positive(array: NDArray[Any]) -> bool:
    return _finite(array) and bool((array > 0).all())


def _above(array: NDArray[Any]) -> bool:
    return _known(array) and bool((array > 0).all())


def _not_negative(array: NDArray[Any]) -> bool:
    return _known(array) and bool((array >= 0).all())


def _increasing(array: NDArray[Any]) -> bool:
    finite = array[np.isfinite(array)]
    return _known(array) and len(finite) > 0 and bool((array[:-1] <= array[1:]).all())


def _tail(array: NDArray[Any]) -> bool:
    _, chance, scale, shape = array.tolist()
    return _finite(array) and 0 < chance <= 1 and scale > 0 and 0 <= shape <= 1


def _bounded(array: NDArray[Any]) -> bool:
    return _finite(array) and bool((np.abs(array) <= _FARTHEST).all())


def _within(array: NDArray[Any]) -> bool:
    return _bounded(array[~np.isnan(array)])


def _level(array: NDArray[Any]) -> bool:
    return _finite(array) and bool((np.abs(array) <= _FAR_LEVEL).all())


def _shift(array: NDArray[Any]) -> bool:
    return _finite(array) and bool((np.abs(array) <= _FAR_SHIFT).all())


def _binary(array: NDArray[Any]) -> bool:
    return bool(((array == 0) | (array == 1)).all())


def _moderate(array: NDArray[Any]) -> bool:
    return _finite(array) and bool(((array >= 1e-100) & (array <= 1e100)).all())


def _spread(array: NDArray[Any]) -> bool:
    return _finite(array) and bool(((array >= 1e-9) & (array <= 1e9)).all())


def _unit(array: NDArray[Any]) -> bool:
    return _finite(array) and bool((np.abs(array) <= 1.001).all())


def _any(array: NDArray[Any]) -> bool:
    del array
    return True


_CHECKS: dict[str, tuple[Callable[[NDArray[Any]], bool], str]] = {
    "finite": (_finite, "finite numbers"),
    "observed": (_observed, "numbers that are not infinite"),
    "known": (_known, "numbers other than NaN"),
    "positive": (_positive, "finite numbers above 0"),
    "above": (_above, "numbers above 0"),
    "not negative": (_not_negative, "numbers of at least 0"),
    "increasing": (_increasing, "increasing numbers"),
    "tail": (_tail, "a start, a chance, a scale above 0 and a shape from 0 to 1"),
    "bounded": (_bounded, f"finite numbers within ±{_FARTHEST:g}"),
    "within": (_within, f"numbers within ±{_FARTHEST:g}, or NaN"),
    "level": (_level, f"numbers within ±{_FAR_LEVEL:g}"),
    "shift": (_shift, f"numbers within ±{_FAR_SHIFT:g}"),
    "binary": (_binary, "0 or 1"),
    "moderate": (_moderate, "numbers from 1e-100 to 1e100"),
    "spread": (_spread, "numbers from 1e-9 to 1e9"),
    "unit": (_unit, "numbers within ±1"),
    "any": (_any, "numbers"),
}

STEP = (
    Field("samples", "LC", "observed"),
    Field("trend", "C", "bounded"),
    Field("weights", "P", "finite", "f4"),
    Field("good", "P", "finite", "f4"),
    Field("reach", "1", "any"),  # not finite where learning diverged
)
COMMITTEE = (
    Field("levels", "JC", "bounded"),
    Field("trails", "JLC", "bounded"),
    Field("residuals", "JLC", "within"),
    Field("reaches", "J1", "any"),
    Field("smooth", "1", "observed"),
)
MEMBERS = (
    Field("recent", "XC", "bounded", "f4"),
    Field("means", "YC", "bounded", "f4"),
    Field("counts", "2", "not negative", "i8"),
)
MEMBERS_PARAMS = (
    Field("forecast", "CF", "bounded", "f4"),
    Field("intercept", "C", "bounded", "f4"),
    Field("level_mean", "C", "bounded", "f4"),
    Field("level_inverse", "CC", "bounded", "f4"),
    Field("windows_mean", "W", "bounded", "f4"),
    Field("windows_basis", "DW", "unit", "f4"),
    Field("shapes", "HW", "bounded", "f4"),
    Field("rhythm_levels", "BC", "bounded", "f4"),
    Field("rhythm_spreads", "BC", "spread", "f4"),
    Field("usual_votes", "BV", "not negative", "f4"),
)
COMMITTEE_PARAMS = (
    Field("decays", "J", "not negative"),
    Field("scales", "JC", "moderate"),
    Field("learn_below", "J", "known"),
    Field("rates", "J", "finite", "f4"),
    Field("bases", "ERC", "unit"),
    Field("residual_scale", "VC", "moderate"),
    Field("centers", "V", "bounded"),
    Field("spreads", "V", "spread"),
)
ALARM = (
    Field("tail_levels", "K", "increasing"),
    Field("tail_excess", "4", "tail"),
)
DRIFT_PARAMS = (
    Field("mean", "C", "finite"),
    Field("scale", "C", "positive"),
    Field("centre", "C", "level"),
    Field("blend", "CC", "finite"),
    Field("margins", "Q", "positive"),
    Field("wanders", "NQ", "above"),
)
DRIFT = (
    Field("levels", "C", "level"),
    Field("steps", "C", "not negative"),
    Field("still", "C", "not negative"),
    Field("last", "C", "observed"),
    Field("missing", "C", "not negative"),
    Field("position", "Q", "finite"),
    Field("start", "Q", "finite"),
    Field("distances", "C", "not negative"),
    Field("jumps", "C", "not negative"),
    Field("crossing", "C", "not negative"),
    Field("owned", "C", "binary"),
    Field("lows", "Q", "finite"),
    Field("highs", "Q", "known"),
)
LOG = (
    Field("times", "3", "any", "i8"),
    Field("channels", "5", "any", "i8"),
    Field("shares", "5", "not negative"),
    Field("evidence", "45", "any"),  # NaN where not known
    Field("votes", "V", "known"),
)
SILENCE = (
    Field("times", "2", "any", "i8"),
    Field("missing", "C", "not negative", "i8"),
    Field("channels", "5", "any", "i8"),
)
CHANGES = (
    Field("times", "U", "any", "i8"),
    Field("distances", "U", "not negative"),
    Field("channels", "UC", "binary", "i8"),
    Field("before", "UC", "level"),
    Field("after", "UC", "level"),
    Field("farthest", "UC", "level"),
)
ACCEPTED = (
    Field("shifts", "GC", "shift"),
    Field("used", "G", "binary", "i8"),
    Field("at", "G", "binary", "i8"),
    Field("peaks", "OV", "known"),
    Field("channels", "OC", "binary"),
    Field("counts", "3", "not negative", "i8"),
)
BASELINE = (
    Field("weights", "P", "finite", "f4"),
    Field("trend", "T", "bounded"),  # C, or JC for a committee
    Field("lows", "Q", "finite"),
    Field("highs", "Q", "known"),
    *ALARM,
)
SHADOW = (Field("scores", "N", "not negative"), Field("positions", "MQ", "finite"))


def sizes(shape: str, dims: Mapping[str, int | tuple[int, ...]]) -> tuple[int | None, ...]:
    """Return a shape in numbers; None where any number will do."""
    found: list[int | None] = []
    for letter in shape:
        known = int(letter) if letter.isdigit() else dims.get(letter)
        found += known if isinstance(known, tuple) else [known]
    return tuple(found)


def check_tensors(
    fields: Sequence[Field],
    prefix: str,
    tensors: Mapping[str, NDArray[Any]],
    dims: Mapping[str, int | tuple[int, ...]],
) -> dict[str, NDArray[Any]]:
    """Return the tensors of these fields by their names, if each is what it must be."""
    found = {}
    for field in fields:
        name = prefix + field.name
        array = tensors.get(name)
        wanted = sizes(field.shape, dims)
        if array is None:
            raise StateError(f"expected a tensor {name}, found none")
        fits = len(array.shape) == len(wanted) and all(
            size is None or size == each for size, each in zip(wanted, array.shape, strict=True)
        )
        if array.dtype != np.dtype(field.dtype) or not fits:
            shape = tuple("any" if size is None else size for size in wanted)
            raise StateError(
                f"{name}: expected {field.dtype} of shape {shape}, "
                f"found {array.dtype.str[1:]} of shape {array.shape}"
            )
        check, what = _CHECKS[field.check]
        if not check(array):
            raise StateError(f"{name}: expected {what}, found others")
        found[field.name] = array
    return found


def packed(fields: Sequence[Field], prefix: str, part: Any) -> dict[str, NDArray[Any]]:
    """Return the tensors of a part of a state by their names in the file."""
    return {prefix + field.name: getattr(part, field.name) for field in fields}


def taken(tensors: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the tensors whose names begin with a prefix, by the rest of their names."""
    return {name[len(prefix) :]: each for name, each in tensors.items() if name.startswith(prefix)}


class Facts:
    """Facts of a state file, each checked as it is taken out; the rest is an error.

    Examples
    --------
    >>> facts = Facts({"seen": 3, "open": True})
    >>> facts.count("seen"), facts.flag("open")
    (3, True)
    >>> facts.done()
    """

    def __init__(self, facts: object, path: str = "") -> None:
        if not isinstance(facts, dict):
            raise StateError(f"{path or 'state'}: expected a JSON object, found {_short(facts)}")
        self._facts = dict(facts)
        self._path = path

    def take(self, name: str) -> Any:
        """Take a fact out, unchecked."""
        if name not in self._facts:
            raise StateError(f"expected a fact {self._path}{name}, found none")
        return self._facts.pop(name)

    def has(self, name: str) -> bool:
        """Whether there is such a fact that is not null."""
        return self._facts.get(name) is not None

    def part(self, name: str) -> Facts:
        """Take an object out."""
        return Facts(self.take(name), f"{self._path}{name}.")

    def parts(self, name: str, most: int) -> builtins.list[Facts]:
        """Take a list of objects out."""
        path = f"{self._path}{name}"
        return [Facts(each, f"{path}[{k}].") for k, each in enumerate(self.list(name, most))]

    def list(self, name: str, most: int) -> builtins.list[Any]:
        """Take a list out."""
        found = self.take(name)
        if not isinstance(found, list) or len(found) > most:
            raise self.wrong(name, f"a list of at most {most}", found)
        return found

    def flag(self, name: str) -> bool:
        """Take true or false out."""
        found = self.take(name)
        if not isinstance(found, bool):
            raise self.wrong(name, "true or false", found)
        return found

    def text(self, name: str) -> str:
        """Take a text out."""
        found = self.take(name)
        if not isinstance(found, str):
            raise self.wrong(name, "a text", found)
        return found

    def count(self, name: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
        """Take a whole number out."""
        found = self.take(name)
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise self.wrong(name, f"a whole number from {least} to {most}", found)
        return found

    def number(
        self, name: str, least: float = -np.inf, most: float = np.inf, *, above: bool = False
    ) -> float:
        """Take a number out; infinities are texts. With `above`, `least` itself is too little."""
        found = self.take(name)
        value: Any = _NUMBERS.get(found) if isinstance(found, str) else found
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most or (above and value == least):
            bound = f"above {least:g}" if above else f"from {least:g}"
            raise self.wrong(name, f"a number {bound} to {most:g}", found)
        return float(value)

    def numbers(self, name: str, most: int) -> builtins.list[float]:
        """Take a list of numbers out."""
        found = self.list(name, most)
        own = Facts({str(at): each for at, each in enumerate(found)}, f"{self._path}{name}.")
        return [own.number(str(at)) for at in range(len(found))]

    def wrong(self, name: str, expected: str, found: object) -> StateError:
        """Return the error of a fact that is not what it must be."""
        return StateError(f"{self._path}{name}: expected {expected}, found {_short(found)}")

    def rest(self) -> dict[str, Any]:
        """Take everything out, unchecked."""
        found, self._facts = self._facts, {}
        return found

    def done(self, optional: Sequence[str] = ()) -> None:
        """Raise a StateError if a fact is left that this version does not have."""
        left = sorted(set(self._facts) - set(optional))
        if left:
            raise StateError(f"{self._path}{left[0]}: not a fact of this version")


_NUMBERS = {"inf": np.inf, "-inf": -np.inf}


def as_json(value: float) -> float | str:
    """Return a number as a value of JSON: infinities as texts."""
    return float(value) if np.isfinite(value) else "inf" if value > 0 else "-inf"


def _short(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:57]}..."
