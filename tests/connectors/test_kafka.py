"""Kafka as a source: messages, places, groups and what goes wrong, at a cluster on this machine."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from itertools import count as counting
from pathlib import Path
from typing import Any, Self

import pytest
import trustme

pytest.importorskip("confluent_kafka", reason="needs the extra kafka")

from newnormal.errors import InputError
from newnormal.io.sources.kafka import KafkaSource
from newnormal.service.sources import Puller
from newnormal.testing import check_source
from tests.connectors.kafka_mock import Kafka, Relay
from tests.connectors.programs import free_port
from tests.service.test_sources import Taker
from tests.waiting import until

START = 1_767_225_600  # 2026-01-01T00:00:00Z
SECOND = 10**9
Sample = tuple[str, int, dict[str, float]]  # stream, seconds since START, values

# The cluster waits for a second less than the session before a group that had members is balanced.
QUICK = {"session.timeout.ms": 1100, "heartbeat.interval.ms": 300}
_groups = counting()


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka() as found:
        yield found


def options_of(server: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"servers": [server], "topics": ["metrics"], "stream": "host"}
    found |= {"group": f"group-{next(_groups)}", "options": QUICK, **options}
    return {name: value for name, value in found.items() if value is not None}


def source_of(kafka: Kafka, **options: Any) -> KafkaSource:
    return kafka.closing(KafkaSource("bus", options_of(kafka.server, **options)))


def rows(at: range, host: str = "a") -> list[dict[str, Any]]:
    return [{"host": host, "ts": START + each, "cpu": float(each)} for each in at]


def metrics(kafka: Kafka, *partitions: list[Any]) -> None:
    """Make the topic, with the messages of each of its partitions."""
    kafka.topic("metrics", len(partitions))
    for number, messages in enumerate(partitions):
        kafka.send("metrics", messages, partition=number)


def batch(source: KafkaSource, limit: int = 5000) -> list[Sample]:
    """Return the samples of the next batch."""
    return [
        (
            each.stream,
            (int(at) - START * SECOND) // SECOND,
            {name: value for name, value in zip(each.channels, row, strict=True) if value == value},
        )
        for each in source.next_batch(limit)
        for at, row in zip(each.times, each.values.tolist(), strict=True)
    ]


def read(source: KafkaSource, count: int, limit: int = 5000) -> list[Sample]:
    """Return the next samples, each batch acknowledged: as many as there are to come, no more."""
    found: list[Sample] = []

    def is_all() -> bool:
        found.extend(batch(source, limit))
        source.acknowledge()
        return len(found) >= count

    until(is_all, f"{count} samples")
    assert len(found) == count
    return found


def seconds(samples: list[Sample]) -> list[int]:
    return sorted(each[1] for each in samples)


def noticed(source: KafkaSource, text: str) -> str:
    """Return the notice once it has a text; what comes meanwhile is acknowledged."""

    def notice() -> str:
        source.next_batch(5000)
        source.acknowledge()
        return source.notice() if text in source.notice() else ""

    return until(notice, f"a notice with {text!r}")


def test_a_topic_is_read_from_its_beginning(kafka: Kafka) -> None:
    metrics(kafka, rows(range(0, 40, 2)), rows(range(1, 40, 2)))
    source = source_of(kafka)
    assert read(source, 40) == [("a", each, {"cpu": float(each)}) for each in range(40)]
    snapshot = source.snapshot()
    assert snapshot["offsets"] == {"metrics": {"0": 20, "1": 20}}
    assert snapshot["cluster"].startswith("mockCluster")
    assert source.notice() == ""


def test_the_source_keeps_what_a_source_promises(kafka: Kafka) -> None:
    kafka.topic("metrics", 2)
    kafka.send("metrics", [rows(range(5)), *rows(range(5, 8))])  # one message has five samples
    kafka.send("metrics", rows(range(4), "b"), partition=1)
    with Kafka() as other:
        other.topic("metrics")
        check_source(
            lambda: KafkaSource("bus", options_of(kafka.server)),
            other=lambda: KafkaSource("bus", options_of(other.server)),
        )


def test_the_stream_is_a_field_or_the_key_or_the_topic(kafka: Kafka) -> None:
    kafka.topic("metrics")
    at = START * 1000
    for value, key in (
        ({"cpu": 1, "unit": "%"}, "db-1"),
        ({"cpu": 2}, None),
        ({"cpu": 3}, bytes(2) + b"\x07"),
        ({"cpu": 4}, b"\xff\xfe"),
        ({"stream": "named", "cpu": 5}, "db-1"),
        (b"6.5", "db-2"),
        (b"7.5", None),
        (b" 8", "db-3"),
    ):
        kafka.produce("metrics", value, key=key, time=at)
    kafka.flush()
    assert sorted(read(source_of(kafka, stream=None), 7), key=lambda each: each[0]) == [
        ("000007", 0, {"cpu": 3.0}),
        ("db-1", 0, {"cpu": 1.0}),
        ("db-2", 0, {"metrics": 6.5}),
        ("db-3", 0, {"metrics": 8.0}),
        ("fffe", 0, {"cpu": 4.0}),
        ("metrics", 0, {"cpu": 2.0, "value": 7.5}),
        ("named", 0, {"cpu": 5.0}),
    ]


def test_a_time_is_that_of_the_message_or_that_of_kafka(kafka: Kafka) -> None:
    kafka.topic("metrics")
    kafka.produce("metrics", {"host": "a", "cpu": 1}, time=(START + 7) * 1000)
    kafka.produce("metrics", {"host": "a", "cpu": 2, "ts": START + 9}, time=(START + 1) * 1000)
    kafka.produce("metrics", {"host": "a", "cpu": 3, "when": "2026-01-01T00:00:20Z"}, time=1)
    kafka.flush()
    assert seconds(read(source_of(kafka), 3)) == [-START, 7, 9]
    later = source_of(kafka, time="when")
    assert read(later, 1) == [("a", 20, {"cpu": 3.0})]
    assert "2 messages could not be read" in later.notice()


def test_messages_that_cannot_be_read_are_left_out_and_counted(kafka: Kafka) -> None:
    metrics(kafka, [rows(range(1))[0], b"{broken", b"\xff\xfe", None, b"", {"cpu": 1}])
    kafka.send("metrics", rows(range(1, 2)))
    source = source_of(kafka)
    assert seconds(read(source, 2)) == [0, 1]
    notice = source.notice()
    assert notice.startswith(
        "3 messages could not be read and were left out, the last one at metrics [0], offset 5: "
        "expected a field host that names the stream"
    )
    assert source.snapshot()["offsets"] == {"metrics": {"0": 7}}


def test_a_batch_has_no_more_samples_than_asked_for(kafka: Kafka) -> None:
    kafka.topic("metrics")
    many = [{**each, "mem": 1.0} for each in rows(range(50))]
    kafka.send("metrics", [*rows(range(50, 53)), many, many[:5], *rows(range(53, 55))])
    source = source_of(kafka)
    sizes: list[int] = []
    places: list[int] = []
    found: list[Sample] = []

    def is_all() -> bool:
        more = batch(source, 7)
        sizes.append(len(more))
        found.extend(more)
        if more:
            places.append(source.snapshot()["offsets"]["metrics"]["0"])
        return len(found) >= 60

    until(is_all, "60 samples")
    assert max(sizes) == 7
    assert sorted(seconds(found)) == sorted([*range(55), *range(5)])
    # A message counts as read when the last of its samples is given out, whole ones alone.
    assert places[0] == 3 and sorted(places) == places and places[-1] == 7
    assert all(len(each[2]) == 2 for each in found if each[1] < 50)


def test_large_messages_are_read_a_few_at_a_time(kafka: Kafka) -> None:
    kafka.topic("metrics")
    kafka.send("metrics", [{**each, "note": "x" * 900_000} for each in rows(range(5))])
    assert seconds(read(source_of(kafka), 5)) == [*range(5)]


def test_another_start_goes_on_at_the_logged_offsets(kafka: Kafka) -> None:
    metrics(kafka, rows(range(10)), rows(range(10, 20)))
    first = source_of(kafka, group="one")
    read(first, 20)
    place = json.loads(json.dumps(first.snapshot()))
    kafka.send("metrics", rows(range(20, 30)))
    read(first, 10)  # given out, but its place was not logged
    first.close()
    kafka.send("metrics", rows(range(30, 35)), partition=1)
    second = source_of(kafka, group="one")
    assert second.resume(place) is True
    assert seconds(read(second, 15)) == [*range(20, 35)]
    third = source_of(kafka, group="two")  # the log decides, whatever the group is called
    assert third.resume(place) is True
    assert seconds(read(third, 15)) == [*range(20, 35)]


def test_offsets_are_committed_once_they_are_durable_and_never_read(kafka: Kafka) -> None:
    metrics(kafka, rows(range(10)))
    first = source_of(kafka, group="lag")
    until(lambda: batch(first), "a batch")
    first.next_batch(10)
    assert kafka.committed("lag", "metrics") == -1001
    first.acknowledge()
    until(lambda: kafka.committed("lag", "metrics") == 10, "the commit")
    kafka.send("metrics", rows(range(10, 14)))
    read(first, 4)
    first.close()  # with what was not committed yet
    assert kafka.committed("lag", "metrics") == 14
    assert seconds(read(source_of(kafka, group="lag"), 14)) == [*range(14)]


def test_a_commit_that_fails_harms_nothing(kafka: Kafka) -> None:
    metrics(kafka, rows(range(3)))
    source = source_of(kafka)
    kafka.fail(8, *[25] * 20)  # OffsetCommit: unknown member
    read(source, 3)
    kafka.send("metrics", rows(range(3, 6)))
    assert seconds(read(source, 3)) == [3, 4, 5]


def test_a_source_can_start_at_the_end_of_topics(kafka: Kafka) -> None:
    metrics(kafka, rows(range(10)), rows(range(10)))
    first = source_of(kafka, start="end")
    until(lambda: (batch(first), first.snapshot()["offsets"])[1], "partitions")
    kafka.send("metrics", rows(range(20, 25)))
    assert seconds(read(first, 5)) == [*range(20, 25)]
    place = first.snapshot()
    assert place["offsets"] == {"metrics": {"0": 15, "1": 10}}  # the second has given nothing yet
    first.close()
    kafka.send("metrics", rows(range(30, 33)), partition=1)
    second = source_of(kafka, start="end")
    assert second.resume(place)
    assert seconds(read(second, 3)) == [30, 31, 32]


def test_the_place_of_another_cluster_is_not_taken(kafka: Kafka) -> None:
    metrics(kafka, rows(range(3)))
    source = source_of(kafka)
    assert source.resume({"cluster": "other", "offsets": {"metrics": {"0": 2}}}) is False
    assert seconds(read(source, 3)) == [0, 1, 2]
    assert source.resume({"cluster": None, "offsets": {}}) is True


def test_a_backlog_of_several_partitions_comes_in_the_order_of_its_times(kafka: Kafka) -> None:
    kafka.topic("metrics", 3)
    for each in range(3000):  # one stream over all partitions, as messages without a key are
        value = {"host": "a", "cpu": each, "note": "x" * 400}
        kafka.produce("metrics", value, partition=each % 3, time=(START + each) * 1000)
    kafka.flush()
    source = source_of(kafka)
    assert [each[1] for each in read(source, 3000, limit=100)] == [*range(3000)]


def test_partitions_that_are_ahead_wait(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.io.sources.kafka_group._HELD", 40_000)
    kafka.topic("metrics", 2)
    for each in range(1000):  # what the second has is all later
        value = {"host": "a", "cpu": each, "note": "x" * 400}
        kafka.produce("metrics", value, partition=each // 500, time=(START + each) * 1000)
    kafka.flush()
    source = source_of(kafka)
    assert [each[1] for each in read(source, 1000, limit=50)] == [*range(1000)]
    assert source.notice() == ""


class Pumping:
    """Reads a source in a thread, as the service does."""

    def __init__(self, source: KafkaSource, limit: int = 5000) -> None:
        self.source, self._limit = source, limit
        self.samples: list[Sample] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.samples += batch(self.source, self._limit)
            self.source.acknowledge()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


def is_shared(pumping: Pumping) -> bool:
    return "another consumer" in pumping.source.notice()


def test_a_partition_taken_away_and_given_back_goes_on_at_the_logged_offset(kafka: Kafka) -> None:
    metrics(kafka, rows(range(10)), rows(range(10, 20)))
    source, other = (source_of(kafka, group="shared") for _ in range(2))
    with Pumping(source) as first:
        until(lambda: len(first.samples) == 20, "the first samples")
        other.resume(source.snapshot())
        with Pumping(other) as second:
            until(lambda: is_shared(first) and is_shared(second), "both to notice the other one")
            notice = source.notice()
            assert "another consumer in the group shared has metrics [" in notice
            assert "one service a group is supported" in notice
            kafka.send("metrics", rows(range(20, 30)))
            kafka.send("metrics", rows(range(30, 40)), partition=1)
            until(lambda: len(first.samples) + len(second.samples) == 40, "all samples")
        assert len(second.samples) == 10
        other.close()
        # What the other one read is not in this one's log: it comes again, and nothing else does.
        until(lambda: len(first.samples) == 40, "the samples of the other partition")
        until(lambda: source.notice() == "", "no notice")
    assert seconds(first.samples) == [*range(40)]


def test_what_was_fetched_and_not_logged_is_dropped_with_its_partition(kafka: Kafka) -> None:
    metrics(kafka, rows(range(1000)), rows(range(1000, 2000)))
    source, other = (source_of(kafka, group="shared") for _ in range(2))
    with Pumping(source, limit=1) as first:  # many more are fetched than given out
        until(lambda: first.samples, "the first sample")
        with Pumping(other) as second:
            until(lambda: is_shared(first) or len(first.samples) == 2000, "the other consumer")
            until(lambda: len(second.samples) == 1000, "the samples of one partition")
        other.close()
        until(lambda: len(first.samples) >= 2000, "all samples")
    assert seconds(first.samples) == [*range(2000)]


def test_topics_that_match_later_are_read(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.io.sources.kafka_group._LOOK_EVERY", 0.2)
    monkeypatch.setattr("newnormal.io.sources.kafka_group._LOOK_AGAIN", 0.2)
    kafka.topic("other")
    source = source_of(kafka, topics=["metrics", "^plant-.*"], start="end")
    notice = noticed(source, "no topic")
    assert notice == "no topic metrics, ^plant-.*: it does not exist, or the user may not see it"
    kafka.topic("metrics")
    kafka.send("metrics", rows(range(3)))  # before it was seen: a new topic has no old messages
    assert seconds(read(source, 3)) == [0, 1, 2]
    kafka.topic("plant-7")
    kafka.topic("my-plant-8")
    kafka.send("plant-7", rows(range(10, 12), "p"))
    kafka.send("my-plant-8", rows(range(20, 22), "p"))
    kafka.send("metrics", rows(range(3, 5)))
    assert seconds(read(source, 4)) == [3, 4, 10, 11]
    assert source.notice() == ""


def test_check_names_topics_without_joining_the_group(kafka: Kafka) -> None:
    kafka.topic("metrics", 3)
    kafka.topic("plant-1")
    kafka.send("metrics", rows(range(3)))
    running = source_of(kafka, group="busy", topics=["metrics", "^plant-"])
    read(running, 3)
    found = source_of(kafka, group="busy", topics=["metrics", "^plant-"]).check()
    assert found.startswith("cluster mockCluster")
    assert found.endswith(
        f" at {kafka.server} (no TLS, no user); topics metrics, plant-1, 4 partitions"
    )
    kafka.send("metrics", rows(range(3, 5)))
    assert seconds(read(running, 2)) == [3, 4]
    assert running.notice() == ""
    with pytest.raises(InputError, match="expected the topic absent, found none"):
        source_of(kafka, topics=["metrics", "absent"]).check()


def test_check_says_that_no_broker_answers(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.io.sources.kafka_group.FIRST_ANSWER", 0.5)
    server = f"127.0.0.1:{free_port()}"
    source = KafkaSource("bus", options_of(server))
    kafka.closing(source)
    with pytest.raises(InputError, match=f"{server}: expected a broker to answer") as caught:
        source.check()
    assert "Connection refused" in caught.value.message
    assert "(after" not in caught.value.message
    assert caught.value.hint == "check servers, and that Kafka runs"
    with pytest.raises(InputError, match="expected a broker to answer"):
        source.resume({"cluster": "mine", "offsets": {}})


def test_messages_that_were_removed_before_they_were_read_are_counted(kafka: Kafka) -> None:
    metrics(kafka, rows(range(5)), rows(range(5), "b"))
    first = source_of(kafka)
    read(first, 10)
    place = first.snapshot()
    first.close()
    for each in rows(range(5, 20)):  # the cluster keeps 5 MB
        kafka.send("metrics", [{**each, "note": "x" * 900_000}])
    kafka.send("metrics", rows(range(20, 22), "b"), partition=1)
    second = source_of(kafka)
    assert second.resume(place)
    found: list[Sample] = []

    def is_last() -> bool:
        found.extend(batch(second))
        second.acknowledge()
        return {("a", 19), ("b", 21)} <= {each[:2] for each in found}

    until(is_last, "the last messages")
    kept = seconds([each for each in found if each[0] == "a"])
    assert kept == [*range(kept[0], 20)] and kept[0] > 5
    assert seconds([each for each in found if each[0] == "b"]) == [20, 21]
    assert second.notice() == (
        f"up to {kept[0] - 5} messages were removed before they were read, the last ones from "
        "metrics [0]: keep messages longer (retention.ms)"
    )


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(kafka: Kafka) -> None:
    metrics(kafka, rows(range(4)))
    source = source_of(kafka)
    cluster = source.check().split()[1]
    assert source.resume({"cluster": cluster, "offsets": {"metrics": {"0": 900}}})
    assert seconds(read(source, 4)) == [0, 1, 2, 3]
    assert source.notice() == (
        "metrics [0] ends at offset 4, before the logged 900: the topic was made anew, and is read "
        "from its beginning"
    )
    assert source.snapshot()["offsets"] == {"metrics": {"0": 4}}


def test_a_cut_connection_loses_nothing(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.io.sources.kafka_group._SILENT", 0.5)
    kafka.topic("metrics", 2)
    kafka.send("metrics", rows(range(10)))
    with Relay(kafka.port) as relay:
        source = source_of(kafka, servers=[relay.server])
        found = read(source, 10)
        for each in range(2):
            relay.cut()
            kafka.send("metrics", rows(range(20 * each + 10, 20 * each + 20)))
            kafka.send("metrics", rows(range(20 * each + 20, 20 * each + 30)), partition=1)
            assert "Connection refused" in noticed(source, "expected a broker to answer")
            relay.restore()
            found += read(source, 20)
            until(lambda: (batch(source), source.notice() == "")[1], "no notice")
        assert seconds(found) == [*range(50)]


def test_closing_waits_for_no_lost_broker(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.io.sources.kafka_group._CLOSING", 0.3)
    metrics(kafka, rows(range(10)))
    with Relay(kafka.port) as relay:
        source = source_of(kafka, servers=[relay.server])
        until(lambda: batch(source), "a batch")
        relay.cut()
        source.acknowledge()  # what is to be committed cannot be
        before = set(threading.enumerate())
        source.close()
        (waiting,) = set(threading.enumerate()) - before
        assert waiting.name == "kafka close"  # the library waits still


def test_a_missing_cluster_is_waited_for(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.io.sources.kafka_group._SILENT", 0.2)
    metrics(kafka, rows(range(3)))
    with Relay(kafka.port) as relay:
        relay.cut()
        source = source_of(kafka, servers=[relay.server])
        assert source.next_batch(10) == []
        noticed(source, "expected a broker to answer")
        relay.restore()
        assert seconds(read(source, 3)) == [0, 1, 2]


def test_another_cluster_ends_it(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.io.sources.kafka_group._LOOK_EVERY", 0.1)
    metrics(kafka, rows(range(3)))
    source = source_of(kafka)
    read(source, 3)
    monkeypatch.setattr(source._member, "cluster_id", "another")
    with pytest.raises(InputError, match="expected the cluster another, found mockCluster"):
        until(lambda: source.next_batch(10), "an error")


def test_the_connection_can_be_encrypted(kafka: Kafka, tmp_path: Path) -> None:
    metrics(kafka, rows(range(3)))
    authority, other = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    for name, each in (("good.pem", authority), ("bad.pem", other)):
        each.cert_pem.write_to_path(str(tmp_path / name))
    with Relay(kafka.port, context) as relay:
        source = source_of(kafka, servers=[relay.server], ca_file=str(tmp_path / "good.pem"))
        assert "(TLS, no user)" in source.check()
        assert seconds(read(source, 3)) == [0, 1, 2]
        wrong = source_of(kafka, servers=[relay.server], ca_file=str(tmp_path / "bad.pem"))
        with pytest.raises(InputError, match="certificate verify failed") as caught:
            wrong.check()
        assert caught.value.hint == "check tls, ca_file, cert_file and key_file"
        with pytest.raises(InputError, match="certificate verify failed"):
            until(lambda: wrong.next_batch(10), "an error")


def test_a_user_is_asked_for_name_and_password(kafka: Kafka) -> None:
    metrics(kafka, rows(range(3)))
    with Relay(kafka.port, user=("nn", "swordfish")) as relay:
        source = source_of(kafka, servers=[relay.server], user="nn", password="swordfish")
        assert "(no TLS, user nn)" in source.check()
        assert seconds(read(source, 3)) == [0, 1, 2]
        wrong = source_of(kafka, servers=[relay.server], user="nn", password="mackerel")
        with pytest.raises(InputError, match="expected the brokers to take the conn") as caught:
            wrong.check()
        assert caught.value.hint == "check user, password and sasl"
        assert "mackerel" not in str(caught.value)
        with pytest.raises(InputError, match="expected the brokers to take the connection"):
            until(lambda: wrong.next_batch(10), "an error")


def test_a_source_can_be_closed_while_it_waits_and_twice(kafka: Kafka) -> None:
    kafka.topic("metrics")
    source = source_of(kafka)
    stopping = threading.Event()

    def wait() -> None:
        while not stopping.is_set():
            source.next_batch(10)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: source._member._assigned, "partitions")
    source.close()
    source.close()
    assert thread.is_alive()  # it asks on, and is given nothing
    stopping.set()
    thread.join()
    assert source.next_batch(10) == []
    source.acknowledge()


def test_a_puller_moves_each_message_once_whatever_fails(kafka: Kafka) -> None:
    kafka.topic("metrics", 2)
    taker: Any = Taker()
    failures = iter([None, OSError("no space"), None, OSError("no space")])
    taker.late = lambda _: next(failures, None)
    waits: list[float] = []
    puller = Puller("bus", lambda: source_of(kafka, group="one"), taker, limit=7)

    def step(wanted: int) -> Callable[[], bool]:
        def found() -> bool:
            wait = puller.step()
            assert wait is not None
            waits.append(wait)
            return len(taker.taken) >= wanted

        return found

    for each in range(3):
        kafka.send("metrics", rows(range(20 * each, 20 * each + 10)))
        kafka.send("metrics", rows(range(20 * each + 10, 20 * each + 20)), partition=1)
        until(step(20 * each + 20), "samples")
        puller.close()  # as after an error: another source goes on
    assert sorted(taker.samples) == [("a", START + each) for each in range(60)]
    assert 1.0 in waits  # it did fail
