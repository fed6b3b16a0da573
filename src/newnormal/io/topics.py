"""Topics of MQTT: patterns whose parts name stream and channel, and topics to send to."""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from newnormal.errors import ParameterError

_STREAM, _CHANNEL = "{stream}", "{channel}"
_ONE, _REST = "+", "#"
_IN_BRACES = re.compile(r"\{(\w+)\}")
_LONGEST = 65_535  # bytes of a topic, by the specification
_REMEMBERED = 20_000  # topics


class Named(NamedTuple):
    """What a topic says of its messages."""

    pattern: int  # the number of the pattern that it matches
    stream: str  # the name of the stream
    channel: str | None  # what the message is about; None: the topic does not say


class TopicPattern:
    """A pattern of topics: ``{stream}`` and ``{channel}`` are wildcards for one level each.

    ``+`` is a wildcard that names nothing. ``#`` at the end matches any number of levels. They are
    the channel where the pattern has ``{stream}``, behind that of ``{channel}``. Without
    ``{stream}``, the stream is the topic without its ``{channel}``. Several parts with the same
    name are joined with ``/``.

    `where`: what messages begin with. `text`: the pattern.

    >>> pattern = TopicPattern("source bus", "plant/{stream}/+/{channel}")
    >>> pattern.filter
    'plant/+/+/+'
    >>> pattern.match("plant/press-1/raw/temp"), pattern.match("plant/press-1")
    (('press-1', 'temp'), None)
    >>> TopicPattern("source bus", "plant/{stream}/#").match("plant/press-1/motor/rpm")
    ('press-1', 'motor/rpm')
    >>> TopicPattern("source bus", "plant/+/{channel}").match("plant/press-1/temp")
    ('plant/press-1', 'temp')
    """

    def __init__(self, where: str, text: str) -> None:
        self.text = text
        self._levels = text.split("/")
        _check(where, text, self._levels)
        self._has_stream = _STREAM in self._levels
        self.filter = "/".join(
            _ONE if level in (_STREAM, _CHANNEL) else level for level in self._levels
        )

    def match(self, topic: str) -> tuple[str, str | None] | None:
        """Return stream and channel of a topic; None: it is another one."""
        levels = topic.split("/")
        if not _matches(self.filter.split("/"), levels):
            return None
        streams: list[str] = []
        channels: list[str] = []
        for at, part in enumerate(self._levels):
            if part == _REST:
                (channels if self._has_stream else streams).extend(levels[at:])
            elif part == _CHANNEL:
                channels.append(levels[at])
            elif part == _STREAM or not self._has_stream:
                streams.append(levels[at])
        return "/".join(streams), "/".join(channels) if channels else None


class TopicPatterns:
    """All patterns of a source. A topic belongs to the first one that it matches.

    `where`: what messages begin with. `patterns`: as `TopicPattern` takes them.

    >>> topics = TopicPatterns("source bus", ["plant/{stream}/{channel}", "plant/#"])
    >>> topics.filters
    ('plant/#',)
    >>> topics.named("plant/press-1/temp")
    Named(pattern=0, stream='press-1', channel='temp')
    """

    def __init__(self, where: str, patterns: Sequence[str]) -> None:
        self.patterns = tuple(TopicPattern(where, pattern) for pattern in patterns)
        wanted = dict.fromkeys(each.filter for each in self.patterns)
        # what to subscribe to: a filter that another one covers is left out
        self.filters = tuple(
            each
            for each in wanted
            if not any(other != each and covers(other, each) for other in wanted)
        )
        self._known: dict[str, Named | None] = {}

    def overlapping(self) -> tuple[str, str] | None:
        """Return two filters that match one topic: a broker may send its messages twice."""
        pairs = combinations(self.filters, 2)
        return next(((one, other) for one, other in pairs if overlap(one, other)), None)

    def named(self, topic: str) -> Named | None:
        """Return what a topic says; None: it matches no pattern."""
        try:
            return self._known[topic]
        except KeyError:
            pass
        named = None
        for at, pattern in enumerate(self.patterns):
            if (names := pattern.match(topic)) is not None:
                named = Named(at, *names)
                break
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[topic] = named
        return named


