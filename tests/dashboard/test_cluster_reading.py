"""A cluster on the page, against what independent clients and the operating system say of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka as ck
import confluent_kafka.admin as ck_admin
import pytest

from streamactors.broker import Cluster
from streamactors.dashboard.serving import Dashboard, serve

COUNT = 500


def wait_for(page: Dashboard, holds: Callable[[dict[str, Any]], object], seconds: float = 60.0) -> dict[str, Any]:
    """Return the first broker's state for which `holds` is true."""
    deadline = time.monotonic() + seconds
    while True:
        broker: dict[str, Any] = page.state()["broker"]
        if broker and holds(broker):
            return broker
        assert time.monotonic() < deadline, broker
        time.sleep(0.1)


def produce(cluster: Cluster, topic: str, **more: Any) -> ck.Producer:
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers, **more})
    for n in range(COUNT):
        producer.produce(topic, b"x" * 100, partition=n % 2)
    assert not producer.flush(30)
    return producer


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("process", [False, True])
def test_what_only_the_broker_knows_is_there_for_a_cluster_of_this_process(process: bool) -> None:
    with Cluster(process=process, dashboard=True) as cluster:
        cluster.create_topic("flights", 2)
        page = cluster.dashboard
        wait_for(page, lambda broker: broker["nodes"][0]["requests"])
        producer = produce(cluster, "flights")
        consumer = ck.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
        consumer.subscribe(["flights"])
        deadline = time.monotonic() + 30
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(0.1)
        apis: set[str] = set()

        def seen(broker: dict[str, Any]) -> bool:
            (node,) = broker["nodes"]
            apis.update(each["api"] for each in node["requests"])
            topics = {each["name"]: each for each in broker["topics"]}
            parked = (node["fetch_purgatory"] or 0) > 0
            joined = any(each["id"] == "g" and each["members"] == 1 for each in broker["groups"])
            works = {"Produce", "Fetch", "JoinGroup"} <= apis and bool(topics.get("flights", {}).get("bytes"))
            return parked and joined and works

        consumer.poll(0.1)
        broker = wait_for(page, seen)
        files = [os.path.join(folder, name) for folder, _, names in os.walk(cluster.data_folder) for name in names]
        size = sum(os.path.getsize(file) for file in files if "/flights-" in file and file.endswith(".log"))
        space = os.statvfs(cluster.data_folder)
        consumer.close()
        del producer
    (node,) = broker["nodes"]
    assert node["controller"]
    assert node["connections"] >= 2
    assert {each["name"]: each["bytes"] for each in broker["topics"]}["flights"] == size
    (disk,) = node["disks"]
    assert disk["bytes"] >= size
    assert disk["total_bytes"] == space.f_blocks * space.f_frsize
    assert abs(disk["free_bytes"] - space.f_bavail * space.f_frsize) < 2 << 30
    for each in node["requests"]:
        assert 0 <= each["ms_p50"] <= each["ms_p99"] <= each["ms_max"] * 1.001
        assert each["per_s"] > 0
    groups = {each["id"]: each for each in broker["groups"]}
    assert (groups["g"]["kind"], groups["g"]["members"]) == ("classic", 1)


@pytest.mark.timeout(120)
def test_a_cluster_that_others_have_started_is_shown_as_far_as_any_client_may_see_it() -> None:
    with Cluster() as cluster:
        cluster.create_topic("flights", 2)
        produce(cluster, "flights")
        open_one = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "mine"})
        open_one.init_transactions(20)
        open_one.begin_transaction()
        open_one.produce("flights", b"y", partition=0)
        open_one.flush(20)
        with serve(broker={"bootstrap.servers": cluster.bootstrap_servers}) as page:
            broker = wait_for(page, lambda broker: broker["transactions"])
        open_one.abort_transaction(20)
        admin = ck_admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        described = admin.describe_cluster(request_timeout=10).result(10)
    (node,) = broker["nodes"]
    assert node["requests"] == []
    assert node["connections"] is None
    assert node["address"] == f"{described.nodes[0].host}:{described.nodes[0].port}"
    assert broker["cluster"] == described.cluster_id
    assert broker["controller"] == node["id"] == described.nodes[0].id
    assert node["disk_bytes"] == sum(disk["bytes"] for disk in node["disks"]) > COUNT * 100
    (transaction,) = broker["transactions"]
    assert (transaction["id"], transaction["state"]) == ("mine", "Ongoing")
    assert 0 <= transaction["age_ms"] < 60_000


@pytest.mark.timeout(120)
def test_quotas_and_the_clients_that_they_slow_down_are_shown() -> None:
    with Cluster(dashboard=True) as cluster:
        cluster.create_topic("flights", 2)
        from streamactors.kafka.client.cluster_requests import ClusterRequests

        with ClusterRequests(cluster.bootstrap_servers) as wire:
            entity = [{"entity_type": "client-id", "entity_name": "greedy"}]
            quota = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 2_000.0, "remove": False}]}
            answer = wire.call(wire.brokers()[0], 49, 0, {"entries": [quota], "validate_only": False})
            assert not answer.entries[0].error_code
        wait_for(cluster.dashboard, lambda broker: broker["quotas"])
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "greedy", "linger.ms": 0})
        for n in range(600):
            producer.produce("flights", b"x" * 300, partition=n % 2)
        producer.poll(0)
        broker = wait_for(cluster.dashboard, lambda broker: broker["nodes"][0]["throttled"])
        producer.purge()
        producer.flush(10)
    assert [(each["entity"], each["key"], each["value"]) for each in broker["quotas"]] == [
        ("client-id greedy", "producer_byte_rate", 2_000.0)
    ]
    assert broker["nodes"][0]["throttled"] == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.expects_log("the page shows no newer broker")
def test_a_cluster_that_is_gone_is_said_on_the_page_which_keeps_the_last_figures() -> None:
    cluster = Cluster().start()
    try:
        cluster.create_topic("flights", 2)
        page = serve(broker={"bootstrap.servers": cluster.bootstrap_servers})
        wait_for(page, lambda broker: broker["topics"])
    finally:
        cluster.close()
    with page:
        deadline = time.monotonic() + 60
        said: list[str] = []
        while not said and time.monotonic() < deadline:
            time.sleep(0.2)
            said = [each["sentence"] for each in page.state()["banners"] if each["kind"] == "page"]
        assert any("cannot be read" in text for text in said), page.state()["banners"]
        assert page.state()["broker"]["topics"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.expects_log("is fenced: its process has ended")
def test_changes_of_the_isr_the_controller_and_a_node_that_is_gone_are_shown() -> None:
    with Cluster(brokers=3, dashboard=True) as cluster:
        cluster.create_topic("flights", 1)
        cluster.await_isr("flights", 0)
        page = cluster.dashboard

        def answered(broker: dict[str, Any]) -> bool:
            # nodes answer on their own: one that has not heard of the controller yet may be the first
            return broker["controller"] is not None and sum(n["connections"] is not None for n in broker["nodes"]) == 3

        before = wait_for(page, answered)
        assert before["controller"] == cluster.controller()
        victim = next(node for node in (1, 2, 3) if node not in (cluster.controller(), cluster.leader("flights")))
        cluster.kill(victim)
        after = wait_for(page, lambda broker: [c for c in broker["isr_changes"] if c["topic"] == "flights"])
        (change,) = [each for each in after["isr_changes"] if each["topic"] == "flights"]
        assert set(change["before"]) - set(change["after"]) == {victim}
        said = [each["sentence"] for each in page.state()["banners"]]
        assert any("fewer replicas in sync" in text for text in said), said
