"""The rules of the share consumer's machines, one by one; together they are tried by `test_queue_simulation.py`."""

from __future__ import annotations

import itertools

from streamactors.kafka.client.share.protocol import (
    Ack,
    AckRange,
    Acquired,
    ErrorCode,
    Purpose,
    RecordData,
    Shard,
    ShardAnswer,
    ShareAnswer,
)
from streamactors.kafka.sources.share_group.acks_state import Acks
from streamactors.kafka.sources.share_group.group_state import Event, GroupMember, HeartbeatAnswer
from streamactors.kafka.sources.share_group.queue_state import ShareQueue
from tests.kafka.share.model_broker import TOPIC

ZERO, ONE = Shard(TOPIC, 0), Shard(TOPIC, 1)


def queue(max_in_flight: int = 10, **how) -> ShareQueue:
    made = ShareQueue("me", max_in_flight, **how)
    made.assigned({ZERO: 1})
    return made


def records(shard: Shard, first: int, count: int, delivery_count: int = 1) -> ShareAnswer:
    data = RecordData(0, None, b"v", ())
    acquired = [Acquired(first + n, delivery_count, data) for n in range(count)]
    return ShareAnswer(lock_ms=1_000, shards=[ShardAnswer(shard, acquired=acquired)])


def test_without_demand_nothing_is_fetched() -> None:
    of = queue()
    assert of.next_request(1, 0) is None
    of.demand(3)
    request = of.next_request(1, 0)
    assert request is not None
    assert (request.purpose, request.max_records, request.epoch, request.added) == (Purpose.FETCH, 3, 0, (ZERO,))


def test_no_more_is_locked_than_the_bound_even_if_downstream_asks_for_more() -> None:
    of = queue(max_in_flight=4)
    of.demand(1_000)
    assert of.next_request(1, 0).max_records == 4
    of.answered(1, records(ZERO, 0, 4), 0)
    assert of.next_request(1, 10) is None
    of.leases.emitted(4)
    of.done(3, 10)
    request = of.next_request(1, 10)  # carries three acknowledgements, which the broker processes first
    assert request.acks == {ZERO: [AckRange(0, 2, Ack.ACCEPT)]}
    assert request.max_records == 3


def test_two_brokers_take_turns_when_the_demand_is_one_record() -> None:
    of = queue()
    of.assigned({ZERO: 1, ONE: 2})
    of.demand(1)
    order = []
    for now in range(0, 60, 10):
        for broker in (1, 2):
            if of.next_request(broker, now) is not None:
                order.append(broker)
                of.answered(broker, ShareAnswer(), now)
    assert order == [1, 2] * 6


def test_a_broker_may_wait_long_unless_acknowledgements_can_become_due_or_brokers_take_turns() -> None:
    of = queue()
    of.assigned({ZERO: 1, ONE: 2})
    of.demand(4)
    assert (of.next_request(1, 0).max_wait_ms, of.next_request(2, 0).max_wait_ms) == (500, 500)
    of.answered(1, records(ZERO, 0, 1), 0)
    of.demand(9)
    assert of.next_request(1, 20).max_wait_ms == 50
    turns = queue()
    turns.assigned({ZERO: 1, ONE: 2})
    turns.demand(1)
    assert turns.next_request(1, 0).max_wait_ms == 50


def test_a_record_in_work_is_renewed_at_half_of_its_lock() -> None:
    of = queue(max_in_flight=1)
    of.demand(1)
    of.next_request(1, 0)
    of.answered(1, records(ZERO, 5, 1), 0)
    assert of.next_request(1, 499) is None
    assert of.next_time_ms(1, 499) == 500
    request = of.next_request(1, 500)
    assert request.renews
    assert request.acks == {ZERO: [AckRange(5, 5, Ack.RENEW)]}
    of.answered(1, ShareAnswer(lock_ms=1_000, shards=[ShardAnswer(ZERO)]), 510)
    assert of.next_time_ms(1, 600) == 1_010


def test_acknowledgements_are_gathered_for_a_moment_while_there_is_work_in_hand() -> None:
    of = queue(max_in_flight=4)
    of.demand(1_000)
    of.next_request(1, 0)
    of.answered(1, records(ZERO, 0, 4), 100)
    of.done(1, 10)
    assert of.next_request(1, 101) is None
    assert of.next_time_ms(1, 101) == 110
    assert of.next_request(1, 110).acks == {ZERO: [AckRange(0, 0, Ack.ACCEPT)]}


