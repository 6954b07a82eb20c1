"""Downstream demand passes through Rx stages and pauses partitions; kill -9 commits nothing that was not processed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import TopicPartition

PARTITIONS = 8


@pytest.mark.parametrize("way", ["marks", pytest.param("offsets", marks=pytest.mark.slow)])
def test_a_slow_sink_pauses_partitions_and_a_kill_loses_nothing(cluster, topic_with, way):
    topic = topic_with(f"heart-{way}", [bytes(2_000)] * 16_000, PARTITIONS)
    child = Path(__file__).with_name("_heart.py")
    process = subprocess.Popen(
        [sys.executable, str(child), cluster.bootstrap_servers, topic, way], stdout=subprocess.PIPE, text=True
    )
    done, paused, held = set(), 0, 0
    try:
        for line in process.stdout:
            kind, *rest = line.split()
            if kind == "done":
                done.add((int(rest[0]), int(rest[1])))
            elif kind == "state":
                paused, held = max(paused, int(rest[0])), max(held, int(rest[1]))
            else:
                raise AssertionError(line)
            if len(done) > 1_500 and paused:
                break
    finally:
        process.kill()
        for line in process.stdout:  # what it had said before it was killed
            if line.startswith("done") and line.endswith("\n"):
                _, partition, offset = line.split()
                done.add((int(partition), int(offset)))
        process.stdout.close()
        process.wait(30)
    assert paused > 0, "the slow sink has paused partitions"
    assert held < 16 << 20, "what is buffered is bounded"
    consumer = BareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": way})
    committed = consumer.committed([TopicPartition(topic, i) for i in range(PARTITIONS)], timeout=10)
    consumer.close()
    assert sum(max(0, p.offset) for p in committed) > 0
    for p in committed:
        unprocessed = [offset for offset in range(max(0, p.offset)) if (p.partition, offset) not in done]
        assert not unprocessed, f"{topic}-{p.partition}: committed {p.offset} over {unprocessed[:5]}"
