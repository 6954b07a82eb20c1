"""The coordinators of a topic follow the metadata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.metadata.delta import apply_records
from streamactors.broker.metadata.metadata_record import PartitionChange
from streamactors.broker.metadata.topic_name import TRANSACTION_TOPIC
from tests.broker.live_broker import LiveBroker


def test_a_new_leader_epoch_under_the_same_leader_begins_with_a_new_coordinator(tmp_path: Path) -> None:
    # A marker carries the epoch of its coordinator: one with the old epoch would be refused as fenced.
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        while client.call(10, 2, {"key": "tx", "key_type": 1}).error_code:
            pass
        node = broker.node
        index = node.transactions._coordinators.index_of("tx")
        before = node.transactions._coordinators.coordinator_of("tx")
        image = node.metadata.image
        topic = image.topics[TRANSACTION_TOPIC]
        leader = topic.partitions[index].leader
        delta = apply_records(image, [PartitionChange(index, topic.topic_id, leader=leader)], image.offset + 1)
        broker.on_data_plane(lambda: node.metadata.publish(delta))
        after = node.transactions._coordinators.coordinator_of("tx")
        assert after is not None
        assert after is not before
        assert before is not None
        assert before.phase.name == "RESIGNED" or broker.on_data_plane(lambda: before.phase.name) == "RESIGNED"
        others = [each for each in image.topics[TRANSACTION_TOPIC].partitions if each.partition != index]
        assert len(list(node.transactions._coordinators.shards())) == len(others) + 1


def test_answers_are_gathered_in_order_and_one_that_comes_twice_counts_once() -> None:
    replies: list[Callable[..., object]] = []
    found: list[list[Any]] = []
    gather([replies.append, replies.append], found.append)
    replies[1]("b", 2)
    replies[1]("again")
    assert found == []
    replies[0]("a")
    replies[0]("again")
    assert found == [["a", ("b", 2)]]


def test_gathering_from_no_coordinator_answers_at_once() -> None:
    found: list[list[Any]] = []
    gather([], found.append)
    assert found == [[]]
