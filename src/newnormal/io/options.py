"""Options of a configuration, of connectors and of the service: what each takes, and its check.

A `Kind` is what an option takes. A connector takes its options one by one from `Options`. Of the
service, an option is a `setting`: a field of a frozen dataclass, so that the reference, the
environment and the command line know it, too.
One module because there is one grammar: kinds, and the two that read them.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from newnormal.config import duration, duration_text
from newnormal.errors import ParameterError
from newnormal.texts import did_you_mean

_REQUIRED: Any = ...  # its name is the same in every process: the reference shows it
_SIZES = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SIZES |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_FLAGS = {"true": True, "1": True, "yes": True, "on": True}
_FLAGS |= {"false": False, "0": False, "no": False, "off": False}
_MOST = 2**62
_MOST_SECRET = 65_536  # bytes of its file
_SECOND = 1_000_000_000


def _same(value: Any) -> Any:
    return value


class Kind(NamedTuple):
    """What an option takes."""

    expected: str  # in words, for errors
    # Returns the value of what a TOML file has; raises ValueError or TypeError where it has none.
    read: Callable[[Any], Any]
    of_text: Callable[[str], Any] = _same  # what a TOML file would have for a variable's text
    written: Callable[[Any], Any] = _same  # what a TOML file would have for a value
    is_free: bool = False  # whether it takes any text, which may be a secret

    def holds(self, value: Any) -> bool:
        """Whether a value is one of these."""
        try:
            self.read(self.written(value))
        except (ValueError, TypeError, OverflowError):  # a ParameterError is a ValueError
            return False
        return True


def _checked(is_good: bool, value: Any) -> Any:
    if not is_good:
        raise ValueError(value)
    return value


def _read_text(given: Any) -> str:
    text: str = _checked(isinstance(given, str) and given.strip() != "", given)
    return text


def _read_duration(given: Any) -> int:
    return int(duration(_read_text(given)).astype(np.int64))


def _read_size(given: Any) -> int:
    if isinstance(given, str):
        match = _SIZE.fullmatch(given.lower())
        if match is None or match[2] not in _SIZES:
            raise ValueError(given)
        given = round(float(match[1]) * _SIZES[match[2]])
    size: int = integer(1).read(given)
    return size


def _size_text(size: int) -> str | int:
    """Return a size with the largest unit that keeps it whole."""
    for unit in ("GiB", "MiB", "KiB"):
        if size % _SIZES[unit.lower()] == 0:
            return f"{size // _SIZES[unit.lower()]}{unit}"
    return size


def _digits(text: str) -> Any:
    return int(text) if re.fullmatch(r"\s*-?\d{1,30}\s*", text) else text


def _decimal(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def texts(least: int = 1) -> Kind:
    """Return the kind of at least so many texts; a text alone is one, commas separate several."""

    def read(given: Any) -> tuple[str, ...]:
        listed = [given] if isinstance(given, str) else given
        _checked(isinstance(listed, Sequence) and len(listed) >= least, given)
        return tuple(_read_text(text) for text in listed)

    def of_text(text: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]

    return Kind("a list of texts", read, of_text, list, is_free=True)


def one_of(*words: str) -> Kind:
    """Return the kind of some words."""
    expected = "one of " + ", ".join(f'"{word}"' for word in words)
    return Kind(expected, lambda given: _checked(given in words, given))


def integer(least: int = 1, most: int = _MOST) -> Kind:
    """Return the kind of whole numbers between two bounds."""
    upto = f" and at most {most:,}" if most < _MOST else ""

    def read(given: Any) -> int:
        whole = isinstance(given, int) and not isinstance(given, bool)
        number: int = _checked(whole and least <= given <= most, given)
        return number

    return Kind(f"a whole number of at least {least:,}{upto}", read, _digits)


def number(least: float | None = None) -> Kind:
    """Return the kind of numbers of at least `least`; None: above 0."""

    def read(given: Any) -> float:
        finite = isinstance(given, int | float) and not isinstance(given, bool)
        finite = finite and math.isfinite(given)
        return float(_checked(finite and (given > 0 if least is None else given >= least), given))

    return Kind(
        "a number above 0" if least is None else f"a number of at least {least:g}", read, _decimal
    )


def _read_table(given: Any) -> dict[str, str]:
    good = isinstance(given, Mapping) and all(isinstance(text, str) for text in given.values())
    return dict(_checked(good, given))


def _read_addresses(given: Any) -> tuple[str, ...]:
    addresses: tuple[str, ...] = texts(0).read(given)
    for address in addresses:
        ipaddress.ip_network(address)
    return addresses


TEXT = Kind("a text", _read_text, is_free=True)
FLAG = Kind(
    "true or false",
    lambda given: _checked(isinstance(given, bool), given),
    lambda text: _FLAGS.get(text.strip().lower(), text),
)
TABLE = Kind("a table of texts", _read_table, is_free=True)
_NAMED = Kind(
    "tables with a name each",
    lambda given: _checked(isinstance(given, Mapping), given),
    is_free=True,
)
_LISTED = Kind(
    "a list of tables", lambda given: _checked(isinstance(given, list), given), is_free=True
)
# Its value is in ns.
DURATION = Kind(
    'a duration above zero, such as "10s", "5m" or "1d"',
    _read_duration,
    written=lambda ns: duration_text(np.timedelta64(integer().read(ns), "ns")),
)
# The option `accept_after` of a detector, as text.
DURATION_OR_NEVER = Kind(
    'a duration such as "6h" or "1d", or "never"',
    lambda given: _checked(given == "never" or _read_duration(given) > 0, given),
)
# Its value is in bytes.
SIZE = Kind('a size above zero, such as "500MB" or "16MiB"', _read_size, _digits, _size_text)
FOLDER = Kind(
    "a path",
    lambda given: Path(_checked("\0" not in _read_text(given), given)).expanduser(),
    written=str,
)
ADDRESSES = texts(0)._replace(
    expected='a list of addresses and networks, such as ["127.0.0.1", "10.1.0.0/16"]',
    read=_read_addresses,
)


class Setting(NamedTuple):
    """A field of a dataclass that can be set."""

    name: str  # as in the file
    kind: Kind
    what: str  # what it is, in a sentence without its full stop
    live: bool  # whether a running service takes a new value over when it reloads
    default: Any  # its value if it is not set

    def parse(self, given: object, where: str, *, text: bool = False) -> Any:
        """Return the value of what was given, or raise the error that names where.

        `given`: as a TOML file has it; with `text`, as the environment or the command line has it.
        `where`: what the error begins with, such as ``"service.toml, [limits]: streams"``.
        """
        try:
            native = self.kind.of_text(given) if text and isinstance(given, str) else given
            return self.kind.read(native)
        except (ValueError, TypeError, OverflowError):  # a ParameterError is a ValueError
            raise self.error(given, where) from None

    def error(self, found: object, where: str) -> ParameterError:
        """Return the error of a value that it does not take."""
        return ParameterError(
            f"{where}: expected {self.kind.expected}, found {found!r}",
            hint=f"{self.name} is {self.what}",
        )

    def shown(self) -> str:
        """Return the default as a TOML file would have it; "" for none."""
        return "" if self.default is None else json.dumps(self.kind.written(self.default))


def setting(default: Any, kind: Kind, what: str, *, live: bool = True) -> Any:
    """Return the field of a dataclass that is a setting."""
    return field(default=default, metadata={"kind": kind, "what": what, "live": live})


def settings_of(cls: type) -> dict[str, Setting]:
    """Return the settings of a dataclass by name."""
    return {
        each.name: Setting(
            each.name, **each.metadata, default=None if each.default is MISSING else each.default
        )
        for each in fields(cls)
        if "kind" in each.metadata
    }


def check_settings(value: Any) -> None:
    """Raise a ParameterError if a field is neither its default nor a value of its kind."""
    for name, each in settings_of(type(value)).items():
        found = getattr(value, name)
        if found is not each.default and not each.kind.holds(found):
            raise each.error(found, f"{type(value).__name__}.{name}")


def unknown(where: str, name: str, known: Iterable[str]) -> ParameterError:
    """Return the error of an option that there is not.

    >>> print(unknown("service.toml: ", "prot", ["host", "port"]))
    service.toml: prot: expected an option, found an unknown one
    hint: did you mean port?
    """
    names = sorted(known)
    return ParameterError(
        f"{where}{name}: expected an option, found an unknown one",
        hint=did_you_mean(name, names) or f"known are {', '.join(names) or 'none'}",
    )


def secret_of_file(path: Path, where: str) -> str:
    """Return the first line of a file, without the space around it."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_SECRET).decode("utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ParameterError(
            f"{where}: expected a file with a secret at {path}, could not read it: {why}",
            hint="the file must exist and the service's user must be allowed to read it",
        ) from None
    if not text:
        raise ParameterError(
            f"{where}: expected a secret in {path}, found an empty file",
            hint="write the secret into it, on a line of its own",
        )
    return text.splitlines()[0].strip()


