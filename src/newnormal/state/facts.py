"""Facts of a state file or a fleet: JSON values, each checked as it is taken out."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from newnormal.errors import StateError
from newnormal.types.tables import LARGEST_COUNT

AGAIN = "restore it from a backup, or fit again with `newnormal fit`"  # the hint of its errors


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
