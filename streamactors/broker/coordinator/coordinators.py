"""The coordinators of an internal topic, one for each partition that this broker leads.

Owner: the group or the transaction component, on the data plane's thread. The coordinators follow the metadata: each leader
epoch of a partition led by this broker gets a new coordinator, and the coordinator of a partition that moved or was deleted
resigns. A helper thread reads the partition."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from streamactors.actors.cell import Cell
from streamactors.broker.coordinator.coordinator_actor import CoordinatorActor, S, Tell
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.coordinator.coordinator_messages import Confirmed, Loaded, LoadFailed, Resign
from streamactors.broker.coordinator.partitioning import partition_for
from streamactors.broker.errors import ErrorCode
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.log.config import LogConfig
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.runtime import Runtime
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.actors.dispatching.timing_wheel import Timer

_log = logging.getLogger("streamactors.broker.coordinator")

CONFIRM_MS: Final = 20.0
"""How often a new coordinator checks whether the records that it has read are committed."""

T = TypeVar("T")


class Refusable(Protocol):
    """A request to a coordinator."""

    def refuse(self, error: ErrorCode, /) -> object: ...


class Kind(NamedTuple, Generic[S]):
    """The kind of coordinator that an internal topic has."""

    topic: str
    new_shard: Callable[[str, int, CoordinatorLog, Tell], S]  # (partition's name, leader epoch, log, mailbox)
    fold: Callable[[Iterable[RecordBatch], str], object]  # (batches, partition's name) -> the shard's state
    append_timeout_ms: Callable[[], float]
    kept: frozenset[type] = frozenset()  # events that wait until the partition has been read


class _Coordinator(NamedTuple, Generic[S]):
    leader_epoch: int
    actor: CoordinatorActor[S]
    cell: Cell


class Coordinators(Generic[S]):
    """The coordinators on this broker, by partition."""

    def __init__(self, runtime: Runtime, partitions: PartitionTable, kind: Kind[S]) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._kind = kind
        self._coordinators: dict[int, _Coordinator[S]] = {}
        self._loads: dict[int, object] = {}
        """The newest reading of each partition."""
        self._timers: dict[type, Timer] = {}
        self._count = 0  # partitions of the topic; 0 while it does not exist

    # --- life ---

    def start(self) -> None:
        """Make the coordinators of the partitions that this broker leads, and follow every change."""
        self._runtime.metadata.subscribe(self._changed)
        self._follow()

    def stop(self) -> None:
        """Have every coordinator resign."""
        for timer in self._timers.values():
            timer.cancel()
        self._count = 0
        for index in tuple(self._coordinators):
            self._coordinators.pop(index).cell.tell(Resign())

    def every(self, interval_ms: float, event: type) -> None:
        """Send all coordinators an event once per interval. A coordinator without a lease could not write its decisions."""

        def due() -> None:
            for index, coordinator in self._coordinators.items():
                if self._has_lease(index):
                    coordinator.cell.tell(event())
            self.every(interval_ms, event)

        self._timers[event] = self._runtime.data_plane.call_later(interval_ms, due)

    # --- messages ---

    def index_of(self, key: str) -> int:
        """Return the partition of a group id or transactional id; -1 if the topic does not exist yet."""
        return partition_for(key, self._count) if self._count else -1

    def coordinator_of(self, key: str) -> CoordinatorActor[S] | None:
        """Return the coordinator of a group id or transactional id; None if another broker has it, or may have it by now."""
        index = self.index_of(key)
        coordinator = self._coordinators.get(index)
        return None if coordinator is None or not self._has_lease(index) else coordinator.actor

    def shards(self) -> Iterator[S]:
        """Return the shards on this broker, to be read between the coordinators' messages."""
        return iter([each.actor.shard for each in self._coordinators.values()])

    def tell(self, index: int, request: Refusable) -> None:
        """Send a request to the coordinator of a partition, or refuse it with NOT_COORDINATOR."""
        coordinator = self._coordinators.get(index)
        if coordinator is None or not self._has_lease(index):
            request.refuse(ErrorCode.NOT_COORDINATOR)
        else:
            coordinator.cell.tell(request)

    def _has_lease(self, index: int) -> bool:
        """Whether no other broker can have become the coordinator: one that is cut off would answer with old groups and offsets."""
        partition = self._partitions.get(self._kind.topic, index)
        return partition is None or partition.has_lease

    def tell_all(self, event: object) -> None:
        """Send an event to every coordinator on this broker."""
        for coordinator in self._coordinators.values():
            coordinator.cell.tell(event)

    def list_all(
        self, request: Callable[[Callable[..., object]], Refusable], then: Callable[[ErrorCode, list[Any]], object]
    ) -> None:
        """Call `then` with the joined lists of all coordinators on this broker, or with the error of one that cannot answer."""

        def listed(answers: list[Any]) -> None:
            failed = next((error for error, _ in answers if error), ErrorCode.NONE)
            then(failed, [] if failed else [each for _, part in answers for each in part])

        tells = [each.cell.tell for index, each in self._coordinators.items() if self._has_lease(index)]
        gather([lambda reply, tell=tell: tell(request(reply)) for tell in tells], listed)  # type: ignore[misc]

    # --- following the metadata ---

    def _changed(self, delta: ImageDelta) -> None:
        if any(topic.name == self._kind.topic for topic in (*delta.created, *delta.changed, *delta.deleted)):
            self._follow()

    def _follow(self) -> None:
        topic = self._runtime.metadata.image.topics.get(self._kind.topic)
        partitions = () if topic is None else topic.partitions
        self._count = len(partitions)
        led = {each.partition: each.leader_epoch for each in partitions if each.leader == self._runtime.node_id}
        for index, coordinator in tuple(self._coordinators.items()):
            # The same leader may begin a new epoch with another log.
            if led.get(index) != coordinator.leader_epoch:
                del self._coordinators[index]
                # Not after the messages in its mailbox: what it wrote for them would be acknowledged, and the next coordinator, which reads the log
                # up to its present end, would not have it.
                coordinator.actor.receiveMessage(Resign(), None)
        for index, leader_epoch in led.items():
            if index in self._coordinators:
                continue
            partition = self._partitions.get(self._kind.topic, index)
            if partition is None:  # its log could not be made
                log_limited(
                    _log, logging.ERROR, self._kind.topic,
                    "%s-%d has no coordinator: it is not on this broker, which leads it", self._kind.topic, index,
                )  # fmt: skip
                continue
            self._coordinators[index] = self._elected(index, leader_epoch, partition.log.config)

    def _elected(self, index: int, leader_epoch: int, config: LogConfig) -> _Coordinator[S]:
        kind, data_plane = self._kind, self._runtime.data_plane
        name = f"{kind.topic}-{index}"
        cell: Cell

        def tell(message: object) -> None:
            cell.tell(message)

        def append(batch: bytearray, then: Callable[[Any], object]) -> None:
            self._partitions.append(kind.topic, index, batch, then, timeout_ms=kind.append_timeout_ms())

        def new_shard() -> S:
            most = min(config.max_message_bytes, config.segment_bytes)
            log = CoordinatorLog(append, self._runtime.clock.wall_ms, most, tell)
            return kind.new_shard(name, leader_epoch, log, tell)

        def load() -> None:
            self._load(index, cell)

        actor = CoordinatorActor(new_shard, load, tell, data_plane, self._runtime.clock.now_ms, kind.kept)
        cell = data_plane.spawn(lambda message: actor.receiveMessage(message, None), name)
        actor.start()
        return _Coordinator(leader_epoch, actor, cell)

    def _load(self, index: int, cell: Cell) -> None:
        """Fold the log and send `cell` the state, or LoadFailed. An empty log is folded at once."""
        partition = self._partitions.get(self._kind.topic, index)
        if partition is None:
            return  # the topic was deleted: the coordinator resigns
        log = partition.log
        start, end = log.log_start_offset, log.end_offset
        self._loads[index] = this_load = object()
        if start == end:
            cell.tell(Loaded(self._kind.fold((), cell.name)))
            cell.tell(Confirmed())
            return
        clock = self._runtime.clock
        began_ms = clock.now_ms()

        def loaded(outcome: HelperOutcome[object]) -> None:
            if self._loads[index] is not this_load:
                return  # the log is already being read again; the outcome of that reading counts
            if outcome.error is not None:
                cell.tell(LoadFailed(outcome.error))
                return
            _log.info("%s: offsets %d to %d read in %.0f ms", cell.name, start, end, clock.now_ms() - began_ms)
            cell.tell(Loaded(outcome.value))
            confirm()

        def confirm() -> None:
            """Tell the coordinator when all records that it has read are committed. A new leader may have read uncommitted ones."""
            if self._loads[index] is not this_load:
                return  # the log was read again since, further
            if partition.high_watermark >= end:
                cell.tell(Confirmed())
            elif partition.is_leader:
                self._runtime.data_plane.call_later(CONFIRM_MS, confirm)

        self._runtime.helpers.run(lambda: self._kind.fold(log.reader.replay(start, end), cell.name), loaded)


def gather(asks: Sequence[Callable[[Callable[..., object]], object]], then: Callable[[list[Any]], object]) -> None:
    """Call every function of `asks` with a reply function, and `then` with all answers, in order. Several values are a tuple."""
    answers: dict[int, Any] = {}

    def answered(at: int, *answer: Any) -> None:
        if at not in answers:
            answers[at] = answer[0] if len(answer) == 1 else answer
            if len(answers) == len(asks):
                then([answers[at] for at in range(len(asks))])

    if not asks:
        then([])
    for at, ask in enumerate(asks):
        ask(partial(answered, at))
