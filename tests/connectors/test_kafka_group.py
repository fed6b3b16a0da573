"""Kafka's callbacks and messages, with a stand-in for the library's consumer; any input; order."""

import json
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("confluent_kafka", reason="needs the extra kafka")

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from newnormal.errors import InputError
from newnormal.io.kafka import KafkaCluster
from newnormal.io.options import Options
from newnormal.io.payloads import Payloads
from newnormal.io.sources.base import check_arrivals
from newnormal.io.sources.kafka import KafkaSamples, KafkaSource
from newnormal.io.sources.kafka_group import Backlog, Partition
from tests.counts import count

START = 1_767_225_600_000  # ms
CREATED = 1  # the kind of a message's timestamp


class StandInMessage:
    """A message as the library gives it."""

    def __init__(
        self,
        offset: int,
        value: bytes | None = b"1",
        *,
        partition: int = 0,
        key: bytes | None = b"a",
        stamp: int | None = None,
        error: KafkaError | None = None,
    ) -> None:
        self._facts = {
            "topic": "metrics",
            "partition": partition,
            "offset": offset,
            "value": value,
            "key": key,
            "error": error,
            "timestamp": (CREATED, START + offset) if stamp is None else (CREATED, stamp),
        }
        if stamp == 0:
            self._facts["timestamp"] = (0, -1)  # not available

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return lambda: self._facts[name]


