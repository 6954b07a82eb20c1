"""Lag per group and partition in /metrics."""

from __future__ import annotations

import urllib.request

from confluent_kafka import Consumer, Producer, TopicPartition

from streamactors.broker import Cluster
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.broker.group.group_metrics import groups_by_state
from streamactors.broker.group.streams.streams_group import StreamsGroup, StreamsMember
from streamactors.kafka import Admin, ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition as Place


def test_lag_is_measured_per_group_and_partition() -> None:
    port = free_port()
    with Cluster(metrics_port=port) as cluster:
        cluster.create_topic("t", 2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(10):
            producer.produce("t", b"x", partition=number % 2)
        producer.flush(10)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("t", 0, 2), TopicPartition("t", 1, 5)], asynchronous=False)
        consumer.close()
        token = {"Authorization": f"Bearer {cluster.metrics_token}"}
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=token)
        ) as answer:
            lines = answer.read().decode().splitlines()
        assert 'streamactors_broker_group_lag{group="g",partition="0",topic="t"} 3.0' in lines
        assert 'streamactors_broker_group_lag{group="g",partition="1",topic="t"} 0.0' in lines
        assert 'streamactors_broker_group_committed_offset{group="g",partition="0",topic="t"} 2.0' in lines
        assert 'streamactors_broker_groups{state="Empty"} 1.0' in lines
        assert "streamactors_broker_open_transactions 0.0" in lines


def test_records_that_were_deleted_are_no_lag() -> None:
    """A group that has not run since counts what it can still read, not what retention has taken away."""
    port = free_port()
    with Cluster(metrics_port=port) as cluster:
        cluster.create_topic("t")
        settings = ConsumerSettings(cluster.bootstrap_servers)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for _ in range(10):
            producer.produce("t", b"x")
        producer.flush(10)
        with Admin(settings) as admin:
            admin.commit("g", {Place("t", 0): 2})
            admin.delete_records({Place("t", 0): 7})
        token = {"Authorization": f"Bearer {cluster.metrics_token}"}
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=token)
        with urllib.request.urlopen(asked) as answer:
            lines = answer.read().decode().splitlines()
        assert 'streamactors_broker_group_lag{group="g",partition="0",topic="t"} 3.0' in lines
        assert 'streamactors_broker_group_committed_offset{group="g",partition="0",topic="t"} 2.0' in lines


def test_every_state_of_a_group_of_any_kind_is_counted_also_without_groups() -> None:
    """A series that is there only while it is above 0 cannot be told from a broker that does not count it."""
    none = groups_by_state(())
    assert {"Empty", "Stable", "PreparingRebalance", "Assigning", "NotReady"} <= none.keys()
    assert not any(none.values())
    waiting = StreamsGroup("g", members={"m": StreamsMember("m")})
    assert groups_by_state([waiting]) == {**none, "NotReady": 1}
