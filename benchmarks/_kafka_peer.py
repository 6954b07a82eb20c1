"""One read through another Python framework, as its own documentation writes it: NAME BOOTSTRAP TOPIC COUNT.

Runs in that framework's own environment, so it imports nothing of this project. Prints the seconds of CPU and the seconds it took, imports
aside; both from the first connection to the last record."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import tempfile
import time
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
        broker_address=servers, consumer_group=f"quix-{topic}-{os.getpid()}", auto_offset_reset="earliest"
    )
    frame = application.dataframe(application.topic(topic, value_deserializer="bytes"))
    frame = frame.apply(lambda value: len(value)).filter(lambda size: size % 2 == 0)
    application.run(frame, count=n)


def faust(servers: str, topic: str, n: int) -> None:
    """A worker with one agent."""
    import faust

    with tempfile.TemporaryDirectory() as folder:
        app = faust.App(
            f"faust-reads-{os.getpid()}",
            broker=f"aiokafka://{servers}",
            value_serializer="raw",
            topic_partitions=1,
            topic_replication_factor=1,
            web_enabled=False,
            consumer_auto_offset_reset="earliest",
            datadir=folder,
        )

        async def read(stream: Any) -> None:
            seen = count = 0
            async for value in stream:
                if len(value) % 2 == 0:
                    count += 1
                seen += 1
                if seen == n:
                    assert count == n
                    tell()
                    os._exit(0)  # a worker that is stopped in order tidies up for seconds

        app.agent(app.topic(topic, value_type=bytes, value_serializer="raw"))(read)
        sys.argv = ["faust-reads", "worker", "--loglevel", "error", "--without-web"]
        app.main()


STARTED = [0.0, 0.0]


def tell() -> None:
    """Print the seconds of CPU and the seconds since the start."""
    print(
        json.dumps([time.process_time() - STARTED[0], time.perf_counter() - STARTED[1]]),
        file=sys.__stdout__,
        flush=True,
    )


if __name__ == "__main__":
    name, servers, topic, n = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    importlib.import_module(name)
    STARTED[:] = [time.process_time(), time.perf_counter()]
    globals()[name](servers, topic, n)
    tell()
