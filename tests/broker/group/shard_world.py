"""A group coordinator under virtual time, over a log in memory, with the mailbox it has in a broker."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from streamactors.actors.dispatching.timing_wheel import TimingWheel
from streamactors.broker.coordinator.coordinator_actor import CoordinatorActor
from streamactors.broker.coordinator.coordinator_messages import Loaded
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import Heartbeat, JoinGroup, LeaveGroup, Leaving, SyncGroup
from streamactors.broker.group.classic.classic_group import Group, GroupRules
from streamactors.broker.group.consumer.consumer_surroundings import alone
from streamactors.broker.group.group_loading import load_groups
from streamactors.broker.group.group_messages import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchedOffsets,
    FetchOffsets,
    ListGroups,
    NewOffset,
    ToGroup,
    TopicsDeleted,
    WriteMarker,
)
from streamactors.broker.group.group_shard import GroupShard
from streamactors.broker.group.offset_requests import OffsetRules
from tests.broker.coordinator.memory_log import MemoryLog

NO_DELAY = GroupRules(initial_rebalance_delay_ms=0)


class ShardWorld:
    def __init__(
        self, rules: GroupRules = NO_DELAY, offset_rules: OffsetRules | None = None, *, auto: bool = True
    ) -> None:
        self.now = 1_000.0
        self.rules = rules
        self.offset_rules = offset_rules or OffsetRules(retention_ms=1_000_000)
        self.log = MemoryLog(self.wall_ms, auto=auto)
        self.answers: dict[str, Any] = {}
        self.surroundings = alone()
        self.together = False
        self._count = itertools.count(1)
        self.start(load=True)

    # what the shard takes for clock and timers
    @property
    def clock(self) -> Any:
        return self

    def now_ms(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now)

    def call_at(self, deadline_ms: float, fn) -> Any:
        return self.wheel.schedule(deadline_ms, fn)

    def start(self, *, load: bool) -> None:
        self.wheel = TimingWheel(self.now_ms)
        self.mailbox: deque[Any] = deque()
        self.loads = 0
        self.log.tell = self.mailbox.append
        self.actor = CoordinatorActor(
            self.new_shard, self.load_begins, self.mailbox.append, self, self.now_ms, frozenset({TopicsDeleted})
        )
        self.actor.start()
        if load:
            self.load()

    def new_shard(self) -> GroupShard:
        log = self.log.new_writer()
        return GroupShard(
            "offsets-0", log, self, self, self.rules, self.offset_rules, self.mailbox.append, self.surroundings
        )

    @property
    def shard(self) -> GroupShard:
        return self.actor.shard

    def load_begins(self) -> None:
        self.loads += 1  # the test says when it ends: `load`

    def load(self) -> None:
        self.tell(Loaded(load_groups(self.log.replay(), self.rules, "offsets-0")))

    def crash(self, lost: int = 0) -> None:
        self.log.crash(lost)
        self.start(load=True)

    def tell(self, message: Any) -> None:
        self.mailbox.append(message)
        if not self.together:
            self.settle()

    @contextmanager
    def one_turn(self) -> Iterator[None]:
        """Let everything told inside wait in the mailbox, to be served in one turn of the actor."""
        self.together = True
        yield
        self.together = False
        waiting, self.mailbox = self.mailbox, deque()
        for message in waiting:
            self.actor.receiveMessage(message, None)
        self.log.turn()
        self.settle()

    def settle(self) -> None:
        while self.mailbox:
            self.actor.receiveMessage(self.mailbox.popleft(), None)
            self.log.turn()

    def advance(self, ms: int) -> None:
        end = self.now + ms
        while (due := self.wheel.next_deadline_ms()) is not None and due <= end:
            self.now = max(self.now, due)
            self.wheel.advance(self.now)
            self.settle()
        self.now = end
        self.wheel.advance(self.now)
        self.settle()

    # requests: each returns the token of its answer
    def token(self, name: str) -> str:
        return f"{name}-{next(self._count)}"

    def ask(self, name: str, make) -> str:
        token = self.token(name)

        def reply(*answer: Any) -> None:
            assert token not in self.answers, f"{token} answered twice"
            self.answers[token] = answer[0] if len(answer) == 1 else answer

        self.tell(make(reply))
        return token

    def join(self, group: str = "g", member_id: str = "", instance_id: str | None = None, **options: Any) -> str:
        fresh = f"m{next(self._count)}"
        return self.ask(
            "join",
            lambda reply: ToGroup(
                group,
                JoinGroup(
                    reply,
                    member_id,
                    instance_id,
                    "client",
                    "/host",
                    options.get("session_timeout_ms", 10_000),
                    60_000,
                    "consumer",
                    (("range", options.get("metadata", b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00")),),
                    fresh,
                    options.get("needs_known_id", False),
                ),
            ),
        )

    def sync(self, group: str, member_id: str, generation: int, assignments: dict[str, bytes]) -> str:
        return self.ask(
            "sync",
            lambda reply: ToGroup(
                group, SyncGroup(reply, member_id, None, generation, None, None, tuple(assignments.items()))
            ),
        )

    def heartbeat(self, group: str, member_id: str, generation: int) -> ErrorCode:
        token = self.ask("beat", lambda reply: ToGroup(group, Heartbeat(reply, member_id, None, generation)))
        return self.answers[token].error

    def leave(self, group: str, member_id: str) -> Any:
        token = self.ask("leave", lambda reply: ToGroup(group, LeaveGroup(reply, (Leaving(member_id),))))
        return self.answers[token]

    def commit(
        self,
        group: str = "g",
        offsets: Sequence[tuple[str, int, int]] = (("t", 0, 5),),
        *,
        member_id: str = "",
        generation: int = -1,
        metadata: str = "",
        producer: tuple[int, int] = (-1, -1),
        retention_ms: int = -1,
    ) -> str:
        return self.ask(
            "commit",
            lambda reply: CommitOffsets(
                reply,
                group,
                member_id,
                None,
                generation,
                [NewOffset(topic, partition, offset, -1, metadata) for topic, partition, offset in offsets],
                retention_ms,
                producer_id=producer[0],
                producer_epoch=producer[1],
            ),
        )

    def end(self, producer: tuple[int, int], committed: bool) -> str:
        return self.ask("end", lambda reply: WriteMarker(reply, *producer, 0, committed))

    def fetch(self, group: str = "g", *, require_stable: bool = False) -> FetchedOffsets:
        token = self.ask("fetch", lambda reply: FetchOffsets(reply, group, None, require_stable))
        return self.answers[token]

    def offsets(self, group: str = "g") -> dict[tuple[str, int], int]:
        return {(o.topic, o.partition): o.committed.offset for o in self.fetch(group).offsets if o.committed}

    def delete(self, *groups: str) -> str:
        return self.ask("delete", lambda reply: DeleteGroups(reply, groups))

    def delete_offsets(self, group: str, *partitions: tuple[str, int]) -> tuple[ErrorCode, list[ErrorCode]]:
        token = self.ask("delete-offsets", lambda reply: DeleteOffsets(reply, group, partitions))
        return self.answers[token]

    def listed(self) -> dict[str, Group]:
        token = self.ask("list", ListGroups)
        error, groups = self.answers[token]
        assert error is ErrorCode.NONE
        return {group.group_id: group for group in groups}

    def described(self, group: str) -> Group | None:
        token = self.ask("describe", lambda reply: DescribeGroups(reply, (group,)))
        return self.answers[token][1][0]

    def stable(self, group: str = "g") -> tuple[str, int]:
        """Bring one member into a stable group; return its id and generation."""
        joined = self.answers[self.join(group)]
        self.sync(group, joined.member_id, joined.generation, {joined.member_id: b"all"})
        return joined.member_id, joined.generation
