"""Prometheus as a source: what is asked, what becomes of answers, places, errors."""

import json
import math
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError, ParameterError
from newnormal.io.sources import prometheus, prometheus_api
from newnormal.io.sources.prometheus import PrometheusSource
from newnormal.io.sources.prometheus_api import QueryGrid, read_matrix
from newnormal.io.sources.prometheus_steps import RangeSamples, StreamChannels
from newnormal.service.config import SourceConfig
from newnormal.service.connectors import make_source
from newnormal.testing import check_source
from tests.connectors.fake_prometheus import SCRAPED, SECOND, Asked, FakeApi, problem
from tests.connectors.programs import free_port
from tests.errors import raised
from tests.service.seeds import each_seed

EVERY = 10 * SECOND
# The next time is due in a millisecond: a source that waits for it does not wait long.
NOW = 1_800_000_000 * SECOND + 5 * SECOND - 1_000_000
NEWEST = NOW - 5 * SECOND - (NOW - 5 * SECOND) % EVERY

VECTOR = b'{"status": "success", "data": {"resultType": "vector", "result": []}}'

Values = dict[tuple[str, int, str], float]  # by stream, time in s and channel


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    """A server that has the load of one host, unless a test says otherwise."""
    with FakeApi(NOW) as found:
        found.series["load"] = of_hosts(1)
        yield found


def of_hosts(count: int, name: str = "load", start: float = 0.0) -> list[Any]:
    """Return a series for each host: its number, and the time that it is evaluated at."""
    return [
        (
            {"__name__": name, "instance": f"h{host}", "job": "node"},
            lambda at, k=host: start + k + at,
        )
        for host in range(count)
    ]


def source_of(fake: FakeApi, **options: Any) -> PrometheusSource:
    given = {"url": fake.url, "every": "10s", "start": "100s", "by": ["instance"], **options}
    if "channels" not in given:
        given.setdefault("query", "load")
        given.setdefault("without", ["job"])
    given = {key: each for key, each in given.items() if each is not None}
    return fake.closing(PrometheusSource("hosts", given, clock=fake.clock))


def read(source: PrometheusSource, limit: int = 5000, most: int = 100) -> list[Arrival]:
    """Return all arrivals up to now."""
    found: list[Arrival] = []
    quiet = 0
    for _ in range(most):
        batch = source.next_batch(limit)
        assert sum(len(each.times) for each in batch) <= limit
        found += batch
        quiet = 0 if batch else quiet + 1
        if quiet == 3:
            break
    return found


