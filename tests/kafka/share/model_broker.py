"""A model of a broker with share partitions, in plain Python: sessions, locks, delivery counts. For the tests of the machines."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from streamactors.kafka.client.share.protocol import (
    Ack,
    Acquired,
    ErrorCode,
    Purpose,
    RecordData,
    Shard,
    ShardAnswer,
    ShareAnswer,
    ShareRequest,
)

TOPIC = uuid.UUID(int=7)
LOCK_MS = 1_000


@dataclass
class ModelRecord:
    state: str = "available"  # acquired, accepted, rejected
    owner: str = ""
    until_ms: float = 0.0
    count: int = 0
    gap: bool = False


@dataclass
class ModelSession:
    epoch: int
    shards: set[Shard] = field(default_factory=set)


class ModelCluster:
    """Partitions, each with a leader; sessions by (broker, member)."""

    def __init__(self, partitions: int, records: int, gaps: set[int], delivery_limit: int = 100) -> None:
        self.shards = [Shard(TOPIC, each) for each in range(partitions)]
        self.log = {shard: [ModelRecord(gap=n in gaps) for n in range(records)] for shard in self.shards}
        self.leaders = {shard: shard.partition % 2 for shard in self.shards}
        self.sessions: dict[tuple[int, str], ModelSession] = {}
        self.delivery_limit = delivery_limit
        self.now_ms = 0.0
        self.refused_acks = 0

    def tick(self, ms: float) -> None:
        self.now_ms += ms
        for records in self.log.values():
            for each in records:
                if each.state == "acquired" and each.until_ms <= self.now_ms:
                    self._free(each)

    def locked_by(self, member: str) -> int:
        return sum(
            each.state == "acquired" and each.owner == member and not each.gap
            for records in self.log.values()
            for each in records
        )

    def _free(self, record: ModelRecord) -> None:
        record.state, record.owner = "available", ""
        if record.count >= self.delivery_limit:
            record.state = "rejected"

    def drop_session(self, broker: int, member: str) -> None:
        """The connection broke: its locks end, and the deliveries do not count."""
        self.sessions.pop((broker, member), None)
        for shard, leader in self.leaders.items():
            if leader == broker:
                for each in self.log[shard]:
                    if each.state == "acquired" and each.owner == member:
                        each.count -= 1
                        self._free(each)

    def move(self, shard: Shard, to: int) -> None:
        """Another broker leads: the locks of the partition end."""
        self.leaders[shard] = to
        for each in self.log[shard]:
            if each.state == "acquired":
                self._free(each)

    def answer(self, broker: int, request: ShareRequest) -> ShareAnswer:
        key = (broker, request.member_id)
        session = self.sessions.get(key)
        if request.epoch == 0:
            assert not request.acks, "acknowledgements in the request that opens a session are refused"
            session = self.sessions[key] = ModelSession(0)
        elif session is None:
            return ShareAnswer(error=ErrorCode.SHARE_SESSION_NOT_FOUND)
        elif request.epoch not in (-1, session.epoch):
            return ShareAnswer(error=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch += 1
        shards = {shard: self._acknowledge(broker, shard, request) for shard in request.acks}
        if request.purpose is Purpose.FETCH:
            session.shards |= set(request.added)
            session.shards -= set(request.forgotten)
            left = request.max_records
            for shard in sorted(session.shards):
                before = shards.get(shard) or ShardAnswer(shard)
                got, error = self._acquire(broker, shard, request.member_id, left)
                left -= sum(each.data is not None for each in got)
                shards[shard] = ShardAnswer(shard, error, before.ack_error, got)
        if request.purpose is Purpose.CLOSE:
            self.drop_session(broker, request.member_id)
        return ShareAnswer(lock_ms=LOCK_MS, shards=list(shards.values()))

    def _acquire(self, broker: int, shard: Shard, member: str, most: int) -> tuple[list[Acquired], int]:
        if self.leaders[shard] != broker:
            return [], ErrorCode.NOT_LEADER_OR_FOLLOWER
        found: list[Acquired] = []
        for offset, each in enumerate(self.log[shard]):
            if most <= 0:
                break
            if each.state != "available":
                continue
            each.state, each.owner, each.until_ms = "acquired", member, self.now_ms + LOCK_MS
            each.count += 1
            data = None if each.gap else RecordData(0, None, b"%d" % offset, ())
            most -= not each.gap
            found.append(Acquired(offset, each.count, data))
        return found, 0

    def _acknowledge(self, broker: int, shard: Shard, request: ShareRequest) -> ShardAnswer:
        if self.leaders[shard] != broker:
            return ShardAnswer(shard, ack_error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log[shard]
        offsets = [(n, each.ack) for each in request.acks[shard] for n in range(each.first, each.last + 1)]
        assert offsets == sorted(offsets)
        if any(log[n].state != "acquired" or log[n].owner != request.member_id for n, _ in offsets):
            self.refused_acks += 1
            return ShardAnswer(shard, ack_error=ErrorCode.INVALID_RECORD_STATE)
        for n, ack in offsets:
            each = log[n]
            if ack is Ack.RENEW:
                each.until_ms = self.now_ms + LOCK_MS
            elif ack is Ack.RELEASE:
                self._free(each)
            else:
                each.state = "rejected" if ack is Ack.REJECT else "accepted"
                assert (ack is Ack.GAP) == each.gap
        return ShardAnswer(shard)
