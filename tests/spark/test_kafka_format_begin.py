"""Where a stream of the format streamactors-kafka begins: asked once, when the query begins, and kept in the offsets of its checkpoint.

These tests are Spark: they call the planner as Spark's driver does. A process that is started anew is a planner that is made anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from streamactors.broker import Cluster
from streamactors.kafka import Admin, ConsumerSettings
from streamactors.spark.errors import CheckpointError
from streamactors.spark.executors import offsets as places
from streamactors.spark.executors.offsets import Offsets, positions
from streamactors.spark.executors.planner import Planner
from streamactors.spark.kafka_format import reading


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def fill(cluster: Cluster, topic: str, records: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(60) == 0


def grow(cluster: Cluster, topic: str, partitions: int) -> None:
    with Admin(ConsumerSettings(cluster.bootstrap_servers)) as admin:
        admin.grow(topic, partitions)


def started(cluster: Cluster, topic: str, **options: str) -> Planner:
    """Return the planner of a process that has just started."""
    reading._planner.cache_clear()
    return reading.planner_of({"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic, **options})


def as_logged(offsets: Offsets) -> Offsets:
    """Return offsets as Spark reads them from its log."""
    return json.loads(json.dumps(offsets))  # type: ignore[no-any-return]


def slices(planner: Planner, start: Offsets, end: Offsets) -> list[tuple[int, int, int]]:
    return [(r.key.partition, r.start.position, r.end.position) for r in planner.ranges(start, end)]


def test_a_first_batch_that_is_repeated_begins_where_the_query_began(cluster: Cluster) -> None:
    # 100 records | the query begins at the latest offset | 100 records: batch 0 | killed before commits/0 | 100 records
    # Spark keeps no start of batch 0 and asks initialOffset again: 300 to 200 was read as an empty range, and batch 1 began at 200
    cluster.create_topic("again", 1)
    fill(cluster, "again", 100)
    first = started(cluster, "again")
    start = first.initial()
    fill(cluster, "again", 100)
    end = as_logged(first.latest(start))
    assert slices(first, start, end) == [(0, 100, 200)]

    fill(cluster, "again", 100)
    second = started(cluster, "again")
    assert slices(second, second.initial(), end) == [(0, 100, 200)]
    assert slices(second, end, second.latest(end)) == [(0, 200, 300)]


def test_a_partition_that_comes_while_the_query_is_stopped_begins_at_its_first_record(cluster: Cluster) -> None:
    cluster.create_topic("grows", 1)
    fill(cluster, "grows", 10)
    first = started(cluster, "grows")
    begun = first.initial()
    grow(cluster, "grows", 2)
    fill(cluster, "grows", 7, partition=1)

    second = started(cluster, "grows")
    second.prepare_available_now()
    end = second.latest(as_logged(begun))
    assert slices(second, begun, end) == [(1, 0, 7)]
    assert second.latest(end) == end


def test_starting_offsets_for_each_partition_count_only_where_a_query_begins(cluster: Cluster) -> None:
    # "option startingOffsets lacks listed-1" ended each further run of the same code when the topic had grown
    cluster.create_topic("listed", 1)
    fill(cluster, "listed", 10)
    at = {"startingoffsets": '{"listed": {"0": 4}}'}
    first = started(cluster, "listed", **at)
    start = first.initial()
    end = as_logged(first.latest(start))
    assert slices(first, start, end) == [(0, 4, 10)]
    grow(cluster, "listed", 2)
    fill(cluster, "listed", 3, partition=1)

    second = started(cluster, "listed", **at)
    second.prepare_available_now()
    assert slices(second, end, second.latest(end)) == [(1, 0, 3)]
    with pytest.raises(Exception, match="option startingOffsets lacks listed-1"):
        second.initial()  # a query that begins now


def without_first(offsets: Offsets) -> Offsets:
    """Return offsets as an older version wrote them."""
    return {name: value for name, value in offsets.items() if name != places.FIRST}


def test_a_checkpoint_of_an_older_version_goes_on(cluster: Cluster) -> None:
    cluster.create_topic("older", 1)
    fill(cluster, "older", 10)
    earliest = {"startingoffsets": "earliest"}
    first = started(cluster, "older", **earliest)
    end = without_first(first.latest(first.initial()))
    grow(cluster, "older", 2)
    fill(cluster, "older", 5)
    fill(cluster, "older", 3, partition=1)

    again = started(cluster, "older", **earliest)
    assert slices(again, again.initial(), end) == [(0, 0, 10)]
    again.prepare_available_now()
    following: Any = again.latest(end)
    assert slices(again, end, following) == [(0, 10, 15), (1, 0, 3)]
    assert places.FIRST not in following

    latest = started(cluster, "older")  # what the older version read as an empty range
    with pytest.raises(
        CheckpointError, match="older-0: the checkpoint's batch ends at 10, and the query would begin it at 15"
    ):
        latest.ranges(latest.initial(), end)


def test_a_batch_that_is_repeated_has_the_tasks_that_it_had_whatever_the_options_say_now(cluster: Cluster) -> None:
    # A writer's task finds by its number that its rows are written: other tasks would lose rows, or write them twice.
    cluster.create_topic("cut", 1)
    fill(cluster, "cut", 9)
    first = started(cluster, "cut", startingoffsets="earliest", minpartitions="3")
    start = first.initial()
    end = as_logged(first.latest(start))
    assert slices(first, start, end) == [(0, 0, 3), (0, 3, 6), (0, 6, 9)]

    second = started(cluster, "cut", startingoffsets="earliest")
    assert slices(second, start, end) == [(0, 0, 3), (0, 3, 6), (0, 6, 9)]
    fill(cluster, "cut", 4)
    assert slices(second, end, second.latest(end)) == [(0, 9, 13)]


@pytest.mark.expects_log("no topic matches fruit-.* at")
def test_a_stream_of_a_pattern_reads_topics_that_come_later_from_their_first_record(cluster: Cluster) -> None:
    def planner() -> Planner:
        reading._planner.cache_clear()
        return reading.planner_of(
            {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribepattern": "fruit-.*"}
        )

    begun = planner()
    start = begun.initial()
    assert positions(start) == {}
    cluster.create_topic("fruit-apples", 1)
    cluster.create_topic("no-fruit-apples", 1)
    fill(cluster, "fruit-apples", 5)
    begun.prepare_available_now()
    end = as_logged(begun.latest(start))
    assert positions(end) == {"0/fruit-apples-0": 5}
    assert slices(begun, start, end) == [(0, 0, 5)]

    cluster.create_topic("fruit-pears", 1)
    fill(cluster, "fruit-pears", 3)
    again = planner()
    again.prepare_available_now()
    assert positions(again.latest(end)) == {"0/fruit-apples-0": 5, "0/fruit-pears-0": 3}
