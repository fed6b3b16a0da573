"""The one grammar of names: stream and channel of a series with labels, and what is a rate."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase, translate
from functools import lru_cache

from newnormal.errors import ParameterError

_LONGEST = 200  # characters of the name of a stream or a channel
_SEPARATORS = re.compile(r'[\s"=,{}\\]')
_DIGEST = hashlib.blake2b(digest_size=16)
_NO_RATES = ("no",)
_NOTHING = r"(?!)"


class Naming:
    """Tells the stream and the channel of a series from its name and its labels.

    The stream's name is the values of the labels `by`, joined with ``/``; a label that a series
    does not have is left out. The channel's name is that of the series, with its other labels
    behind it. So two series share no channel of a stream, unless their values of `by` are the same
    once they are joined: ``a/b`` and ``c``, ``a`` and ``b/c``.

    Parameters
    ----------
    by
        Labels that a stream has one value of.
    without
        Labels that are left out of the names of channels: those that are the same for all series
        of a stream, or that change when a program restarts.
    rates
        Patterns of the names of series that are counters, besides those that say so themselves;
        ``no`` alone: none is. A counter becomes a rate, in a channel that `rate_name` names.
    fallback
        The stream of series that have none of the labels.

    Examples
    --------
    >>> naming = Naming(["job", "instance"], without=["replica"], rates=["node_net*"])
    >>> labels = {"job": "node", "instance": "db1:9100", "cpu": "0", "replica": "b"}
    >>> naming("node_load1", labels)
    ('node/db1:9100', 'node_load1{cpu="0"}')
    >>> naming("up", {}), naming.is_rate("node_network_bytes")
    (('other', 'up'), True)
    """

    def __init__(
        self,
        by: Sequence[str],
        without: Sequence[str] = (),
        rates: Sequence[str] = (),
        fallback: str = "other",
    ) -> None:
        if both := sorted(set(by) & set(without)):
            raise ParameterError(
                f"expected a label in by or in without, found {both[0]} in both",
                hint="leave it out of one of them",
            )
        self.options = tuple(by), tuple(without), tuple(rates)
        self.by = tuple(by)
        self.converts = tuple(rates) != _NO_RATES  # whether counters become rates
        patterns = map(translate, rates if self.converts else ())
        self._is_rate = re.compile("|".join(patterns) or _NOTHING).fullmatch
        self._left_out = frozenset((*by, *without))
        self._fallback = fallback

    def __call__(self, name: str, labels: Mapping[str, str]) -> tuple[str, str]:
        """Return the names of the stream and the channel."""
        stream, behind = self.parts(labels)
        return stream, fitting_name(f"{name}{behind}")

    def parts(self, labels: Mapping[str, str], fallback: str = "") -> tuple[str, str]:
        """Return the name of the stream, and what stands behind the names of series."""
        values = [labels[each] for each in self.by if labels.get(each)]
        others = {key: value for key, value in labels.items() if key not in self._left_out}
        stream = "/".join(values) or fallback or self._fallback
        return fitting_name(stream), series_name("", others)

    def is_rate(self, name: str) -> bool:
        """Return whether a series is a counter by its name."""
        return self._is_rate(name) is not None


def matching(names: Sequence[str], pattern: str) -> list[str]:
    """Return those names that a pattern of `rates` means; a name means itself.

    >>> matching(["net_in", "net_out", "load"], "net_*"), matching(["a[0]"], "a[0]")
    (['net_in', 'net_out'], ['a[0]'])
    """
    return [name for name in names if name == pattern or fnmatchcase(name, pattern)]


def rate_name(channel: str) -> str:
    """Return the name of the channel that has the rate of a counter.

    >>> rate_name("hits"), rate_name('hits{az="a"}')
    ('rate(hits)', 'rate(hits{az="a"})')
    """
    return fitting_name(f"rate({channel})")


def series_name(name: str, labels: Mapping[str, str]) -> str:
    r"""Return the name of a series with its labels, as Prometheus writes it.

    What cannot be printed is escaped in values, so that two values stay two.

    >>> series_name("up", {"job": "node", "az": "a"}), series_name("up", {})
    ('up{az="a",job="node"}', 'up')
    >>> print(series_name("up", {"path": "a" + chr(10), "b c": "d"}))
    up{"b c"="d",path="a\n"}
    """
    if not labels:
        return name
    inner = ",".join([f'{_key(key)}="{_escaped(labels[key])}"' for key in sorted(labels)])
    return f"{name}{{{inner}}}"


def _key(key: str) -> str:
    """Return the name of a label; in quotes where it has what separates labels."""
    return _short_key(key) if len(key) <= _LONGEST else _quoted(key)


def _quoted(key: str) -> str:
    return f'"{_escaped(key)}"' if _SEPARATORS.search(key) else key


_short_key = lru_cache(maxsize=4096)(_quoted)  # long ones would be megabytes each


def _escaped(value: str) -> str:
    if value.isalnum():  # by far the most frequent
        return value
    value = value.replace("\\", "\\\\").replace('"', '\\"')
    if value.isprintable():
        return value
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in value)


def digest_of(*parts: str | bytes) -> bytes:
    """Return 16 bytes that tell these parts from any others, for caches.

    >>> digest_of(b"ab", b"c") == digest_of(b"a", b"bc")
    False
    """
    digest = _DIGEST.copy()
    for part in parts:  # each with its length
        if isinstance(part, bytes):
            digest.update(b"%d:%b" % (len(part), part))
        else:
            text = part.encode("utf-8", "surrogatepass")
            digest.update(b"%d.%b" % (len(text), text))
    return digest.digest()


def fitting_name(name: str) -> str:
    """Return a name that a stream or a channel can have: printable, of at most 200 characters.

    A longer one keeps its beginning and gets a digest of the whole, so two names stay two.

    >>> fitting_name("press 1"), fitting_name("press" + chr(10) + "1"), fitting_name(" ")
    ('press 1', 'press?1', '?')
    >>> len(fitting_name("a" * 300)), fitting_name("a" * 300)[-12:]
    (200, 'aa~9835fa6bf')
    """
    shown = name
    if not name.isprintable():
        shown = "".join(each if each.isprintable() else "?" for each in name)
    if not shown.strip():
        return "?"
    if len(shown) <= _LONGEST:
        return shown
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:9]
    return f"{shown[: _LONGEST - 10]}~{digest}"