class TopicTemplate:
    """A topic to send to, in which names in braces are filled in.

    In what is filled in, a ``/`` stays, so that people can subscribe to ``hall-1/#``. What a topic
    must not have is written as in the address of a page, such as ``%23`` for ``#``.

    `where`: what messages begin with. `text`: the topic. `names`: that may stand in braces.

    >>> template = TopicTemplate("sink bus", "newnormal/{kind}/{stream}", ["kind", "stream"])
    >>> template.fill({"kind": "alarm", "stream": "hall 1/press #2"})
    'newnormal/alarm/hall 1/press %232'
    """

    def __init__(self, where: str, text: str, names: Sequence[str]) -> None:
        left = text
        for name in names:
            left = left.replace(f"{{{name}}}", "")
        if any(each in left for each in "{}+#\0"):
            known = ", ".join(f"{{{name}}}" for name in names)
            raise ParameterError(
                f"{where}: topic: expected a topic with {known} and no other braces, + or #, "
                f"found {text!r}"
            )
        if text.startswith("$"):
            raise ParameterError(
                f"{where}: topic: expected one that does not begin with $, found {text!r}",
                hint="such topics belong to the broker",
            )
        self.text = text

    def has(self, name: str) -> bool:
        """Return whether a name is filled in."""
        return f"{{{name}}}" in self.text

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the topic."""
        topic = _IN_BRACES.sub(lambda part: _escaped(values[part[1]]), self.text)
        return "%24" + topic[1:] if topic.startswith("$") else topic


def covers(one: str, other: str) -> bool:
    """Return whether a filter matches every topic that another one matches.

    >>> covers("plant/#", "plant/+/temp"), covers("plant/+", "plant/#"), covers("#", "$SYS/#")
    (True, False, False)
    """
    a, b = one.split("/"), other.split("/")
    if b[0].startswith("$") and a[0] != b[0]:
        return False
    for at, part in enumerate(a):
        if part == _REST:
            return True
        if at >= len(b) or b[at] == _REST or part not in (_ONE, b[at]):
            return False
    return len(a) == len(b)


def overlap(one: str, other: str) -> bool:
    """Return whether some topic matches both filters.

    >>> overlap("plant/+/temp", "plant/press-1/#"), overlap("plant/+", "plant/+/temp")
    (True, False)
    """
    a, b = one.split("/"), other.split("/")
    if a[0] != b[0] and "$" in (a[0][:1], b[0][:1]):
        return False
    for x, y in zip(a, b, strict=False):
        if _REST in (x, y):
            return True
        if x != y and _ONE not in (x, y):
            return False
    longer = a if len(a) > len(b) else b
    return len(a) == len(b) or longer[min(len(a), len(b)) :] == [_REST]


def _matches(wanted: Sequence[str], levels: Sequence[str]) -> bool:
    if levels[0].startswith("$") and wanted[0] in (_ONE, _REST):
        return False
    for at, part in enumerate(wanted):
        if part == _REST:
            return True
        if at >= len(levels) or part not in (_ONE, levels[at]):
            return False
    return len(wanted) == len(levels)


def _check(where: str, text: str, levels: Sequence[str]) -> None:
    """Raise a ParameterError unless a pattern can work."""
    begun = f"{where}: topics: {text!r}: expected"
    if not text or "\0" in text or len(text.encode("utf-8", "replace")) > _LONGEST:
        raise ParameterError(f"{begun} a topic of 1 to {_LONGEST:,} bytes, found another")
    for at, part in enumerate(levels):
        if part in (_ONE, _STREAM, _CHANNEL) or (part == _REST and at == len(levels) - 1):
            continue
        if any(each in part for each in "+#{}"):
            raise ParameterError(
                f"{begun} wildcards that are a whole level, and # at the end, found {part!r}",
                hint="a level is +, {stream}, {channel} or a text; levels are separated by /",
            )
    if levels[0] == "$share":
        raise ParameterError(
            f"{begun} no shared subscription, found one",
            hint="the service needs all messages of a stream",
        )
    if set(levels) == {_CHANNEL}:
        raise ParameterError(
            f"{begun} a level that names the stream, found {_CHANNEL} alone",
            hint="put {stream} or a text before it",
        )


def _escaped(name: str) -> str:
    return "".join(
        each
        if each.isprintable() and each not in "+#%"
        else "".join(f"%{byte:02X}" for byte in each.encode("utf-8", "replace"))
        for each in name
    )
