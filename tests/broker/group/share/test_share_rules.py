"""The rules of share groups: joins, epochs, initialised share partitions, assignments; and random histories that the log gives back."""

from __future__ import annotations

import uuid
from collections import Counter
from random import Random

import pytest

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.classic.classic_group import GroupRules
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.metadata_hash import metadata_hash
from streamactors.broker.group.record_folds import FOLDS
from streamactors.broker.group.share.share_group import ShareGroup, TopicPartitions
from streamactors.broker.group.share.share_record import ShareRecord, decode, encode
from streamactors.broker.group.share.share_rules import (
    Beat,
    Begin,
    Decided,
    Facts,
    begun,
    heartbeat,
    leave,
    not_begun,
    set_states,
    tombstones,
    topics_gone,
)
from streamactors.broker.group.share.simple_assignor import Subscriber, assign
from streamactors.broker.metadata.image import MetadataImage, TopicImage
from streamactors.broker.metadata.metadata_record import PartitionRecord

E = ErrorCode


def _topic(name: str, partitions: int) -> TopicImage:
    topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    records = tuple(PartitionRecord(each, topic_id, (1,), (1,), 1) for each in range(partitions))
    return TopicImage(name, topic_id, records)


def _image(**topics: int) -> MetadataImage:
    made = {name: _topic(name, count) for name, count in topics.items()}
    return MetadataImage(topics=made, topics_by_id={each.topic_id: each for each in made.values()})


class World:
    """One share group, and its log."""

    def __init__(self, **topics: int) -> None:
        self.image = _image(**topics)
        self.now_ms = 1_000_000
        self.group = ShareGroup("g")
        self.log: list[ShareRecord] = []
        self.begins: tuple[Begin, ...] = ()

    @property
    def facts(self) -> Facts:
        return Facts(self.now_ms, self.image, metadata_hash, max_size=4)

    def carry_out(self, decided: Decided) -> Decided:
        self.group = decided.group
        self.log += decided.records
        if decided.begins:
            self.begins = decided.begins
        return decided

    def beat(self, member: str, epoch: int, *topics: str) -> Decided:
        return self.carry_out(heartbeat(self.group, Beat(member, epoch, topics=topics or None), self.facts))

    def wanted(self) -> list[int]:
        return [each.partition for each in self.begins]

    def forget(self) -> None:
        """The share coordinator does not answer."""
        self.begins = ()

    def begin(self) -> None:
        """The share coordinator begins what it was asked for."""
        topics: dict[uuid.UUID, set[int]] = {}
        for each in self.begins:
            topics.setdefault(each.topic_id, set()).add(each.partition)
        self.begins = ()
        self.carry_out(begun(self.group, {each: frozenset(found) for each, found in topics.items()}, self.facts))

    def replayed(self) -> ShareGroup | None:
        groups: dict[str, CoordinatedGroup] = {}
        for record in self.log:
            key, value = encode(record)
            assert decode(record.kind, key, value) is not None
            FOLDS[record.kind](groups, key, value, GroupRules())
        found = groups.get("g")
        assert found is None or isinstance(found, ShareGroup)
        return found

    def id_of(self, name: str) -> uuid.UUID:
        return self.image.topics[name].topic_id


def _kinds(decided: Decided) -> list[int]:
    return [record.kind for record in decided.records]


def test_a_first_member_gets_nothing_until_its_share_partitions_are_begun() -> None:
    world = World(t=2)
    joined = world.beat("a", 0, "t")
    assert _kinds(joined) == [10, 11, 12, 14, 15]
    assert joined.member is not None
    assert (joined.member.epoch, joined.assignment) == (2, {})
    assert world.begins == (Begin(world.id_of("t"), 0, 2, -1), Begin(world.id_of("t"), 1, 2, -1))
    assert world.beat("a", 2).records == [], "they are being begun"
    world.begin()
    world.now_ms += 1_000
    assigned = world.beat("a", 2)
    assert _kinds(assigned) == [11, 13, 12, 14]
    assert assigned.assignment == {world.id_of("t"): frozenset({0, 1})}
    assert assigned.member is not None
    assert (assigned.member.epoch, assigned.member.previous_epoch) == (3, 2)
    assert world.beat("a", 3).assignment is None


