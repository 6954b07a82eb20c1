"""The planner of a query, without Spark: it plans batches of a real topic, and refuses a checkpoint of something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from streamactors.broker import Cluster
from streamactors.kafka import Admin, ConsumerSettings, Subscriptions
from streamactors.kafka.reading.assignment.start_positions import StartPositions
from streamactors.spark.errors import CheckpointError
from streamactors.spark.executors.folders import LocalFolder
from streamactors.spark.executors.offsets import positions
from streamactors.spark.executors.planner import Planner, Plans
from streamactors.spark.executors.ranges import At
from streamactors.spark.executors.runner import named
from streamactors.spark.executors.states import States, fresh
from streamactors.spark.query.source_identity import SourceIdentity
from tests.kafka.test_shared_consumer import fill


def planner_of(cluster: Cluster, topic: str, *, begin: str = "earliest", **windows: Any) -> Planner:
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id=topic, auto_offset_reset=begin)
    where = StartPositions(settings, Subscriptions.topics(topic), False, lambda _: None)
    plans = Plans(
        settings=settings,
        subscription=Subscriptions.topics(topic),
        first=named(where.initial()),
        ends=None,
        commits=False,
        windows="state_folder" in windows,
        idle_after_ms=windows.get("idle_after_ms"),
        state_folder=windows.get("state_folder", ""),
        max_rows=1_000,
        target_ms=10_000,
        skip_lost=False,
        topics=(topic,),
        source=None if windows else SourceIdentity(where.label, where.identity()),
    )
    return Planner(plans)


def grow(cluster: Cluster, topic: str, each: int) -> None:
    """Give a topic a second partition with records of its own."""
    with Admin(ConsumerSettings(cluster.bootstrap_servers)) as admin:
        admin.grow(topic, 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(each):
        producer.produce(topic, b"%d" % number, partition=1)
    assert producer.flush(60) == 0


def test_a_query_of_what_is_there_now_reads_partitions_that_were_added(cluster: Cluster) -> None:
    fill(cluster, "grown", 1, 10)
    begun = planner_of(cluster, "grown")
    begun.prepare_available_now()
    first = begun.latest(begun.initial())
    grow(cluster, "grown", 7)

    begun.prepare_available_now()
    second = begun.latest(first)
    assert positions(second) == {"0/grown-0": 10, "0/grown-1": 7}
    assert [(each.key.partition, each.start.position, each.end.position) for each in begun.ranges(first, second)] == [
        (1, 0, 7)
    ]
    assert begun.latest(second) == second


def test_a_frame_that_is_made_anew_reads_a_partition_that_came_while_its_query_was_stopped(cluster: Cluster) -> None:
    # the driver asks for the latest offsets again, and its frame began the new partition there
    fill(cluster, "stopped", 1, 10)
    begun = planner_of(cluster, "stopped", begin="latest").initial()
    grow(cluster, "stopped", 7)

    again = planner_of(cluster, "stopped", begin="latest")
    again.prepare_available_now()
    end = again.latest(begun)
    assert [(each.key.partition, each.start.position, each.end.position) for each in again.ranges(begun, end)] == [
        (1, 0, 7)
    ]


def test_a_bounded_run_with_windows_says_that_its_topic_has_grown_since_the_checkpoint(
    cluster: Cluster, tmp_path: Path
) -> None:
    # the ends of the run had the new partition, the checkpoint's beginning had not: "the checkpoint has …, where the query has not begun"
    fill(cluster, "windows-grown", 1, 10)
    begun = planner_of(cluster, "windows-grown", state_folder=str(tmp_path))
    grow(cluster, "windows-grown", 7)
    ends = {"0/windows-grown-0": 10, "0/windows-grown-1": 7}
    again = Planner(replace(begun._plans, ends=ends))
    with pytest.raises(CheckpointError, match="topic windows-grown has grown by windows-grown-1, and keys would move"):
        again.latest(again.initial())


def test_a_checkpoint_of_another_topic_or_of_a_topic_made_again_is_refused(cluster: Cluster) -> None:
    for topic in ("mine", "other"):
        fill(cluster, topic, 1, 5)
    kept = planner_of(cluster, "mine").initial()
    another = planner_of(cluster, "other")
    with pytest.raises(
        CheckpointError, match="was written for topic mine, and this frame reads topic other; give the query"
    ):
        another.latest(kept)
    with pytest.raises(CheckpointError, match="was written for topic mine, and this frame reads topic other"):
        another.ranges(kept, kept)
    with pytest.raises(CheckpointError, match="was written for another kind of source"):
        another.latest(positions(kept))

    cluster.delete_topic("mine")
    fill(cluster, "mine", 1, 5)
    with pytest.raises(CheckpointError, match="was written for topic mine with id of topic mine"):
        planner_of(cluster, "mine").latest(kept)


def test_the_source_stays_in_the_offsets(cluster: Cluster) -> None:
    fill(cluster, "stays", 1, 5)
    planner = planner_of(cluster, "stays")
    assert planner.latest(planner.initial())["_source"] == planner.initial()["_source"]


def test_a_silent_partition_closes_its_windows_while_another_partition_has_records(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic = "half-silent"
    cluster.create_topic(topic, 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})

    def write(partition: int) -> None:
        producer.produce(topic, b"1", partition=partition)
        assert producer.flush(30) == 0

    write(1)
    planner = planner_of(cluster, topic, state_folder=str(tmp_path), idle_after_ms=1)
    states = States(LocalFolder(tmp_path))
    start = planner.latest(planner.initial())
    assert positions(start) == {"0/half-silent-0": 0, "0/half-silent-1": 1}
    states.write(
        "half-silent-1", At(0), At(1), [], fresh(), due_ms=5
    )  # a window of partition 1 closes after 5 ms of silence
    for _ in range(500):
        write(0)
        end = planner.latest(start)
        silent = [each for each in planner.ranges(start, end) if each.key.partition == 1]
        if silent:
            break
        start = end
    assert [(str(each.start), each.end.position) for each in silent] == [("1", 1)]
    assert silent[0].idle_ms >= 4
    assert positions(end)["0/half-silent-0"] > 0
