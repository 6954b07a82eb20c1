"""Groups of a simulated cluster: silent members, zombies, coordinators that move, and storms."""

from __future__ import annotations

import random
from typing import Any

import confluent_kafka as ck
import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.simulation.client.consumer import SimConsumer
from streamactors.simulation.client.producer import SimProducer
from streamactors.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.cluster.one_task_world import OneTaskWorld
from tests.simulation.cluster.storms import Storm
from tests.simulation.cluster.test_producing import READER, make

STRATEGIES = ["range", "cooperative-sticky"]


class Member:
    """A consumer of topic t that notes what it hears."""

    def __init__(self, world: OneTaskWorld, cluster: SimulatedCluster, **properties: Any) -> None:
        self.client = SimConsumer(world, cluster, {**READER, "session.timeout.ms": 10_000, **properties})
        self.heard: list[tuple[str, list[int]]] = []
        self.owned: set[int] = set()
        self.read: list[bytes] = []
        self.errors: list[str] = []
        self.client.subscribe(
            ["t"], on_assign=self._hears("assign"), on_revoke=self._hears("revoke"), on_lost=self._hears("lost")
        )

    def _hears(self, what: str) -> Any:
        def called(_: Any, partitions: list[Any]) -> None:
            keys = [each.partition for each in partitions]
            (self.owned.update if what == "assign" else self.owned.difference_update)(keys)
            if keys:
                self.heard.append((what, keys))

        return called

    def poll(self) -> None:
        for message in self.client.consume(20, 0.05):
            if message.error() is None:
                self.read.append(message.value())
            else:
                self.errors.append(message.error().name())


def run(world: OneTaskWorld, members: list[Member], seconds: float) -> None:
    until_ms = world.now_ms() + seconds * 1_000
    while world.now_ms() < until_ms:
        for member in members:
            member.poll()


def fill(world: OneTaskWorld, cluster: SimulatedCluster, count: int) -> None:
    producer = SimProducer(world, cluster, {"enable.idempotence": True})
    for each in range(count):
        producer.produce("t", b"%d" % each, partition=each % 2)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_silent_member_loses_its_partitions_and_its_commits(strategy: str) -> None:
    world, cluster = make()
    properties = {"partition.assignment.strategy": strategy, "max.poll.interval.ms": 30_000}
    first, second = (Member(world, cluster, **properties) for _ in range(2))
    run(world, [first, second], 20)
    assert sorted([*first.owned, *second.owned]) == [0, 1]
    (mine,) = first.owned
    run(world, [second], 60)
    assert second.owned == {0, 1}
    with pytest.raises(ck.KafkaException, match="UNKNOWN_MEMBER_ID"):
        first.client.commit(offsets=[ck.TopicPartition("t", mine, 1)], asynchronous=False)
    run(world, [first, second], 20)
    assert first.heard[-2][0] == "lost"
    assert "_MAX_POLL_EXCEEDED" in first.errors
    assert sorted([*first.owned, *second.owned]) == [0, 1]


def test_a_member_that_is_cut_off_loses_what_it_has_after_its_session() -> None:
    world, cluster = make()
    cluster.weather = storm = Storm(random.Random(0))
    first, second = Member(world, cluster), Member(world, cluster)
    run(world, [first, second], 20)
    storm.lost, storm.only = 1.0, lambda client, api: client == first.client.name
    run(world, [first, second], 30)
    assert second.owned == {0, 1}
    assert first.heard[-1][0] == "lost"
    storm.over()
    run(world, [first, second], 20)
    assert len(first.owned) == len(second.owned) == 1


def test_a_static_member_that_restarts_gets_its_partitions_back_without_a_rebalance() -> None:
    world, cluster = make()
    first, second = (Member(world, cluster, **{"group.instance.id": each}) for each in ("i1", "i2"))
    run(world, [first, second], 20)
    mine, heard = set(first.owned), list(second.heard)
    first.client.close()
    again = Member(world, cluster, **{"group.instance.id": "i1"})
    run(world, [again, second], 15)
    assert again.owned == mine
    assert second.heard == heard


def test_nothing_is_delivered_between_the_end_of_an_assignment_and_its_callback() -> None:
    world, cluster = make()
    fill(world, cluster, 200)
    first = Member(world, cluster)
    world.wait(lambda: bool(first.client.ready), 5_000)
    first.client.consume(1, 0)
    world.sleep(500)
    second = Member(world, cluster)
    world.sleep(10_000)  # the rebalance waits for the first member's poll
    taken = first.client.consume(5, 0)
    assert taken == []
    assert first.heard[-1] == ("revoke", [0, 1])
    run(world, [first, second], 10)
    assert sorted(map(int, first.read + second.read)) == list(range(200))