class Options:
    """Options by name, as a table of the configuration has them.

    Take each one by what it must be, then call `end`: one that nobody took is an error that names
    what there is. An option that is not given has its default; without one it is required.

    Parameters
    ----------
    where
        What messages begin with, such as ``"sink chat"``.
    given
        The values. A text that may be a secret is not shown in a message.
    environ
        Where variables of secrets are; None: the environment of this process.

    Examples
    --------
    >>> options = Options("sink chat", {"url": "http://127.0.0.1/", "timout": "3s"})
    >>> options.text("url"), options.seconds("timeout", "10s")
    ('http://127.0.0.1/', 10.0)
    >>> options.end()
    Traceback (most recent call last):
    ...
    newnormal.errors.ParameterError: sink chat: timout: expected an option, found an unknown one
    hint: did you mean timeout?
    """

    def __init__(self, where: str, given: Any, environ: Mapping[str, str] | None = None) -> None:
        if not isinstance(given, Mapping):
            raise ParameterError(f"{where}: expected a table, found another {type(given).__name__}")
        self.where = where
        self._given = given
        self._environ = os.environ if environ is None else environ
        self._taken: set[str] = set()
        self._secret: set[str] = set()

    def take(self, name: str, kind: Kind, default: Any = _REQUIRED) -> Any:
        """Return the value of an option, or the default, which is not checked."""
        self._taken.add(name)
        value = self._given.get(name, default)
        if value is _REQUIRED:
            raise ParameterError(f"{self.where}: expected the option {name}, found none")
        if value is default:
            return value
        try:
            return kind.read(value)
        except (ValueError, TypeError, OverflowError):  # a ParameterError is a ValueError
            found = f"another {type(value).__name__}" if kind.is_free else f"{value!r:.60}"
            if isinstance(value, str) and not value.strip():
                found = "an empty text"
            raise ParameterError(
                f"{self.where}: {name}: expected {kind.expected}, found {found}"
            ) from None

    def text(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a text that is not empty."""
        return self.take(name, TEXT, default)

    def secret(self, name: str) -> str | None:
        """Return a secret, or None: of the file ``{name}_file`` or the variable ``{name}_env``.

        Where the service reads a configuration, it refuses one in `name` itself.
        """
        self._secret.add(name)
        secret: str | None = self.private(name, None)
        return secret

    def private(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a text that may be a secret: itself, or of a file or a variable as a `secret`."""
        ways = (name, f"{name}_file", f"{name}_env")
        self._taken |= {*ways}
        chosen = [way for way in ways if way in self._given]
        if len(chosen) > 1:
            raise ParameterError(
                f"{self.where}: expected {chosen[0]} or {chosen[1]}, found both",
                hint="leave one out",
            )
        if not chosen or chosen[0] == name:
            return self.text(name, default)
        [way] = chosen
        source, where = self.text(way), f"{self.where}: {way}"
        if way.endswith("_file"):
            return secret_of_file(Path(source), where)
        if text := self._environ.get(source, "").strip():
            return text
        raise ParameterError(
            f"{where}: expected a secret in the environment variable {source}, found none",
            hint=f"set {source} for the service, or use {name}_file",
        )

    def number(self, name: str, default: Any = _REQUIRED, *, least: float = 0.0) -> Any:
        """Return a number of at least `least`."""
        return self.take(name, number(least), default)

    def integer(
        self, name: str, default: Any = _REQUIRED, *, least: int = 0, most: int = _MOST
    ) -> Any:
        """Return a whole number between two bounds."""
        return self.take(name, integer(least, most), default)

    def duration(self, name: str, default: str = _REQUIRED, *, least: str = "1ns") -> int:
        """Return a duration in ns; it is a text, such as ``"10s"``."""
        ns: Any = default if default is _REQUIRED else DURATION.read(default)
        shortest: int = DURATION.read(least)
        expected = f'a duration of at least {least}, such as "10s" or "5m"'
        kind = Kind(
            DURATION.expected if shortest == 1 else expected,
            lambda given: integer(shortest).read(DURATION.read(given)),
        )
        return int(self.take(name, kind, ns))

    def seconds(self, name: str, default: str = _REQUIRED, *, least: str = "1ns") -> float:
        """Return a duration in seconds; it is a text, such as ``"10s"``."""
        return self.duration(name, default, least=least) / _SECOND

    def choice(self, name: str, *words: str) -> str:
        """Return one of some words; the first is the default."""
        word: str = self.take(name, one_of(*words), words[0])
        return word

    def flag(self, name: str, default: bool = False) -> bool:
        """Return true or false."""
        flag: bool = self.take(name, FLAG, default)
        return flag

    def texts(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of texts; a single text is one."""
        return self.take(name, texts(), default)

    def table(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a table of texts by name."""
        return self.take(name, TABLE, default)

    def settings(self, cls: type) -> dict[str, Any]:
        """Return those settings of a dataclass that are given; errors show their values."""
        settings = settings_of(cls)
        self._taken |= settings.keys()
        return {
            name: settings[name].parse(value, f"{self.where}: {name}")
            for name, value in self._given.items()
            if name in settings
        }

    def section(self, name: str) -> Options:
        """Return the options of a table in this one, which need not be there."""
        self._taken.add(name)
        return Options(f"{self.where}, [{name}]", self._given.get(name, {}))

    def sections(self, name: str) -> dict[str, Options]:
        """Return the options of each table of a table."""
        tables = self.take(name, _NAMED, {})
        return {key: Options(f"{self.where}, [{name}.{key}]", tables[key]) for key in tables}

    def listed(self, name: str) -> list[Options]:
        """Return the options of each table of a list."""
        tables = enumerate(self.take(name, _LISTED, ()), 1)
        return [Options(f"{self.where}, [[{name}]] number {at}", table) for at, table in tables]

    def rest(self, *names: str) -> dict[str, Any]:
        """Return some options that are given, unchecked; without names, all not taken before."""
        names = names or tuple(self._given.keys() - self._taken)
        self._taken |= set(names)
        return {name: value for name, value in self._given.items() if name in names}

    def end(self) -> None:
        """Raise a `ParameterError` for an option that was not taken."""
        for name in self._given:
            if name not in self._taken:
                raise unknown(f"{self.where}: ", name, self._taken - self._secret)


class Connector(ABC):  # noqa: B024 - those that derive from it have abstract methods
    """A source or a sink of the service, as a table of the configuration describes it.

    Parameters
    ----------
    name
        Of its table in the configuration.
    options
        The other keys of the table.

    Attributes
    ----------
    options
        `newnormal.io.Options`: take each, and then call `end`.
    """

    role: ClassVar[str] = "sink"  # what messages call it

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self.options = Options(f"{self.role} {name}", options)

    def check(self) -> str:
        """Try the connection without sending anything; return what was found in one sentence.

        Raise an error if it could not work. What follows ``warning: `` in the sentence works and
        is likely not what people want. `newnormal serve --check` calls it.
        """
        return "not tried"

    def close(self) -> None:
        """Release what it holds. May be called twice, and while another method waits."""
        return
