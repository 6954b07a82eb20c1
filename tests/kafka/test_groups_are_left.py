"""A member that ends leaves its group at once, whatever ends it: nobody waits for it until its session times out."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer as BareConsumer

from streamactors import ActorSystem, Keep, KillSwitches, Sink
from streamactors.kafka import Admin, Consumer, Subscriptions

SESSION_MS = 60_000


@pytest.fixture
def members(settings):
    """Return the client ids of the group's members, as the coordinator knows them."""

    def look():
        with Admin(settings) as admin:
            return sorted(member.client_id for member in admin.describe_group(settings.group_id).members)

    return look


@pytest.fixture
def first(settings, wait_for):
    """Start the first member of the group, which has the client id "first"; return it, with a function that polls it until a condition is met."""
    made = []

    def start(topic, assignor, heartbeat_ms=300):
        consumer = BareConsumer(
            {
                "bootstrap.servers": settings.bootstrap_servers,
                "group.id": settings.group_id,
                "client.id": "first",
                "partition.assignment.strategy": assignor,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": heartbeat_ms,
            }
        )
        consumer.subscribe([topic], on_assign=lambda *_: None, on_revoke=lambda *_: None)
        made.append(consumer)
        polled_until(lambda: consumer.assignment())
        return polled_until

    def polled_until(condition):
        wait_for(lambda: (made[0].poll(0), condition())[1])

    yield start
    made[0].close()


def of_group(settings, assignor, **more):
    properties = {
        "partition.assignment.strategy": assignor,
        "session.timeout.ms": SESSION_MS,
        "client.id": "second",
        **more,
    }
    for name, value in properties.items():
        settings = settings.with_property(name, value)
    return settings


def ended_by(how, control, switch, done, system):
    if how == "drain":
        control.drain_and_shutdown(done, timeout=30)
    elif how == "stop":
        control.stop()
    elif how == "shutdown":
        control.shutdown()
    elif how == "failure":
        switch.abort(ValueError("the stream's own"))
    elif how == "cancel":
        done.cancel()
    else:
        system.shutdown(10)
    control.is_shutdown.exception(30)


def started(settings, topic, system):
    source = Consumer.source(settings, Subscriptions.topics(topic))
    switched = source.via_mat(KillSwitches.single(), Keep.both)
    (control, switch), done = switched.to_mat(Sink.ignore(), Keep.both).run(system)
    return control, switch, done


@pytest.mark.expects_log("a stream has failed and nobody has read its result")
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("how", ["drain", "stop", "shutdown", "failure", "cancel", "system"])
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_member_leaves_with_partitions_and_without(settings, cluster, first, members, assignor, how, partitions):
    # A cooperative member without partitions sent no LeaveGroup: the next rebalance waited for it, with defaults 45 s.
    topic = f"left-{assignor}-{how}-{partitions}"
    settings = of_group(settings, assignor)
    cluster.create_topic(topic, partitions=partitions)
    polled_until = first(topic, assignor)
    with ActorSystem(how) as system:
        control, switch, done = started(settings, topic, system)
        polled_until(lambda: members() == ["first", "second"] and _is_stable(settings))
        polled_until(lambda: len(control.snapshot()["partitions"]) == partitions - 1)
        ended_by(how, control, switch, done, system)
        assert members() == ["first"]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_member_that_waits_in_a_rebalance_leaves(settings, cluster, first, members, system, wait_for, assignor):
    topic = f"rebalance-{assignor}"
    cluster.create_topic(topic)
    first(topic, assignor, heartbeat_ms=19_000)  # it hears of the rebalance when the test is over
    control, _, _ = started(of_group(settings, assignor), topic, system)
    wait_for(lambda: members() == ["first", "second"])
    control.shutdown().result(30)
    assert members() == ["first"]


def test_a_static_member_stays(settings, cluster, first, members, system):
    cluster.create_topic("static")
    polled_until = first("static", "cooperative-sticky")
    named = of_group(settings, "cooperative-sticky", **{"group.instance.id": "me"})
    control, _, done = started(named, "static", system)
    polled_until(lambda: members() == ["first", "second"] and _is_stable(settings))
    control.drain_and_shutdown(done, timeout=30)
    assert members() == ["first", "second"], "its place is kept until its session times out, as in Apache Kafka"


def _is_stable(settings):
    with Admin(settings) as admin:
        return admin.describe_group(settings.group_id).state.lower() == "stable"
