"""The state machine of consumer groups: seeded histories with lost answers, silent members, static members, new partitions and time.

After each step no partition has two owners, no two clients read one, epochs only grow, and the fold of the log is the group. At the end of each
history the clients are left alone, and soon every one has its part."""

from __future__ import annotations

import random

import pytest

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.consumer.consumer_events import ConsumerRules, MemberHeartbeat
from streamactors.broker.group.consumer.consumer_group import ConsumerGroupState, MemberState
from streamactors.broker.group.consumer.consumer_state import heartbeat
from tests.broker.group.consumer.consumer_world import Client, ConsumerWorld, random_client

TOPICS = {"a": 5, "b": 3, "c": 1}


def history(seed: int, steps: int) -> ConsumerWorld:
    rng = random.Random(seed)
    topics = dict(TOPICS)
    world = ConsumerWorld(topics, ConsumerRules(assignment_interval_ms=rng.choice((0, 1_000))))
    assignor = rng.choice((None, "range", "uniform"))
    clients: list[Client] = []
    for number in range(steps):
        kind = rng.random()
        client = rng.choice(clients) if clients else None
        if client is None or (kind < 0.1 and len(clients) < 7):
            clients.append(random_client(rng, number, list(topics), assignor))
            world.ask(clients[-1], lost=rng.random() < 0.1)
        elif kind < 0.6:
            world.ask(client, lost=rng.random() < 0.15)
        elif kind < 0.75:
            world.take(client)
        elif kind < 0.8:
            client.topics = random_client(rng, 0, list(topics)).topics
        elif kind < 0.85:
            clients.remove(client)
            world.leave(client, -2 if client.instance_id is not None and rng.random() < 0.5 else -1)
        elif kind < 0.88:
            clients.remove(client)  # it is silent from now on
        elif kind < 0.91:
            topics[rng.choice(list(topics))] += 1
            world.change_topics(topics)
        else:
            world.advance(rng.choice((10, 1_000, 20_000)))
        world.check([each for each in clients if each.epoch > 0])
    settle(world, clients)
    return world


def settle(world: ConsumerWorld, clients: list[Client]) -> None:
    """Let silent members go and the others reach their target: every subscribed partition is read by one client."""
    for _ in range(40):
        world.advance(5_000)
        for client in clients:
            world.ask(client)
            world.take(client)
        world.check(clients)
    live = [each for each in clients if world.group.members.get(each.member_id)]
    assert len(live) == len(world.group.members), "a silent member is still there"
    assert len(live) >= len({each.instance_id or each.member_id for each in clients}), "a client found no place"
    if not live:
        return
    assert world.group.state is ConsumerGroupState.STABLE
    wanted = {
        (topic.topic_id, partition)
        for name, topic in world.image.topics.items()
        if any(name in each.topics for each in live)
        for partition in range(len(topic.partitions))
    }
    assert {each for client in live for each in client.owned} == wanted


@pytest.mark.parametrize("seed", range(60))
def test_a_history(seed: int) -> None:
    history(seed, 60)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(20))
def test_two_thousand_histories(hundred: int) -> None:
    for seed in range(1_000 + hundred * 100, 1_100 + hundred * 100):
        history(seed, 100)


# -- sentences ---------------------------------------------------------------------------------------------------------


def refused(world: ConsumerWorld, **fields: object) -> Refusal:
    with pytest.raises(Refusal) as caught:
        heartbeat(world.group, MemberHeartbeat(**{"member_id": "m", "epoch": 0, **fields}), world.around())  # type: ignore[arg-type]
    return caught.value


def test_a_partition_is_given_when_its_owner_has_given_it_back() -> None:
    world = ConsumerWorld({"a": 2})
    one, two = Client("1", None, ("a",)), Client("2", None, ("a",))
    world.ask(one)
    world.take(one)
    assert len(one.owned) == 2
    world.ask(two)
    assert (two.epoch, two.assigned) == (3, set())
    assert world.group.members["2"].state is MemberState.UNRELEASED_PARTITIONS
    world.ask(one)  # it is told to give one back, and does
    assert world.group.members["1"].state is MemberState.UNREVOKED_PARTITIONS
    assert one.epoch == 2
    world.ask(two)
    assert two.assigned == set(), "the first member may still read it"
    world.ask(one)
    assert one.epoch == 3
    world.ask(two)
    assert len(two.assigned) == 1
    assert world.group.state is ConsumerGroupState.STABLE