def of_kind(kind: str) -> dict[str, Any]:
    return {"group.protocol": "consumer"} if kind == "consumer" else {"partition.assignment.strategy": kind}


@pytest.mark.parametrize("kind", [*STRATEGIES, "consumer"])
@pytest.mark.parametrize("seed", range(10))
def test_a_group_in_a_storm_comes_to_rest_and_every_owner_can_commit(seed: int, kind: str) -> None:
    world, cluster = make(seed, brokers=3)
    fill(world, cluster, 100)
    cluster.weather = storm = Storm(random.Random(seed), lost=0.05, unanswered=0.05)
    properties = {**of_kind(kind), "max.poll.interval.ms": 60_000}
    members = [Member(world, cluster, **properties) for _ in range(2)]
    dice = random.Random(seed)
    for _ in range(6):
        run(world, members, dice.uniform(1, 8))
        what = dice.randrange(4)
        if what == 0:
            members.append(Member(world, cluster, **properties))
        elif what == 1 and len(members) > 1:
            members.pop(0).client.close()
        elif what == 2:
            cluster.move_coordinator("g", dice.randrange(3))
        else:
            victim = dice.randrange(3)
            cluster.stop_broker(victim)
            world.later(2_000, lambda each=victim: cluster.start_broker(each), "it starts")
    storm.over()
    run(world, members, 80)
    owned = sorted(partition for member in members for partition in member.owned)
    assert owned == [0, 1]
    for member in members:
        for partition in member.owned:
            member.client.commit(offsets=[ck.TopicPartition("t", partition, 50)], asynchronous=False)


def test_an_asynchronous_commit_is_answered_inside_a_poll() -> None:
    world, cluster = make()
    answers: list[Any] = []
    member = Member(world, cluster, on_commit=lambda error, told: answers.append((error, [p.offset for p in told])))
    run(world, [member], 5)
    member.client.commit(offsets=[ck.TopicPartition("t", 0, 3)])
    world.sleep(1_000)
    assert answers == []
    member.poll()
    assert answers == [(None, [3])]


def test_new_partitions_and_topics_of_a_pattern_are_noticed_at_the_refresh_of_metadata() -> None:
    world, cluster = make()
    client = SimConsumer(world, cluster, {**READER, "topic.metadata.refresh.interval.ms": 10_000})
    client.subscribe(["^t.*"])
    until_ms = world.now_ms() + 10_000
    while world.now_ms() < until_ms:
        client.poll(0.1)
    assert len(client.assignment()) == 2
    cluster.create_topic("t-new", 3)
    until_ms = world.now_ms() + 20_000
    while world.now_ms() < until_ms:
        client.poll(0.1)
    assert len(client.assignment()) == 5


def test_an_idle_member_costs_only_its_heartbeats() -> None:
    world, cluster = make()
    member = Member(world, cluster)
    run(world, [member], 10)
    before = len(world.trace)
    assert member.client.poll(3_600) is None
    ours = [line for line in world.trace[before:] if "consumer-" in line]
    assert len(ours) <= 3 * 1_200 + 3  # a timer, a request and an answer every three seconds


def test_a_silent_member_of_a_consumer_group_loses_its_partitions_and_comes_back() -> None:
    world, cluster = make()
    properties = {"group.protocol": "consumer", "max.poll.interval.ms": 30_000}
    first, second = (Member(world, cluster, **properties) for _ in range(2))
    run(world, [first, second], 30)
    assert sorted([*first.owned, *second.owned]) == [0, 1]
    run(world, [second], 90)
    assert second.owned == {0, 1}
    run(world, [first, second], 60)
    assert "lost" in [what for what, _ in first.heard]
    assert "_MAX_POLL_EXCEEDED" in first.errors
    assert sorted([*first.owned, *second.owned]) == [0, 1]
    assert len(first.owned) == 1


def test_a_partition_of_a_consumer_group_moves_after_its_owner_has_given_it_back() -> None:
    world, cluster = make()
    first = Member(world, cluster, **{"group.protocol": "consumer"})
    run(world, [first], 15)
    second = Member(world, cluster, **{"group.protocol": "consumer"})
    run(world, [second], 15)  # the first member does not poll
    assert (first.owned, second.owned) == ({0, 1}, set())
    run(world, [first, second], 15)
    assert len(first.owned) == len(second.owned) == 1
    second.client.close()
    run(world, [first], 15)
    assert first.owned == {0, 1}


def test_a_consumer_group_without_the_feature_fails_for_good() -> None:
    world, cluster = make()
    cluster.refuses["consumer_group_heartbeat"] = ErrorCode.UNSUPPORTED_VERSION
    member = Member(world, cluster, **{"group.protocol": "consumer"})
    run(world, [member], 10)
    assert member.errors == ["UNSUPPORTED_VERSION"]
