"""Acceptance cases 44 and 45: buffers and rebalances; 40 to 43 are in `test_partitioned.py`.

Where they come from: the specifications of Alpakka Kafka and Pekko Connectors Kafka, behaviour only."""

from __future__ import annotations

import pytest

from streamactors import Keep, Sink
from streamactors.kafka import (
    Consumer,
    Subscriptions,
)
from streamactors.testing import TestSink
from tests.kafka._members import WAYS, member_settings


def numbers(n):
    return [b"%d" % i for i in range(n)]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", WAYS)
def test_44_what_was_buffered_of_a_partition_that_moves_is_delivered_by_its_new_owner_alone(
    settings, system, topic_with, wait_for, strategy
):
    topic = topic_with(f"moves-{strategy}", numbers(200), 2)
    quick = member_settings(settings, strategy)
    source = Consumer.source(quick, Subscriptions.topics(topic))
    one, first = source.map(lambda r: (r.partition, r.offset)).to_mat(TestSink.probe("30s"), Keep.both).run(system)
    first.request(1)
    seen = [first.expect_next_where(lambda _: True)]
    wait_for(lambda: sum(p["buffered_records"] for p in one.snapshot()["partitions"].values()) > 150)
    other = []
    two, done = source.to_mat(Sink.foreach(lambda r: other.append((r.partition, r.offset))), Keep.both).run(system)
    wait_for(lambda: len(two.snapshot()["partitions"]) == 1 and len(one.snapshot()["partitions"]) == 1)
    (kept,) = one.snapshot()["partitions"]
    moved = 1 - int(kept.rsplit("-")[-1])
    wait_for(lambda: {offset for partition, offset in other if partition == moved} >= set(range(1, 100)))
    first.request(1_000)
    first.expect_next_n([(1 - moved, offset) for offset in range(100) if (1 - moved, offset) not in seen])
    assert not done.done()
    for control in (one, two):
        control.shutdown().result(30)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", WAYS[1:])
def test_45_a_partition_regained_delivers_what_is_buffered_when_a_third_member_takes_nothing(
    settings, system, topic_with, wait_for, strategy
):
    topic = topic_with(f"regained-{strategy}", numbers(300), 3)
    quick = member_settings(settings, strategy)
    source = Consumer.source(quick, Subscriptions.topics(topic))
    one, first = source.map(lambda r: (r.partition, r.offset)).to_mat(TestSink.probe("30s"), Keep.both).run(system)
    wait_for(lambda: len(one.snapshot()["partitions"]) == 3)
    two, second = source.to_mat(TestSink.probe("30s"), Keep.both).run(system)
    wait_for(lambda: len(one.snapshot()["partitions"]) == 2 and len(two.snapshot()["partitions"]) == 1)
    two.shutdown()
    second.expect_subscription_and_complete()
    two.is_shutdown.result(30)
    wait_for(lambda: [p["buffered_records"] for p in one.snapshot()["partitions"].values()] == [100] * 3)
    others = []
    for i in range(3):  # as many members as partitions, and one that gets nothing
        others.append(source.to_mat(TestSink.probe("30s"), Keep.both).run(system)[0])
        wait_for(lambda i=i: len(one.snapshot()["partitions"]) == max(1, 2 - i))
    (kept,) = [int(name.rsplit("-")[-1]) for name in one.snapshot()["partitions"]]
    first.request(1_000)
    first.expect_next_n([(kept, offset) for offset in range(100)])
    for control in (one, *others):
        control.shutdown().result(30)
