"""The messages of a bus: every shape that is read, every error, and arbitrary bytes."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.errors import InputError, ParameterError
from newnormal.io.options import Options
from newnormal.io.payloads import Payloads, PayloadValue, PlainTextError, _remembered, together
from tests.counts import count
from tests.errors import raised

RECEIVED = 7
SECOND = 10**9


def read(payload: object, about: str | None = None, **options: object) -> list[PayloadValue]:
    """Return the values of a payload; one that is no bytes is written as JSON."""
    payloads = Payloads(Options("source bus", options))
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return payloads.read(body, stream="press", received=RECEIVED, channel=about)


def channels(payload: object, about: str | None = None, **options: object) -> dict[str, float]:
    return {each.channel: each.number for each in read(payload, about, **options)}


# ------------------------------------------------------------------ what is read


@pytest.mark.parametrize("payload", [b"21.5", b" 215e-1\r\n", b"\xef\xbb\xbf21.5", b"[21.5]"])
def test_a_plain_number_is_a_value_of_the_topics_channel(payload: bytes) -> None:
    assert read(payload, "temp") == [("press", "temp", RECEIVED, 21.5)]
    assert read(payload) == [("press", "value", RECEIVED, 21.5)]


@pytest.mark.parametrize("payload", [b"", b" ", b"nan", b"NULL", b"None", b"unknown"])
def test_a_message_that_says_nothing_was_measured_has_no_values(payload: bytes) -> None:
    assert read(payload) == []


def test_each_number_of_an_object_is_a_channel_and_texts_are_left_out() -> None:
    body = {
        "temp": 21.5,
        "on": True,
        "unit": "C",
        "none": None,
        "nan": math.nan,
        "list": [1, 2],
        "motor": {"rpm": 900, "axis": {"x": 1}},
    }
    assert channels(body) == {"temp": 21.5, "on": 1.0, "motor.rpm": 900.0, "motor.axis.x": 1.0}


def test_the_topics_channel_is_what_the_channels_of_an_object_begin_with() -> None:
    assert channels({"rpm": 900, "axis": {"x": 1}}, "motor") == {
        "motor.rpm": 900.0,
        "motor.axis.x": 1.0,
    }


@pytest.mark.parametrize("channel", [None, "motor"])
@pytest.mark.parametrize("name", ["time", "timestamp", "ts", "@timestamp", "_time"])
def test_the_usual_fields_of_a_time_are_no_channel(name: str, channel: str | None) -> None:
    found = read({name: 1767225600, "rpm": 1}, channel)
    shown = "rpm" if channel is None else "motor.rpm"
    assert found == [("press", shown, 1767225600 * SECOND, 1.0)]


def test_a_field_called_time_that_is_an_object_is_no_time() -> None:
    assert read({"time": {"up": 5}, "a": 1}) == [
        ("press", "time.up", RECEIVED, 5.0),
        ("press", "a", RECEIVED, 1.0),
    ]


def test_options_name_the_fields_and_a_point_goes_into_an_object() -> None:
    body = {"meta": {"device": "oven", "at": 1767225600}, "temp": 200, "ts": 3}
    assert read(body, stream="meta.device", time="meta.at") == [
        ("oven", "temp", 1767225600 * SECOND, 200.0),
        ("oven", "ts", 1767225600 * SECOND, 3.0),
    ]


def test_a_field_with_a_point_in_its_name_is_found() -> None:
    assert read({"a.b": "oven", "temp": 1}, stream="a.b")[0][0] == "oven"


def test_a_stream_may_be_a_number() -> None:
    assert read({"id": 12, "temp": 1}, stream="id") == [("12", "temp", RECEIVED, 1.0)]


def test_an_object_that_names_its_channel_is_one_value() -> None:
    options = {"channel": "metric", "value": "reading"}
    body = {"metric": "temp", "reading": "21.5", "quality": 192}
    assert read(body, **options) == [("press", "temp", RECEIVED, 21.5)]
    assert read(body, "motor", **options) == [("press", "motor.temp", RECEIVED, 21.5)]


def test_with_value_alone_the_channel_is_the_topics() -> None:
    assert read({"value": 3, "ts": 60, "q": 1}, "temp", value="value") == [
        ("press", "temp", 60 * SECOND, 3.0)
    ]
    assert channels({"value": 3}, value="value") == {"value": 3.0}
    assert read({"value": None}, "temp", value="value") == []


def test_only_the_fields_that_are_wanted_are_taken() -> None:
    body = {"temp": 1, "battery": 98, "motor": {"rpm": 5, "hours": 7}}
    assert channels(body, fields=["temp", "motor.rpm"]) == {"temp": 1.0, "motor.rpm": 5.0}
    assert channels(body, "x", fields=["temp"]) == {"x.temp": 1.0}


def test_the_services_own_form_is_read() -> None:
    body = {"stream": "oven", "time": 60, "values": {"temp": 1, "power": 2}, "version": 1}
    assert read(body) == [("oven", "temp", 60 * SECOND, 1.0), ("oven", "power", 60 * SECOND, 2.0)]


def test_an_array_is_many_samples() -> None:
    body = [{"ts": 60, "a": 1}, {"ts": 120, "a": 2, "b": 3}]
    assert [each[1:] for each in read(body)] == [
        ("a", 60 * SECOND, 1.0),
        ("a", 120 * SECOND, 2.0),
        ("b", 120 * SECOND, 3.0),
    ]


def test_names_that_a_stream_cannot_have_are_changed_so_that_they_can() -> None:
    assert read({"a\nb": 1, "stream": "s\x00"}) == [("s?", "a?b", RECEIVED, 1.0)]
    assert len(read({"x" * 500: 1})[0][1]) == 200


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("payload", "options", "message"),
    [
        (
            b'{"a": 1',
            {},
            "expected a message of JSON or a number, found '{\"a\": 1': "
            "Expecting ',' delimiter: line 1 column 8 (char 7)",
        ),
        (
            b"\xff\xfe\x00",
            {},
            "expected a message of JSON or a number, found bytes that are no text: "
            "b'\\xff\\xfe\\x00'",
        ),
        (b"[[1]]", {}, "expected a number or an object, found '[1]'"),
        (b"NaN,", {}, "expected a message of JSON or a number, found 'NaN,'"),
        (
            b"[1, 2]",
            {},
            "expected a time in each object of an array, since there are several values of one "
            "channel, found '[1, 2]'",
        ),
        (b'{"a": 1}', {"time": "at"}, "expected a field at with the time, found '{\"a\": 1}'"),
        (
            b'{"a": 1}',
            {"stream": "id"},
            "expected a field id that names the stream, found '{\"a\": 1}'",
        ),
        (b'{"v": 1}', {"channel": "c", "value": "v"}, "expected a text c, found '{\"v\": 1}'"),
        (b'{"v": "x"}', {"value": "v"}, 'expected a number v, found \'{"v": "x"}\''),
        (b'{"ts": "noon", "a": 1}', {}, "expected a time, found 'noon'"),
    ],
)
def test_unreadable_messages_say_why(payload: bytes, options: dict[str, Any], message: str) -> None:
    assert raised(InputError, lambda: read(payload, **options)).message == message


@pytest.mark.parametrize("payload", [b"online", b"1,234", b'"offline"', b"1_000", b"12:30", b"1 2"])
def test_a_text_is_told_from_a_message_that_is_broken(payload: bytes) -> None:
    with pytest.raises(PlainTextError, match="expected a message of JSON or a number, found"):
        read(payload)


def test_an_error_shows_the_beginning_of_a_long_message() -> None:
    for body in ([["x" * 10**6]], [[[0] * 10**6]], b"x" * 10**6, b"[" + b"x" * 10**6):
        assert len(raised(InputError, read, body).message) < 250


def test_a_channels_field_needs_that_of_its_value() -> None:
    with pytest.raises(ParameterError, match="source bus: channel: expected the option value"):
        Payloads(Options("source bus", {"channel": "c"}))


# ------------------------------------------------------------------ together


def test_values_of_one_time_are_one_sample() -> None:
    values = [
        PayloadValue("a", "x", 1, 1.0),
        PayloadValue("b", "x", 1, 2.0),
        PayloadValue("a", "y", 1, 3.0),
        PayloadValue("a", "x", 2, 4.0),
    ]
    both, later, other = together([*values, values[0], PayloadValue("a", "y", 1, 5.0)], 10)
    assert both[:2] == ("a", ("x", "y")) and both.values.tolist() == [[1.0, 5.0]]  # the last counts
    assert later[:2] == ("a", ("x",)) and (later.times.tolist(), later.values.tolist()) == (
        [2],
        [[4.0]],
    )
    assert other[:2] == ("b", ("x",)) and other.values.tolist() == [[2.0]]
    assert together([], 10) == []


# ------------------------------------------------------------------ arbitrary input

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["2026-01-01T00:00:00Z", 1767225600, 1e300, -1, 10**30, "nan"])
)
_NAMES = st.text(max_size=6) | st.sampled_from(
    ["time", "ts", "values", "stream", "a", "a.b", "id", "v"]
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)
_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "stream": st.sampled_from(["id", "a.b"]),
        "time": st.sampled_from(["ts", "a.b", "v"]),
        "value": st.sampled_from(["v", "a"]),
        "fields": st.sampled_from([["a"], ["a.b", "v"]]),
    },
)


def _check(body: bytes, options: dict[str, Any]) -> None:
    """Read a body: either values that can be taken, or an InputError."""
    payloads = Payloads(Options("source bus", options))
    try:
        values = payloads.read(body, stream="press", received=RECEIVED, channel="c")
    except InputError:
        return
    if not values:
        assert isinstance(payloads.lacking(body), str)
    for each in values:
        assert math.isfinite(each.number)
        assert -(2**63) <= each.time < 2**63
    for arrival in together(values, len(values)):
        assert arrival.stream.isprintable() and all(map(str.isprintable, arrival.channels))


@settings(max_examples=count(300, 100_000), deadline=None)
@given(body=_JSON.map(lambda found: json.dumps(found).encode()), options=_OPTIONS)
def test_any_json_gives_values_or_an_input_error(body: bytes, options: dict[str, Any]) -> None:
    _check(body, options)


@settings(max_examples=count(300, 100_000), deadline=None)
@given(
    body=st.binary(max_size=40)
    | st.text(alphabet='{}[]",:.0123456789eE-+ntf', max_size=30).map(str.encode)
)
def test_any_bytes_give_values_or_an_input_error(body: bytes) -> None:
    _check(body, {})


@pytest.mark.parametrize(
    ("body", "options", "lacking"),
    [
        ({"temp": 1}, {"value": "value"}, "expected a field value, found '{\"temp\": 1}'"),
        (
            [{"temp": 1}, {"rpm": 2}],
            {"value": "v.x"},
            "expected a field v.x, found '{\"temp\": 1}'",
        ),
        ({"temp": 1}, {"fields": ["b", "a"]}, "expected a field a or b, found '{\"temp\": 1}'"),
        ({"state": "ON"}, {}, 'expected a number in an object, found \'{"state": "ON"}\''),
        ({"value": None}, {"value": "value"}, ""),
        ({"v": {"x": None}}, {"value": "v.x"}, ""),
        ({"v.x": None}, {"value": "v.x"}, ""),
        ([{"temp": 1}, {"value": None}], {"value": "value"}, ""),
        ({"a": None}, {"fields": ["a", "b"]}, ""),
        ({"temp": {"inner": None}}, {}, ""),
        (None, {}, ""),
        ([], {}, ""),
    ],
)
def test_what_a_message_without_a_value_lacks_is_told_unless_it_says_that_there_is_none(
    body: object, options: dict[str, Any], lacking: str
) -> None:
    payloads = Payloads(Options("source bus", options))
    payload = json.dumps(body).encode()
    assert payloads.read(payload, stream="press", received=RECEIVED) == []
    assert payloads.lacking(payload) == lacking


@pytest.mark.parametrize("deep", [10, 500, 900, 990, 5000, 200_000])
@pytest.mark.parametrize("begin", [b"[", b'{"a":', b'[{"time":', b'{"ts":[', b'{"values":'])
def test_deep_messages_give_values_or_an_input_error(begin: bytes, deep: int) -> None:
    end = {b"[": b"]", b'{"a":': b"}", b'[{"time":': b"}]", b'{"ts":[': b"]}", b'{"values":': b"}"}
    for inner in (b"1", b""):
        _check(begin * deep + inner + end[begin] * deep, {})
        _check(begin * deep + inner + end[begin] * deep, {"time": "ts"})


def test_long_names_are_not_remembered() -> None:
    before = _remembered.cache_info().currsize
    (value,) = Payloads(Options("source bus", {})).read(
        b'{"%s": 1}' % (b"k" * 201), stream="s" * 201, received=RECEIVED
    )
    assert len(value.channel) == 200 and _remembered.cache_info().currsize == before


def test_long_digits_give_an_input_error() -> None:
    for body in (b"1" * 10**5, b'{"a": ' + b"9" * 10**5 + b"}", b'{"ts": ' + b"9" * 4000 + b"}"):
        _check(body, {})
