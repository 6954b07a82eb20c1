"""A consumer group under a virtual clock, with clients that lose answers: carries out the decisions of the state machine as a coordinator does."""

from __future__ import annotations

import contextlib
import random
import uuid
from dataclasses import dataclass, field, replace

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.consumer.consumer_events import (
    Around,
    ConsumerRules,
    Decision,
    MemberGone,
    MemberHeartbeat,
    RebalanceTimer,
    SessionTimer,
)
from streamactors.broker.group.consumer.consumer_fold import fold
from streamactors.broker.group.consumer.consumer_group import STATIC_LEFT, ConsumerGroup
from streamactors.broker.group.consumer.consumer_record import ConsumerRecord, decode, encode
from streamactors.broker.group.consumer.consumer_state import heartbeat, leave, remove_members
from streamactors.broker.metadata.image import MetadataImage, TopicImage
from streamactors.broker.metadata.metadata_record import PartitionRecord


def image_of(topics: dict[str, int]) -> MetadataImage:
    """Return metadata with these topics and numbers of partitions."""
    made = {}
    for name, count in topics.items():
        topic_id = uuid.uuid5(uuid.NAMESPACE_OID, name)
        partitions = tuple(PartitionRecord(index, topic_id, (1,), (1,), leader=1) for index in range(count))
        made[name] = TopicImage(name, topic_id, partitions)
    return MetadataImage(topics=made, topics_by_id={each.topic_id: each for each in made.values()})


Owned = set[tuple[uuid.UUID, int]]


@dataclass
class Client:
    """A well-behaved member: it gives up what is not assigned to it, and says what it has."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    assignor: str | None = None
    epoch: int = 0
    assigned: Owned = field(default_factory=set)
    owned: Owned = field(default_factory=set)
    says_all: bool = False  # its last answer was lost: it sends every field, and is told everything

    def beat(self) -> MemberHeartbeat:
        joins = self.epoch == 0
        if joins:
            self.owned, self.assigned = set(), set()
        by_topic: dict[uuid.UUID, list[int]] = {}
        for topic_id, partition in sorted(self.owned):
            by_topic.setdefault(topic_id, []).append(partition)
        return MemberHeartbeat(
            member_id=self.member_id,
            epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=30_000 if joins or self.says_all else -1,
            topics=self.topics,
            assignor=self.assignor,
            owned=tuple((topic_id, tuple(held)) for topic_id, held in by_topic.items()),
            client_id="c",
            client_host="/h",
        )


class ConsumerWorld:
    """One group, its log and its timers."""

    def __init__(self, topics: dict[str, int], rules: ConsumerRules | None = None) -> None:
        self.now_ms = 1_000
        self.rules = rules or ConsumerRules(assignment_interval_ms=0)
        self.image = image_of(topics)
        self.group = ConsumerGroup("g")
        self.log: list[ConsumerRecord] = []
        self.timers: dict[tuple[str, str], tuple[int, int]] = {}  # (kind, member) -> (due, epoch)

    def around(self) -> Around:
        return Around(self.image, self.now_ms, self.rules)

    def ask(self, client: Client, *, lost: bool = False) -> ErrorCode:
        """Send the client's heartbeat; a lost answer changes the group but not the client."""
        try:
            decision = heartbeat(self.group, client.beat(), self.around())
        except Refusal as refusal:
            if refusal.code is not ErrorCode.UNRELEASED_INSTANCE_ID:
                client.epoch, client.owned, client.assigned = 0, set(), set()
            return refusal.code
        self.carry_out(decision)
        answer = decision.answer
        assert answer is not None
        client.says_all = lost
        if not lost:
            client.epoch = answer.epoch
            if answer.assigned is not None:
                client.assigned = {(topic_id, each) for topic_id, held in answer.assigned.items() for each in held}
            client.owned &= client.assigned
        return ErrorCode.NONE

    def take(self, client: Client) -> None:
        """Let the client begin to read what it was given, unless a heartbeat that says what it owns has no answer yet.

        Such a heartbeat may have given up what the client does not read yet, also with Apache Kafka: the next one is fenced."""
        if not client.says_all:
            client.owned = set(client.assigned)

    def leave(self, client: Client, epoch: int) -> None:
        with contextlib.suppress(Refusal):  # it is no member any more
            self.carry_out(leave(self.group, replace(client.beat(), epoch=epoch), self.around()))
        client.owned, client.assigned, client.epoch = set(), set(), 0

    def carry_out(self, decision: Decision) -> None:
        before = self.group
        for record in decision.records:
            key, value = encode(record)
            self.log.append(decode(record.kind, key, value))
        after = fold(self.group, decision.records)
        assert after is not None
        self.group = replace(after, is_checked=decision.is_checked)
        assert self.group.epoch >= before.epoch
        assert self.group.assignment_epoch <= self.group.epoch
        for timer in decision.timers:
            match timer:
                case SessionTimer(member_id, delay_ms):
                    self.timers["session", member_id] = (self.now_ms + delay_ms, 0)
                case RebalanceTimer(delay_ms=None):
                    self.timers.pop(("rebalance", timer.member_id), None)
                case RebalanceTimer(member_id, epoch, int(delay_ms)):
                    self.timers["rebalance", member_id] = (self.now_ms + delay_ms, epoch)
                case MemberGone(member_id):
                    self.timers.pop(("session", member_id), None)
                    self.timers.pop(("rebalance", member_id), None)

    def advance(self, ms: int) -> None:
        end = self.now_ms + ms
        while due := sorted((at, key, epoch) for key, (at, epoch) in self.timers.items() if at <= end):
            at, (kind, member_id), epoch = due[0]
            self.now_ms = at
            del self.timers[kind, member_id]
            member = self.group.members.get(member_id)
            if member is not None and (kind == "session" or member.epoch == epoch):
                self.carry_out(remove_members(self.group, [member], self.around()))
        self.now_ms = end

    def change_topics(self, topics: dict[str, int]) -> None:
        self.image = image_of(topics)
        self.group = replace(self.group, is_checked=False)

    def check(self, clients: list[Client]) -> None:
        """The invariants that hold after every step."""
        owners: dict[tuple[uuid.UUID, int], str] = {}
        for member in self.group.members.values():
            for part in (member.assigned, member.revoking):
                for topic_id, held in part.items():
                    for partition in held:
                        assert (topic_id, partition) not in owners, "a partition is owned by two members"
                        owners[topic_id, partition] = member.member_id
                        assert self.group.owner_epoch(topic_id, partition) == member.epoch
            assert member.epoch <= self.group.assignment_epoch or member.epoch == STATIC_LEFT
        assert {(t, p) for t, held in self.group.owners.items() for p in held} == set(owners)
        reading: dict[tuple[uuid.UUID, int], str] = {}
        for client in clients:
            if client.member_id in self.group.members:
                for each in client.owned:
                    assert each not in reading, "two clients read one partition"
                    reading[each] = client.member_id
        read = fold(ConsumerGroup("g"), self.log)
        assert read is not None
        assert replace(read, is_checked=False, table_size=0) == replace(self.group, is_checked=False, table_size=0)


def random_client(rng: random.Random, number: int, topics: list[str], assignor: str | None = None) -> Client:
    """Return a newcomer. All members of a history ask for one assignor: in a tie the group's choice changes with every heartbeat, as in Apache Kafka."""
    instance_id = f"i{rng.randint(0, 3)}" if rng.random() < 0.3 else None
    chosen = tuple(rng.sample(topics, rng.randint(1, len(topics)))) if rng.random() < 0.4 else tuple(topics)
    return Client(f"m{number}", instance_id, chosen, assignor)
