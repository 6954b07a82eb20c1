"""A classic group under a virtual clock: carries out the effects of the state machine the way a coordinator does.

Timers fire when the clock reaches them, writes wait in `writes` until the test says how the log answered, and answers are kept
under the token that stood in `reply_to`."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field, replace
from typing import Any

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import (
    CancelTimer,
    Event,
    GroupAnswer,
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    Leaving,
    SetTimer,
    SyncAnswer,
    SyncGroup,
    WriteGroup,
)
from streamactors.broker.group.classic.classic_group import Group, GroupRules
from streamactors.broker.group.classic.classic_state import step

NO_DELAY = GroupRules(initial_rebalance_delay_ms=0)


@dataclass
class World:
    rules: GroupRules = NO_DELAY
    now_ms: int = 1_000
    answers: dict[object, Any] = field(default_factory=dict)
    writes: list[WriteGroup] = field(default_factory=list)
    log: list[tuple[Group, tuple[tuple[str, bytes], ...]]] = field(default_factory=list)
    timers: dict[str, tuple[int, int, Event]] = field(default_factory=dict)
    auto_write: bool = True

    def __post_init__(self) -> None:
        self.group = Group("g", self.rules)
        self._count = itertools.count(1)
        self._due: list[tuple[int, int, str]] = []

    # -- the machine ---------------------------------------------------------------------------------------------------

    def step(self, event: Event) -> None:
        self.group, effects = step(self.group, event, self.now_ms)
        for effect in effects:
            match effect:
                case GroupAnswer(reply_to, response):
                    assert reply_to not in self.answers, f"{reply_to} answered twice"
                    self.answers[reply_to] = response
                case SetTimer(key, delay_ms, due):
                    order = next(self._count)
                    self.timers[key] = (self.now_ms + delay_ms, order, due)
                    heapq.heappush(self._due, (self.now_ms + delay_ms, order, key))
                case CancelTimer(key):
                    self.timers.pop(key, None)
                case WriteGroup():
                    self.writes.append(effect)
        while self.auto_write and self.writes:
            self.written()

    def written(self, error: ErrorCode = ErrorCode.NONE) -> None:
        write = self.writes.pop(0)
        if error is ErrorCode.NONE:
            self.log.append((write.group, write.assignments))
        self.step(replace(write.then, error=error))

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while self._due and self._due[0][0] <= end:
            at, order, key = heapq.heappop(self._due)
            if self.timers.get(key, (0, 0, None))[:2] == (at, order):
                self.now_ms = at
                self.step(self.timers.pop(key)[2])
        self.now_ms = end

    # -- requests ------------------------------------------------------------------------------------------------------

    def token(self, name: str = "request") -> str:
        return f"{name}-{next(self._count)}"

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"t"),),
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        protocol_type: str = "consumer",
        needs_known_id: bool = False,
        can_skip_assignment: bool = True,
    ) -> str:
        """Send JoinGroup and return the token under which its answer will be found."""
        token = self.token("join")
        self.step(
            JoinGroup(
                token,
                member_id,
                instance_id,
                "client",
                "/127.0.0.1",
                session_timeout_ms,
                rebalance_timeout_ms,
                protocol_type,
                protocols,
                f"m{next(self._count)}",
                needs_known_id,
                can_skip_assignment,
            )
        )
        return token

    def sync(
        self,
        member_id: str,
        assignments: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance_id: str | None = None,
        protocol: str | None = None,
    ) -> str:
        token = self.token("sync")
        generation = self.group.generation if generation is None else generation
        given = tuple((assignments or {}).items())
        self.step(SyncGroup(token, member_id, instance_id, generation, None, protocol, given))
        return token

    def heartbeat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> ErrorCode:
        token = self.token("heartbeat")
        generation = self.group.generation if generation is None else generation
        self.step(Heartbeat(token, member_id, instance_id, generation))
        return self.answers[token].error

    def leave(self, *members: Leaving | str) -> list[ErrorCode]:
        token = self.token("leave")
        leaving = tuple(m if isinstance(m, Leaving) else Leaving(m) for m in members)
        self.step(LeaveGroup(token, leaving))
        return [error for _, error in self.answers[token].members]

    def joined(self, token: str) -> JoinAnswer:
        answer = self.answers[token]
        assert isinstance(answer, JoinAnswer)
        return answer

    def synced(self, token: str) -> SyncAnswer:
        answer = self.answers[token]
        assert isinstance(answer, SyncAnswer)
        return answer

    def stable(self, *instance_ids: str | None, **fields: Any) -> list[str]:
        """Bring so many members (static ones by their instance ids) into a stable group and return their member ids."""
        ids: list[str] = []
        for instance_id in instance_ids:
            tokens = [self.join(instance_id=instance_id, **fields)]
            tokens += [self.join(i, instance_id=self.group.members[i].instance_id, **fields) for i in ids]
            ids = [*ids, self.joined(tokens[0]).member_id]
        assignment = {i: i.encode() for i in ids}
        leader = self.group.leader
        for member_id in ids:
            self.sync(
                member_id,
                assignment if member_id == leader else None,
                instance_id=self.group.members[member_id].instance_id,
            )
        return ids
