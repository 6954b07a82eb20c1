"""The same read through other Python frameworks, each as its own documentation writes it; those that are installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any


def aiokafka(servers: str, topic: str, n: int) -> None:
    """AIOKafkaConsumer.getmany."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
        await consumer.start()
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        read = count = 0
        while read < n:
            for records in (await consumer.getmany(timeout_ms=1_000, max_records=500)).values():
                for record in records:
                    if len(record.value) % 2 == 0:
                        count += 1
                read += len(records)
        await consumer.stop()
        assert count == n

    asyncio.run(run())


def bytewax(servers: str, topic: str, n: int) -> None:
    """KafkaSource -> map -> filter -> a sink that counts."""
    import bytewax.operators as op
    from bytewax.connectors.kafka import KafkaSource
    from bytewax.dataflow import Dataflow
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import run_main

    class Counting(StatelessSinkPartition[Any]):
        count = 0

        def write_batch(self, items: list[Any]) -> None:
            Counting.count += len(items)

    class Count(DynamicSink[Any]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Counting:
            return Counting()

    flow = Dataflow("read")
    stream = op.input("in", flow, KafkaSource([servers], [topic], tail=False, batch_size=500))
    sizes = op.map("size", stream, lambda message: len(message.value))
    op.output("out", op.filter("even", sizes, lambda size: size % 2 == 0), Count())
    run_main(flow, epoch_interval=timedelta(seconds=10))
    assert Counting.count == n


def quixstreams(servers: str, topic: str, n: int) -> None:
    """Application -> dataframe -> apply, filter."""
    from quixstreams import Application

    application = Application(
        broker_address=servers, consumer_group=f"quix-{topic}-{id(object())}", auto_offset_reset="earliest"
    )
    frame = application.dataframe(application.topic(topic, value_deserializer="bytes"))
    frame = frame.apply(lambda value: len(value)).filter(lambda size: size % 2 == 0)
    application.run(frame, count=n)


def installed() -> list[tuple[str, Callable[[str, str, int], None]]]:
    """Return the peers that can be imported, by name."""
    import importlib.util

    every = (("aiokafka", aiokafka), ("bytewax", bytewax), ("quixstreams", quixstreams))
    return [(name, run) for name, run in every if importlib.util.find_spec(name) is not None]
