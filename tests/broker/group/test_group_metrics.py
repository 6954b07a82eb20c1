"""Lag per group and partition in /metrics."""

from __future__ import annotations

import urllib.request

from confluent_kafka import Consumer, Producer, TopicPartition

from streamactors.broker import Cluster
from streamactors.broker.cluster.reserved_ports import free_port


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
        assert 'streamactors_group_lag{group="g",partition="0",topic="t"} 3.0' in lines
        assert 'streamactors_group_lag{group="g",partition="1",topic="t"} 0.0' in lines
        assert 'streamactors_group_committed_offset{group="g",partition="0",topic="t"} 2.0' in lines
        assert 'streamactors_groups{state="Empty"} 1.0' in lines
        assert "streamactors_open_transactions 0.0" in lines
