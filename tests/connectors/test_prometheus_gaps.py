"""Ranges of queries to Prometheus after a time at which it did not run."""

import random
from collections.abc import Callable, Iterator

import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.io.sources import prometheus
from newnormal.io.sources.prometheus import PrometheusSource
from newnormal.io.sources.prometheus_steps import longest_range
from tests.connectors.fake_prometheus import SCRAPED, SECOND, FakeApi
from tests.connectors.test_prometheus_source import NEWEST, NOW, source_of, values_of

NEWEST_S = NEWEST // SECOND
LOOKBACK = 300  # s for which Prometheus repeats a value

Outage = tuple[int, int]  # the last scrape before it and the first one after it, in s


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    with FakeApi(NOW) as found:
        yield found


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("node_load1", 0),
        ("rate(x[30s])", 30),
        ("rate(x[5m])", 300),
        ("rate(x[1h30m])", 5400),
        ("rate(x[ 1d ])", 86_400),
        ("rate(x[1w])", 7 * 86_400),
        ("rate(x[1y2d])", 367 * 86_400),
        ("rate(x[1500ms])", 1.5),
        ("rate(x[300])", 300),
        ("rate(x[2.5])", 2.5),
        ("rate(x[30s]) + rate(y[2m]) - z", 120),
        ('rate(x{mode!="idle"}[2m] offset 1h)', 120),
        ("max_over_time(x[1h:1m])", 3600),
        ("max_over_time(x[1h:])", 3600),
        ("max_over_time(rate(x[5m])[1h:1m])", 3900),
        ("max_over_time((rate(x[5m]) + rate(y[10m]))[1h:1m]) + rate(z[2h])", 7200),
        ("max_over_time(sum by (a) (rate(x[5m])) [1h:1m])", 3900),
        ("max_over_time(min_over_time(rate(x[5m])[1h:1m])[1d:1h])", 86_400 + 3900),
        ('up{job="[5m]"}', 0),
        ("up{job='[5m]'}", 0),
        ("up{job=`[5m]`}", 0),
        ('up{job="a\\"[5m]"} + rate(x[1m])', 60),
        ('label_replace(rate(x[1m]), "a", "$1", "b", "(.*)[1h]")', 60),
        ("rate(x[1m]) # as [5m] would be", 60),
        ("rate(x[", 0),
        ("rate(x[5 parsecs])", 0),
        ("x[5q]", 0),
        (")[1m]", 60),
    ],
)
def test_how_far_back_a_query_looks_is_in_its_text(query: str, seconds: float) -> None:
    assert longest_range(query) == round(seconds * SECOND)


def served(fake: FakeApi, outages: list[Outage], query: str) -> None:
    """Let Prometheus scrape every second but for some times."""

    def newest(at: float, back: float) -> float | None:
        last = at
        for before, after in outages:
            if before <= at < after:
                last = before
        return last if at - last <= back else None

    def value(back: float) -> Callable[[float], float | None]:
        return lambda at: None if newest(at, back) is None else at

    labels = {"instance": "h0"}
    fake.series = {
        SCRAPED: [({}, lambda at: newest(at, LOOKBACK))],
        "load": [(labels, value(LOOKBACK))],
        query: [(labels, value(max(longest_range(query) / SECOND, 90)))],
    }


