"""How a setting is written: in a file, in the environment, and as a value that is checked.

Each setting is a field of a frozen dataclass with a `Kind`: what it takes, as a sentence and as
code. `settings_of` lists them, for reading a table, for the environment and for the reference.
"""

import ipaddress
import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from newnormal.config import duration, duration_text
from newnormal.errors import ParameterError
from newnormal.texts import did_you_mean

_SIZES = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SIZES |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_MOST = 2**62


class Kind:
    """What a setting takes."""

    expected: str = ""  # in words, for errors

    def read(self, given: object) -> Any:
        """Return the value of what a TOML file has; raise ValueError where it has none."""
        return given

    def of_text(self, text: str) -> Any:
        """Return what a TOML file would have for the text of an environment variable."""
        return text

    def holds(self, value: Any) -> bool:
        """Whether a value is one of these."""
        raise NotImplementedError

    def shown(self, value: Any) -> str:
        """Return a value as a TOML file would have it."""
        return json.dumps(value)


class Text(Kind):
    """Text that is not empty."""

    expected = "text that is not empty"

    def holds(self, value: Any) -> bool:
        """Whether it is text."""
        return isinstance(value, str) and bool(value.strip())


class OneOf(Kind):
    """One of some words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.expected = "one of " + ", ".join(f'"{word}"' for word in words)

    def holds(self, value: Any) -> bool:
        """Whether it is one of the words."""
        return value in self.words


class Texts(Kind):
    """A list of texts; in the environment with commas between."""

    expected = 'a list of texts, such as ["one", "two"]'

    def read(self, given: object) -> Any:
        """Return a tuple."""
        if not isinstance(given, list):
            raise ValueError(given)
        return tuple(given)

    def of_text(self, text: str) -> Any:
        """Return the parts."""
        return [part.strip() for part in text.split(",") if part.strip()]

    def holds(self, value: Any) -> bool:
        """Whether all are texts."""
        return isinstance(value, tuple) and all(isinstance(each, str) and each for each in value)

    def shown(self, value: Any) -> str:
        """Return it as a list."""
        return json.dumps(list(value))


class Addresses(Texts):
    """Addresses of IP in figures, and networks of them."""

    expected = 'a list of addresses and networks, such as ["127.0.0.1", "10.1.0.0/16"]'

    def holds(self, value: Any) -> bool:
        """Whether all are addresses or networks."""
        try:
            return super().holds(value) and all(map(ipaddress.ip_network, value))
        except ValueError:
            return False


class Flag(Kind):
    """True or false."""

    expected = "true or false"

    def of_text(self, text: str) -> Any:
        """Read true, 1, yes, on and their opposites."""
        lowered = text.strip().lower()
        if lowered in ("true", "1", "yes", "on"):
            return True
        return False if lowered in ("false", "0", "no", "off") else text

    def holds(self, value: Any) -> bool:
        """Whether it is one of the two."""
        return isinstance(value, bool)


class Int(Kind):
    """A whole number between two bounds."""

    def __init__(self, least: int = 1, most: int = _MOST) -> None:
        self.least, self.most = least, most
        upto = f" and at most {most:,}" if most < _MOST else ""
        self.expected = f"a whole number of at least {least:,}{upto}"

    def of_text(self, text: str) -> Any:
        """Read digits."""
        return int(text) if re.fullmatch(r"\s*-?\d{1,30}\s*", text) else text

    def holds(self, value: Any) -> bool:
        """Whether it is one, in the bounds."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and self.least <= value <= self.most


