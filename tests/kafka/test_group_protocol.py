"""The group protocol of a consumer that its broker does not have."""

from __future__ import annotations

import pytest

from streamactors import ActorSystem, Keep, Sink
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
from streamactors.kafka.errors import ConsumerFailed
from tests.actors.eventually import eventually
from tests.broker.wire import WireClient


def without_consumer_groups(cluster: Cluster) -> None:
    """Lower the feature of consumer groups, as in a cluster that was upgraded and not raised."""
    host, port = cluster.bootstrap_servers.split(":")
    lower = {"feature": "group.version", "max_version_level": 0, "upgrade_type": 2}
    with WireClient(host, int(port)) as client:
        client.call(57, 1, {"timeout_ms": 10_000, "feature_updates": [lower], "validate_only": False})


@pytest.mark.expects_log("ConsumerGroupHeartbeat fatal error: Broker: API version not supported")
def test_a_broker_without_consumer_groups_says_so_and_the_way_out() -> None:
    with Cluster() as cluster, ActorSystem("old") as system:
        without_consumer_groups(cluster)
        cluster.create_topic("t")
        settings = ConsumerSettings(cluster.bootstrap_servers, "g", group_protocol="consumer")
        done = Consumer.source(settings, Subscriptions.topics("t")).run_with(Sink.ignore(), system)
        error = done.exception(30)
    assert isinstance(error, ConsumerFailed)
    assert "has no consumer groups: give group_protocol='classic', or raise the feature group.version" in str(error)


@pytest.mark.expects_log("ConsumerGroupHeartbeat fatal error: Broker: The group id does not exist")
def test_a_live_classic_group_that_the_cluster_does_not_convert_is_named_with_the_way_out() -> None:
    # librdkafka leaves out the broker's sentence, and "The group id does not exist" of a group with members tells nobody anything
    with (
        Cluster(config={"group.consumer.migration.policy": "disabled"}) as cluster,
        ActorSystem("classic") as system,
    ):
        cluster.create_topic("t")
        classic = ConsumerSettings(cluster.bootstrap_servers, "g")
        source = Consumer.source(classic, Subscriptions.topics("t"))
        control, done = source.to_mat(Sink.ignore(), Keep.both).run(system)
        eventually(lambda: control.snapshot()["partitions"], timeout_s=30)
        consumer = ConsumerSettings(cluster.bootstrap_servers, "g", group_protocol="consumer")
        refused = Consumer.source(consumer, Subscriptions.topics("t")).run_with(Sink.ignore(), system)
        error = refused.exception(30)
        control.drain_and_shutdown(done, timeout=30)
    assert isinstance(error, ConsumerFailed)
    assert "g is a group of another kind, and the cluster does not convert it while it has members" in str(error)
    assert "give group_protocol='classic', stop all its members first" in str(error)
