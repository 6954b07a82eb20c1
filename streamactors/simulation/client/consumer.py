"""A consumer of a simulated cluster, with the methods of confluent-kafka's Consumer that the connector calls.

Owner: one task; its callbacks run inside `poll` and `consume`. Habits of librdkafka that the connector relies on, and that are kept here:
- `consume(n, 0)` takes what is ready; `poll(t)` waits for one message.
- A pause drops what was fetched and not delivered. It is fetched again after `resume`, from the position: nothing is skipped or repeated. A partition
  stays paused when it is assigned again.
- A rebalance callback runs inside a poll. From the moment it waits, no record of the assigned partitions is delivered.
- `close` calls the revocation callback, leaves the group (a static member stays in it), and commits nothing.
- The end of a partition is a message with _PARTITION_EOF, once for each end.
- An offset that is gone is reset by `auto.offset.reset`, and only a line of the log says so.
Auto-commit and `store_offsets` are not simulated: the connector never uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.base import FOREVER, SimClient, limit_ms
from streamactors.simulation.client.errors import Told, failure
from streamactors.simulation.client.membership.classic_member import ClassicMember
from streamactors.simulation.client.membership.consumer_member import ConsumerMember
from streamactors.simulation.client.membership.member import GroupMetadata, Membership
from streamactors.simulation.client.membership.rebalances import Rebalances
from streamactors.simulation.client.offsets import Offsets
from streamactors.simulation.client.reading.fetcher import Fetcher
from streamactors.simulation.client.reading.reading import UNKNOWN
from streamactors.simulation.client.reading.ready import Callback, Notice
from streamactors.simulation.client.statistics import statistics_of

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.world.face import World

Key = tuple[str, int]
CLOSE_MS: Final = 10_000.0
"""How long closing may take."""


class SimConsumer(SimClient):
    """A consumer."""

    kind = "consumer"

    def __init__(self, world: World, cluster: SimulatedCluster, properties: Mapping[str, Any]) -> None:
        """Raises KafkaException (_INVALID_ARG) for properties that are not possible."""
        super().__init__(world, cluster, properties)
        self.group_id = self.properties.text("group.id")
        if not self.group_id:
            raise failure(ck.KafkaError._INVALID_ARG, "Failed to create consumer: group.id must be set")
        if self.properties.flag("enable.auto.commit", True):
            text = "enable.auto.commit=true is not simulated; set it to false, and commit what is done"
            raise failure(ck.KafkaError._INVALID_ARG, text)
        self.fetcher = Fetcher(self.link, self.properties, self.group_id, self.log)
        self.ready = self.fetcher.ready
        self._offsets = Offsets(self.link, self.group_id, self.fetcher.committed_only)
        self._rebalances = Rebalances(self)
        self._membership: Membership = self._new_member()
        self._on_commit: Callable[[Any, Any], Any] | None = self.properties.callback("on_commit")

    def _new_member(self) -> Membership:
        kind = ConsumerMember if self.properties.text("group.protocol").lower() == "consumer" else ClassicMember
        return kind(self.link, self.properties, self._rebalances, self._failed)

    def _failed(self, error: Any) -> None:
        self.ready.put(Notice(ck.Message(error=error)))

    # --- the group ---

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[[Any, Any], Any] | None = None,
        on_revoke: Callable[[Any, Any], Any] | None = None,
        on_lost: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        """Join the group, or read other topics; the callbacks run inside polls."""
        self._open()
        self._rebalances.listen(on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
        self._membership.subscribe(topics)

    def unsubscribe(self) -> None:
        """Give everything back at the next poll, and leave the group."""
        self._open()
        self._membership.unsubscribe()

    # --- reading ---

    def poll(self, timeout: float | None = None) -> Any:
        """Return one message, None if none comes in time. Runs callbacks."""
        taken = self.consume(1, FOREVER if timeout is None else timeout)
        return taken[0] if taken else None

    def consume(self, num_messages: int = 1, timeout: float = FOREVER) -> list[Any]:
        """Return up to `num_messages`, as many as come in time. Runs callbacks."""
        self._open()
        self._membership.polled(inside=True)
        try:
            return self._consume(num_messages, timeout)
        finally:
            self._membership.polled(inside=False)

    def _consume(self, num_messages: int, timeout: float) -> list[Any]:
        self.serve_events()
        taken = self.ready.take(num_messages)
        if len(taken) >= num_messages or timeout == 0:
            return taken
        limit = limit_ms(timeout)
        until_ms = None if limit is None else self.world.now_ms() + limit
        while len(taken) < num_messages:
            left_ms = None if until_ms is None else until_ms - self.world.now_ms()
            if left_ms is not None and left_ms <= 0:
                break
            if not self.world.wait(self._has_work, left_ms):
                break
            self.serve_events()
            taken += self.ready.take(num_messages - len(taken))
        return taken

    def _has_work(self) -> bool:
        return bool(self.ready) or bool(self.events)

    # --- assigned partitions ---

    def assign(self, partitions: Sequence[Any]) -> None:
        """Read exactly these partitions, each from its offset."""
        self._open()
        self._rebalances.changed = True
        self.fetcher.remove(list(self.fetcher.readings))
        self.fetcher.add(_starts(partitions))

    def unassign(self) -> None:
        """Read no partition."""
        self.assign([])

    def incremental_assign(self, partitions: Sequence[Any]) -> None:
        """Read these partitions, too. Raises KafkaException (_CONFLICT) for one that is read already."""
        self._open()
        starts = _starts(partitions)
        self._rebalances.changed = True
        if any(key in self.fetcher.readings for key in starts):
            raise failure(ck.KafkaError._CONFLICT)
        self.fetcher.add(starts)

    def incremental_unassign(self, partitions: Sequence[Any]) -> None:
        """Read these partitions no longer. Raises KafkaException (_INVALID_ARG) for one that is not read."""
        self._open()
        keys = [(each.topic, each.partition) for each in partitions]
        self._rebalances.changed = True
        if any(key not in self.fetcher.readings for key in keys):
            raise failure(ck.KafkaError._INVALID_ARG)
        self.fetcher.remove(keys)

    def assignment(self) -> list[Any]:
        """Return the partitions that are read."""
        return [Told.of(*key, each.fetch_offset) for key, each in self.fetcher.readings.items()]

    def pause(self, partitions: Sequence[Any]) -> None:
        """Stop fetching partitions. One that was never read is left out, as by librdkafka."""
        self._open()
        for each in partitions:
            self.fetcher.pause((each.topic, each.partition))

    def resume(self, partitions: Sequence[Any]) -> None:
        """End `pause`."""
        self._open()
        for each in partitions:
            self.fetcher.resume((each.topic, each.partition))

    def seek(self, partition: Any) -> None:
        """Read a partition from another offset on. Raises KafkaException: _UNKNOWN_PARTITION, or _STATE while it is not fetched."""
        self._open()
        key = (partition.topic, partition.partition)
        reading = self.fetcher.readings.get(key)
        if reading is None and key not in self.fetcher.seen:
            raise failure(ck.KafkaError._UNKNOWN_PARTITION)
        if reading is None or not reading.started:
            raise failure(ck.KafkaError._STATE)
        self.fetcher.seek(reading, partition.offset)

    def position(self, partitions: Sequence[Any]) -> list[Any]:
        """Return the offsets after the last delivered records, OFFSET_INVALID before the first one."""
        readings = self.fetcher.readings
        out = []
        for each in partitions:
            reading = readings.get((each.topic, each.partition))
            out.append(Told.of(each.topic, each.partition, UNKNOWN if reading is None else reading.position))
        return out

    # --- offsets ---

    def commit(
        self, message: Any = None, offsets: Sequence[Any] | None = None, asynchronous: bool = True
    ) -> list[Any] | None:
        """Commit offsets, those after the delivered records by default. Asynchronous: a later poll calls on_commit. Raises KafkaException."""
        self._open()
        told = self._told(message, offsets)
        if not asynchronous:
            return self._offsets.commit_and_wait(told, self._member())
        self._offsets.commit(told, self._member(), self._committed)
        return None

    def _told(self, message: Any, offsets: Sequence[Any] | None) -> list[Any]:
        if message is not None:
            return [ck.TopicPartition(message.topic(), message.partition(), message.offset() + 1)]
        if offsets is not None:
            return list(offsets)
        read = [Told.of(*key, each.position) for key, each in self.fetcher.readings.items() if each.position >= 0]
        if not read:
            raise failure(ck.KafkaError._NO_OFFSET)
        return read

    def _member(self) -> Membership | None:
        return self._membership if self._membership.is_subscribed else None

    def _committed(self, error: Any, partitions: list[Any]) -> None:
        if self._on_commit is not None:
            heard = self._on_commit
            self.ready.put(Callback(lambda: heard(error, partitions)))

    def committed(self, partitions: Sequence[Any], timeout: float = FOREVER) -> list[Any]:
        """Return the committed offsets of the group, OFFSET_INVALID for none. Raises KafkaException."""
        self._open()
        return self._offsets.committed(partitions, timeout)

    def get_watermark_offsets(
        self, partition: Any, timeout: float = FOREVER, cached: bool = False
    ) -> tuple[int, int] | None:
        """Return the first offset and the end of a partition; `cached`: as the last fetch told them. Raises KafkaException."""
        self._open()
        key = (partition.topic, partition.partition)
        if not cached:
            return self._offsets.watermarks(key, timeout)
        reading = self.fetcher.readings.get(key)
        return (UNKNOWN, UNKNOWN) if reading is None else (reading.low, reading.high)

    def offsets_for_times(self, partitions: Sequence[Any], timeout: float = FOREVER) -> list[Any]:
        """Return the first offset at or after each time. Raises KafkaException."""
        self._open()
        return self._offsets.for_times(partitions, timeout)

    def consumer_group_metadata(self) -> GroupMetadata:
        """Return what `send_offsets_to_transaction` of a producer needs."""
        self._open()
        member = self._member()
        return GroupMetadata(self.group_id) if member is None else GroupMetadata(self.group_id, *member.identity()[:3])

    # --- the end ---

    def memberid(self) -> str:
        """Return the id in the group, "" without one."""
        return self._membership.identity().member_id

    def close(self) -> None:
        """Give everything back, leave the group, and end. Runs the revocation callback. Later calls raise RuntimeError."""
        if self.link.closed:
            return
        self._membership.unsubscribe()
        until_ms = self.world.now_ms() + CLOSE_MS
        while not self._membership.has_left and self.world.now_ms() < until_ms:
            self.ready.take(1)
            self.world.wait(lambda: self._membership.has_left or bool(self.ready), CLOSE_MS)
        self.fetcher.remove(list(self.fetcher.readings))
        self.ready.clear()
        self.link.closed = True

    def _open(self) -> None:
        if self.link.closed:
            raise RuntimeError("Consumer closed")

    def statistics(self) -> str:
        """Return librdkafka's statistics, with the fields that the connector reads."""
        return statistics_of(self.cluster, self.link, self.fetcher.readings)


def _starts(partitions: Sequence[Any]) -> dict[Key, int]:
    return {(each.topic, each.partition): each.offset for each in partitions}
