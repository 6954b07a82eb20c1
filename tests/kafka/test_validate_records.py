"""validate and map_async over a topic: an invalid record is a dead letter with its origin, and its offset is committed when the letter is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions
from streamactors.kafka.client.admin import Admin


async def loaded(record: Any) -> Any:
    return json.loads(record.value)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "validate": lambda source, dead: source.validate(lambda record: json.loads(record.value), dead_letters=dead),
    "map_async": lambda source, dead: source.map_async(8, loaded, timeout="9s", dead_letters=dead),
    "map_async_partitioned_unordered": lambda source, dead: source.map_async_partitioned_unordered(
        8, lambda record: record.key, loaded, dead_letters=dead
    ),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_invalid_record_is_stored_with_its_origin_and_committed(actor_system: Any, operator: str) -> None:
    with Cluster() as cluster:
        for topic in ("orders", "orders-dead"):
            cluster.create_topic(topic, partitions=1)
        writing = ProducerSettings(cluster.bootstrap_servers)
        values = ['{"n": 1}', "broken", '{"n": 3}']
        records = Source.from_iterable(values).map(lambda value: ProducerRecord("orders", value, "anna"))
        records.run_with(Producer.plain_sink(writing), actor_system).result(timeout=30)
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
        source = Consumer.source(settings, Subscriptions.topics("orders"), until="end")
        valid = OPERATORS[operator](source, Producer.dead_letter_sink(writing, "orders-dead"))
        control, good = valid.to_mat(Sink.to_list(), Keep.both).run(actor_system)
        assert good.result(timeout=30) == [{"n": 1}, {"n": 3}]
        control.is_shutdown.result(timeout=30)
        with Admin(settings) as admin:
            (committed,) = admin.committed("g").values()
        assert committed == 3
        dead = Consumer.plain_source(settings, Subscriptions.topics("orders-dead"), until="end")
        (letter,) = dead.run_with(Sink.to_list(), actor_system).result(timeout=30)
        headers = dict(letter.headers)
        assert (letter.key, letter.value) == (b"anna", b"broken")
        assert headers["dead-letter.offset"] == b"1"
        assert headers["dead-letter.stage"] == operator.encode()
        assert headers["dead-letter.error"].startswith(b"JSONDecodeError")


def test_the_error_of_a_record_that_is_not_json_names_the_source_and_the_record(actor_system: Any) -> None:
    # "in stage map … (…/json/decoder.py:353)", and the user had written no map
    with Cluster() as cluster:
        cluster.create_topic("orders", partitions=1)
        written = Source.single(ProducerRecord("orders", "{no json"))
        written.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers)), actor_system).result(30)
        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
        orders = Consumer.records(settings, Subscriptions.topics("orders"), value="json", until="end")
        with pytest.raises(json.JSONDecodeError) as failed:
            orders.run_with(Sink.to_list(), actor_system).result(timeout=30)
        assert failed.value.__notes__ == [
            "in stage Consumer.records, element ConsumerRecord(orders-0@0, key=None, value=b'{no json')"
        ]
