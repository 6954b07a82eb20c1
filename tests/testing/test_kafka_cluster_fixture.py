"""The fixture `kafka_cluster`: shared by a module, whole again for each test."""

from __future__ import annotations

import pytest

from streamactors.broker import Cluster

seen: list[str] = []


@pytest.mark.kafka_cluster(2)
@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_finds_the_same_cluster_whole(kafka_cluster: Cluster, turn: int) -> None:
    seen.append(kafka_cluster.cluster_id)
    assert len(set(seen)) == 1
    assert set(kafka_cluster.pids) == {1, 2}
    kafka_cluster.create_topic("of-this-test")
    kafka_cluster.await_isr("of-this-test", 0, {1, 2})
    kafka_cluster.kill(2)