def test_the_last_work_in_hand_is_acknowledged_and_the_next_is_asked_for_at_once() -> None:
    of = queue(max_in_flight=4)
    of.demand(1)
    of.next_request(1, 0)
    of.answered(1, records(ZERO, 0, 1), 100)
    of.done(1, 10)
    of.demand(2)
    assert of.next_request(1, 101).max_records == 1


def test_a_broker_that_cannot_renew_is_warned_of_once() -> None:
    of = queue(can_renew=False)
    of.demand(1)
    of.next_request(1, 0)
    of.answered(1, records(ZERO, 5, 1), 0)
    assert of.next_request(1, 500) is None
    assert not of.expired(999)
    assert of.next_time_ms(1, 999) == 1_000
    assert of.expired(1_000)
    assert not of.expired(2_000)


def test_what_is_done_after_its_lock_is_lost_and_does_not_spoil_other_acknowledgements() -> None:
    of = queue(can_renew=False)
    of.demand(1)
    of.next_request(1, 0)
    of.answered(1, records(ZERO, 5, 1), 0)
    of.demand(2)
    of.next_request(1, 900)
    of.answered(1, records(ZERO, 6, 1), 900)
    of.done(2, 1_500)
    assert of.counts.lost == 1
    assert of.next_request(1, 1_500).acks == {ZERO: [AckRange(6, 6, Ack.ACCEPT)]}


def test_a_gap_is_acknowledged_as_a_gap() -> None:
    of = queue()
    of.demand(5)
    of.next_request(1, 0)
    answer = ShareAnswer(lock_ms=1_000, shards=[ShardAnswer(ZERO, acquired=[Acquired(7, 1, None)])])
    assert of.answered(1, answer, 0).deliveries == []
    assert of.next_request(1, 10).acks == {ZERO: [AckRange(7, 7, Ack.GAP)]}


def test_a_record_beyond_the_delivery_limit_is_rejected_and_not_emitted() -> None:
    of = queue(delivery_limit=2)
    of.demand(5)
    of.next_request(1, 0)
    outcome = of.answered(1, records(ZERO, 7, 1, delivery_count=3), 0)
    assert outcome.deliveries == []
    assert "delivery_limit" in outcome.problems[0]
    assert of.next_request(1, 10).acks == {ZERO: [AckRange(7, 7, Ack.REJECT)]}


def test_the_end_releases_what_was_emitted_and_rejects_it_at_the_delivery_limit() -> None:
    of = queue(delivery_limit=2)
    of.demand(5)
    of.next_request(1, 0)
    of.answered(1, records(ZERO, 0, 2, delivery_count=1), 0)
    of.next_request(1, 10)
    of.answered(1, records(ZERO, 2, 2, delivery_count=2), 10)
    of.leases.emitted(3)  # the fourth was not: the end of the session takes its delivery back
    of.close(10)
    request = of.next_request(1, 20)
    assert (request.purpose, request.epoch) == (Purpose.CLOSE, -1)
    assert request.acks == {ZERO: [AckRange(0, 1, Ack.RELEASE), AckRange(2, 2, Ack.REJECT)]}
    of.answered(1, ShareAnswer(shards=[ShardAnswer(ZERO)]), 20)
    assert of.is_empty
    assert (of.counts.released, of.counts.rejected) == (2, 1)


def test_a_stopped_source_fetches_no_more_and_its_work_is_still_acknowledged() -> None:
    of = queue()
    of.demand(5)
    of.next_request(1, 0)
    of.answered(1, records(ZERO, 0, 3), 0)
    of.leases.emitted(2)
    of.stop()
    assert of.next_request(1, 10) is None
    of.done(2, 10)
    request = of.next_request(1, 10)
    assert (request.purpose, request.acks) == (Purpose.ACKNOWLEDGE, {ZERO: [AckRange(0, 1, Ack.ACCEPT)]})


def test_a_lost_session_opens_again_and_its_records_are_lost() -> None:
    of = queue()
    of.demand(5)
    of.next_request(1, 0)
    of.answered(1, records(ZERO, 0, 2), 0)
    of.next_request(1, 10)
    of.answered(1, ShareAnswer(error=ErrorCode.SHARE_SESSION_NOT_FOUND), 10)
    assert of.counts.lost == 2
    of.done(2, 10)  # of no effect any more
    assert of.next_request(1, 20) is None, "it waits for a moment"
    request = of.next_request(1, 200)
    assert (request.epoch, request.acks, request.added) == (0, {}, (ZERO,))


