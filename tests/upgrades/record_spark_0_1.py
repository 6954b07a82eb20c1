"""Records what a query of 0.1.0 leaves on disk: the broker's folder of its topic, the checkpoint, and the table that it has written.

Run it as `record_0_1.py`, then pack `broker`, `checkpoint` and `table` into 0.1.0-spark.tar.gz."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

from streamactors import Keep, Source
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions
from streamactors.kafka.client.admin import Admin
from streamactors.spark import SparkSink, spark_session


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    servers = f"127.0.0.1:{port}"
    settings = ["--set", "offsets.topic.num.partitions=1", "--set", "transaction.state.log.num.partitions=1"]
    command = [sys.executable, "-m", "streamactors", "broker", "--data", "broker", "--listen", servers, *settings]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert broker.stdout is not None
    broker.stdout.readline()
    Admin(ProducerSettings(servers)).create("flights", 1)
    flights = [ProducerRecord("flights", b"%d" % number, b"JFK") for number in range(3)]
    Source.from_iterable(flights).run_with(Producer.plain_sink(ProducerSettings(servers))).result(30)
    query = (
        Consumer.source(ConsumerSettings(servers, "to-spark", "earliest"), Subscriptions.topics("flights"), until="end")
        .map(lambda record: (record.key.decode(), int(record.value)))
        .to_mat(SparkSink.parquet(spark_session(), "table", "origin string, flight long", "checkpoint"), Keep.right)
        .run()
    )
    query.await_termination(300)
    broker.send_signal(signal.SIGTERM)
    assert broker.wait(30) == 0


if __name__ == "__main__":
    main()
