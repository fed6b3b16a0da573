"""Seams of the service's connectors: by name, their options, and checks that find bad ones."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import newnormal.io
from newnormal.errors import InputError, ParameterError
from newnormal.io import Alert, AlertSink, Arrival, Options, Source
from newnormal.io.registry import SOURCES, find_alert_sink, find_source
from newnormal.io.sources.base import check_arrivals
from newnormal.testing import MemoryAlertSink, MemorySource, check_alert_sink, check_source
from tests.errors import raised


def arrival(stream: str = "a", count: int = 12, channels: int = 2) -> Arrival:
    values = np.arange(count * channels, dtype=np.float64).reshape(count, channels)
    values[count // 2 : count // 2 + 1, 0] = np.nan
    names = tuple(f"c{each}" for each in range(channels))
    return Arrival(stream, names, np.arange(count, dtype=np.int64) * 10**9, values)


ARRIVALS = [arrival("a"), arrival("b", 3, 1), arrival("a", 0)]


class Arrivals(MemorySource):
    """The source in memory as the configuration makes it."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(ARRIVALS, name, options)


# ------------------------------------------------------------------ by name


def test_the_seams_are_part_of_the_package() -> None:
    for name in dir(newnormal.io):
        assert getattr(newnormal.io, name) is not None


def test_a_class_is_found_by_its_import_path() -> None:
    assert find_source(f"{__name__}:Arrivals").__name__ == "Arrivals"
    assert find_alert_sink("newnormal.testing:MemoryAlertSink") is MemoryAlertSink


def test_a_name_that_nobody_has_is_an_error_that_names_the_group() -> None:
    assert str(raised(ParameterError, lambda: find_source("carrier"))) == (
        f"source: expected {', '.join(sorted(SOURCES))} or package.module:Class, "
        "found 'carrier'\n"
        "hint: an installed package can add names with entry points of the group "
        "newnormal.sources"
    )


def test_another_class_is_an_error() -> None:
    with pytest.raises(ParameterError, match="expected a subclass of newnormal"):
        find_source("newnormal.testing:MemoryAlertSink")


class Half(Source):
    """A source without a place."""

    def next_batch(self, limit: int) -> Sequence[Arrival] | None:
        return None


def test_a_class_that_lacks_a_method_is_an_error_that_names_it_and_the_check() -> None:
    error = raised(ParameterError, lambda: find_source(f"{__name__}:Half"))
    assert "expected Half to define resume and snapshot, found none" in str(error)
    assert "newnormal.testing.check_source checks the rest" in str(error)


# ------------------------------------------------------------------ options


def test_options_are_taken_by_what_they_must_be() -> None:
    options = Options(
        "source a", {"url": "x", "wait": 3, "topics": ["a", "b"], "one": "c", "on": True}
    )
    assert options.text("url") == "x"
    assert options.number("wait") == 3.0
    assert options.texts("topics") == ("a", "b")
    assert options.texts("one") == ("c",)
    assert options.flag("on") is True
    assert options.flag("off") is False
    assert options.text("missing", None) is None
    assert options.texts("missing", ()) == ()
    options.end()


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("text", 3, "source a: x: expected a text, found another int"),
        ("text", "", "source a: x: expected a text, found an empty text"),
        ("number", "3", "source a: x: expected a number of at least 0, found '3'"),
        ("number", float("nan"), "expected a number of at least 0, found nan"),
        ("number", -1, "expected a number of at least 0, found -1"),
        ("flag", 1, "source a: x: expected true or false, found 1"),
        ("texts", [1], "source a: x: expected a list of texts, found another list"),
        ("texts", [], "source a: x: expected a list of texts, found another list"),
    ],
)
def test_wrong_options_are_named_without_their_value(kind: str, value: Any, message: str) -> None:
    error = raised(ParameterError, lambda: getattr(Options("source a", {"x": value}), kind)("x"))
    assert message in str(error)


def test_options_that_nobody_takes_are_an_error() -> None:
    with pytest.raises(ParameterError, match=r"source a: x: .*\nhint: known are none"):
        Options("source a", {"x": 1}).end()


