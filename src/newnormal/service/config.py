"""The configuration of the service: its values, checked, and hashes of its tokens.

`newnormal.service.config_file` reads them from a file, the environment and the command line.
"""

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

from newnormal.errors import ParameterError
from newnormal.io.options import (
    ADDRESSES,
    DURATION,
    DURATION_OR_NEVER,
    FLAG,
    FOLDER,
    SIZE,
    TEXT,
    check_settings,
    integer,
    number,
    one_of,
    setting,
    settings_of,
    texts,
)

_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def new_token() -> str:
    """Return a new token: 256 bits that nobody can guess."""
    return f"nn_{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """Return what is stored of a token.

    A token is 256 random bits, so that a plain hash cannot be searched; a password would need a
    slow one.

    >>> hash_token("nn_example")[:20]
    'sha256:7fb845f462872'
    """
    return f"sha256:{hashlib.sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"


def is_token_hash(text: str) -> bool:
    """Whether text is what `hash_token` gives."""
    return _HASH.fullmatch(text) is not None


def token_matches(token: str, hashed: str) -> bool:
    """Whether a hash is that of a token, in a time that does not depend on either.

    >>> token_matches("nn_example", hash_token("nn_example")), token_matches("", hash_token("a"))
    (True, False)
    """
    return hmac.compare_digest(hash_token(token).encode(), hashed.encode())


READ, WRITE, OPERATE = "read", "write", "operate"
ROLES = (READ, WRITE, OPERATE)  # each may do what the ones before it may

_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_MIB = 2**20
_DATA = Path("newnormal-data")


@dataclass(frozen=True)
class StreamDefaults:
    """What holds for a stream where nothing else is set for it; durations in ns."""

    history: int = setting(
        1000, integer(50), "how many samples are collected before the first fit, such as 1000"
    )
    period: int | None = setting(
        None, DURATION, "the time between two samples; without it, found from the history"
    )
    lateness: int | None = setting(
        None, DURATION, "how long a time step waits for late samples; without it, two periods"
    )
    alarms_per_day: float = setting(1.0, number(), "how many alarms a day a stream may have")
    accept_after: str = setting(
        "1d", DURATION_OR_NEVER, "how long a change must last before it is accepted by itself"
    )
    units: tuple[str, ...] = setting((), texts(0), 'units of channels for words, such as "disk=B"')
    refit_every: int | None = setting(
        None, DURATION, "how often a live stream is fitted again; without it, on request only"
    )
    max_history: int = setting(
        20_000,
        integer(50),
        "how many samples, the newest, a fit takes at most; no fewer than history",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        object.__setattr__(self, "max_history", max(self.history, self.max_history))


@dataclass(frozen=True)
class Override:
    """What holds for the streams whose names match a pattern."""

    # A pattern with ``*`` and ``?``; the case of letters counts.
    match: str = setting("*", TEXT, 'the names of streams, such as "press-*"')
    given: Mapping[str, Any] = field(default_factory=dict)  # values of `StreamDefaults` by name

    def __post_init__(self) -> None:
        check_settings(self)
        settings = settings_of(StreamDefaults)
        for name, value in self.given.items():
            if name not in settings or not settings[name].kind.holds(value):
                raise ParameterError(
                    f"Override.{name}: expected a setting of a stream, found {value!r}",
                    hint=f"known are {', '.join(settings)}",
                )
        object.__setattr__(self, "given", MappingProxyType(dict(self.given)))


@dataclass(frozen=True)
class Limits:
    """What the service takes at most."""

    streams: int = setting(10_000, integer(), "how many streams there may be")
    channels: int = setting(500, integer(), "how many channels a stream may have")
    max_body: int = setting(16 * _MIB, SIZE, "how large the body of a request may be")
    decompressed: int = setting(
        64 * _MIB, SIZE, "how large a compressed body may be once it is decompressed"
    )
    samples_per_request: int = setting(100_000, integer(), "how many samples a request may bring")
    requests_per_second: float = setting(
        200.0, number(), "how many requests a second a client may make, on average"
    )
    subscribers: int = setting(50, integer(), "how many pages may follow the events at once")
    memory: int = setting(
        512 * _MIB, SIZE, "how much memory requests may take, of which one writer has a quarter"
    )
    lag: int = setting(
        10_000_000, integer(), "how many values may wait to be judged before senders must wait"
    )
    names: int = setting(
        256 * _MIB,
        SIZE,
        "how much memory names of streams and channels may take, of which one writer has half",
    )
    max_future: int = setting(
        _DAY, DURATION, "how far times may be ahead of this machine's clock; later ones are refused"
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class Retention:
    """How long things are kept; durations in ns, sizes in bytes."""

    samples: int = setting(90 * _DAY, DURATION, "how long every sample is kept")
    thinned: int = setting(
        730 * _DAY, DURATION, "how long thinned samples are kept, which the picture of months needs"
    )
    items: int = setting(
        365 * _DAY,
        DURATION,
        "how long alarms, changes and incidents are kept after they ended and were found",
    )
    alerts: int = setting(
        7 * _DAY, DURATION, "how long an alert that cannot be delivered is tried again"
    )
    log: int | None = setting(
        None, DURATION, "how long the log is kept after a checkpoint has all of it"
    )
    size: int | None = setting(
        None, SIZE, "how large the store may be; the oldest samples go first"
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class TokenConfig:
    """Someone who may use the service: only the hash of the token is known."""

    name: str = setting("", TEXT, "who or what uses this token")
    role: str = setting(READ, one_of(*ROLES), "what the holder may do")
    # As `newnormal.service.config.hash_token` gives it.
    hash: str = setting("", TEXT, "the hash that `newnormal serve token add` prints or stores")

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class _Connection:
    """A sink or a source: its name, its kind and the options that the kind takes."""

    name: str = setting("", TEXT, "the name of its table")
    kind: str = setting("", TEXT, "the name that its kind is registered under")
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))


class SinkConfig(_Connection):
    """Where alerts are sent."""


class SourceConfig(_Connection):
    """From where samples are fetched."""


def _default_workers() -> int:
    usable = getattr(os, "sched_getaffinity", None)
    count = len(usable(0)) if usable is not None else os.cpu_count() or 1
    return max(1, min(4, count - 1))


@dataclass(frozen=True)
class ServiceConfig:
    """All of it."""

    host: str = setting("127.0.0.1", TEXT, "the address to listen on", live=False)
    port: int = setting(8765, integer(0, 65_535), "the port to listen on", live=False)
    data: Path = setting(  # noqa: RUF009  (a field, as the others)
        _DATA, FOLDER, "the folder that keeps everything", live=False
    )
    public_url: str | None = setting(None, TEXT, "how people reach the page, for links in alerts")
    allowed_hosts: tuple[str, ...] = setting(
        (), texts(0), "names under which browsers may reach it besides host and loopback"
    )
    trusted_proxies: tuple[str, ...] = setting(
        (),
        ADDRESSES,
        "reverse proxies that are believed from where a request comes, and whether by HTTPS",
        live=False,
    )
    insecure: bool = setting(False, FLAG, "whether others may reach it without a token", live=False)
    workers: int = setting(
        _default_workers(), integer(1, 256), "how many processes fit models", live=False
    )
    checkpoint_every: int = setting(
        60 * _SECOND, DURATION, "how often all state is saved, which a start continues from"
    )
    service_alarms_per_day: float | None = setting(
        None, number(), "how many alarms a day all streams together may have", live=False
    )
    demo: bool = setting(False, FLAG, "whether simulated machines send samples", live=False)
    streams: StreamDefaults = field(default_factory=StreamDefaults)
    overrides: tuple[Override, ...] = ()  # all that match a stream's name hold, the later ones more
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    # Those of the file, the environment and the command line; more may be in the store.
    tokens: tuple[TokenConfig, ...] = ()
    sinks: tuple[SinkConfig, ...] = ()
    sources: tuple[SourceConfig, ...] = ()
    path: Path | None = None  # the file that it was read from, or None

    def __post_init__(self) -> None:
        check_settings(self)
        for what, several in (
            ("token", self.tokens),
            ("sink", self.sinks),
            ("source", self.sources),
        ):
            names = [one.name for one in several]
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise ParameterError(
                    f"expected each {what} to have a name of its own, found "
                    f"{', '.join(sorted(twice))} more than once",
                    hint="rename one of them",
                )
        if self.public_url is not None and not self.public_url.startswith(("http://", "https://")):
            raise ParameterError(
                f"public_url: expected an address that begins with http:// or https://, "
                f"found {self.public_url!r}",
                hint="public_url is how people reach the page, such as https://watch.example.org",
            )

    def for_stream(self, name: str) -> StreamDefaults:
        """Return what holds for a stream.

        >>> config = ServiceConfig(overrides=(Override("press-*", {"history": 500}),))
        >>> config.for_stream("press-1").history, config.for_stream("oven").history
        (500, 1000)
        """
        changes: dict[str, Any] = {}
        for override in self.overrides:
            if fnmatchcase(name, override.match):
                changes |= override.given
        return replace(self.streams, **changes) if changes else self.streams

    @property
    def url(self) -> str:
        """Where the page is: `public_url`, or the address that it listens on."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104
        return f"http://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def needs_restart(old: ServiceConfig, new: ServiceConfig) -> list[str]:
    """Return the settings that differ and that a running service does not take over.

    >>> needs_restart(ServiceConfig(), ServiceConfig(port=9000, public_url="https://a.example"))
    ['port']
    """
    return [
        name
        for name, setting_ in settings_of(ServiceConfig).items()
        if not setting_.live and getattr(old, name) != getattr(new, name)
    ]
