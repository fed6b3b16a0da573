"""The options of a connector, taken one by one and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
        found = self._take(name, default)
        if found is default:
            return found
        if not isinstance(found, str) or not found.strip():
            raise self._other(name, "a text", found)
        return found

    def secret(self, name: str) -> str | None:
        """Return a secret, or None; the configuration has its file or its variable."""
        self._secret.add(name)
        found: str | None = self.text(name, None)
        return found

    def number(self, name: str, default: Any = _REQUIRED, *, least: float = 0.0) -> Any:
        """Return a number of at least `least`."""
        found = self._take(name, default)
        if found is default:
            return found
        number = isinstance(found, int | float) and not isinstance(found, bool)
        if not number or not math.isfinite(found) or found < least:
            raise self._other(name, f"a number of at least {least:g}", found)
        return float(found)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return true or false."""
        found = self._take(name, default)
        if not isinstance(found, bool):
            raise self._other(name, "true or false", found)
        return found

    def texts(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of texts; a single text is one."""
        found = self._take(name, default)
        if found is default:
            return found
        listed = [found] if isinstance(found, str) else found
        good = isinstance(listed, Sequence) and all(isinstance(each, str) for each in listed)
        if not good or not listed:
            raise self._other(name, "a list of texts", found)
        return tuple(listed)

    def table(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a table of texts by name."""
        found = self._take(name, default)
        if found is default:
            return found
        good = isinstance(found, Mapping) and all(isinstance(each, str) for each in found.values())
        if not good:
            raise self._other(name, "a table of texts", found)
        return dict(found)

    def end(self) -> None:
        """Raise a `ParameterError` for an option that was not taken."""
        others = sorted(set(self._given) - self._taken)
        if others:
            names = self._taken - self._secret
            names |= {f"{each}_{way}" for each in self._secret for way in ("env", "file")}
            *some, last = sorted(names) or ["none"]
            known = f"{', '.join(some)} and {last}" if some else last
            hints = [hint for each in others if (hint := did_you_mean(each, sorted(names)))]
            raise ParameterError(
                f"{self.where}: expected options among {known}, found {', '.join(others)}",
                hint=hints[0] if hints else None,
            )

    def _take(self, name: str, default: Any) -> Any:
        self._taken.add(name)
        found = self._given.get(name, default)
        if found is _REQUIRED:
            raise ParameterError(f"{self.where}: expected the option {name}, found none")
        return found

    def _other(self, name: str, expected: str, found: Any) -> ParameterError:
        kind = "an empty text" if isinstance(found, str) and not found.strip() else ""
        return ParameterError(
            f"{self.where}: {name}: expected {expected}, "
            f"found {kind or f'another {type(found).__name__}'}"
        )
