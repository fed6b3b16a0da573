"""Names of series with labels, and counters as rates."""

import itertools
import math
import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.arrivals.counters import CounterRates
from newnormal.arrivals.naming import Naming, _short_key, digest_of, fitting_name, series_name
from newnormal.errors import ParameterError
from newnormal.io.decoders.base import QUERY
from newnormal.io.decoders.influx import InfluxDecoder
from newnormal.io.topics import TopicPatterns
from tests.connectors.naive_series import Counters

SECOND = 10**9


# --- names, and what they are known by


def test_long_names_of_labels_are_not_remembered() -> None:
    before = _short_key.cache_info().currsize
    assert series_name("up", {"k" * 201: "v"}) == f'up{{{"k" * 201}="v"}}'
    assert _short_key.cache_info().currsize == before


Parts = tuple[str | bytes, ...]
PARTS = st.lists(st.binary(max_size=3) | st.text(max_size=3), max_size=4).map(tuple)


@settings(max_examples=200)
@given(PARTS, PARTS)
def test_different_parts_have_different_digests(one: Parts, other: Parts) -> None:
    assert (digest_of(*one) == digest_of(*other)) == (one == other)
    joined = b"".join(each if isinstance(each, bytes) else each.encode() for each in one)
    assert one == (joined,) or digest_of(joined) != digest_of(*one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((b"m,host=a b=1,c=2", ""), (rb"m,host=a b\,c=1", "")),
        ((b"m,a=x,b=y v=1", "by=a&by=b"), (b"m,a=x,b=y v=1", "by=a&without=b")),
        ((b"m,host=a\\,b=c v=1", ""), (b"m,host=a,b=c v=1", "")),
    ],
)
def test_lines_alike_but_for_their_boundaries_share_no_layout(
    one: tuple[bytes, str], other: tuple[bytes, str]
) -> None:
    def names(to: InfluxDecoder, sent: tuple[bytes, str]) -> list[tuple[str, tuple[str, ...]]]:
        return [each[:2] for each in to.decode(sent[0], {QUERY: sent[1]})]

    to = InfluxDecoder()
    assert names(to, one) != names(to, other) == names(InfluxDecoder(), other)


def test_topics_alike_but_for_their_boundaries_share_no_name() -> None:
    topics = TopicPatterns("bus", ["{stream}/x/{channel}", "{stream}/#"])
    named = [topics.named(topic) for topic in ("a/x/b", "a/xb", "ax/b", "a/x/b")]
    assert [each and each[1:] for each in named] == [
        ("a", "b"),
        ("a", "xb"),
        ("ax", "b"),
        ("a", "b"),
    ]


def test_a_stream_has_the_values_of_its_labels_and_a_channel_the_others() -> None:
    naming = Naming(["job", "instance"], without=["replica"])
    labels = {"instance": "db1:9100", "replica": "b", "cpu": "0", "job": "node", "mode": "idle"}
    assert naming("node_cpu", labels) == ("node/db1:9100", 'node_cpu{cpu="0",mode="idle"}')
    assert naming("node_cpu", {"job": "node", "instance": ""}) == ("node", "node_cpu")
    assert naming("up", {"cpu": "1"}) == ("other", 'up{cpu="1"}')
    assert Naming(["a"], fallback="rest")("up", {}) == ("rest", "up")


def test_a_label_is_part_of_the_stream_or_left_out_and_not_both() -> None:
    with pytest.raises(ParameterError, match="expected a label in by or in without, found b in"):
        Naming(["a", "b"], without=["b"])


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ({"a": 'say "no"'}, 'x{a="say \\"no\\""}'),
        ({"a": "C:\\n"}, 'x{a="C:\\\\n"}'),
        ({"a": "1\n2"}, 'x{a="1\\n2"}'),
        ({"a": "\x07\ud800"}, 'x{a="\\x07\\ud800"}'),
        ({"a": "\u6e29 \xe9"}, 'x{a="\u6e29 \xe9"}'),
        ({"http.route": "/a", "b": ""}, 'x{b="",http.route="/a"}'),
        ({'a="1",b': "2"}, 'x{"a=\\"1\\",b"="2"}'),
    ],
)
def test_labels_are_escaped_so_that_two_values_stay_two(labels: dict[str, str], shown: str) -> None:
    assert series_name("x", labels) == shown
    assert shown.isprintable()


