"""Samples from topics of Kafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from newnormal.errors import InputError, ParameterError
from newnormal.io.arrivals import Arrival
from newnormal.io.kafka import Cluster, flattened
from newnormal.io.options import Options
from newnormal.io.payloads import Payloads
from newnormal.io.sources.kafka_group import BEGINNING, END, Member, Topics
from newnormal.io.sources.kafka_messages import Partition, Samples
from newnormal.io.sources.pull import PullSource

_COMMIT_EVERY = 5.0  # s
_SHOWN = 5  # topics that a sentence names


class KafkaSource(PullSource):
    """Reads topics as a member of a consumer group, from the offsets that the service's log has.

    Options: those of `newnormal.io.kafka.Cluster` and of `newnormal.io.payloads.Payloads`;
    `topics`, where one that begins with ``^`` is a regular expression; `group` (newnormal);
    `start`, ``beginning`` (default) or ``end``: where to begin in a topic without a logged offset.

    The stream of a message is what its JSON names, else its key, else its topic. Its time is that
    in the JSON, else its timestamp in Kafka, so a message that is read twice has the same time.

    Parameters
    ----------
    clock
        Returns seconds that always increase.

    Notes
    -----
    Offsets are committed to the broker once their samples are durable, for programs that show lag;
    they are not read. After a rebalance, a partition goes on at the offset behind the last batch.
    """

    secrets = Cluster.secrets

    def __init__(
        self, name: str, options: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(name, options)
        given = Options(f"source {name}", flattened(options))
        self._cluster = Cluster(given)
        self._topics = Topics(given.where, given.texts("topics"))
        group: str = given.text("group", "newnormal")
        start: str = given.text("start", BEGINNING)
        self._samples = Samples(Payloads(given), clock)
        given.end()
        if start not in (BEGINNING, END):
            raise ParameterError(
                f"{given.where}: start: expected {BEGINNING} or {END}, found {start!r}"
            )
        self._clock = clock
        self._lock = threading.Lock()  # the library takes one call at a time
        self._closed = False
        self._durable: dict[Partition, int] = {}
        self._commit_at = 0.0
        self._member = Member(self._cluster, self._topics, group, start, clock)

    def next_batch(self, limit: int) -> Sequence[Arrival]:
        """Return the samples of the next messages."""
        with self._lock:
            if self._closed:
                return []
            if not self._samples:  # all of them were in batches: none can be of a lost partition
                self._samples.read(self._member.messages(limit))
            return self._samples.take(limit, self._member.behind)

    def snapshot(self) -> dict[str, Any]:
        """Return the cluster and the offsets behind the last batch."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in self._member.behind.items():
            offsets.setdefault(topic, {})[str(partition)] = offset
        return {"cluster": self._member.cluster_id, "offsets": offsets}

    def resume(self, snapshot: Mapping[str, Any]) -> bool:
        """Go on at offsets; False if they are of another cluster."""
        if snapshot["cluster"] is None:  # of before the first message
            return True
        with self._lock:
            self._member.cluster_id, _ = self._member.metadata()
            if self._member.cluster_id != snapshot["cluster"]:
                return False
            self._member.behind = {
                (topic, int(partition)): int(offset)
                for topic, own in snapshot["offsets"].items()
                for partition, offset in own.items()
            }
            return True

    def acknowledge(self) -> None:
        """Commit the offsets, every few seconds."""
        self._durable = dict(self._member.behind)
        with self._lock:
            if not self._closed and self._clock() >= self._commit_at:
                self._commit_at = self._clock() + _COMMIT_EVERY
                self._member.commit(self._durable)

    def notice(self) -> str:
        """Return what is wrong."""
        found = [*self._member.notices(), self._samples.notice()]
        return "; ".join(each for each in found if each)

    def check(self) -> str:
        """Ask which topics there are, without joining the group."""
        with self._lock:
            cluster, topics = self._member.metadata()
        wanted, absent = self._topics.among(topics)
        if absent:
            raise InputError(
                f"{self._cluster.servers}: expected the topic {absent[0]}, found none",
                hint="it does not exist, or the user may not see it",
            )
        named = ", ".join(wanted[:_SHOWN]) + (", ..." if len(wanted) > _SHOWN else "")
        partitions = sum(len(topics[each].partitions) for each in wanted)
        return (
            f"cluster {cluster} at {self._cluster.servers} ({self._cluster.protection}); "
            f"topics {named}, {partitions} partitions"
        )

    def close(self) -> None:
        """Leave the group."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._member.commit(self._durable)
                self._member.close()
