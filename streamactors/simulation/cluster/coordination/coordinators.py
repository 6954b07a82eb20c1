"""The coordinators of one internal topic: one broker's CoordinatorActor for each partition, made when it is first needed.

Owner: `Groups` and `Transactions`. Each partition is led by a living broker. When the leader changes, the old coordinator resigns and the new one
reads the log, which takes virtual time; until then it refuses requests with COORDINATOR_LOAD_IN_PROGRESS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic

from streamactors.broker.coordinator.coordinator_actor import CoordinatorActor, CoordinatorPhase, S, Tell
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.coordinator.coordinator_messages import Confirmed, Loaded, Resign
from streamactors.broker.coordinator.partitioning import partition_for
from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.replication.partition_table import AppendOutcome
from streamactors.simulation.cluster.coordination.internal_log import InternalLog
from streamactors.simulation.cluster.timers import SimTimers

if TYPE_CHECKING:
    from streamactors.broker.records.batch import RecordBatch
    from streamactors.simulation.world.face import World

LOAD_MS: Final = 20.0
"""How long a new coordinator reads its partition."""
_MOST_BYTES: Final = 1_048_576


class _Coordinator(Generic[S]):
    """One coordinator and its mailbox. Messages are served in order, none inside another."""

    def __init__(self, make: Callable[[Tell], CoordinatorActor[S]]) -> None:
        self._inbox: deque[object] = deque()
        self._busy = False
        self.actor = make(self.tell)

    def tell(self, message: object) -> None:
        """Serve a message now, or after the one that is being served."""
        self._inbox.append(message)
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox:
                self.actor.receiveMessage(self._inbox.popleft(), None)
        finally:
            self._busy = False


class Coordinators(Generic[S]):
    """The coordinators of an internal topic."""

    def __init__(
        self,
        world: World,
        topic: str,
        partitions: int,
        new_shard: Callable[[int, str, int, CoordinatorLog, Tell], S],
        fold: Callable[[Iterable[RecordBatch], str], Any],
        chosen: Callable[[int], int],
    ) -> None:
        """`new_shard(index, name, epoch, log, tell)` makes the state of one coordinator; `chosen(index)` is the broker that leads a partition
        now, -1 for none."""
        self.count = partitions
        self.topic = topic
        self._world = world
        self._timers = SimTimers(world, topic)
        self._new_shard = new_shard
        self._fold = fold
        self._chosen = chosen
        self.logs = [InternalLog() for _ in range(partitions)]
        self._leaders: dict[int, int] = {}
        self._epochs = [0] * partitions
        self._coordinators: dict[int, _Coordinator[S]] = {}

    def index_of(self, key: str) -> int:
        """Return the partition of a group id or transactional id."""
        return partition_for(key, self.count)

    def leader(self, index: int) -> int:
        """Return the broker of a coordinator, -1 if none can have it."""
        found = self._leaders.get(index)
        if found is None:
            found = self._leaders[index] = self._chosen(index)
        return found

    def tell(self, index: int, message: Any) -> None:
        """Send a message to a coordinator, or refuse it with NOT_COORDINATOR if no broker leads the partition."""
        if self.leader(index) < 0:
            if hasattr(message, "refuse"):
                message.refuse(ErrorCode.NOT_COORDINATOR)
            return
        if index not in self._coordinators:
            self._elected(index, load_ms=0.0)
        self._coordinators[index].tell(message)

    def tell_all(self, message: object) -> None:
        """Send a message to every coordinator that there is."""
        for coordinator in tuple(self._coordinators.values()):
            coordinator.tell(message)

    def shard(self, index: int) -> S | None:
        """Return the state of a coordinator, to be read; None while it has not read its partition."""
        found = self._coordinators.get(index)
        return found.actor.shard if found is not None and found.actor.phase is CoordinatorPhase.ACTIVE else None

    def shards(self) -> Iterator[S]:
        """Return the state of every coordinator, to be read."""
        return iter([each.actor.shard for each in self._coordinators.values()])

    def move(self, index: int, broker: int) -> None:
        """Let another broker lead a partition: its coordinator resigns, and the new one reads the log."""
        self._leaders[index] = broker
        old = self._coordinators.pop(index, None)
        if old is not None:
            old.tell(Resign())
        self._epochs[index] += 1
        if broker >= 0 and (old is not None or self.logs[index].end_offset):
            self._elected(index, load_ms=LOAD_MS)

    def led_by(self, broker: int) -> list[int]:
        """Return the partitions that a broker leads."""
        return sorted(index for index, leader in self._leaders.items() if leader == broker)

    def _elected(self, index: int, load_ms: float) -> None:
        world, log, name = self._world, self.logs[index], f"{self.topic}-{index}"
        epoch = self._epochs[index]

        def append(batch: bytearray, then: Callable[[AppendOutcome], object]) -> None:
            try:
                base = log.append(batch, world.wall_ms())
            except BrokerError as error:
                then(AppendOutcome(error.code))
            else:
                then(AppendOutcome(ErrorCode.NONE, base, log.end_offset - 1))

        def make(tell: Tell) -> CoordinatorActor[S]:
            def new_shard() -> S:
                return self._new_shard(
                    index, name, epoch, CoordinatorLog(append, world.wall_ms, _MOST_BYTES, tell), tell
                )

            def load() -> None:
                if load_ms:
                    world.later(load_ms, loaded, f"{name} is read")
                else:
                    loaded()

            def loaded() -> None:
                tell(Loaded(self._fold(log.replay(), name)))
                tell(Confirmed())

            return CoordinatorActor(new_shard, load, tell, self._timers, world.now_ms)  # type: ignore[arg-type]

        coordinator = self._coordinators[index] = _Coordinator(make)
        coordinator.actor.start()