def test_a_fenced_member_acknowledges_what_is_done_and_continues_with_another_id() -> None:
    of = queue()
    of.demand(5)
    of.next_request(1, 0)
    of.answered(1, records(ZERO, 0, 2), 0)
    of.leases.emitted(2)
    of.done(1, 10)
    of.fenced("me again")
    request = of.next_request(1, 10)
    assert (request.member_id, request.epoch, request.acks) == ("me", -1, {ZERO: [AckRange(0, 0, Ack.ACCEPT)]})
    of.answered(1, ShareAnswer(shards=[ShardAnswer(ZERO)]), 10)
    of.assigned({ZERO: 1})
    request = of.next_request(1, 20)
    assert (request.member_id, request.epoch) == ("me again", 0)


def test_acknowledgements_of_a_partition_that_was_taken_away_are_sent_without_a_fetch() -> None:
    of = queue()
    of.assigned({ZERO: 1, ONE: 1})
    of.demand(9)
    of.next_request(1, 0)
    of.answered(1, records(ONE, 0, 2), 0)
    of.assigned({ZERO: 1})
    of.done(2, 10)
    request = of.next_request(1, 10)
    assert (request.purpose, request.acks) == (Purpose.ACKNOWLEDGE, {ONE: [AckRange(0, 1, Ack.ACCEPT)]})
    of.answered(1, ShareAnswer(shards=[ShardAnswer(ONE)]), 10)
    request = of.next_request(1, 20)
    assert (request.purpose, request.forgotten) == (Purpose.FETCH, (ONE,))


def test_a_refused_group_is_halved_until_only_the_lost_offset_is_refused() -> None:
    acks, lost, accepted = Acks(), [], []
    for offset in range(8):
        acks.add(ZERO, offset, Ack.ACCEPT)
    while acks.waiting:
        (ranges,) = acks.send(acks.sendable()).values()
        offsets = [n for each in ranges for n in range(each.first, each.last + 1)]
        if 5 in offsets:
            lost += acks.refused(ZERO)
        else:
            accepted += acks.answered(ZERO)
    assert lost == [5]
    assert sorted(accepted) == [0, 1, 2, 3, 4, 6, 7]
    assert acks.locked == 0


def member() -> GroupMember:
    names = map("member-{}".format, itertools.count())
    return GroupMember(["orders"], lambda: next(names))


def test_the_topics_are_in_the_first_heartbeat_and_after_a_failure_only() -> None:
    of = member()
    assert of.heartbeat().topics == ("orders",)
    assert of.answered(HeartbeatAnswer(epoch=2, interval_ms=3_000, assignment=frozenset([ZERO])), 0) is Event.ASSIGNED
    assert (of.heartbeat().epoch, of.heartbeat().topics, of.due_ms) == (2, None, 3_000)
    of.failed(3_000)
    assert of.heartbeat().topics == ("orders",)


def test_heartbeats_come_early_until_the_first_partition_is_assigned_but_not_for_ever() -> None:
    of = member()
    waits = []
    for now in range(0, 120, 10):
        of.answered(HeartbeatAnswer(epoch=2, interval_ms=3_000, assignment=frozenset()), now)
        waits.append(of.due_ms - now)
    assert waits == [300] * 10 + [3_000] * 2
    assert (
        member().answered(HeartbeatAnswer(epoch=2, interval_ms=3_000, assignment=frozenset([ZERO])), 0)
        is Event.ASSIGNED
    )


def test_a_fenced_member_joins_at_once_with_another_id() -> None:
    of = member()
    of.answered(HeartbeatAnswer(epoch=2, interval_ms=3_000, assignment=frozenset([ZERO])), 0)
    assert of.answered(HeartbeatAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID), 3_000) is Event.FENCED
    assert (of.member_id, of.heartbeat().epoch, of.due_ms) == ("member-1", 0, 3_000)
    assert of.assignment == frozenset()


def test_a_coordinator_that_moved_is_looked_up_with_a_growing_pause() -> None:
    of = member()
    due = []
    for _ in range(8):
        assert of.answered(HeartbeatAnswer(error=ErrorCode.NOT_COORDINATOR), 0) is Event.MOVED
        due.append(of.due_ms)
    assert due == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]


def test_missing_rights_are_an_error_that_stays() -> None:
    assert member().answered(HeartbeatAnswer(error=ErrorCode.GROUP_AUTHORIZATION_FAILED), 0) is Event.REFUSED