class StandIn:
    """A consumer whose calls give what was prepared."""

    def __init__(self, partitions: int = 1) -> None:
        self.partitions = partitions
        self.steps: deque[Callable[[], list[StandInMessage]]] = deque()
        self.assigned: list[list[Any]] = []
        self.range = (0, 1000)
        self.subscribed: list[list[str]] = []
        self.on_assign: Any = None
        self.on_revoke: Any = None
        self.on_lost: Any = None
        self.committed: list[Any] = []
        self.fails: Exception | None = None

    def list_topics(self, timeout: float) -> Any:
        del timeout
        topic = SimpleNamespace(error=None, partitions=dict.fromkeys(range(self.partitions)))
        return SimpleNamespace(cluster_id="one", topics={"metrics": topic}, brokers={})

    def subscribe(self, topics: list[str], on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.subscribed.append(topics)
        self.on_assign, self.on_revoke, self.on_lost = on_assign, on_revoke, on_lost

    def consume(self, number: int, timeout: float) -> list[StandInMessage]:
        del timeout
        found = self.steps.popleft()() if self.steps else []
        assert len(found) <= number
        return found

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned.append([(each.partition, each.offset) for each in partitions])

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        if self.fails is not None:
            raise self.fails
        return self.range

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous
        self.committed.append([(each.partition, each.offset) for each in offsets])

    def pause(self, _: Any) -> None: ...

    def resume(self, _: Any) -> None: ...

    def unsubscribe(self) -> None: ...

    def close(self) -> None: ...

    def then(self, *found: StandInMessage) -> None:
        """Have a call of `consume` return messages."""
        self.steps.append(lambda: list(found))

    # What the library does within `consume`.

    def give(self, *partitions: int) -> list[StandInMessage]:
        self.on_assign(self, [TopicPartition("metrics", each) for each in partitions])
        return []

    def revoke(self, *partitions: int) -> list[StandInMessage]:
        self.on_revoke(self, [TopicPartition("metrics", each) for each in partitions])
        return []

    def lose(self, *partitions: int) -> list[StandInMessage]:
        self.on_lost(self, [TopicPartition("metrics", each) for each in partitions])
        return []


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    found = StandIn()
    monkeypatch.setattr(KafkaCluster, "consumer", lambda *_: found)
    return found


def source_of(clock: Callable[[], float] | None = None, **options: Any) -> KafkaSource:
    ticks = iter(range(10**9))
    given = {"servers": ["k:9092"], "topics": ["metrics"], **options}
    return KafkaSource("bus", given, clock=clock or (lambda: float(next(ticks))))


def messages(*offsets: int, partition: int = 0) -> list[StandInMessage]:
    return [StandInMessage(each, partition=partition) for each in offsets]


def given_out(source: KafkaSource, limit: int = 100) -> list[int]:
    """Return the times of the next batch, as offsets."""
    found = source.next_batch(limit)
    return sorted(int(each) // 10**6 - START for arrival in found for each in arrival.times)


def joined(consumer: StandIn, *partitions: int, **options: Any) -> KafkaSource:
    source = source_of(**options)
    consumer.steps.append(lambda: consumer.give(*partitions))
    assert given_out(source) == []
    return source


def test_messages_of_before_a_rebalance_are_fetched_again(consumer: StandIn) -> None:
    source = joined(consumer, 0)
    consumer.then(*messages(0, 1))
    assert given_out(source) == [0, 1]
    source.acknowledge()

    def again() -> list[StandInMessage]:
        consumer.revoke(0)
        consumer.give(0)
        return messages(7, 8)  # fetched before: 2 to 6 would be left out

    consumer.steps.append(again)
    assert given_out(source) == []
    assert consumer.assigned[-1] == [(0, 2)]
    assert source.snapshot()["offsets"] == {"metrics": {"0": 2}}
    consumer.then(*messages(2, 3))
    assert given_out(source) == [2, 3]


def test_what_is_ready_is_dropped_when_its_partition_is_taken_away(consumer: StandIn) -> None:
    consumer.partitions = 2
    source = joined(consumer, 0, 1)
    consumer.then(*messages(0, 1, 2))
    assert given_out(source, 3) == []  # the other partition is waited for
    consumer.then(StandInMessage(0, partition=1, error=KafkaError(KafkaError._PARTITION_EOF)))
    assert given_out(source, 1) == [0]
    source.acknowledge()
    for lose in (consumer.revoke, consumer.lose):
        consumer.steps.append(lambda lose=lose: lose(0, 1))  # type: ignore[misc]
        assert given_out(source) == []
        consumer.steps.append(lambda: consumer.give(0, 1))
        assert given_out(source) == []
        assert consumer.assigned[-1] == [(0, 1), (1, OFFSET_BEGINNING)]
    assert source.snapshot()["offsets"] == {"metrics": {"0": 1}}


def test_messages_of_partitions_that_are_not_assigned_are_left_out(consumer: StandIn) -> None:
    source = joined(consumer, 0)
    consumer.then(*messages(5, partition=3), *messages(0))
    assert given_out(source) == [0]
    consumer.then(*messages(0, 1))  # one came already
    assert given_out(source) == [1]


def test_new_partitions_of_a_topic_are_read_from_their_beginning(consumer: StandIn) -> None:
    consumer.range = (0, 40)
    consumer.partitions = 2
    source = joined(consumer, 0, 1, start="end")
    assert consumer.assigned[-1] == [(0, 40), (1, 40)]
    consumer.steps.append(lambda: consumer.revoke(0, 1) + consumer.give(0, 1, 2))
    given_out(source)
    assert consumer.assigned[-1] == [(0, 40), (1, 40), (2, OFFSET_BEGINNING)]
    assert source.notice() == ""


def test_partitions_of_another_consumer_are_named(consumer: StandIn) -> None:
    consumer.partitions = 9
    source = joined(consumer, 0, 1)
    assert source.notice() == (
        "another consumer in the group newnormal has metrics [2], metrics [3], metrics [4], "
        "metrics [5], metrics [6] and 2 more: one service a group is supported; stop the other "
        "one, or set another group"
    )
    consumer.steps.append(lambda: consumer.revoke(0, 1) + consumer.give(*range(9)))
    given_out(source)
    assert source.notice() == ""


def test_an_error_while_partitions_are_assigned_ends_the_source(consumer: StandIn) -> None:
    consumer.fails = KafkaException(KafkaError(KafkaError._TRANSPORT, "gone"))
    source = source_of(start="end")
    consumer.steps.append(lambda: consumer.give(0))
    with pytest.raises(InputError, match=r"metrics \[0\]: expected where it begins .* found gone"):
        source.next_batch(10)


def test_a_silent_partition_is_not_waited_for_without_end(consumer: StandIn) -> None:
    consumer.partitions = 2
    source = joined(consumer, 0, 1)
    consumer.then(*messages(0, 1))
    found: list[int] = []
    for _ in range(20):  # each wait takes a second by the clock
        found += given_out(source)
    assert found == [0, 1]


def test_a_removed_topic_is_looked_for_at_once(consumer: StandIn) -> None:
    source = joined(consumer, 0)
    looks: list[float] = []

    def look(timeout: float) -> Any:
        looks.append(timeout)
        return SimpleNamespace(cluster_id="one", topics={}, brokers={})

    consumer.list_topics = look  # type: ignore[method-assign]
    error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown topic")
    consumer.then(StandInMessage(0, error=error))
    given_out(source)
    given_out(source)
    assert looks
    assert source.notice().startswith("no topic metrics: it does not exist")


@pytest.mark.parametrize(
    "code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED]
)
def test_errors_for_people_are_raised(consumer: StandIn, code: int) -> None:
    source = joined(consumer, 0)
    consumer.then(StandInMessage(0, error=KafkaError(code, "no")))
    with pytest.raises(InputError, match="expected leave to read, found no") as caught:
        source.next_batch(10)
    assert "and the group" in str(caught.value.hint)


def test_a_fatal_error_is_raised(consumer: StandIn) -> None:
    source = joined(consumer, 0)
    error = KafkaError(KafkaError.FENCED_INSTANCE_ID, "fenced", fatal=True)
    consumer.then(StandInMessage(0, error=error))
    with pytest.raises(InputError, match="k:9092: expected messages, found fenced"):
        source.next_batch(10)


def test_commits_are_made_now_and_then_and_at_the_end(consumer: StandIn) -> None:
    now = [0.0]
    source = source_of(clock=lambda: now[0])
    consumer.steps.append(lambda: consumer.give(0))
    consumer.then(*messages(0))
    assert given_out(source) == [0]
    source.acknowledge()
    assert consumer.committed == [[(0, 1)]]
    for each in range(1, 4):
        consumer.then(*messages(each))
        assert given_out(source) == [each]
        now[0] += 2.0
        source.acknowledge()
    assert consumer.committed == [[(0, 1)], [(0, 4)]]
    consumer.then(*messages(4))
    assert given_out(source) == [4]
    source.acknowledge()
    consumer.then(*messages(5))
    assert given_out(source) == [5]  # not durable
    source.close()
    assert consumer.committed[-1] == [(0, 5)]


def samples_of(**options: Any) -> KafkaSamples:
    return KafkaSamples(Payloads(Options("source bus", options)), lambda: 0.0)


def test_a_message_without_any_time_and_one_that_is_too_large_are_left_out() -> None:
    samples = samples_of()
    read: Any = [
        StandInMessage(0, b"1", stamp=0),
        StandInMessage(1, b'{"ts": 1767225600, "cpu": 1}', stamp=0),
        StandInMessage(2, b" " * 4_194_305),
    ]
    samples.read(read[:1])
    assert "expected a time in the message or a timestamp of Kafka, found none" in samples.notice()
    samples = samples_of()
    samples.read(read[1:])
    behind: dict[Partition, int] = {}
    (found,) = samples.take(10, behind)
    assert found.times.tolist() == [START * 10**6]
    assert behind == {("metrics", 0): 3}
    assert samples.notice() == (
        "1 messages could not be read and were left out, the last one at metrics [0], offset 2: "
        "expected a message of at most 4,194,304 bytes, found 4,194,305"
    )


def test_json_with_the_number_of_its_schema_is_read() -> None:
    samples = samples_of()
    body = b'{"ts": 1767225600, "cpu": 1}'
    read: Any = [StandInMessage(0, bytes(4) + b"\x07" + body), StandInMessage(1, bytes(5) + b"x")]
    samples.read(read)
    (found,) = samples.take(10, {})
    assert (found.channels, found.values.tolist()) == (("cpu",), [[1.0]])
    assert samples.notice().startswith("1 messages could not be read")


def test_a_notice_changes_now_and_then_alone() -> None:
    now = [0.0]
    samples = KafkaSamples(Payloads(Options("source bus", {})), lambda: now[0])
    found = []
    for each in range(30):
        read: Any = [StandInMessage(each, b"{")]
        samples.read(read)
        found.append(samples.notice().split()[0])
        now[0] += 1.0
    assert found == ["1"] * 10 + ["11"] * 10 + ["21"] * 10


_VALUES = st.binary(max_size=30) | st.sampled_from(
    [b"1", b"[1,2]", b'{"ts":5,"a":1}', b'[{"ts":5,"a":1,"b":2},{"ts":6,"a":1}]', b'{"a":{"b":1}}']
)
_MESSAGES = st.lists(
    st.tuples(
        _VALUES | st.none(),
        st.binary(max_size=4) | st.none() | st.just(b"key"),
        st.integers(-(2**63), 2**63 - 1) | st.just(START) | st.just(0),
    ),
    max_size=12,
)


@settings(max_examples=count(200, 50_000), deadline=None)
@given(found=_MESSAGES, limit=st.integers(1, 5))
def test_any_messages_are_read_or_counted(found: Any, limit: int) -> None:
    samples = samples_of()
    read: Any = [
        StandInMessage(at, value, key=key, stamp=stamp)
        for at, (value, key, stamp) in enumerate(found)
    ]
    samples.read(read)
    behind: dict[Partition, int] = {}
    batches = 0
    while samples:
        check_arrivals("messages", samples.take(limit, behind), limit)
        batches += 1
        assert batches < 1000
    assert behind == ({("metrics", 0): len(found)} if found else {})


@settings(max_examples=count(100, 20_000), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    limit=st.integers(1, 6),
    repeated=st.booleans(),
)
def test_samples_are_never_cut_into_pieces(sizes: list[int], limit: int, repeated: bool) -> None:
    samples = samples_of()
    at = 0
    read: Any = []
    for offset, size in enumerate(sizes):
        rows = [{"ts": START // 1000 + at + each, "a": each, "b": each} for each in range(size)]
        at += 0 if repeated else size
        read.append(StandInMessage(offset, json.dumps(rows).encode()))
    samples.read(read)
    times: list[int] = []
    while samples:
        found = samples.take(limit, {})
        assert all(each.channels == ("a", "b") for each in found)
        times += [time for each in found for time in each.times.tolist()]
    # Of one time, in messages that are taken together, the last counts.
    expected = max(sizes) if repeated else sum(sizes)
    seconds = {START // 1000 + each for each in range(expected)}
    assert {time // 10**9 for time in times} == seconds
    assert expected <= len(times) <= sum(sizes)


class Naive:
    """A backlog as a list: slow and obvious."""

    def __init__(self, partitions: int) -> None:
        self.behind = set(range(partitions))
        self.newest = [-np.inf] * partitions
        self.held: list[tuple[float, int, int, int]] = []  # time, partition, order, item

    def add(self, partition: int, time: float, item: int) -> None:
        self.newest[partition] = max(time, self.newest[partition])
        self.held.append((self.newest[partition], partition, item, item))

    def take(self, limit: int) -> list[int]:
        until = min((self.newest[each] for each in self.behind), default=np.inf)
        found = [each for each in sorted(self.held) if each[0] <= until][:limit]
        self.held = [each for each in self.held if each not in found]
        return [each[3] for each in found]


@settings(max_examples=count(300, 100_000), deadline=None)
@given(data=st.data(), partitions=st.integers(1, 4))
def test_a_backlog_gives_what_its_twin_gives(data: st.DataObject, partitions: int) -> None:
    backlog, naive = Backlog[int, int](1e9), Naive(partitions)
    backlog.restart(range(partitions))
    own = st.integers(0, partitions - 1)
    step = st.tuples(st.just("add"), own, st.integers(0, 9)) | st.tuples(
        st.sampled_from(["take", "caught"]), own, st.integers(1, 5)
    )
    for item, (verb, partition, number) in enumerate(data.draw(st.lists(step, max_size=30))):
        if verb == "add":
            backlog.add(partition, number, 1, item)
            naive.add(partition, number, item)
        elif verb == "take":
            assert backlog.take(number, 100) == naive.take(number)
        else:
            backlog.caught_up(partition)
            naive.behind.discard(partition)
        assert backlog.size == len(naive.held)
        until = min((naive.newest[each] for each in naive.behind), default=np.inf)
        ahead = {each[1] for each in naive.held if each[0] > until}
        assert set(backlog.ahead()) == ahead
    for each in range(partitions):
        backlog.caught_up(each)
    naive.behind.clear()
    assert backlog.take(100, 100) == naive.take(100)


def test_a_backlog_gives_no_more_bytes_than_asked_for() -> None:
    backlog = Backlog[int, int](1.0)
    backlog.restart([0])
    for each in range(10):
        backlog.add(0, each, 40, each)
    assert backlog.take(100, 100) == [0, 1, 2]
    assert backlog.size == 280
