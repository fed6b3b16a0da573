"""Facts of a state file or a fleet: JSON values, each checked as it is taken out."""

import builtins
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from newnormal.errors import StateError
from newnormal.types.tables import LARGEST_COUNT

# What code raises that meets values of another form than it expects.
MALFORMED = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError),
    *(TypeError, ValueError, struct.error),
)
_Taken = TypeVar("_Taken")
AGAIN = "restore it from a backup, or fit again with `newnormal fit`"  # the hint of its errors


class Facts:
    """Facts of a state file, each checked as it is taken out; the rest is an error.

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

    def nullable(self, name: str, take: Callable[..., _Taken], *limits: Any) -> _Taken | None:
        """Take a fact out by what takes it where it is not null, such as `count`."""
        if self.has(name):
            return take(name, *limits)
        nothing: None = self.take(name)
        return nothing

    def part(self, name: str) -> "Facts":
        """Take an object out."""
        return Facts(self.take(name), f"{self._path}{name}.")

    def parts(self, name: str, most: int) -> "builtins.list[Facts]":
        """Take a list of objects out."""
        path = f"{self._path}{name}"
        return [Facts(each, f"{path}[{k}].") for k, each in enumerate(self.list(name, most))]

    def list(self, name: str, most: int) -> builtins.list[Any]:
        """Take a list out."""
        value = self.take(name)
        if not isinstance(value, list) or len(value) > most:
            raise self.wrong(name, f"a list of at most {most}", value)
        return value

    def flag(self, name: str) -> bool:
        """Take true or false out."""
        value = self.take(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false", value)
        return value

    def text(self, name: str) -> str:
        """Take a text out."""
        value = self.take(name)
        if not isinstance(value, str):
            raise self.wrong(name, "a text", value)
        return value

    def count(self, name: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
        """Take a whole number out."""
        value = self.take(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(name, f"a whole number from {least} to {most}", value)
        return value

    def number(
        self, name: str, least: float = -np.inf, most: float = np.inf, *, above: bool = False
    ) -> float:
        """Take a number out; infinities are texts. With `above`, `least` itself is too little."""
        fact = self.take(name)
        value: Any = _NUMBERS.get(fact) if isinstance(fact, str) else fact
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most or (above and value == least):
            bound = f"above {least:g}" if above else f"from {least:g}"
            raise self.wrong(name, f"a number {bound} to {most:g}", fact)
        return float(value)

    def numbers(self, name: str, most: int) -> builtins.list[float]:
        """Take a list of numbers out."""
        values = self.list(name, most)
        own = Facts({str(at): each for at, each in enumerate(values)}, f"{self._path}{name}.")
        return [own.number(str(at)) for at in range(len(values))]

    def wrong(self, name: str, expected: str, found: object) -> StateError:
        """Return the error of a fact that is not what it must be."""
        return StateError(f"{self._path}{name}: expected {expected}, found {_short(found)}")

    def rest(self) -> dict[str, Any]:
        """Take everything out, unchecked."""
        facts, self._facts = self._facts, {}
        return facts

    def done(self, optional: Sequence[str] = ()) -> None:
        """Raise a StateError if a fact is left that this version does not have."""
        if left := sorted(set(self._facts) - set(optional)):
            raise StateError(f"{self._path}{left[0]}: not a fact of this version")


_NUMBERS = {"inf": np.inf, "-inf": -np.inf}


def as_json(value: float) -> float | str:
    """Return a number as a value of JSON: infinities as texts."""
    return float(value) if np.isfinite(value) else "inf" if value > 0 else "-inf"


def _short(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 60 else f"{text[:57]}..."
