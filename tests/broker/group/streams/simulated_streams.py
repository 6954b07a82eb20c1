"""A streams group with members that obey, in virtual time: for simulations and tests of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from streamactors.broker.errors import Refusal
from streamactors.broker.group.streams.streams_events import (
    Around,
    Decision,
    FirstAssignmentTimer,
    MemberAnswer,
    MemberGone,
    MemberHeartbeat,
    RebalanceTimer,
    Remembered,
    SessionTimer,
    StreamsRules,
)
from streamactors.broker.group.streams.streams_fold import fold
from streamactors.broker.group.streams.streams_group import StreamsGroup, Topology
from streamactors.broker.group.streams.streams_heartbeat import first_assignment, heartbeat, leave, remove
from streamactors.broker.group.streams.streams_record import (
    CopartitionGroup,
    InternalTopic,
    StreamsRecord,
    Subtopology,
    decode,
    encode,
)
from streamactors.broker.group.streams.tasks import Tasks

RULES = StreamsRules()


def part(
    name: str,
    sources: tuple[str, ...] = (),
    changelogs: tuple[str, ...] = (),
    sinks: tuple[str, ...] = (),
    repartitions: tuple[InternalTopic, ...] = (),
    together: tuple[CopartitionGroup, ...] = (),
) -> Subtopology:
    logs = tuple(InternalTopic(each, 0, 0, ()) for each in changelogs)
    return Subtopology(name, sources, (), logs, sinks, repartitions, together)


def internal(name: str, partitions: int = 0) -> InternalTopic:
    return InternalTopic(name, partitions, 0, ())


COUNTS = Topology(1, {"0": part("0", ("in",), sinks=("r",)), "1": part("1", (), ("log",), (), (internal("r"),))})
"""A count by a new key: the first part writes a repartition topic, the second one counts."""


@dataclass
class World:
    """The coordinator of one group, its log, and the topics."""

    rules: StreamsRules = RULES
    topology: Topology = COUNTS
    topics: dict[str, int] = field(default_factory=lambda: {"in": 4, "r": 4, "log": 4})
    now_ms: int = 1_000_000

    def __post_init__(self) -> None:
        self.group = StreamsGroup("app")
        self.known = Remembered()
        self.log: list[StreamsRecord] = []
        self.first_at: int | None = None
        self.sessions: dict[str, int] = {}
        self.rebalances: dict[str, tuple[int, int]] = {}
        self.created: list[str] = []
        self.seen_epoch = 0

    def around(self) -> Around:
        return Around(
            self.topics.get,
            lambda names: hash(tuple(sorted((name, self.topics[name]) for name in names if name in self.topics))),
            object(),
            self.now_ms,
            self.rules,
            self.first_at is not None,
        )

    def beat(self, request: MemberHeartbeat) -> MemberAnswer:
        """Serve a heartbeat or a leave. Raises Refusal."""
        if request.epoch < 0:
            return self._carry_out(leave(self.group, self.known, request))
        return self._carry_out(heartbeat(self.group, self.known, request, self.around()))

    def _carry_out(self, decision: Decision) -> MemberAnswer:
        self.write(decision.records)
        for timer in decision.timers:
            match timer:
                case SessionTimer(member_id, delay_ms):
                    self.sessions[member_id] = self.now_ms + delay_ms
                case RebalanceTimer(member_id, epoch, delay_ms):
                    self.rebalances.pop(member_id, None)
                    if delay_ms is not None:
                        self.rebalances[member_id] = (self.now_ms + delay_ms, epoch)
                case FirstAssignmentTimer(delay_ms):
                    self.first_at = self.first_at or self.now_ms + delay_ms
                case MemberGone(member_id):
                    self.sessions.pop(member_id, None)
                    self.rebalances.pop(member_id, None)
        for topic in decision.to_create:
            self.topics.setdefault(topic.name, topic.partitions)
            self.created.append(topic.name)
        return decision.answer or MemberAnswer("", 0)

    def write(self, records: list[StreamsRecord]) -> None:
        stored = []
        for record in records:
            key, value = encode(record)
            stored.append(decode(record.kind, key, value))
        assert stored == records
        self.log += records
        self.group = fold(self.group, records) or StreamsGroup("app")

    def pass_time(self, ms: int) -> None:
        """Serve the timers that become due."""
        self.now_ms += ms
        if self.first_at is not None and self.first_at <= self.now_ms:
            self.first_at = None
            self._carry_out(first_assignment(self.group, self.known, self.around()))
        late = {name for name, at in self.sessions.items() if at <= self.now_ms}
        late |= {n for n, (at, e) in self.rebalances.items() if at <= self.now_ms and self.group.members[n].epoch == e}
        for name in sorted(late & self.group.members.keys()):
            self._carry_out(remove(self.group, self.known, self.group.members[name]))

    def fail_over(self, ahead_ms: int = 0) -> None:
        """Another coordinator reads the log; its clock is `ahead_ms` ahead of the last one's."""
        self.now_ms += ahead_ms
        self.sessions = {name: at + ahead_ms for name, at in self.sessions.items()}
        self.rebalances = {name: (at + ahead_ms, epoch) for name, (at, epoch) in self.rebalances.items()}
        group = fold(StreamsGroup("app"), self.log) or StreamsGroup("app")
        assert group == self.group
        self.group, self.known = group, Remembered()
        self.first_at = None