def values_of(arrivals: Sequence[Arrival]) -> Values:
    found: Values = {}
    for each in arrivals:
        for time, row in zip((each.times // SECOND).tolist(), each.values.tolist(), strict=True):
            assert not all(map(math.isnan, row)), "a sample without any value"
            for channel, value in zip(each.channels, row, strict=True):
                if not math.isnan(value):
                    assert (each.stream, time, channel) not in found
                    found[each.stream, time, channel] = value
    return found


def times(count: int, before: int = 0) -> list[int]:
    """Return the newest times of the grid in s, without the `before` newest."""
    return [(NEWEST - EVERY * each) // SECOND for each in range(count)][before:][::-1]


def test_each_value_of_the_labels_is_a_stream_and_each_series_a_channel(fake: FakeApi) -> None:
    fake.series["load"] = [*of_hosts(2), *of_hosts(1, "heat")]
    fake.series["load"].append(
        ({"instance": "h0", "job": "node", "cpu": "1", "mode": "user"}, lambda _: 0.5)
    )
    found = read(source_of(fake))
    assert {each.stream: each.channels for each in found} == {
        "h0": ("load", "heat", '{cpu="1",mode="user"}'),
        "h1": ("load",),
    }
    expected: Values = {}
    for at in times(10):
        expected |= {("h0", at, "load"): at, ("h1", at, "load"): at + 1.0}
        expected |= {("h0", at, "heat"): at, ("h0", at, '{cpu="1",mode="user"}'): 0.5}
    assert values_of(found) == expected


def test_channels_have_a_query_each_and_the_names_of_the_table(fake: FakeApi) -> None:
    fake.series = {"node_load1": of_hosts(2), "avg(busy)": of_hosts(2, start=100.0)}
    source = source_of(fake, channels={"load": "node_load1", "busy": "avg(busy)"}, start="10s")
    found = read(source)
    (at,) = times(1)
    assert [each.channels for each in found] == [("load", "busy")] * 2
    assert [each.values.tolist() for each in found] == [
        [[at, 100.0 + at]],
        [[at + 1.0, 101.0 + at]],
    ]


def test_without_labels_there_is_one_stream_named_as_the_source(fake: FakeApi) -> None:
    fake.series["load"] = [({}, lambda _: 1.0)]
    source = source_of(fake, by=None)
    assert {(each.stream, each.channels) for each in read(source)} == {("hosts", ("value",))}


def test_several_labels_and_a_prefix_make_the_name_of_a_stream(fake: FakeApi) -> None:
    source = source_of(fake, by=["job", "instance"], without=["dc"], prefix="eu/")
    assert {each.stream for each in read(source)} == {"eu/node/h0"}


def test_series_that_follow_each_other_are_one_channel(fake: FakeApi) -> None:
    first, *_, last = times(10)
    half = (first + last) / 2
    fake.series["load"] = [
        ({"instance": "h0", "version": "1"}, lambda at: 1.0 if at <= half else None),
        ({"instance": "h0", "version": "2"}, lambda at: 2.0 if at > half else None),
    ]
    source = source_of(fake, channels={"load": "load"})
    found = values_of(read(source))
    assert found == {("h0", at, "load"): 1.0 if at <= half else 2.0 for at in times(10)}
    assert source.notice() == ""


def test_of_two_series_of_one_channel_the_last_counts_and_people_are_told(fake: FakeApi) -> None:
    fake.series["load"] = [
        ({"instance": "h0", "cpu": "0"}, lambda _: 1.0),
        ({"instance": "h0", "cpu": "1"}, lambda _: 2.0),
    ]
    source = source_of(fake, channels={"load": "load"})
    assert set(values_of(read(source)).values()) == {2.0}
    assert source.notice() == (
        "load: 1 series counts for another, as both are the channel load of the stream h0: "
        '{cpu="1",instance="h0"} (aggregate them, such as avg by (instance) (…))'
    )
    assert str(raised(InputError, source.check)) == (
        "source hosts, load: expected one series for a channel of a stream, found 2 for load of "
        "h0\nhint: aggregate them, such as avg by (instance) (…)"
    )


@pytest.mark.parametrize("size", [1, 4, 60])
def test_what_prometheus_repeats_after_a_time_that_it_did_not_run_is_missing(
    fake: FakeApi, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """It was down for 200 s; a later gap of 80 s is short enough for scrapes that are slow."""
    monkeypatch.setattr(prometheus, "_FIRST_SIZE", size)
    newest = NEWEST // SECOND

    def scraped(at: float) -> float:
        for before, after in ((-600, -400), (-300, -220)):
            if newest + before <= at < newest + after:
                return newest + before
        return at - 3.0

    fake.series = {"load": of_hosts(2), SCRAPED: [({}, scraped)]}
    source = source_of(fake, start="800s")
    found = read(source)
    left_out = {newest - each for each in range(410, 600, 10)} - {newest - 590}
    assert {at for _, at, _ in values_of(found)} == set(times(80)) - left_out
    # Those at -600 and -590 are not older than `every`; live times are not asked about.
    fake.others.clear()
    fake.now += 10 * SECOND
    assert len(read(source)) == 2
    assert not [each for each in fake.others if each.form.get("query") == SCRAPED]


def test_times_in_a_gap_that_lasts_are_asked_about_one_by_one(fake: FakeApi) -> None:
    """Prometheus answers again, and its first scrape is to come."""
    down = NEWEST // SECOND - 200
    fake.series = {"load": of_hosts(1), SCRAPED: [({}, lambda at: min(at, down))]}
    source = source_of(fake, start="400s")
    assert max(at for _, at, _ in values_of(read(source))) == down + 10
    assert source.notice().startswith("Prometheus scraped nothing at ")
    fake.now += 10 * SECOND
    assert not read(source)
    fake.series[SCRAPED] = [({}, lambda at: at)]
    fake.now += 10 * SECOND
    assert len(values_of(read(source))) == 1
    assert source.notice() == ""


def test_what_is_not_finite_is_missing_and_an_empty_time_is_no_sample(fake: FakeApi) -> None:
    ten = times(10)
    odd = dict(zip(ten, ["NaN", "+Inf", None, None, "5", "6", "7", "8", "9", None], strict=True))
    fake.series = {"a": [({"instance": "h0"}, lambda at: odd[int(at)])]}
    fake.series["b"] = [({"instance": "h0"}, lambda at: 7.0 if at < ten[0] + 1 else None)]
    found = read(source_of(fake, channels={"a": "a", "b": "b"}))
    expected = {("h0", at, "a"): value for at, value in zip(ten[4:9], range(5, 10), strict=True)}
    assert values_of(found) == {**expected, ("h0", ten[0], "b"): 7.0}
    assert [(each.times // SECOND).tolist() for each in found] == [[ten[0], *ten[4:9]]]


def test_the_history_is_asked_for_first_and_each_time_once_it_is_old(fake: FakeApi) -> None:
    source = source_of(fake)
    assert {at for _, at, _ in values_of(read(source))} == set(times(10))
    fake.now += 1_000_000  # five seconds after the next time
    (arrival,) = source.next_batch(100)
    assert arrival.times.tolist() == [NEWEST + EVERY]
    assert source.next_batch(100) == ()
    fake.now += 3 * EVERY
    assert [len(each.times) for each in source.next_batch(100)] == [3]
    asked = [at for each in fake.asked for at in each.times]
    assert asked == [*times(10), *(times(1)[0] + 10 * each for each in range(1, 5))]


def test_without_an_option_the_history_is_what_the_first_fit_needs(fake: FakeApi) -> None:
    assert len(values_of(read(source_of(fake, start=None)))) == 1000


def test_the_delay_is_an_option(fake: FakeApi) -> None:
    assert max(at for _, at, _ in values_of(read(source_of(fake, delay="25s")))) == times(1)[0] - 20


def test_ranges_keep_to_the_limit_of_prometheus_and_grow_to_it(fake: FakeApi) -> None:
    fake.series["load"] = of_hosts(3)
    found = read(source_of(fake, every="1s", start="40000s", delay="5s"))
    sizes = [len(each.times) for each in fake.asked]
    assert sizes[:4] == [60, 240, 960, 3840]
    assert max(sizes) == 11_000
    assert sum(sizes) in (39_999, 40_000)
    assert len(values_of(found)) == 3 * sum(sizes)


def test_many_series_have_short_ranges(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_VALUES", 2000)
    fake.series["load"] = of_hosts(5)
    read(source_of(fake, every="1s", start="2000s"), most=1000)
    sizes = [len(each.times) for each in fake.asked]
    assert sizes[:3] == [60, 240, 400]
    assert max(sizes) == 400, "of five series each"


def test_a_stretch_without_values_is_passed_quickly(fake: FakeApi) -> None:
    last = times(1)[0]
    fake.series["load"] = [({"instance": "h0"}, lambda at: at if at > last - 50 else None)]
    source = source_of(fake, every="1s", start="7d")
    batches = [source.next_batch(5000) for _ in range(70)]
    assert len(fake.asked) < 65
    assert len(values_of([each for batch in batches for each in batch])) == 59


def test_times_and_steps_below_a_second_are_asked_for_in_milliseconds(fake: FakeApi) -> None:
    found = read(source_of(fake, every="200ms", start="1s", delay="1s"))
    assert fake.asked[0].form["step"] == "0.200"
    assert fake.asked[0].form["start"].endswith(("00", "000"))
    assert all(each.times[0] % 200_000_000 == 0 for each in found)
    assert sum(len(each.times) for each in found) == 5


def test_more_streams_than_fit_into_a_batch_come_in_parts_of_one_time(fake: FakeApi) -> None:
    fake.series["load"] = of_hosts(7)
    whole = values_of(read(source_of(fake)))
    assert len(whole) == 70
    source = source_of(fake)
    seen: list[Arrival] = []
    while True:
        if not (batch := source.next_batch(3)):
            break
        seen += batch
        place = source.snapshot()
        resumed = source_of(fake)
        assert resumed.resume(json.loads(json.dumps(place)))
        assert values_of([*seen, *read(resumed)]) == whole, place  # nothing twice, nothing missing
    assert "stream" not in place


def test_it_keeps_what_a_source_promises(fake: FakeApi) -> None:
    fake.series["load"] = of_hosts(4)
    check_source(lambda: source_of(fake), other=lambda: source_of(fake, url="http://127.0.0.1:1"))


def test_after_an_outage_what_was_missed_is_asked_for_and_nothing_twice(fake: FakeApi) -> None:
    fake.series["load"] = of_hosts(2)
    source = source_of(fake)
    seen = read(source)
    place = source.snapshot()
    fake.now += 500 * EVERY
    fake.asked.clear()
    again = source_of(fake)
    assert again.resume(place)
    assert len(values_of([*seen, *read(again)])) == 2 * 510
    assert fake.asked[0].times[0] * SECOND == NEWEST, "the time before, which is not given again"


def test_a_place_of_another_server_or_of_other_streams_is_not_taken(fake: FakeApi) -> None:
    place = source_of(fake).snapshot()
    assert source_of(fake).resume(place)
    assert source_of(fake, channels={"a": "b"}).resume(place), "a channel more goes on"
    assert not source_of(fake, by=["job"], without=["dc"]).resume(place)
    assert not source_of(fake, url=f"{fake.url}/other").resume(place)
    assert not source_of(fake).resume({**place, "time": None})
    assert fake.url not in json.dumps(place)


def test_another_step_goes_on_after_the_place(fake: FakeApi) -> None:
    source = source_of(fake)
    read(source)
    fake.now += 6 * EVERY
    other = source_of(fake, every="15s")
    assert other.resume(source.snapshot())
    found = sorted(at for _, at, _ in values_of(read(other)))
    assert found == [at for at in range(times(1)[0] + 1, fake.now // SECOND - 5) if at % 15 == 0]


def test_a_channel_without_values_stays_in_its_stream_after_a_restart(fake: FakeApi) -> None:
    gone = times(3)[0]
    fake.series = {
        "a": [({"instance": "h0"}, lambda at: at), ({"instance": "h1"}, lambda at: at)],
        "b": [({"instance": "h0"}, lambda at: at if at < gone else None)],
    }
    source = source_of(fake, channels={"a": "a", "b": "b"})
    found = read(source)
    assert {each.stream: each.channels for each in found} == {"h0": ("a", "b"), "h1": ("a",)}
    fake.now += EVERY
    assert [each.channels for each in source.next_batch(100)] == [("a", "b"), ("a",)]
    place = json.loads(json.dumps(source.snapshot()))
    assert place["absent"] == {"h0": ["b"]}
    fake.now += EVERY
    again = source_of(fake, channels={"a": "a", "b": "b"})
    assert again.resume(place)
    assert [each.channels for each in again.next_batch(100)] == [("a", "b"), ("a",)]


def test_a_channel_that_ends_at_a_restart_stays_one_of_its_stream(fake: FakeApi) -> None:
    last = times(1)[0]
    fake.series = {
        "a": [({"instance": "h0"}, lambda at: at)],
        "b": [({"instance": "h0"}, lambda at: at if at <= last else None)],
    }
    source = source_of(fake, channels={"b": "b", "a": "a"})
    read(source)
    assert "absent" not in source.snapshot()
    fake.now += EVERY
    again = source_of(fake, channels={"b": "b", "a": "a"})
    assert again.resume(source.snapshot())
    (arrival,) = again.next_batch(100)
    assert arrival.channels == ("b", "a")
    assert np.isnan(arrival.values).tolist() == [[True, False]]


def test_channels_of_streams_that_come_and_go_are_forgotten() -> None:
    channels = StreamChannels()
    for number in range(1000):
        channels.next_range()
        channels.of(f"pod-{number}", ["a"])
    assert len(channels._known) <= 201
    assert channels.of("pod-999", ["b"]) == ("a", "b")


def test_times_that_are_to_come_for_the_server_are_not_asked_for(fake: FakeApi) -> None:
    fake.server_ahead = -3600.0
    source = source_of(fake, start="2h")
    newest = max(at for _, at, _ in values_of(read(source)))
    assert newest <= NOW // SECOND - 3600
    assert newest > NOW // SECOND - 3620
    assert source.notice() == (
        f"the clock of this machine is 3600 s ahead of that of {fake.url[7:]}, which counts"
    )


def test_a_clock_that_jumps_while_a_query_runs_leaves_nothing_out(fake: FakeApi) -> None:
    source = source_of(fake)
    read(source)

    fake.now += 3600 * SECOND  # as the machine has it, and the server does not
    fake.server_ahead = -3600.0
    assert source.next_batch(5000) == ()
    fake.now -= 3600 * SECOND
    fake.server_ahead = 0.0
    fake.now += 2 * EVERY
    found = read(source)
    assert sorted(at for _, at, _ in values_of(found)) == [times(1)[0] + 10, times(1)[0] + 20]


def test_an_error_of_a_query_names_the_query(fake: FakeApi) -> None:
    fake.refuse = lambda asked: (
        (400, problem("bad_data", "1:6: parse error: unclosed left parenthesis"))
        if asked.form.get("query") == "rate("
        else None
    )
    source = source_of(fake, channels={"load": "load", "busy": "rate("})
    for act in (lambda: source.next_batch(10), source.check):
        assert str(raised(InputError, act)) == (
            f"source hosts, busy: {fake.url[7:]}: expected values, found bad_data: 1:6: parse "
            "error: unclosed left parenthesis\nhint: try the query on Prometheus' own page"
        )


@pytest.mark.parametrize(
    ("status", "body", "message", "hint"),
    [
        (401, b"", "found status 401", "set or check token_file, or user and password_file"),
        (403, b"no", "found status 403: no", "check the token, or the user and the password"),
        (404, b"<html>", "found status 404", "url is the part of the address before /api/v1"),
        (501, b"<html>", "found status 501", "url is the part of the address before /api/v1"),
        (
            400,
            b"Client sent an HTTP request to an HTTPS server.",
            "found status 400: Client sent an HTTP request to an HTTPS server.",
            "begin url with https://",
        ),
        (
            500,
            problem("internal", "disk\nfull"),
            "found internal: disk full",
            None,
        ),
        (302, b"", "found a redirection (302)", "redirections are not followed: set the new"),
        (200, b"<html>", "expected JSON, found other bytes", "url is the part of the address"),
        (200, b"{}", "expected series with values, found KeyError('data')", None),
        (200, problem("x", "y"), "expected series with values, found KeyError('data')", None),
        (200, VECTOR, "expected a matrix, found another answer", None),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_an_error_that_says_what_to_do(
    fake: FakeApi, status: int, body: bytes, message: str, hint: str | None
) -> None:
    fake.refuse = lambda _: (status, body)
    source = source_of(fake, start="10s")
    error = raised(InputError, lambda: source.next_batch(10))
    assert message in error.message
    assert error.message.startswith("source hosts, query: ")
    assert (error.hint or "").startswith(hint or "") and bool(error.hint) == bool(hint)


def test_a_server_that_is_not_there_is_an_error_that_names_it() -> None:
    port = free_port()
    source = PrometheusSource("hosts", {"url": f"http://127.0.0.1:{port}", "query": "up"})
    for act in (lambda: source.next_batch(10), source.check):
        assert str(raised(InputError, act)) == (
            f"source hosts, query: 127.0.0.1:{port}: expected an answer, found ConnectError: "
            "[Errno 111] Connection refused\nhint: Prometheus is down or cannot be reached"
        )
    source.close()
    source.close()
    with pytest.raises(InputError, match="the client has been closed"):
        source.next_batch(10)


@pytest.mark.parametrize(
    "answer",
    [
        (422, problem("execution", "query processing would load too many samples into memory")),
        (422, problem("422", "too many points")),
        (503, problem("timeout", "query timed out")),
        (504, b""),
    ],
)
def test_a_range_that_is_too_much_is_cut(fake: FakeApi, answer: tuple[int, bytes]) -> None:
    fake.series["load"] = of_hosts(2)
    fake.refuse = lambda asked: answer if asked.form and len(asked.times) > 7 else None
    source = source_of(fake, start="1000s")
    assert source.next_batch(100) == ()
    assert source.notice().startswith("asked again for fewer times: source hosts, query: ")
    assert len(values_of(read(source))) == 2 * 100
    assert source.notice() == ""


def test_a_longer_answer_is_asked_in_parts(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_api, "_MOST_BYTES", 2**20)
    long = b" " * (2**20 + 1)
    fake.refuse = lambda asked: (200, long) if asked.form and len(asked.times) > 7 else None
    assert len(values_of(read(source_of(fake, start="300s")))) == 30
    fake.refuse = lambda asked: (200, long) if asked.form else None
    assert "expected an answer of at most 1 MiB within 70 s, found a longer one" in str(
        raised(InputError, lambda: source_of(fake, start="10s").next_batch(10))
    )


def test_a_query_that_fails_by_values_at_one_time_is_left_out_there_alone(fake: FakeApi) -> None:
    bad = times(4)[0]
    fake.series = {"load": of_hosts(2), "join": of_hosts(2, start=100.0)}

    def refuse(asked: Asked) -> tuple[int, bytes] | None:
        if asked.form.get("query") == "join" and bad in asked.times:
            return 422, problem("execution", "many-to-many matching not allowed")
        return None

    fake.refuse = refuse
    source = source_of(fake, channels={"load": "load", "join": "join"})
    notices = []
    found: list[Arrival] = []
    for _ in range(30):
        found += source.next_batch(100)
        notices.append(source.notice())
    values = values_of(found)
    assert len(values) == 2 * 2 * 10 - 2
    assert ("h0", bad, "load") in values and ("h0", bad, "join") not in values
    assert (
        f"left out at one time: source hosts, join: {fake.url[7:]}: expected values, found "
        "execution: many-to-many matching not allowed"
    ) in notices
    assert notices[-1] == ""


def test_a_place_whose_context_cannot_be_asked_for_is_resumed_without_it(fake: FakeApi) -> None:
    source = source_of(fake)
    read(source)
    fake.now += 3 * EVERY
    again = source_of(fake)
    again.resume(source.snapshot())
    fake.refuse = lambda asked: (503, b"") if asked.form and len(asked.times) > 1 else None
    assert sorted(at for _, at, _ in values_of(read(again))) == [
        times(1)[0] + each for each in (10, 20, 30)
    ]


@pytest.mark.parametrize(
    ("status", "kind"), [(503, "unavailable"), (422, "422"), (500, "internal")]
)
def test_one_time_that_cannot_be_had_is_an_error(fake: FakeApi, status: int, kind: str) -> None:
    fake.refuse = lambda asked: (status, problem(kind, "not now")) if asked.form else None
    with pytest.raises(InputError, match=f"expected values, found {kind}: not now"):
        source_of(fake, start="10s").next_batch(10)


def test_a_slow_server_is_an_error_in_time(fake: FakeApi) -> None:
    released = threading.Event()

    def refuse(asked: Asked) -> None:
        if asked.form:
            released.wait(30.0)

    fake.refuse = refuse
    source = source_of(fake, start="10s", timeout="100ms")
    source._api._http.timeout = 0.2
    try:
        with pytest.raises(InputError, match=r"expected an answer within 5\.1 s, found none"):
            source.next_batch(10)
        assert fake.asked[0].form["timeout"] == "0.1s"
    finally:
        released.set()


def test_warnings_are_told_until_there_are_none(fake: FakeApi) -> None:
    fake.extra = {"warnings": ["no store matched"], "infos": ["metric might not be a counter"]}
    source = source_of(fake)
    read(source)
    assert source.notice() == "query: no store matched"
    fake.extra = {}
    fake.now += EVERY
    read(source)
    assert source.notice() == ""


def test_a_wait_ends_when_the_source_is_closed(fake: FakeApi) -> None:
    fake.now = NEWEST + 5 * SECOND  # the next time is due in ten seconds
    source = source_of(fake)
    read(source, most=1)
    thread = threading.Thread(target=source.next_batch, args=(10,))
    thread.start()
    source.close()
    thread.join(0.9)
    assert not thread.is_alive()


def test_a_proxy_that_takes_no_post_is_asked_with_get(fake: FakeApi) -> None:
    fake.refuse = lambda asked: (405, b"") if asked.method == "POST" else None
    assert len(values_of(read(source_of(fake)))) == 10
    assert [each.method for each in fake.asked] == ["POST", "GET"]
    assert fake.asked[1].form["query"] == "load"


def test_secrets_headers_and_parameters_are_sent_with_each_query(
    fake: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "swordfish")
    options: dict[str, Any] = {
        "url": f"{fake.url}/prometheus/",
        "query": "load",
        "headers": {"X-Scope-OrgID": "team-a"},
        "parameters": {"partial_response": "false"},
    }
    config = SourceConfig("hosts", "prometheus", {**options, "token_env": "SECRET"})
    with closing(make_source(config)) as source:
        source.check()
    for each in (*fake.asked, *fake.others):
        assert each.path.startswith("/prometheus/api/v1/")
        assert each.headers["authorization"] == "Bearer swordfish"
        assert each.headers["x-scope-orgid"] == "team-a"
    assert fake.asked[0].form["partial_response"] == "false"
    config = SourceConfig(
        "hosts", "prometheus", {**options, "user": "me", "password_env": "SECRET"}
    )
    with closing(make_source(config)) as source:
        source.check()
    assert fake.asked[-1].headers["authorization"] == "Basic bWU6c3dvcmRmaXNo"


def test_no_message_has_a_secret(fake: FakeApi) -> None:
    fake.refuse = lambda _: (401, b"no")
    options = {"url": f"{fake.url}/key-1234", "query": "up", "token": "swordfish"}
    source = source_of(fake, **options)
    for act in (lambda: source.next_batch(10), source.check):
        error = raised(InputError, act)
        assert "swordfish" not in str(error) and "key-1234" not in str(error)
    with pytest.raises(ParameterError) as wrong:
        PrometheusSource("hosts", {**options, "token": "sword\nfish"})
    assert str(wrong.value) == "source hosts: token: expected plain text, found other characters"


def test_check_says_what_there_is(fake: FakeApi) -> None:
    fake.series = {"a": of_hosts(20), "b": of_hosts(20), "sum(a)": [({}, lambda _: 1.0)]}
    host = fake.url[7:]
    assert source_of(fake, query="a").check() == (
        f"Prometheus 2.42.0 at {host}: 20 series of 20 streams"
    )
    channels = {"a": "a", "b": "b", "c": "c", "all": "sum(a)"}
    assert source_of(fake, channels=channels).check() == (
        f"Prometheus 2.42.0 at {host}: 41 series of 21 streams; warning: c gives none; "
        "all has no label instance: its stream is hosts"
    )
    fake.refuse = lambda asked: (404, b"") if "buildinfo" in asked.path else None
    assert source_of(fake, query="sum(a)").check() == (
        f"{host}: 1 series of 1 stream; query has no label instance: its stream is hosts"
    )
    unlabelled = source_of(fake, channels={"a": "a"}, by=["host", "node"])
    assert str(raised(InputError, unlabelled.check)) == (
        "source hosts, a: expected series with the label host or node, found instance, job\n"
        "hint: set by to labels that the series have, or keep them in the query"
    )
    assert str(raised(InputError, source_of(fake, query="typo").check)) == (
        f"source hosts: expected series, found none at {host}\n"
        "hint: try the query on Prometheus' own page"
    )


def naive_matrix(body: bytes, grid: QueryGrid) -> list[tuple[dict[str, str], dict[int, float]]]:
    """Return labels, and values by the number of the time, one by one."""
    found = []
    for each in json.loads(body)["data"]["result"]:
        values = {}
        for at, text in each.get("values", []):
            for number in range(grid.size):
                there = (grid.first + number * grid.step) / SECOND
                if abs(at - there) < 0.001 and math.isfinite(float(text)):
                    values[number] = float(text)
        found.append((each["metric"], values))
    return found


@pytest.mark.cases(200, 20_000)
def test_answers_are_read_as_by_a_twin(cases: range) -> None:
    def case(seed: int) -> None:
        rng = random.Random(seed)
        step = rng.choice([200, 1000, 15_000]) * 1_000_000
        grid = QueryGrid(1_700_000_000 * SECOND // step * step, rng.choice([1, 2, 5, 30]), step)
        result: list[Any] = []
        for number in range(rng.randrange(4)):
            near = range(-2, grid.size + 2)
            share = rng.choice([0.7, 1 / len(near)])  # many values, or about one
            at = [(grid.first + k * step) / SECOND for k in near if rng.random() < share]
            if rng.random() < 0.2:
                at = [each + step / SECOND / 3 for each in at]  # of another grid
            texts = [rng.choice(["NaN", "+Inf", "1e+06", "-0", f"{rng.random()}"]) for _ in at]
            result.append(
                {"metric": {"n": str(number)}, "values": list(zip(at, texts, strict=True))}
            )
        result.append({"metric": {}, "histograms": [[1, {}]]})
        data = {"resultType": "matrix", "result": result}
        body = json.dumps({"status": "success", "data": data}).encode()
        found = read_matrix(body, grid)
        shown = [
            (each.labels, {k: v for k, v in enumerate(each.values.tolist()) if not math.isnan(v)})
            for each in found.series
        ]
        assert shown == naive_matrix(body, grid)

    each_seed(cases, case)


@pytest.mark.cases(2_000, 100_000)
def test_any_bytes_are_series_or_an_error(cases: range) -> None:
    grid = QueryGrid(1_700_000_000 * SECOND, 3, 10 * SECOND)
    values = [[1_700_000_000, "1"], [1_700_000_010, "NaN"], [1_700_000_020.0, "2"]]
    result = [{"metric": {"__name__": "up", "a": "b"}, "values": values}]
    good = json.dumps(
        {"status": "success", "data": {"resultType": "matrix", "result": result}}
    ).encode()
    texts = [b"null", b"1e999", b"-1", b"[]", b"{}", b'"x"', b"[[", b"]", b"Infinity", b"9" * 5000]
    texts += [b"[" * 100_000, b"\xff\xfe", b"\x00", b'{"metric":{}}', b"true", b"1" * 400]

    def case(seed: int) -> None:
        rng = random.Random(seed)
        body = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(body))
            length = rng.choice([0, 1, 1, 2, 5, 20])
            body[at : at + length] = rng.choice([*texts, rng.randbytes(3)])
        try:
            found = read_matrix(bytes(body), grid)
        except InputError:
            return
        assert all(each.values.shape == (3,) for each in found.series)
        assert not any(np.isinf(each.values).any() for each in found.series)

    each_seed(cases, case)


def naive_samples(found: Mapping[tuple[str, str], Sequence[float]], grid: QueryGrid) -> Values:
    """Return what is to be given out: by stream, time and channel."""
    return {
        (stream, int(time) // SECOND, channel): value
        for (stream, channel), values in found.items()
        for time, value in zip(grid.times, values, strict=True)
        if not math.isnan(value)
    }


@pytest.mark.cases(300, 30_000)
def test_samples_are_given_out_once_in_order_and_goes_on_from_every_place(
    cases: range,
) -> None:
    def case(seed: int) -> None:
        rng = random.Random(seed)
        grid = QueryGrid(100 * SECOND, rng.randrange(1, 6), SECOND)
        found = {
            (f"s{rng.randrange(5)}", f"c{rng.randrange(3)}"): [
                rng.choice([math.nan, float(rng.randrange(9))]) for _ in range(grid.size)
            ]
            for _ in range(rng.randrange(9))
        }
        whole = naive_samples(found, grid)

        def steps_at(given: int, after: str | None) -> RangeSamples:
            steps = RangeSamples(grid)
            for (stream, channel), values in found.items():
                assert not steps.add(stream, channel, np.array(values))
            steps.finish(StreamChannels(), given=given, after=after)
            return steps

        limit = rng.choice([1, 2, 3, 100])
        steps = steps_at(0, None)
        seen: list[Arrival] = []
        order: list[tuple[int, str]] = []
        while not steps.is_done:
            batch = steps.take(limit)
            assert 0 < sum(len(each.times) for each in batch) <= limit
            seen += batch
            new = sorted((int(time), each.stream) for each in batch for time in each.times)
            assert not order or order[-1] < new[0], "in order of time and name"
            order += new
            given = 0 if steps.given is None else (steps.given - grid.first) // grid.step + 1
            rest = steps_at(given, steps.part)
            left: list[Arrival] = []
            while not rest.is_done:
                left += rest.take(100)
            assert values_of([*seen, *left]) == whole
        assert values_of(seen) == whole

    each_seed(cases, case)


def pasts(source: PrometheusSource, limit: int = 5000) -> list[tuple[int, bool]]:
    """Return the newest time of each batch in s, and whether it is of the past."""
    found = []
    while batch := source.next_batch(limit):
        found.append((int(max(each.times.max() for each in batch)) // SECOND, source.past))
    return found


def test_what_was_there_at_the_first_start_is_of_the_past(fake: FakeApi) -> None:
    fake.series["load"] = of_hosts(2)
    source = source_of(fake)
    first = source.next_batch(4)
    assert source.past and len(first) > 0
    fake.now += 3 * EVERY  # while history is read: what is new is not read with it
    assert pasts(source)[-2:] == [(NEWEST // SECOND, True), (NEWEST // SECOND + 30, False)]


def test_a_source_that_is_made_anew_knows_what_is_of_the_past(fake: FakeApi) -> None:
    fake.series["load"] = of_hosts(2)
    source = source_of(fake)
    source.next_batch(4)
    place = source.snapshot()
    assert place["began"] == NEWEST
    fake.now += 3 * EVERY
    again = source_of(fake)
    assert again.resume(place)
    assert pasts(again) == [(NEWEST // SECOND, True), (NEWEST // SECOND + 30, False)]
    assert "began" not in again.snapshot()
    # What it missed later is told: people have not seen it.
    fake.now += 50 * EVERY
    late = source_of(fake)
    assert late.resume(again.snapshot())
    assert {past for _, past in pasts(late)} == {False}
    # So is what an earlier version's place leaves to read.
    del place["began"]
    old = source_of(fake)
    assert old.resume(place)
    assert {past for _, past in pasts(old)} == {False}