# ------------------------------------------------------------------ batches


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": ("c0", "c0")}, "source a: a: expected channels that differ"),
        ({"times": np.arange(12.0)}, "expected times of int64"),
        ({"values": np.zeros((12, 3))}, r"shape \(12, 2\), found int64, float64 and \(12, 3\)"),
        ({"values": np.full((12, 2), np.inf)}, "expected finite values, found an infinite one"),
    ],
)
def test_a_batch_that_is_not_as_promised_is_an_error(change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_arrivals("source a", [arrival()._replace(**change)], 100)


def test_a_batch_that_is_too_large_is_an_error() -> None:
    with pytest.raises(InputError, match="source a: expected at most 20 samples, found 24"):
        check_arrivals("source a", [arrival("a"), arrival("b")], 20)


# ------------------------------------------------------------------ the check of sources


def test_the_source_in_memory_passes_the_check() -> None:
    check_source(lambda: MemorySource(ARRIVALS), other=lambda: MemorySource(ARRIVALS, "other"))


Base = MemorySource


def source(**members: Any) -> type[MemorySource]:
    """Return a source in memory with other members."""
    return type("Other", (Base,), members)


def resumed(change: Callable[[MemorySource, Mapping[str, Any]], dict[str, Any]]) -> type[Base]:
    """Return a source that is resumed from a snapshot of which some is changed."""
    return source(resume=lambda self, found: Base.resume(self, {**found, **change(self, found)}))


Quiet = source(next_batch=lambda self, limit: Base.next_batch(self, limit) or ())  # as a broker
Repeating = resumed(lambda self, found: {"at": max(0, found["at"] - 2)})


@pytest.mark.parametrize("kind", [Quiet, Repeating])
def test_sources_that_do_not_end_or_repeat_themselves_pass(kind: type[MemorySource]) -> None:
    check_source(lambda: kind(ARRIVALS))


Greedy = source(next_batch=lambda self, limit: Base.next_batch(self, limit + 1))
Leaving = resumed(lambda self, found: {"at": found["at"] + 1})
Forgetful = source(resume=lambda self, found: False)
Unsaved = source(snapshot=lambda self: {**Base.snapshot(self), "at": np.int64(3)})
Listed = source(
    next_batch=lambda self, limit: [tuple(each)[1:] for each in Base.next_batch(self, limit) or ()]
)
Silent = source(check=lambda self: "")
Trusting = resumed(lambda self, found: {"input": self.name})


class Moving(MemorySource):
    asked = 0

    def snapshot(self) -> dict[str, Any]:
        self.asked += 1
        return {**super().snapshot(), "asked": self.asked}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Greedy, "expected at most 1 samples, found 2"),
        (Leaving, "expected all of the rest when resumed after .* values, found some are missing"),
        (Forgetful, "expected resume to return True for a snapshot of the same input"),
        (Unsaved, "expected a snapshot of JSON values"),
        (Moving, "expected the same snapshot when asked twice"),
        (Listed, "expected a sequence of newnormal.io.Arrival"),
        (Silent, "expected check to return a sentence, or to raise"),
        (Trusting, "expected resume to return False for the snapshot of another input"),
    ],
)
def test_the_check_finds_errors_of_a_source(kind: type[MemorySource], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_source(lambda: kind(ARRIVALS), other=lambda: kind(ARRIVALS, "other"))


def test_the_check_asks_for_an_input_that_shows_something() -> None:
    with pytest.raises(AssertionError, match="an input of at least 3 values, found 1"):
        check_source(lambda: MemorySource([arrival("a", 2, 1)]))


# ------------------------------------------------------------------ the check of alert sinks


def sink(**members: Any) -> type[MemoryAlertSink]:
    """Return a sink in memory with other members."""
    return type("Other", (MemoryAlertSink,), members)


Telling = sink(send=lambda self, alert: True)
Losing = sink(send=lambda self, alert: None)
Hasty = sink(timeout=0)
Idle = sink(at_once=0)
Mute = sink(notice=lambda self: None)


class Changing(MemoryAlertSink):
    def send(self, alert: Alert) -> None:
        alert.body["key"] = "mine"  # type: ignore[index]


class Strict(MemoryAlertSink):
    def send(self, alert: Alert) -> None:
        alert.body["stream"].upper()
        super().send(alert)


class Once(MemoryAlertSink):
    def send(self, alert: Alert) -> None:
        if alert.key in self.keys:
            raise ValueError("twice")
        super().send(alert)


class Alone(MemoryAlertSink):
    at_once = 10

    def send_many(self, alerts: Sequence[Alert]) -> None:
        [alert] = alerts
        self.send(alert)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Changing, "expected send to leave an alarm that fired as it is, found it changed"),
        (Telling, "expected send to return None, found True"),
        (Strict, "expected send of an incident, which has no stream to work, found AttributeError"),
        (Once, "expected send of an alarm that fired to work, found ValueError: twice"),
        (Losing, "expected an alarm that fired at the receiver when send returns"),
        (Hasty, "expected timeout to be a number of seconds, found 0"),
        (Idle, "expected at_once to be a number above 0, found 0"),
        (Alone, "expected send_many of alerts that were sent to work, found ValueError"),
        (Mute, "expected notice to return a text, found None"),
    ],
)
def test_the_check_finds_what_is_wrong_in_sinks(kind: type[MemoryAlertSink], message: str) -> None:
    sink = kind()

    def received() -> Collection[str]:
        return sink.keys

    with pytest.raises(AssertionError, match=message):
        check_alert_sink(lambda: sink, received=received)


def test_the_check_finds_a_sink_that_hides_that_its_receiver_is_down() -> None:
    with pytest.raises(AssertionError, match="expected send to raise an error if the receiver"):
        check_alert_sink(MemoryAlertSink, down=Losing)


def test_a_sink_that_raises_when_its_receiver_is_down_passes() -> None:
    def down() -> AlertSink:
        sink = MemoryAlertSink()
        sink.fails = OSError("no route")
        return sink

    check_alert_sink(MemoryAlertSink, down=down)
