"""Topics of MQTT: patterns beside paho's matching, filters beside all short topics."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.errors import ParameterError
from newnormal.io.topics import Named, TopicPattern, TopicPatterns, TopicTemplate, covers, overlap
from tests.counts import count
from tests.errors import raised

WHERE = "source bus"


def match(pattern: str, topic: str) -> tuple[str, str | None] | None:
    return TopicPattern(WHERE, pattern).match(topic)


@pytest.mark.parametrize(
    ("pattern", "topic", "stream", "channel"),
    [
        ("plant/{stream}/{channel}", "plant/press-1/temp", "press-1", "temp"),
        ("zigbee2mqtt/{stream}", "zigbee2mqtt/kitchen", "kitchen", None),
        ("{stream}/{stream}/{channel}", "hall-1/press-2/temp", "hall-1/press-2", "temp"),
        ("p/{stream}/{channel}/{channel}", "p/a/motor/rpm", "a", "motor/rpm"),
        ("p/+/{stream}", "p/x/a", "a", None),
        ("p/{stream}/#", "p/a/motor/rpm", "a", "motor/rpm"),
        ("p/{stream}/#", "p/a", "a", None),
        ("p/{stream}/{channel}/#", "p/a/motor/rpm", "a", "motor/rpm"),
        ("factory/#", "factory/line-1/temp", "factory/line-1/temp", None),
        ("factory/#", "factory", "factory", None),
        ("factory/+/temp", "factory/line-1/temp", "factory/line-1/temp", None),
        ("factory/+/{channel}", "factory/line-1/temp", "factory/line-1", "temp"),
        ("a/b", "a/b", "a/b", None),
        ("#", "a/b", "a/b", None),
        ("$SYS/broker/#", "$SYS/broker/load", "$SYS/broker/load", None),
        ("p/{stream}/{channel}", "p//temp", "", "temp"),
    ],
)
def test_parts_of_a_topic_name_stream_and_channel(
    pattern: str, topic: str, stream: str, channel: str | None
) -> None:
    assert match(pattern, topic) == (stream, channel)


def test_a_topic_belongs_to_the_first_pattern_that_it_matches() -> None:
    topics = TopicPatterns(WHERE, ["plant/{stream}/{channel}", "plant/#", "other/{stream}"])
    for _ in range(2):  # the second time it is remembered
        assert topics.named("plant/a/temp") == Named(0, "a", "temp")
        assert topics.named("plant/a") == Named(1, "plant/a", None)
        assert topics.named("nothing/a") is None


def test_so_many_topics_that_they_are_not_all_remembered_are_named_rightly() -> None:
    topics = TopicPatterns(WHERE, ["plant/{stream}"])
    for at in range(50_000):
        assert topics.named(f"plant/{at}") == Named(0, str(at), None)
    assert len(topics._known) <= 20_000


def test_a_filter_that_another_one_covers_is_not_subscribed_to() -> None:
    topics = TopicPatterns(
        WHERE, ["plant/{stream}/{channel}", "plant/+/+", "plant/#", "a/{stream}"]
    )
    assert topics.filters == ("plant/#", "a/+")
    assert topics.overlapping() is None


def test_filters_that_overlap_are_found() -> None:
    topics = TopicPatterns(WHERE, ["x/y", "plant/{stream}/temp", "plant/press-1/#"])
    assert topics.overlapping() == ("plant/+/temp", "plant/press-1/#")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "'': expected a topic of 1 to 65,535 bytes, found another"),
        ("a\0b", "expected a topic of 1 to 65,535 bytes, found another"),
        ("a" * 70_000, "expected a topic of 1 to 65,535 bytes, found another"),
        (
            "plant/#/temp",
            "'plant/#/temp': expected wildcards that are a whole level, and # at the end, "
            "found '#'",
        ),
        ("plant/a+", "expected wildcards that are a whole level, and # at the end, found 'a+'"),
        ("plant/press-{stream}", "found 'press-{stream}'"),
        ("plant/{machine}", "found '{machine}'"),
        ("$share/group/plant/#", "expected no shared subscription, found one"),
        ("{channel}", "expected a level that names the stream, found {channel} alone"),
    ],
)
def test_patterns_that_cannot_work_are_named(pattern: str, message: str) -> None:
    error = raised(ParameterError, lambda: TopicPattern(WHERE, pattern))
    assert error.message.startswith("source bus: topics: ")
    assert error.message.endswith(message)


_LEVELS = st.sampled_from(["a", "b", "", "$s", "ü"])
_TOPICS = st.lists(_LEVELS, min_size=1, max_size=5).map("/".join).filter(bool)
_FILTERS = st.builds(
    lambda levels, rest: "/".join((*levels, "#") if rest else levels),
    st.lists(st.sampled_from(["a", "b", "+", "+", "", "$s"]), min_size=1, max_size=4),
    st.booleans(),
).filter(bool)


@settings(max_examples=count(500, 100_000), deadline=None)
@given(wanted=_FILTERS, topic=_TOPICS)
def test_topics_match_as_they_do_for_paho(wanted: str, topic: str) -> None:
    paho = pytest.importorskip("paho.mqtt.client")
    assert (match(wanted, topic) is not None) == paho.topic_matches_sub(wanted, topic)


# "z" is in no filter; five levels are one more than the longest filter has.
_ALL = ["/".join(each) for n in range(1, 6) for each in product(["a", "z", "$s"], repeat=n)]
_FEW = st.builds(
    lambda levels, rest: "/".join((*levels, "#") if rest else levels),
    st.lists(st.sampled_from(["a", "+", "$s"]), min_size=1, max_size=3),
    st.booleans(),
)


@settings(max_examples=count(150, 20_000), deadline=None)
@given(one=_FEW, other=_FEW)
def test_filters_cover_and_overlap_as_their_topics_do(one: str, other: str) -> None:
    a, b = TopicPattern(WHERE, one), TopicPattern(WHERE, other)
    of_one = {topic for topic in _ALL if a.match(topic) is not None}
    of_other = {topic for topic in _ALL if b.match(topic) is not None}
    if of_other:  # such as +/$s/#, all of whose topics are here
        assert covers(one, other) == (of_other <= of_one)
    assert overlap(one, other) == bool(of_one & of_other)


def test_names_are_filled_in_so_that_the_topic_is_valid() -> None:
    template = TopicTemplate("sink bus", "n/{kind}/{stream}/x", ["kind", "stream"])
    for stream, filled in [
        ("hall-1/press 2", "hall-1/press 2"),
        ("a+b#c%d", "a%2Bb%23c%25d"),
        ("ü", "ü"),
        ("a\nb", "a%0Ab"),
        ("{kind}", "{kind}"),
    ]:
        assert template.fill({"kind": "alarm", "stream": stream}) == f"n/alarm/{filled}/x"
    assert template.has("kind") and not template.has("item")


def test_a_topic_never_begins_as_those_of_the_broker() -> None:
    template = TopicTemplate("sink bus", "{stream}", ["stream"])
    assert template.fill({"stream": "$SYS/x"}) == "%24SYS/x"


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (
            "a/{machine}",
            "sink bus: topic: expected a topic with {stream}, {kind} and no other braces, + or #, "
            "found 'a/{machine}'",
        ),
        ("a/+", "no other braces, + or #, found 'a/+'"),
        ("a/#", "no other braces, + or #, found 'a/#'"),
        ("$SYS/a", "expected one that does not begin with $, found '$SYS/a'"),
    ],
)
def test_topics_that_cannot_be_sent_to_are_named(topic: str, message: str) -> None:
    error = raised(ParameterError, lambda: TopicTemplate("sink bus", topic, ["stream", "kind"]))
    assert error.message.endswith(message)
