"""Calls a user's PartitionAssignmentHandler, with a consumer that can do what is allowed at that moment and nothing afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streamactors.engine.user_code import blame
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import CommitFailed, KafkaError
from streamactors.kafka.reading.consumer_state import ConsumerState
from streamactors.kafka.reading.delivery import AssignedPartition
from streamactors.kafka.subscriptions import PartitionAssignmentHandler, RestrictedConsumer, TopicPartition

Seek = Callable[[TopicPartition, int], None]


class AssignmentCalls:
    """Calls the user's PartitionAssignmentHandler. Everything on the consumer's thread."""

    def __init__(self, handler: PartitionAssignmentHandler | None, state: ConsumerState) -> None:
        self._handler = handler
        self._state = state

    def assigned(self, keys: Iterable[TopicPartition], client: StreamConsumer | None, seek: Seek) -> None:
        if self._handler is not None:
            given = [self._state.partitions[key] for key in keys]
            self._call("on_assigned", self._handler.on_assigned, given, client, seek)

    def revoked(self, gone: Iterable[AssignedPartition], client: StreamConsumer | None) -> None:
        if self._handler is not None:
            self._call("on_revoked", self._handler.on_revoked, gone, client)

    def lost(self, gone: Iterable[AssignedPartition], client: StreamConsumer | None) -> None:
        if self._handler is not None:
            self._call("on_lost", self._handler.on_lost, gone, client)

    def stopping(self, client: StreamConsumer | None) -> None:
        """The consumer is about to be closed. Later revocations are part of its end."""
        handler, self._handler = self._handler, None
        if handler is not None:
            self._call("on_stop", handler.on_stop, list(self._state.partitions.values()), client)

    def _call(
        self,
        name: str,
        method: Callable[[set[TopicPartition], RestrictedConsumer], object],
        partitions: Iterable[AssignedPartition],
        client: StreamConsumer | None,
        seek: Seek | None = None,
    ) -> None:
        if client is None:
            return  # never connected, or closed
        told = {partition.key: partition for partition in partitions}
        restricted = _Restricted(name, client, self._state, told, seek)
        try:
            method(set(told), restricted)
        except BaseException as error:  # the user's function
            blame(error, name, sorted(told), method)
            raise
        finally:
            restricted.over = True


class _Restricted:
    """A RestrictedConsumer for one call."""

    def __init__(
        self,
        call: str,
        client: StreamConsumer,
        state: ConsumerState,
        told: Mapping[TopicPartition, AssignedPartition],
        seek: Seek | None,
    ) -> None:
        self._call = call
        self._client = client
        self._state = state
        self._told = told
        self._seek = seek
        self.over = False

    def _now(self) -> StreamConsumer:
        if self.over:
            raise KafkaError(f"{self._call} has returned: its consumer can be used only while the method runs")
        return self._client

    def assignment(self) -> set[TopicPartition]:
        self._now()
        return set(self._state.partitions)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {key: first for key, (first, _) in self._now().watermarks(partitions).items()}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {key: end for key, (_, end) in self._now().watermarks(partitions).items()}

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {key: max(offset, -1) for key, offset in self._now().offsets_at(times_ms).items()}

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._now().committed(partitions)

    def position(self, partition: TopicPartition) -> int | None:
        self._now()
        found = self._state.partitions.get(partition) or self._told.get(partition)
        return None if found is None else found.position

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if not self._now().commit_and_wait(offsets):
            named = ", ".join(f"{key}@{offset}" for key, offset in offsets.items())
            raise CommitFailed(
                f"{self._call}: {named} not committed: the group is being rebalanced; commit in on_revoked"
            )

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._now()
        if self._seek is None:
            raise KafkaError(f"{self._call}: seek is possible in on_assigned only")
        if partition not in self._told:
            raise KafkaError(
                f"on_assigned: {partition} is not among the partitions that were assigned; seek one of them"
            )
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise KafkaError(
                f"on_assigned: {partition} cannot be read from {offset!r}; an offset is an integer of at least 0"
            )
        self._seek(partition, offset)