def test_no_two_sets_of_labels_have_the_same_name() -> None:
    parts = ["a", "b", '"', "\\", "\n", "n", ",", "=", ""]
    values = ["".join(each) for each in itertools.product(parts, repeat=2)]
    sets = [{"k": value} for value in values] + [{"k": value, "b": "c"} for value in values]
    distinct = {tuple(sorted(each.items())) for each in sets}
    assert len({series_name("x", each) for each in sets}) == len(distinct)


def test_a_name_always_fits() -> None:
    draw = random.Random(5)
    for _ in range(500):
        name = "".join(chr(draw.choice([0, 10, 32, 65, 0xE9, 0xD800, 0x1F600])) for _ in range(7))
        found = fitting_name(name * draw.randint(0, 60))
        assert 0 < len(found) <= 200 and found.isprintable() and found.strip()
    assert fitting_name("a" * 300) != fitting_name("a" * 301)


# --- rates


def test_a_request_that_is_sent_again_gives_the_same_rates() -> None:
    rates = CounterRates()
    first = rates.begin()
    first.rate("a", 0, 5.0)
    first.keep()
    for _ in range(3):  # it fails twice
        begun = rates.begin()
        assert begun.rate("a", 10 * SECOND, 25.0) == 2.0
    begun.keep()
    assert math.isnan(rates.begin().rate("a", 10 * SECOND, 25.0))  # it is there already
    assert rates.begin().rate("a", 20 * SECOND, 45.0) == 2.0


def test_an_older_request_that_comes_late_does_not_take_a_counter_back() -> None:
    rates = CounterRates()
    old, new = rates.begin(), rates.begin()
    old.rate("a", 0, 1.0)
    new.rate("a", 10 * SECOND, 3.0)
    new.keep()
    old.keep()
    assert rates.last("a") == (10 * SECOND, 3.0)


def test_a_rate_is_never_infinite() -> None:
    begun = CounterRates().begin()
    begun.rate("a", 0, 0.0)
    at_once = begun.convert("b", np.array([0, 1]), np.array([0, 1e308]))
    assert np.isnan([begun.rate("a", 1, 1e308), *at_once]).all()


def test_counters_not_seen_for_longest_are_forgotten_first() -> None:
    rates = CounterRates(most=2)
    for time, key in enumerate("abac"):
        begun = rates.begin()
        begun.rate(key, time, 1.0)
        begun.keep()
    assert [rates.last(key) is not None for key in "abc"] == [True, False, True]


def test_counters_are_kept_from_several_threads() -> None:
    rates = CounterRates(most=50)

    def send(name: int) -> None:
        for at in range(200):
            begun = rates.begin()
            for key in range(40):
                begun.rate((name, key), at * SECOND, float(at))
            begun.keep()

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(rates.last((name, key)) is not None for name in range(4) for key in range(40)) == 50


@pytest.mark.parametrize("seed", range(30))
def test_rates_are_those_of_the_twin(seed: int) -> None:
    draw = random.Random(seed)
    rates, twin = CounterRates(), Counters()
    for _ in range(20):
        begun = rates.begin()
        for _ in range(5):
            key, time = draw.choice("ab"), draw.randint(0, 60) * SECOND
            value = draw.choice([math.nan, math.inf, 0.0, float(draw.randint(0, 50))])
            expected = twin.rate(key, time, value)
            if draw.random() < 0.5:
                found = begun.rate(key, time, value)
            else:
                (found,) = begun.convert(key, np.array([time]), np.array([value]))
            assert math.isnan(found) if expected is None else found == expected
        begun.keep()
