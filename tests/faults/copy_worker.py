"""Copies a topic to another, exactly once: consume, produce and commit the offsets in one transaction. To be killed at any moment.

Run as `python -m tests.faults.copy_worker BOOTSTRAP NAME`; it ends when its standard input is closed."""

from __future__ import annotations

import sys
import threading

from confluent_kafka import Consumer, KafkaException, Producer

SOURCE, TARGET, GROUP = "in", "out", "copiers"
QUIET = {
    "log_level": 0,
    "error_cb": lambda error: None,
    "reconnect.backoff.max.ms": 500,
    # When every broker is down, librdkafka 2.16 by default begins again with the bootstrap servers and takes its broker handles
    # away. A TxnOffsetCommit that is then on its way to the handle it had looked up is never sent, and
    # send_offsets_to_transaction never returns, whatever its time limit.
    "metadata.recovery.strategy": "none",
}


def copy(bootstrap_servers: str, name: str, stop: threading.Event) -> None:
    """Copy until told to stop or until the producer is fenced."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 2_000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 50,
            **QUIET,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": 3_000,
            "message.timeout.ms": 3_000,
            **QUIET,
        }
    )
    producer.init_transactions(30)
    consumer.subscribe([SOURCE])
    while not stop.is_set():
        messages = [m for m in consumer.consume(20, 0.1) if m.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(TARGET, message.value(), partition=message.partition())
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 5)
            commit(producer)
        except KafkaException as error:
            if error.args[0].fatal():
                return
            producer.abort_transaction(10)
            rewind(consumer)
    consumer.close()


def commit(producer: Producer) -> None:
    """Commit; repeat it while the only error is a missing answer."""
    while True:
        try:
            producer.commit_transaction(5)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def rewind(consumer: Consumer) -> None:
    """Go back to what is committed: what was read since has been undone."""
    assigned = consumer.assignment()
    for place in consumer.committed(assigned, 10) if assigned else []:
        place.offset = max(place.offset, 0)
        consumer.seek(place)


def main() -> None:
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    while not stop.is_set():
        try:
            copy(sys.argv[1], sys.argv[2], stop)
        except KafkaException as error:
            print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