def missing(outages: list[Outage], span: int) -> set[int]:
    """Return the times without a value of a query: in gaps, and where its range begins in one."""
    found: set[int] = set()
    for before, after in outages:
        end = -(-after // 10) * 10  # the first time that is asked for
        if end - 10 - before > 90:
            gap = {at for at in range(before // 10 * 10, end, 10) if at > before + 10}
            found |= gap | {at for at in range(end, end + span, 10) if at - span >= min(gap)}
    return found


def given(source: PrometheusSource, fake: FakeApi) -> tuple[set[int], set[int]]:
    """Return the times of all values of both channels up to now."""
    found: list[Arrival] = []
    while source.snapshot()["time"] < NEWEST + fake.now - NOW:
        found += source.next_batch(5000)
    values = values_of(found)
    assert all(value == at for (_, at, _), value in values.items())
    times = {each: {at for _, at, channel in values if channel == each} for each in ("a", "b")}
    return times["a"], times["b"]


@pytest.mark.parametrize("size", [1, 7, 60])
@pytest.mark.parametrize("span", [30, 120, 600])
@pytest.mark.parametrize("down", [100, 200, 1200])
def test_values_whose_range_reaches_into_a_gap_are_missing(
    fake: FakeApi, monkeypatch: pytest.MonkeyPatch, size: int, span: int, down: int
) -> None:
    monkeypatch.setattr(prometheus, "_FIRST_SIZE", size)
    monkeypatch.setattr(prometheus, "_GROWTH", 1)
    query = f"rate(x[{span}s])"
    outages = [(NEWEST_S - 2000, NEWEST_S - 2000 + down), (NEWEST_S - 80, NEWEST_S - 20)]
    served(fake, outages, query)
    source = source_of(fake, channels={"a": "load", "b": query}, start="3000s")
    plain, ranged = given(source, fake)
    everything = set(range(NEWEST_S - 2990, NEWEST_S + 1, 10))
    assert plain == everything - missing(outages, 0)
    assert ranged == everything - missing(outages, span)


def test_why_values_are_left_out_is_told(fake: FakeApi) -> None:
    served(fake, [(NEWEST_S - 210, NEWEST_S - 60)], "rate(x[2m])")
    source = source_of(fake, channels={"a": "load", "b": "rate(x[2m])"}, start="300s")
    given(source, fake)
    assert source.notice() == (
        "Prometheus scraped nothing at 13 times; b: left out at 7 times, as its range reaches back "
        "to when Prometheus scraped nothing"
    )
    for _ in range(5):  # live, one by one
        fake.now += 10 * SECOND
        assert given(source, fake)[1] == set()
        assert "; b: left out" in f"; {source.notice()}"
    fake.now += 10 * SECOND
    assert given(source, fake) == ({NEWEST_S + 60}, {NEWEST_S + 60})
    assert source.notice() == ""


def test_a_source_that_starts_soon_after_a_gap_knows_of_it(fake: FakeApi) -> None:
    served(fake, [(NEWEST_S - 400, NEWEST_S - 100)], "rate(x[2m])")
    channels = {"a": "load", "b": "rate(x[2m])"}
    first = source_of(fake, channels=channels, start="100s")
    given(first, fake)
    place = first.snapshot()
    fake.now += 20 * SECOND
    again = source_of(fake, channels=channels)
    assert again.resume(place)
    for source in (again, source_of(fake, channels=channels, start="20s")):
        assert given(source, fake) == ({NEWEST_S + 10, NEWEST_S + 20}, {NEWEST_S + 20})


@pytest.mark.parametrize("seed", range(20))
def test_any_outages_restarts_and_waits_leave_the_same_values_out(
    fake: FakeApi, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    some = random.Random(seed)
    monkeypatch.setattr(prometheus, "_FIRST_SIZE", some.choice([1, 2, 5, 30]))
    span = some.choice([30, 60, 300, 900])
    query = f"increase(x[{span}s])"
    outages, at = [], NEWEST_S - 3000
    while (at := at + some.randrange(span + 60, 1500)) < NEWEST_S + 1000:
        before, at = at, at + some.choice([40, 80, 150, 290, 310, 700])
        if not before < NEWEST_S < at + 10:  # it runs when it is asked first
            outages.append((before, at))
    served(fake, outages, query)
    channels = {"a": "load", "b": query}
    source = source_of(fake, channels=channels, start="3000s")
    plain, ranged = given(source, fake)
    now = NEWEST_S
    while now < NEWEST_S + 1500:
        seconds = 10 * some.choice([1, 1, 1, 2, 40])
        now += seconds
        fake.now += seconds * SECOND
        if any(before < now < after + 10 for before, after in outages):
            continue
        if some.random() < 0.2:
            place, source = source.snapshot(), source_of(fake, channels=channels)
            assert source.resume(place)
        more_plain, more_ranged = given(source, fake)
        plain, ranged = plain | more_plain, ranged | more_ranged
    everything = set(range(NEWEST_S - 2990, max(plain | ranged) + 1, 10))
    assert ranged == everything - missing(outages, span)
    assert plain == everything - missing(outages, 0)