def test_a_member_that_gives_nothing_back_is_removed_after_its_rebalance_timeout() -> None:
    world = ConsumerWorld({"a": 2})
    one, two = Client("1", None, ("a",)), Client("2", None, ("a",))
    world.ask(one)
    world.take(one)
    world.ask(two)
    stuck = set(one.owned)
    for _ in range(4):
        one.owned = set(stuck)
        world.ask(one)
        world.ask(two)
        world.advance(10_000)
    assert list(world.group.members) == ["2"]
    world.ask(two)
    assert len(two.assigned) == 2


def test_a_static_member_that_returns_gets_its_partitions_back_without_a_new_epoch() -> None:
    world = ConsumerWorld({"a": 4})
    one, two = Client("1", "i", ("a",)), Client("2", "j", ("a",))
    for _ in range(4):
        for each in (one, two):
            world.ask(each)
            world.take(each)
    had, epoch = set(one.owned), world.group.epoch
    world.leave(one, -2)
    again = Client("3", "i", ("a",))
    assert world.ask(again) is ErrorCode.NONE
    assert (again.assigned, world.group.epoch) == (had, epoch)
    assert set(world.group.members) == {"2", "3"}
    old = refused(world, member_id="1", epoch=epoch, instance_id="i")
    assert old.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_whose_place_is_taken_waits() -> None:
    world = ConsumerWorld({"a": 1})
    world.ask(Client("1", "i", ("a",)))
    why = refused(world, member_id="2", instance_id="i", topics=("a",), rebalance_timeout_ms=1, owned=())
    assert why.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert "owned by 1 member" in str(why)


def test_a_lost_answer_is_asked_for_with_the_epoch_before() -> None:
    world = ConsumerWorld({"a": 2})
    one = Client("1", None, ("a",))
    world.ask(one)
    world.take(one)
    world.ask(Client("2", None, ("a",)))
    world.ask(one)
    world.ask(one, lost=True)  # it is in epoch 3 and does not know
    assert (one.epoch, world.group.members["1"].epoch) == (2, 3)
    assert world.ask(one) is ErrorCode.NONE
    assert one.epoch == 3


def test_epochs_that_cannot_be() -> None:
    world = ConsumerWorld({"a": 1})
    world.ask(Client("1", None, ("a",)))
    assert refused(world, member_id="1", epoch=9).code is ErrorCode.FENCED_MEMBER_EPOCH
    assert refused(world, member_id="1", epoch=1).code is ErrorCode.FENCED_MEMBER_EPOCH
    assert refused(world, member_id="nobody", epoch=2).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_refuses_newcomers_only() -> None:
    world = ConsumerWorld({"a": 1}, ConsumerRules(max_size=1, assignment_interval_ms=0))
    one = Client("1", None, ("a",))
    world.ask(one)
    assert refused(world, member_id="2", topics=("a",)).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.ask(one) is ErrorCode.NONE


def test_new_partitions_make_a_new_epoch() -> None:
    world = ConsumerWorld({"a": 1})
    one = Client("1", None, ("a",))
    world.ask(one)
    world.change_topics({"a": 3})
    world.ask(one)
    assert (world.group.epoch, len(one.assigned)) == (3, 3)


def test_the_assignment_interval_joins_changes() -> None:
    world = ConsumerWorld({"a": 4}, ConsumerRules(assignment_interval_ms=1_000))
    clients = [Client(str(number), None, ("a",)) for number in range(4)]
    for client in clients:
        world.ask(client)
    assert (world.group.epoch, world.group.assignment_epoch) == (5, 2)
    world.advance(1_000)
    world.ask(clients[0])
    assert world.group.assignment_epoch == 5


def test_a_target_that_a_node_with_a_fast_clock_has_made_holds_the_next_one_up_no_longer_than_others() -> None:
    # Its coordinator's clock was an hour ahead; for an hour the next coordinator assigned nothing, and new members waited.
    world = ConsumerWorld({"a": 4}, ConsumerRules(assignment_interval_ms=1_000))
    first, second = (Client(each, None, ("a",)) for each in ("first", "second"))
    world.now_ms += 3_600_000
    world.ask(first)
    world.now_ms -= 3_600_000
    world.ask(second)
    assert world.group.assignment_epoch == world.group.epoch
