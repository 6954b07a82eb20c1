"""Feed and Delivery: whatever is taken, cut, given back and dropped, records stay in order and the ledger of the demand adds up."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from streamactors.kafka.reading.delivery import Delivery
from streamactors.kafka.reading.feed import Feed, PartitionFeed
from streamactors.kafka.subscriptions import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass(frozen=True)
class Message:
    """A message of librdkafka's, as far as a feed looks at it."""

    at: int

    def offset(self) -> int:
        return self.at


def delivery(feed, key=A, start=0, n=5, epoch=1, step=1):
    records = [Message(start + i * step) for i in range(n)]
    return Delivery(feed, key, epoch, records, start + n * step, 100 * n)


def offsets(found):
    return [record.at for record in found.records]


def test_a_cut_ends_where_the_rest_begins_and_shares_the_bytes():
    head, rest = delivery(None, start=10, n=5, step=3).cut(2)
    assert (offsets(head), head.end, head.size) == ([10, 13], 16, 200)
    assert (offsets(rest), rest.end, rest.size) == ([16, 19, 22], 25, 300)
    assert (head.key, head.epoch) == (rest.key, rest.epoch) == (A, 1)


def test_a_feed_gives_no_more_than_is_asked_and_a_delivery_without_records_needs_no_demand():
    feed = Feed(lambda _: None)
    feed.asked = 5
    assert feed.take(3) is None
    feed.put(delivery(feed))
    assert feed.take(0) is None
    assert offsets(feed.take(3)) == [0, 1, 2]
    assert feed.asked == 2
    assert offsets(feed.take(3)) == [3, 4]
    assert (feed.asked, feed.filled) == (0, False)
    feed.put(Delivery(feed, A, 1, [], 9))
    assert feed.take(0).end == 9
    assert not feed.filled


def test_what_is_dropped_is_no_longer_asked_for():
    feed = Feed(lambda _: None)
    feed.asked = 20
    for key, epoch in ((A, 1), (B, 1), (A, 2)):
        feed.put(delivery(feed, key, epoch=epoch))
    feed.drop({A: 1})
    assert feed.asked == 15
    assert [(found.key, found.epoch) for found in (feed.take(9), feed.take(9))] == [(B, 1), (A, 2)]
    assert not feed.holds(A)


@pytest.mark.parametrize("seed", range(30))
def test_the_ledger_adds_up_and_no_record_is_lost_or_repeated(seed):
    rng = random.Random(seed)
    feed, owed, out, nxt = Feed(lambda _: None), 0, [], 0
    for _ in range(200):
        move = rng.choice("apptttg")
        if move == "a":
            n = rng.randint(1, 20)
            feed.asked += n
            owed += n
        elif move == "p" and owed:
            n = rng.randint(1, owed)
            feed.put(delivery(feed, start=nxt, n=n))
            nxt, owed = nxt + n, owed - n
        else:
            found = feed.take(rng.randint(0, 7))
            if found is not None and move == "g" and len(found.records) > 1:
                found, rest = found.cut(rng.randint(1, len(found.records) - 1))
                feed.give_back(rest)
            if found is not None:
                out += offsets(found)
                assert found.end == out[-1] + 1
        assert feed.asked == owed + nxt - len(out)
    assert out == list(range(len(out)))


def test_the_feed_of_a_partition_tells_its_reader_and_outlives_it():
    feed, told = PartitionFeed(A, 1), []
    feed.deliver(delivery(feed))
    assert feed.record_bytes == 100
    feed.when_changed(lambda: told.append("first"))
    feed.deliver(delivery(feed, start=5))
    assert offsets(feed.take(2)) == [0, 1]
    feed.when_changed(None)
    feed.deliver(delivery(feed, start=10))
    feed.when_changed(lambda: told.append("second"))
    feed.finish(15)
    assert told == ["first", "second"]
    assert feed.end is None, "records lie before it"
    assert [offsets(feed.take(9)) for _ in range(3)] == [[2, 3, 4], [5, 6, 7, 8, 9], [10, 11, 12, 13, 14]]
    assert feed.end == 15


def test_the_feed_of_a_revoked_assignment_gives_nothing():
    feed = PartitionFeed(A, 1)
    feed.deliver(delivery(feed))
    assert feed.holds(A)
    feed.revoke()
    assert feed.revoked
    assert feed.take(9) is None
    assert not feed.filled