class Number(Kind):
    """A number above zero."""

    expected = "a number above 0"

    def of_text(self, text: str) -> Any:
        """Read a decimal number."""
        try:
            return float(text)
        except ValueError:
            return text

    def holds(self, value: Any) -> bool:
        """Whether it is finite and above zero."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and math.isfinite(value) and value > 0


class Duration(Kind):
    """A duration, written as text; its value is in nanoseconds."""

    expected = 'a duration above zero, such as "10s", "5m" or "1d"'

    def read(self, given: object) -> Any:
        """Read the text."""
        if not isinstance(given, str):
            raise ValueError(given)
        return int(duration(given).astype(np.int64))

    def holds(self, value: Any) -> bool:
        """Whether it is a number of nanoseconds."""
        return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**63

    def shown(self, value: Any) -> str:
        """Return it as text."""
        return json.dumps(duration_text(np.timedelta64(value, "ns")))


class DurationOrNever(Kind):
    """The option `accept_after` of a detector as text: a duration, or "never"."""

    expected = 'a duration such as "6h" or "1d", or "never"'

    def holds(self, value: Any) -> bool:
        """Whether a detector would take it."""
        if value == "never":
            return True
        try:
            return isinstance(value, str) and bool(duration(value))
        except ParameterError:
            return False


class Size(Kind):
    """A number of bytes, as text with a unit or as a whole number."""

    expected = 'a size above zero, such as "500MB" or "16MiB"'

    def read(self, given: object) -> Any:
        """Read the text."""
        if not isinstance(given, str):
            return given
        match = _SIZE.fullmatch(given.lower())
        if match is None or match[2] not in _SIZES:
            raise ValueError(given)
        return round(float(match[1]) * _SIZES[match[2]])

    def of_text(self, text: str) -> Any:
        """Take digits alone as bytes."""
        return int(text) if re.fullmatch(r"\s*\d{1,18}\s*", text) else text

    def holds(self, value: Any) -> bool:
        """Whether it is a number of bytes."""
        return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST

    def shown(self, value: Any) -> str:
        """Return it with the largest unit that keeps it whole."""
        for unit in ("GiB", "MiB", "KiB"):
            if value % _SIZES[unit.lower()] == 0:
                return json.dumps(f"{value // _SIZES[unit.lower()]}{unit}")
        return json.dumps(value)


class Folder(Kind):
    """A path."""

    expected = "a path"

    def read(self, given: object) -> Any:
        """Return the path."""
        if not isinstance(given, str) or not given or "\0" in given:
            raise ValueError(given)
        return Path(given).expanduser()

    def holds(self, value: Any) -> bool:
        """Whether it is a path."""
        return isinstance(value, Path)

    def shown(self, value: Any) -> str:
        """Return it as text."""
        return json.dumps(str(value))


class Optional(Kind):
    """Another kind, or none, which is how it is without the setting."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.expected = kind.expected

    def read(self, given: object) -> Any:
        """Read the kind."""
        return self.kind.read(given)

    def of_text(self, text: str) -> Any:
        """Read the kind."""
        return self.kind.of_text(text)

    def holds(self, value: Any) -> bool:
        """Whether it is none or of the kind."""
        return value is None or self.kind.holds(value)

    def shown(self, value: Any) -> str:
        """Return "" for none."""
        return "" if value is None else self.kind.shown(value)


class Setting(NamedTuple):
    """A field of a dataclass that can be set."""

    name: str  # as in the file
    kind: Kind  # what it takes
    what: str  # what it is, in a sentence without its full stop
    live: bool  # whether a running service takes a new value over when it reloads
    default: Any  # its value if it is not set

    def parse(self, given: object, where: str, *, text: bool = False) -> Any:
        """Return the value of what was given, or raise the error that names where.

        Parameters
        ----------
        given
            As a TOML file has it; with `text`, as the environment or the command line has it.
        where
            What the error begins with, such as ``"service.toml, [limits] streams"``.
        """
        try:
            native = self.kind.of_text(given) if text and isinstance(given, str) else given
            value = self.kind.read(native)
        except (ValueError, OverflowError):  # a ParameterError is one
            raise self._error(given, where) from None
        if not self.kind.holds(value):
            raise self._error(given, where)
        return value

    def _error(self, given: object, where: str) -> ParameterError:
        return ParameterError(
            f"{where}: expected {self.kind.expected}, found {given!r}",
            hint=f"{self.name} is {self.what}",
        )


def setting(default: Any, kind: Kind, what: str, *, live: bool = True) -> Any:
    """Return the field of a dataclass that is a setting."""
    return field(default=default, metadata={"kind": kind, "what": what, "live": live})


def settings_of(cls: type) -> dict[str, Setting]:
    """Return the settings of a dataclass by name."""
    settings = {}
    for field_ in fields(cls):
        if "kind" in field_.metadata:
            default = None if field_.default is MISSING else field_.default
            settings[field_.name] = Setting(field_.name, **field_.metadata, default=default)
    return settings


def check_settings(value: Any) -> None:
    """Raise a ParameterError if a field of a dataclass has a value that its kind does not take."""
    for name, setting_ in settings_of(type(value)).items():
        if not setting_.kind.holds(getattr(value, name)):
            raise ParameterError(
                f"{type(value).__name__}.{name}: expected {setting_.kind.expected}, "
                f"found {getattr(value, name)!r}",
                hint=f"{name} is {setting_.what}",
            )


def nearest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """Return the hint for a name that is not known.

    >>> nearest("prot", ["host", "port"])
    'did you mean port?'
    """
    return did_you_mean(name, known) or f"known are {', '.join(known)}"


def parse_json(text: str, where: str) -> Any:
    """Return the JSON value of an environment variable."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ParameterError(
            f"{where}: expected JSON, found text that is none: {error}",
            hint="write the table as a JSON object, or put it into the file",
        ) from None