def test_share_partitions_that_nobody_has_begun_are_begun_again_once_an_interval() -> None:
    world = World(t=2)
    world.beat("a", 0, "t")
    loaded = world.replayed()
    assert loaded is not None
    world.group = loaded  # by the next coordinator, which has asked nobody yet
    for _ in range(3):
        world.forget()
        world.beat("a", 2)
        assert world.wanted() == [0, 1]
        world.forget()
        for _ in range(3):
            world.now_ms += 9_000
            world.beat("a", 2)
        assert world.wanted() == []
        world.now_ms += 9_000


def test_a_target_of_a_node_whose_clock_was_ahead_holds_no_other_up() -> None:
    world = World(t=1)
    world.now_ms += 3_600_000
    world.beat("a", 0, "t")
    world.begin()
    world.now_ms += 1_000
    world.beat("a", 2)
    world.now_ms -= 3_600_000
    world.beat("b", 0, "t")
    assert world.group.assignment_epoch == world.group.epoch
    assert world.group.targets["b"] == {world.id_of("t"): frozenset({0})}


def test_two_members_of_one_partition_share_it() -> None:
    world = World(t=1)
    world.beat("a", 0, "t")
    world.begin()
    world.beat("b", 0, "t")
    world.now_ms += 2_000
    for each in ("a", "b"):
        world.beat(each, 0, "t")
    assert world.group.targets["a"] == world.group.targets["b"] == {world.id_of("t"): frozenset({0})}


def test_an_assignment_waits_until_the_last_one_is_old_enough() -> None:
    world = World(t=1)
    world.beat("a", 0, "t")
    world.begin()
    world.now_ms += 999
    assert _kinds(world.beat("a", 2)) == [11]
    world.now_ms += 1
    assert _kinds(world.beat("a", 2)) == [13, 12, 14]


def test_new_partitions_of_a_topic_begin_at_their_first_record() -> None:
    world = World(t=1)
    world.beat("a", 0, "t")
    world.begin()
    world.image = _image(t=3)
    world.beat("a", 2)
    assert world.begins == (Begin(world.id_of("t"), 1, 3, 0), Begin(world.id_of("t"), 2, 3, 0))


def test_share_partitions_that_could_not_be_begun_are_tried_again() -> None:
    world = World(t=1)
    world.beat("a", 0, "t")
    world.carry_out(not_begun(world.group, {world.id_of("t"): frozenset({0})}, world.facts))
    world.forget()
    world.beat("a", 2)
    assert world.wanted() == [0]


def test_share_partitions_without_an_answer_are_tried_again_after_a_while() -> None:
    world = World(t=1)
    world.beat("a", 0, "t")
    world.forget()
    world.now_ms += 29_999
    world.beat("a", 2)
    assert world.wanted() == []
    world.now_ms += 1
    world.beat("a", 2)
    assert world.wanted() == [0]


def test_a_member_that_leaves_is_forgotten_in_apaches_order_and_the_last_one_ends_the_assignment() -> None:
    world = World(t=1)
    world.beat("a", 0, "t")
    left = world.carry_out(leave(world.group, "a", world.facts))
    assert [(record.kind, record.value is None) for record in left.records] == [
        (14, True), (13, True), (10, True), (11, False), (12, False),
    ]  # fmt: skip
    assert (world.group.state_name, world.group.epoch, world.group.metadata_hash) == ("Empty", 3, 0)


@pytest.mark.parametrize(
    ("member", "epoch", "code", "message"),
    [
        ("b", 2, E.UNKNOWN_MEMBER_ID, "Member b is not a member of group g."),
        ("a", 9, E.FENCED_MEMBER_EPOCH, "has a greater member epoch"),
        ("a", 1, E.FENCED_MEMBER_EPOCH, "does not match the previous member epoch"),
    ],
)
def test_a_wrong_epoch_is_fenced(member: str, epoch: int, code: ErrorCode, message: str) -> None:
    world = World(t=1)
    world.beat("a", 0, "t")
    world.begin()
    world.now_ms += 1_000
    world.beat("a", 2)
    with pytest.raises(Refusal, match=message) as refused:
        world.beat(member, epoch)
    assert refused.value.code is code
    assert world.beat("a", 2).member is not None, "the previous epoch is accepted: an answer may have been lost"


def test_a_full_group_refuses_another_member() -> None:
    world = World(t=1)
    for each in "abcd":
        world.beat(each, 0, "t")
    with pytest.raises(Refusal, match="maximum capacity of 4 members") as refused:
        world.beat("e", 0, "t")
    assert refused.value.code is E.GROUP_MAX_SIZE_REACHED


