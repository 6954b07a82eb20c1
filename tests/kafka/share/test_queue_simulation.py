"""Two members of a share group against a model of two brokers, through random histories: no record is lost, none is locked beyond the bound."""

from __future__ import annotations

import random

import pytest

from streamactors.kafka.client.share.protocol import Ack, Shard, ShareRequest
from streamactors.kafka.sources.share_group.queue_state import Delivery, ShareQueue
from tests.kafka.share.model_broker import ModelCluster

BOUND = 12
BLOCKS = [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 10))]


class Member:
    """A share consumer whose stream does records in order; its requests travel for a while."""

    def __init__(self, name: str, cluster: ModelCluster, dice: random.Random, *, can_renew: bool) -> None:
        self.names = [name]
        self.cluster = cluster
        self.dice = dice
        self.queue = ShareQueue(name, BOUND, can_renew=can_renew)
        self.assigned: set[Shard] = set()
        self.leaders: dict[Shard, int] = {}
        self.on_the_way: dict[int, ShareRequest] = {}
        self.deliveries: list[Delivery] = []
        self.emitted = self.done = 0
        self.asked = 0

    def look_up(self) -> None:
        self.leaders = {shard: self.cluster.leaders[shard] for shard in self.assigned}
        self.queue.assigned(self.leaders)

    def act(self) -> None:
        do = self.dice.choice(
            [self.want, self.emit, self.finish, self.send, self.send, self.receive, self.receive, self.receive]
        )
        do()

    def want(self) -> None:
        self.asked = max(self.asked, self.emitted + self.dice.randrange(8))
        self.queue.demand(self.asked)

    def emit(self) -> None:
        if self.emitted < len(self.deliveries):
            self.emitted = self.dice.randint(self.emitted, len(self.deliveries))
            self.queue.leases.emitted(self.emitted)

    def finish(self) -> None:
        end = self.dice.randint(self.done, self.emitted)
        for each in self.deliveries[self.done : end]:
            if self.dice.random() < 0.2:
                each.lease.verdict = self.dice.choice([Ack.RELEASE, Ack.REJECT])
        self.done = end
        self.queue.done(end, self.cluster.now_ms)

    def send(self) -> None:
        for broker in (0, 1):
            request = self.queue.next_request(broker, self.cluster.now_ms)
            if request is not None:
                assert broker not in self.on_the_way
                self.on_the_way[broker] = request

    def receive(self) -> None:
        for broker in [each for each in self.on_the_way if self.dice.random() < 0.7]:
            request = self.on_the_way.pop(broker)
            if self.dice.random() < 0.02:  # the answer is lost with the connection
                if self.dice.random() < 0.5:
                    self.cluster.answer(broker, request)
                self.cluster.drop_session(broker, request.member_id)
                self.queue.failed(broker, self.cluster.now_ms)
                continue
            answer = self.cluster.answer(broker, request)
            outcome = self.queue.answered(broker, answer, self.cluster.now_ms)
            for each in outcome.deliveries:
                assert each.lease.index == len(self.deliveries)
                self.deliveries.append(each)
            assert len(self.deliveries) <= self.asked, "a record beyond demand"
            if outcome.look_up:
                self.look_up()

    def end(self) -> None:
        """Close in order."""
        self.queue.close(self.cluster.now_ms)
        for _ in range(200):
            self.cluster.tick(50)
            self.send()
            self.receive()
            if self.queue.is_empty and not self.on_the_way:
                return
        raise AssertionError("the sessions were not closed")


def history(seed: int, *, can_renew: bool = True) -> tuple[ModelCluster, list[Member]]:
    dice = random.Random(seed)
    gaps = {n for n in range(40) if dice.random() < 0.1}
    cluster = ModelCluster(dice.randint(1, 3), 40, gaps)
    members = [Member(name, cluster, dice, can_renew=can_renew) for name in ("a", "b")]
    for member in members:
        member.assigned = set(cluster.shards)
        member.look_up()
    for _ in range(dice.randint(100, 600)):
        member = dice.choice(members)
        roll = dice.random()
        if roll < 0.01:
            cluster.move(dice.choice(cluster.shards), dice.randrange(2))
        elif roll < 0.02:
            member.assigned = {shard for shard in cluster.shards if dice.random() < 0.7}
            member.look_up()
        elif roll < 0.025:
            member.names.append(f"{member.names[0]}{len(member.names)}")
            member.queue.fenced(member.names[-1])
            member.look_up()
        else:
            member.act()
        cluster.tick(dice.choice([0, 1, 20, 100]))
        for each in members:
            if len(each.names) == 1:
                # a fetch counts on its acknowledgements; the broker refuses them if their locks have ended on the way
                bound = BOUND if not cluster.refused_acks else 2 * BOUND
                assert cluster.locked_by(each.names[0]) <= bound, "more locks than the bound"
    return cluster, members


@pytest.mark.parametrize("can_renew", [True, False])
@pytest.mark.parametrize("block", BLOCKS)
def test_no_record_is_lost_and_every_lock_ends(block: int, can_renew: bool) -> None:
    """After both members have closed no lock is left, and every record is done or can be delivered."""
    for seed in range(block * 100, block * 100 + 100):
        cluster, members = history(seed, can_renew=can_renew)
        for member in members:
            member.end()
        states = {each.state for records in cluster.log.values() for each in records}
        assert "acquired" not in states, f"seed {seed}: a lock is left"
        cluster_done = sum(each.state in ("accepted", "rejected") for log in cluster.log.values() for each in log)
        counted = sum(m.queue.counts.accepted + m.queue.counts.rejected for m in members)
        gaps = sum(each.state == "accepted" and each.gap for log in cluster.log.values() for each in log)
        assert cluster_done - gaps >= counted, f"seed {seed}: a record was acknowledged twice"


@pytest.mark.parametrize("block", BLOCKS)
def test_a_calm_member_acknowledges_each_record_once_and_none_comes_twice(block: int) -> None:
    renewed = 0
    for seed in range(block * 10, block * 10 + 10):
        dice = random.Random(seed)
        cluster = ModelCluster(3, 30, {3, 4, 9})
        member = Member("a", cluster, dice, can_renew=True)
        member.assigned = set(cluster.shards)
        member.look_up()
        member.receive = lambda member=member: _answer_all(member)  # type: ignore[method-assign]
        for _ in range(1_000):
            member.act()
            member.send()
            member.receive()
            cluster.tick(60)
        released = {(d.lease.shard, d.lease.offset) for d in member.deliveries if d.lease.verdict is Ack.RELEASE}
        times = {}
        for each in member.deliveries:
            place = (each.lease.shard, each.lease.offset)
            times[place] = times.get(place, 0) + 1
            assert times[place] == each.lease.delivery_count
            assert times[place] == 1 or place in released, f"seed {seed}: {place} came twice"
        assert cluster.refused_acks == 0
        assert len(times) == 3 * 27
        assert member.queue.counts.lost == 0
        renewed += member.queue.counts.renewed
    assert renewed > 10


def _answer_all(member: Member) -> None:
    for broker in list(member.on_the_way):
        answer = member.cluster.answer(broker, member.on_the_way.pop(broker))
        for each in member.queue.answered(broker, answer, member.cluster.now_ms).deliveries:
            member.deliveries.append(each)