class App:
    """A thread of an instance: it does what it is told, and takes its time."""

    def __init__(self, world: World, member_id: str, process_id: str, instance_id: str | None = None) -> None:
        self.world = world
        self.member_id = member_id
        self.process_id = process_id
        self.instance_id = instance_id
        self.epoch = 0
        self.tasks = Tasks()
        self.wanted = Tasks()
        self.status: list[int] = []

    def beat(self, *, works: bool = True, lost: bool = False) -> None:
        """Send a heartbeat. `works`: it has stopped and started tasks before; `lost`: the answer does not arrive."""
        if works:
            self.tasks = self.wanted
        joins = self.epoch == 0
        request = MemberHeartbeat(
            member_id=self.member_id,
            epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=30_000,
            topology=self.world.topology if joins else None,
            owned=Tasks() if joins else self.tasks,
            process_id=self.process_id if joins else None,
        )
        try:
            answer = self.world.beat(request)
        except Refusal:
            self.epoch, self.tasks, self.wanted = 0, Tasks(), Tasks()
            return
        if lost:
            return
        self.epoch = answer.epoch
        self.status = [status for status, _ in answer.status]
        if answer.tasks is not None:
            self.wanted = answer.tasks

    def leave(self, epoch: int = -1) -> None:
        try:
            self.world.beat(MemberHeartbeat(member_id=self.member_id, epoch=epoch, instance_id=self.instance_id))
        except Refusal:
            pass
        self.epoch, self.tasks, self.wanted = 0, Tasks(), Tasks()


def check(world: World) -> None:
    """No task is active in two members. Epochs only grow."""
    seen: dict[tuple[str, int], str] = {}
    for member in world.group.members.values():
        for owned in (member.assigned, member.revoking):
            for name, partitions in owned.tasks.active.items():
                for partition in partitions:
                    other = seen.setdefault((name, partition), member.member_id)
                    assert other == member.member_id, (name, partition, other, member.member_id)
    assert world.group.epoch >= world.seen_epoch
    world.seen_epoch = world.group.epoch


def check_log(world: World) -> None:
    """The group is the fold of its log."""
    assert (fold(StreamsGroup("app"), world.log) or StreamsGroup("app")) == world.group


def settle(world: World, apps: list[App], rounds: int = 30) -> None:
    """Let all members work until nothing changes."""
    for _ in range(rounds):
        world.pass_time(3_000)
        for app in apps:
            app.beat()
        check(world)
    check_log(world)


def owners(world: World, role: str) -> Mapping[tuple[str, int], int]:
    """Return how many members have each task."""
    found: dict[tuple[str, int], int] = {}
    for member in world.group.members.values():
        for name, partitions in getattr(member.assigned.tasks, role).items():
            for partition in partitions:
                found[name, partition] = found.get((name, partition), 0) + 1
    return found


def pick(random: Random, apps: list[App]) -> App:
    return random.choice(apps)
