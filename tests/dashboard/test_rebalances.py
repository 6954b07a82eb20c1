"""The line of rebalances and the transactions on the page, against what the tests themselves have caused and counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka as ck
import pytest

from streamactors import ActorSystem, Keep, Sink
from streamactors.broker import Cluster
from streamactors.dashboard.serving import Dashboard
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)


def wait_for(page: Dashboard, holds: Callable[[dict[str, Any]], object], seconds: float = 60.0) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while True:
        state = page.state()
        if holds(state):
            return state
        assert time.monotonic() < deadline, state["consumers"]
        time.sleep(0.1)


def _first(state: dict[str, Any]) -> dict[str, Any]:
    """Return the first partition of the first consumer, empty before there is one."""
    return next((each for consumer in state["consumers"] for each in consumer["partitions"]), {})


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_partitions_that_come_and_go_are_a_line_each_with_the_reason_and_how_long_it_took() -> None:
    with Cluster() as cluster, ActorSystem("rebalances") as system:
        cluster.create_topic("flights", 4)
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
        control = Consumer.source(settings, Subscriptions.topics("flights")).to(Sink.ignore()).run(system)
        with system.serve_dashboard() as page:
            wait_for(page, lambda state: state["consumers"] and len(state["consumers"][0]["partitions"]) == 4)
            other = ck.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
            other.subscribe(["flights"])
            deadline = time.monotonic() + 60
            while len(other.assignment()) < 2 and time.monotonic() < deadline:
                other.poll(0.1)
            taken = {f"flights-{each.partition}" for each in other.assignment()}
            state = wait_for(page, lambda state: len(state["consumers"][0]["partitions"]) == 2)
            other.close()
            wait_for(page, lambda state: len(state["consumers"][0]["partitions"]) == 4)
            last = page.state()["consumers"][0]["rebalances"]
            control.shutdown().result(30)
    line = state["consumers"][0]["rebalances"]
    assert line[0]["kind"] == "assigned"
    assert line[0]["why"] == "the consumer has joined its group"
    assert line[0]["count"] == 4
    assert {name for each in line if each["kind"] == "revoked" for name in each["partitions"]} >= taken
    assert all("a member has come or gone" in each["why"] for each in line[1:])
    have: set[str] = set()
    for each in last:
        have = have | set(each["partitions"]) if each["kind"] == "assigned" else have - set(each["partitions"])
        assert each["took_ms"] is not None
        assert 0 <= each["took_ms"] < 60_000
    assert have == {f"flights-{n}" for n in range(4)}, "the line adds up to what the consumer has"
    moments = [each["at_ms"] for each in last]
    assert moments == sorted(moments)
    assert abs(time.time() * 1000 - moments[-1]) < 120_000


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_transactions_are_counted_as_the_markers_in_the_topic_say() -> None:
    with Cluster() as cluster, ActorSystem("transactions") as system:
        cluster.create_topic("flights", 1)
        cluster.create_topic("copies", 1)
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
        written = ProducerSettings(cluster.bootstrap_servers, transactional_id="copy", commit_interval_ms=200)
        source = Transactional.source(settings, Subscriptions.topics("flights"))
        sink = Transactional.sink(written)
        control, done = (
            source.map(lambda record: ProducerRecord("copies", record.value)).to_mat(sink, Keep.both).run(system)
        )
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        with system.serve_dashboard() as page:
            for n in range(30):
                producer.produce("flights", str(n))
                producer.flush(10)
                time.sleep(0.1)
            state = wait_for(page, lambda state: _first(state).get("done") == 30)
        transactions = state["consumers"][0]["transactions"]
        control.drain_and_shutdown(done, 60)
        consumer = ck.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "x"})
        end = consumer.get_watermark_offsets(ck.TopicPartition("copies", 0), 10)[1]
        consumer.close()
    markers = end - 30  # every commit that wrote to the partition has put one after its records
    assert transactions["id"] == "copy"
    assert 0 < markers <= transactions["committed"] + 1, "cuts without records are committed, too, and leave no marker"
    assert (transactions["aborted"], transactions["written_again"]) == (0, 0)
    assert transactions["phase"] in ("writing", "asked", "settling", "committing")
    assert transactions["last_ms"] > 0
    assert [part.partition(": ")[2] for part in transactions["parts"]] in (["flowing"], ["asked"], ["stopped"])