def test_a_deleted_topic_is_forgotten_and_nothing_is_written_for_others() -> None:
    world = World(t=1, u=1)
    world.beat("a", 0, "t", "u")
    world.begin()
    gone = frozenset({world.id_of("t")})
    world.carry_out(topics_gone(world.group, gone, world.facts))
    assert list(world.group.initialized) == [world.id_of("u")]
    assert topics_gone(world.group, gone, world.facts).records == []


def test_the_tombstones_of_a_group_leave_nothing() -> None:
    world = World(t=1)
    world.beat("a", 0, "t")
    world.begin()
    world.carry_out(leave(world.group, "a", world.facts))
    world.log += tombstones(world.group)
    assert world.replayed() is None


def test_random_histories_are_given_back_by_the_log() -> None:
    kinds: Counter[int] = Counter()
    for seed in range(150):
        random = Random(seed)
        world = World(t=random.randint(1, 4), u=random.randint(1, 3))
        for _ in range(40):
            world.now_ms += random.choice((0, 500, 3_000, 40_000))
            draw, member = random.random(), random.choice("abc")
            known = world.group.members.get(member)
            if draw < 0.6:
                topics = random.choice((("t",), ("u",), ("t", "u"), ()))
                if known is not None:
                    world.beat(member, known.epoch, *topics)
                elif topics:
                    world.beat(member, 0, *topics)
            elif draw < 0.8:
                world.begin()
            elif draw < 0.88 and known is not None:
                world.carry_out(leave(world.group, member, world.facts))
            elif draw < 0.92:
                world.image = _image(
                    **{**{name: len(each.partitions) for name, each in world.image.topics.items()}, "u": 4}
                )
            elif draw < 0.96:
                world.carry_out(set_states(world.group, world.facts, deleting={world.id_of("t"): "t"}))
            _check_members(world.group)
        _check(world)
        kinds.update(record.kind for record in world.log)
    assert all(kinds[each] > 20 for each in range(10, 16)), kinds


def _check(world: World) -> None:
    group, replayed = world.group, world.replayed() or ShareGroup("g")
    plain = {each: topic._replace(since_ms=0) for each, topic in group.initializing.items()}
    assert (replayed.epoch, replayed.assignment_epoch, replayed.assignment_ms) == (
        group.epoch, group.assignment_epoch, group.assignment_ms,
    )  # fmt: skip
    assert (dict(replayed.members), dict(replayed.targets)) == (dict(group.members), dict(group.targets))
    assert (dict(replayed.initializing), dict(replayed.initialized), dict(replayed.deleting)) == (
        plain, _plain(group.initialized), dict(group.deleting),
    )  # fmt: skip


def _check_members(group: ShareGroup) -> None:
    for member in group.members.values():
        assert member.epoch <= group.epoch
        for topic_id, partitions in member.assigned.items():
            assert partitions <= group.initialized[topic_id].partitions or topic_id in group.deleting


def _plain(topics: object) -> dict[uuid.UUID, TopicPartitions]:
    assert isinstance(topics, dict)
    return {each: topic._replace(since_ms=0) for each, topic in topics.items()}


def test_the_assignor_gives_every_partition_members_and_every_member_as_much_as_the_others() -> None:
    topics = {each: uuid.UUID(int=each) for each in range(3)}
    for seed in range(600):
        random = Random(seed)
        assignable = {topics[each]: frozenset(range(random.randint(1, 5))) for each in range(random.randint(1, 3))}
        members: dict[str, Subscriber] = {}
        for _ in range(4):
            names = random.sample("abcdefg", random.randint(1, 7))
            members = {each: members.get(each, Subscriber(frozenset(assignable))) for each in names}
            found = assign(members, assignable)
            counts = [sum(map(len, each.values())) for each in found.values()]
            places = sum(map(len, assignable.values()))
            owners = Counter(
                (topic_id, partition) for each in found.values() for topic_id, got in each.items() for partition in got
            )
            sharing = -(-len(names) // places)
            assert len(owners) == places, seed
            assert max(owners.values()) <= sharing
            assert max(counts) - min(counts) <= 1 + (sharing > 1), (seed, counts)
            members = {each: members[each]._replace(assigned=found[each]) for each in names}
            assert assign(members, assignable) == found, "what is balanced stays"
