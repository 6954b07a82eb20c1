"""The assignors: balance, stickiness, and results that Apache Kafka 4.4.0 was seen to make (tests/differential/test_consumer_groups.py)."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.group.assignors.assignors import assign
from streamactors.broker.group.assignors.group_spec import (
    AssignorFailed,
    GroupSpec,
    Partitions,
    SpecMember,
    members_in_hash_order,
)
from streamactors.broker.group.assignors.hash_order import HashOrdered, number_hash, text_hash, timeline_order

T = [uuid.UUID(int=(number * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128) for number in range(1, 6)]

groups = st.lists(
    st.tuples(st.sets(st.sampled_from(T)), st.one_of(st.none(), st.integers(0, 99))),
    min_size=1,
    max_size=8,
    unique_by=lambda each: (each[1] is None, each[1]) if each[1] is not None else object(),
)
counts = st.fixed_dictionaries({topic: st.integers(1, 9) for topic in T})


def spec_of(members: list[SpecMember], sizes: dict[uuid.UUID, int]) -> GroupSpec:
    same = len({frozenset(member.topics) for member in members}) == 1
    return GroupSpec(members_in_hash_order(members), same, lambda topic: sizes.get(topic, -1))


def newcomers(drawn: list[tuple[set[uuid.UUID], int | None]]) -> list[SpecMember]:
    return [
        SpecMember(f"m{at}", None if instance is None else f"i{instance}", sorted(topics), {})
        for at, (topics, instance) in enumerate(drawn)
    ]


def holders(made: dict[str, Partitions]) -> dict[tuple[uuid.UUID, int], str]:
    found: dict[tuple[uuid.UUID, int], str] = {}
    for member_id, partitions in made.items():
        for topic, owned in partitions.items():
            for partition in owned:
                assert (topic, partition) not in found, "a partition has two owners"
                found[topic, partition] = member_id
    return found


@pytest.mark.parametrize("name", ["uniform", "range"])
@given(drawn=groups, sizes=counts)
def test_every_subscribed_partition_has_one_owner_that_subscribes_to_it(name: str, drawn, sizes) -> None:
    members = newcomers(drawn)
    made = dict(assign(name, spec_of(members, sizes)))
    owned = holders(made)
    wanted = {topic for member in members for topic in member.topics}
    assert set(owned) == {(topic, partition) for topic in wanted for partition in range(sizes[topic])}
    topics = {member.member_id: set(member.topics) for member in members}
    assert all(topic in topics[holder] for (topic, _), holder in owned.items())


@given(count=st.integers(1, 9), sizes=counts)
def test_uniform_gives_everybody_the_same_number_give_or_take_one(count: int, sizes) -> None:
    made = assign("uniform", spec_of(newcomers([(set(T), None)] * count), sizes))
    loads = [sum(map(len, partitions.values())) for partitions in made.values()]
    assert max(loads) - min(loads) <= 1


@given(count=st.integers(1, 8), sizes=counts, data=st.data())
def test_uniform_moves_no_more_than_it_must(count: int, sizes, data) -> None:
    members = newcomers([(set(T), None)] * count)
    before = dict(assign("uniform", spec_of(members, sizes)))
    stay = data.draw(st.lists(st.sampled_from(members), min_size=1, unique_by=lambda each: each.member_id))
    grown = [each._replace(target=before[each.member_id]) for each in stay] + [SpecMember("z", None, sorted(T), {})]
    after = dict(assign("uniform", spec_of(grown, sizes)))
    total, most = sum(sizes.values()), -(-sum(sizes.values()) // len(grown))
    for member in stay:
        kept = holders({"m": before[member.member_id]}).keys() & holders({"m": after[member.member_id]}).keys()
        had = len(holders({"m": before[member.member_id]}))
        assert len(kept) >= min(had, total // len(grown)), f"a member lost more than its quota of {most} demands"


@given(drawn=groups, sizes=counts)
def test_an_assignment_is_stable_when_nothing_has_changed(drawn, sizes) -> None:
    members = newcomers(drawn)
    made = dict(assign("uniform", spec_of(members, sizes)))
    again = assign("uniform", spec_of([each._replace(target=made.get(each.member_id, {})) for each in members], sizes))
    assert holders(dict(again)) == holders(made)


def test_range_gives_runs_and_static_members_come_first() -> None:
    members = [SpecMember("a", None, [T[0], T[1]], {}), SpecMember("b", "i", [T[0], T[1]], {})]
    made = assign("range", spec_of(members, {T[0]: 5, T[1]: 1}))
    assert {k: dict(v) for k, v in made.items()} == {"b": {T[0]: (0, 1, 2), T[1]: (0,)}, "a": {T[0]: (3, 4)}}


def test_range_asks_the_first_member_where_all_are_said_to_want_the_same() -> None:
    # Seen with Apache Kafka 4.4.0: a newcomer without topics came first in a group whose other members subscribed to the same ones.
    members = [SpecMember("a", None, [], {}), SpecMember("b", None, [T[0]], {})]
    made = assign("range", GroupSpec(members, True, lambda _: 3))
    assert {member_id: dict(partitions) for member_id, partitions in made.items()} == {"a": {}, "b": {}}


@pytest.mark.parametrize("name", ["uniform", "range"])
def test_a_topic_that_is_gone_fails_the_assignment(name: str) -> None:
    with pytest.raises(AssignorFailed, match="exist"):
        assign(name, spec_of([SpecMember("a", None, [T[0]], {})], {}))


def test_uniform_with_different_topics_balances_across_them() -> None:
    members = [SpecMember("a", None, [T[0]], {}), SpecMember("b", None, [T[0], T[1]], {})]
    made = assign("uniform", spec_of(members, {T[0]: 4, T[1]: 4}))
    assert sorted(sum(map(len, partitions.values())) for partitions in made.values()) == [4, 4]


# -- Java's hash tables, as seen with JDK 17 ---------------------------------------------------------------------------


def test_hashes_of_java() -> None:
    assert text_hash("range") == 108280125
    assert text_hash("uniform") == 2**32 - 286926412
    assert text_hash("\N{GRINNING FACE}") == (31 * 0xD83D + 0xDE00) % 2**32


def test_a_hash_set_iterates_its_buckets_and_grows() -> None:
    assert list(HashOrdered(number_hash, [17, 3, 1])) == [17, 1, 3]
    assert list(HashOrdered(number_hash, range(20, 0, -1))) == list(range(1, 21))
    assert list(HashOrdered(number_hash, [1, 2, 3, 11, 7], capacity=8)) == [1, 2, 3, 11, 7]


def test_compute_if_absent_adds_at_the_beginning_of_a_bucket() -> None:
    order = HashOrdered[int](number_hash, capacity=1)
    for number in (3, 7, 11):
        order.add_first(number)
    assert list(order) == [11, 7, 3]


def test_a_timeline_table_iterates_each_slot_from_its_last_key() -> None:
    assert timeline_order(["uniform", "range"], 2) == ["uniform", "range"]
    same_slot = timeline_order(["m-55e6f7261b", "mmm-900e9f654f"], 8)
    assert same_slot == ["mmm-900e9f654f", "m-55e6f7261b"]
