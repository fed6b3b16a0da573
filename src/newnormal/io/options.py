"""The options of a connector, taken one by one and checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from newnormal.errors import ParameterError
from newnormal.texts import did_you_mean

_REQUIRED: Any = ...  # its name is the same in every process: the reference shows it


class Options:
    """Options by name, as a table of the configuration has them.

    Take each one by what it must be, then call `end`: what nobody took is an error that names the
    options there are. An option that is not given has its default; without one it is required.

    Parameters
    ----------
    where
        What messages begin with, such as ``"sink chat"``.
    given
        The values. They are never shown in a message, as one may be a secret.

    Examples
    --------
    >>> options = Options("sink chat", {"url": "http://127.0.0.1/", "timout": 3})
    >>> options.text("url"), options.number("timeout", 10.0)
    ('http://127.0.0.1/', 10.0)
    >>> options.end()
    Traceback (most recent call last):
    ...
    newnormal.errors.ParameterError: sink chat: expected options among timeout and url, found timout
    hint: did you mean timeout?
    """

    def __init__(self, where: str, given: Mapping[str, Any]) -> None:
        self.where = where
        self._given = given
        self._taken: set[str] = set()
        self._secret: set[str] = set()

    def text(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a text that is not empty."""
        return self._checked(name, default, "a text", _is_text)

    def secret(self, name: str) -> str | None:
        """Return a secret, or None; the configuration has its file or its variable."""
        self._secret.add(name)
        secret: str | None = self.text(name, None)
        return secret

    def number(self, name: str, default: Any = _REQUIRED, *, least: float = 0.0) -> Any:
        """Return a number of at least `least`."""
        expected = f"a number of at least {least:g}"
        value = self._checked(name, default, expected, lambda value: _is_number(value, least))
        return value if value is default else float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return true or false."""
        flag: bool = self._checked(name, default, "true or false", lambda it: isinstance(it, bool))
        return flag

    def texts(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of texts; a single text is one."""
        value = self._checked(name, default, "a list of texts", _is_texts)
        return value if value is default else (value,) if isinstance(value, str) else tuple(value)

    def table(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a table of texts by name."""
        value = self._checked(name, default, "a table of texts", _is_table)
        return value if value is default else dict(value)

    def end(self) -> None:
        """Raise a `ParameterError` for an option that was not taken."""
        if others := sorted(set(self._given) - self._taken):
            names = self._taken - self._secret
            names |= {f"{each}_{way}" for each in self._secret for way in ("env", "file")}
            *some, last = sorted(names) or ["none"]
            known = f"{', '.join(some)} and {last}" if some else last
            hints = [hint for other in others if (hint := did_you_mean(other, sorted(names)))]
            raise ParameterError(
                f"{self.where}: expected options among {known}, found {', '.join(others)}",
                hint=hints[0] if hints else None,
            )

    def _checked(
        self, name: str, default: Any, expected: str, is_good: Callable[[Any], bool]
    ) -> Any:
        """Return the value of an option, or the default, which is not checked."""
        self._taken.add(name)
        value = self._given.get(name, default)
        if value is _REQUIRED:
            raise ParameterError(f"{self.where}: expected the option {name}, found none")
        if value is default or is_good(value):
            return value
        empty = isinstance(value, str) and not value.strip()
        found = "an empty text" if empty else f"another {type(value).__name__}"
        raise ParameterError(f"{self.where}: {name}: expected {expected}, found {found}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _is_number(value: Any, least: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= least


def _is_texts(value: Any) -> bool:
    listed = [value] if isinstance(value, str) else value
    good = isinstance(listed, Sequence) and all(isinstance(text, str) for text in listed)
    return good and len(listed) > 0


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values())
