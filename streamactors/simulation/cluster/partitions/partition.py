"""One partition: its leader, its replicas, its high watermark, and the requests that wait for one of them to change.

Owner: `Topics`. The broker's LeaderState decides how far the high watermark goes. All replicas share one log; a follower is the offset up to which
it has copied. A new leader has only what it had copied: the rest of the log is dropped. An unclean election is not simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.replication.leader_state import UNKNOWN, LeaderState
from streamactors.simulation.cluster.partitions.batch import Batch, Marker
from streamactors.simulation.cluster.partitions.log import Log

if TYPE_CHECKING:
    from streamactors.simulation.cluster.partitions.rules import PartitionRules
    from streamactors.simulation.world.face import World

NO_LEADER: Final = -1
LAG_MS: Final = 30_000
"""A follower that has not caught up for this long leaves the ISR: replica.lag.time.max.ms."""

Appended = Callable[[ErrorCode, int, int], object]
"""Called with the error, the base offset, and the time of the append in ms since 1970 (-1: the records keep their own)."""


class Fetched(NamedTuple):
    """What a consumer gets. `next_offset` is where it fetches next; `stable_end` is the end for read_committed."""

    error: ErrorCode
    batches: Sequence[Batch] = ()
    next_offset: int = -1
    high_watermark: int = -1
    stable_end: int = -1
    start_offset: int = -1
    leader_epoch: int = -1


class FetchRequest(NamedTuple):
    """A fetch of one partition. `known_end`: it is answered at once unless the end is still this one."""

    offset: int
    committed_only: bool
    max_bytes: int
    known_end: int


class Partition:
    """A partition of a topic."""

    def __init__(
        self,
        topic: str,
        index: int,
        replicas: Sequence[int],
        rules: PartitionRules,
        world: World,
        alive: Callable[[int], bool],
        replication_ms: Callable[[int], float | None],
    ) -> None:
        """`replication_ms(follower)` is the time in which a follower copies what is new; None: it is cut off or stopped."""
        self.topic, self.index = topic, index
        self.replicas = tuple(replicas)
        self.rules = rules
        self.log = Log()
        self.leader_epoch = 0
        self.high_watermark = 0
        self._copied = dict.fromkeys(self.replicas, 0)
        self._world = world
        self._alive = alive
        self._replication_ms = replication_ms
        self._copying: set[int] = set()
        self._produces: list[tuple[int, Appended, int, int]] = []  # (needed high watermark, then, base offset, time)
        self._fetches: dict[object, tuple[FetchRequest, Callable[[Fetched], object]]] = {}
        self.isr: tuple[int, ...] = self.replicas
        self.leader = NO_LEADER
        self._state: LeaderState | None = None
        self.moved: Callable[[Partition], None] = lambda _: None
        """Called when the leader or the ISR has changed."""
        self._elect(next((each for each in replicas if alive(each)), NO_LEADER))

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    # --- writing ---

    def append(self, batch: Batch, then: Appended, *, acks: int = -1) -> None:
        """Append a batch. `then` is called when enough replicas have it, or with an error."""
        if self.leader == NO_LEADER:
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
        elif batch.size > self.rules.max_message_bytes:
            then(ErrorCode.MESSAGE_TOO_LARGE, -1, -1)
        elif self.rules.compacted and any(row[0] is None for row in batch.rows):
            then(ErrorCode.INVALID_RECORD, -1, -1)
        elif acks == -1 and len(self.isr) < self.rules.min_insync_replicas:
            then(ErrorCode.NOT_ENOUGH_REPLICAS, -1, -1)
        else:
            self._append(batch, then, acks)

    def _append(self, batch: Batch, then: Appended, acks: int) -> None:
        wall_ms = self._world.wall_ms()
        stamped = wall_ms if self.rules.log_append_time else -1
        if stamped >= 0:
            batch.append_time, batch.max_timestamp = True, stamped
        try:
            base, is_new = self.log.append(batch, self.leader_epoch, wall_ms)
        except BrokerError as error:
            then(error.code, -1, -1)
            return
        needed = base + len(batch.rows)
        if acks != -1 or self.high_watermark >= needed:
            then(ErrorCode.NONE, base, stamped)
        else:
            self._produces.append((needed, then, base, stamped))
        if is_new:
            self._grown()

    def skip_to(self, offset: int) -> None:
        """Give the next record this offset, unless the log already reaches beyond it. A loaded log keeps its gaps this way."""
        if offset > self.log.end_offset:
            self.log.skip_to(offset)
            self._grown()

    def append_marker(self, marker: Marker, then: Callable[[ErrorCode], object]) -> None:
        """End a transaction in this partition."""
        if self.leader == NO_LEADER:
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        try:
            offset = self.log.append_marker(marker, self.leader_epoch, self._world.wall_ms())
        except BrokerError as error:
            then(error.code)
            return
        self._produces.append((offset + 1, lambda error, _base, _time: then(error), offset, -1))
        self._grown()

    # --- reading ---

    @property
    def stable_end(self) -> int:
        """The last stable offset: where read_committed ends."""
        unstable = self.log.producers.first_unstable()
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def fetch(self, who: object, asked: FetchRequest, then: Callable[[Fetched], object]) -> None:
        """Answer a fetch, or park it until there is something new. A later fetch of the same reader replaces a parked one."""
        self._fetches.pop(who, None)
        answer = self._fetched(asked)
        if answer is None:
            self._fetches[who] = (asked, then)
        else:
            then(answer)

    def forget(self, who: object) -> None:
        """The reader does not wait for an answer any more."""
        self._fetches.pop(who, None)

    def _fetched(self, asked: FetchRequest) -> Fetched | None:
        log = self.log
        if self.leader == NO_LEADER:
            return Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        stable = self.stable_end
        ends = (self.high_watermark, stable, log.start_offset, self.leader_epoch)
        if not log.start_offset <= asked.offset <= log.end_offset:
            return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, (), -1, *ends)
        end = stable if asked.committed_only else self.high_watermark
        batches = log.read(asked.offset, end, asked.max_bytes) if asked.offset < end else []
        if not batches and end == asked.known_end:
            return None
        after = batches[-1].last_offset + 1 if batches else max(asked.offset, min(end, log.end_offset))
        if asked.committed_only and log.aborted:
            batches = [batch for batch in batches if not log.is_aborted(batch)]
        return Fetched(ErrorCode.NONE, batches, after, *ends)

    def _wake(self) -> None:
        for who, (asked, then) in tuple(self._fetches.items()):
            answer = self._fetched(asked)
            if answer is not None and self._fetches.pop(who, None) is not None:
                then(answer)

    # --- replicas ---

    def _grown(self) -> None:
        """The log has grown: followers copy it, and a partition without followers needs none."""
        self._copied[self.leader] = self.log.end_offset
        self._advance()
        self.replicate()

    def replicate(self) -> None:
        """Let every follower that lags copy the log, each in its own time."""
        for follower in self.replicas:
            if follower == self.leader or follower in self._copying or self.leader == NO_LEADER:
                continue
            state = self._state
            known = state.remotes[follower].end_offset if state is not None else UNKNOWN
            if known == self.log.end_offset and follower in self.isr:
                continue
            delay_ms = self._replication_ms(follower)
            if delay_ms is not None:
                self._copying.add(follower)
                self._world.later(delay_ms, lambda each=follower: self._copy(each), f"{self} to {follower}")  # type: ignore[misc]

    def _copy(self, follower: int) -> None:
        self._copying.discard(follower)
        state = self._state
        if state is None or follower == self.leader or self._replication_ms(follower) is None:
            return
        end, now_ms = self.log.end_offset, self._world.now_ms()
        self._copied[follower] = end
        state.fetched(follower, 0, end, end, now_ms)
        joins = state.growth(follower, self.high_watermark, self._eligible)
        if joins is not None:
            self._set_isr(joins.isr)
        self._advance()

    def _eligible(self, replica: int, _epoch: int) -> bool:
        return self._alive(replica)

    def _set_isr(self, isr: tuple[int, ...]) -> None:
        assert self._state is not None
        self.isr = isr
        self._state.learn(self.replicas, isr, self._state.partition_epoch + 1)
        self.moved(self)
        self._advance()

    def shrink_isr(self, *, gone: int | None = None) -> None:
        """Take followers out of the ISR: `gone`, whose broker has stopped, or those that lag for too long."""
        state = self._state
        if state is None:
            return
        if gone is not None:
            if gone in self.isr and gone != self.leader:
                self._set_isr(tuple(each for each in self.isr if each != gone))
            return
        lagging = state.shrinkage(self.log.end_offset, self._world.now_ms(), LAG_MS)
        if lagging is not None:
            self._set_isr(lagging.isr)

    def _advance(self) -> None:
        state, before, stable_before = self._state, self.high_watermark, self.stable_end
        if state is None:
            return
        moved = state.high_watermark(
            self.log.end_offset, now_ms=self._world.now_ms(), lag_ms=LAG_MS, min_isr=1, eligible=self._eligible
        )
        if moved != UNKNOWN and moved > before:
            self.high_watermark = moved
            self.log.producers.high_watermark_moved(moved)
            ready = [each for each in self._produces if each[0] <= moved]
            self._produces = [each for each in self._produces if each[0] > moved]
            for _, then, base, time in ready:
                then(ErrorCode.NONE, base, time)
        if self.high_watermark != before or self.stable_end != stable_before:
            self._wake()

    # --- leaders ---

    def elect(self) -> None:
        """Choose a leader among the living members of the ISR, unless the present one lives."""
        if self.leader != NO_LEADER and self._alive(self.leader):
            return
        self._elect(next((each for each in self.replicas if each in self.isr and self._alive(each)), NO_LEADER))

    def move_leader(self, to: int) -> bool:
        """Make another living member of the ISR the leader. Returns whether it is the leader now."""
        if to != self.leader and to in self.isr and self._alive(to):
            self._elect(to)
        return self.leader == to

    def _elect(self, leader: int) -> None:
        if leader == self.leader:
            return
        before, self.leader = self.leader, leader
        self.leader_epoch += before != NO_LEADER or self._state is not None
        waiting, self._produces = self._produces, []
        if leader == NO_LEADER:
            self._state = None
        else:
            self.log.truncate(self._copied[leader], self._world.wall_ms())
            self.high_watermark = min(self.high_watermark, self.log.end_offset)
            for each in self.replicas:
                self._copied[each] = min(self._copied[each], self.log.end_offset)
            self._state = LeaderState(
                leader, epoch=self.leader_epoch, start_offset=self.log.end_offset, replicas=self.replicas,
                isr=self.isr, partition_epoch=0, now_ms=self._world.now_ms(),
            )  # fmt: skip
        for _, then, _base, _time in waiting:
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
        self.moved(self)
        self._refuse_fetches(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if leader != NO_LEADER:
            self._grown()

    def close(self) -> None:
        """The topic was deleted: answer what waits."""
        waiting, self._produces = self._produces, []
        for _, then, _base, _time in waiting:
            then(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
        self.leader, self._state = NO_LEADER, None
        self._refuse_fetches(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _refuse_fetches(self, error: ErrorCode) -> None:
        fetches, self._fetches = self._fetches, {}
        for _, then in fetches.values():
            then(Fetched(error))
