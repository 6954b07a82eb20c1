"""Copies a topic to another, exactly once: consume, produce and commit the offsets in one transaction. To be killed at any moment.

Run as `python -m tests.faults.copy_worker BOOTSTRAP NAME`; it ends when its standard input is closed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

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


class Positions:
    """The next offset of each assigned partition, counted by this program.

    Seen once, and not explained: two calls of `consume` of librdkafka 2.16 returned offsets 0 to 19 of one assignment, without a rebalance between them, after
    the broker had died under an earlier assignment. A copier that believed the consumer's position wrote the records twice. What the broker answered was
    not recorded; test_history_of_the_broker looks for a broker that returns records twice."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Begin at the committed offsets."""
        self._next.clear()
        consumer.assign(self._committed(consumer, partitions))

    def next_ones(self, messages: Sequence[Message]) -> list[Message]:
        """Return the records that follow those before them. The source has no gaps."""
        found = []
        for message in messages:
            if message.error() is None and self._next.get(message.partition()) == message.offset():
                self._next[message.partition()] += 1
                found.append(message)
        return found

    def after(self, messages: Sequence[Message]) -> list[TopicPartition]:
        """Return the positions after these records."""
        return [TopicPartition(SOURCE, each, self._next[each]) for each in {m.partition() for m in messages}]

    def rewind(self, consumer: Consumer) -> None:
        """Go back to what is committed: what was read since has been undone."""
        for place in self._committed(consumer, consumer.assignment()):
            consumer.seek(place)

    def _committed(self, consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        found = consumer.committed(partitions, 10) if partitions else []
        for place in found:
            place.offset = self._next[place.partition] = max(place.offset, 0)
        return found


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
    positions = Positions()
    consumer.subscribe([SOURCE], on_assign=positions.assigned)
    while not stop.is_set():
        messages = positions.next_ones(consumer.consume(20, 0.1))
        if not messages:
            continue
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(TARGET, message.value(), partition=message.partition())
            producer.send_offsets_to_transaction(positions.after(messages), consumer.consumer_group_metadata(), 5)
            commit(producer)
        except KafkaException as error:
            if error.args[0].fatal():
                return
            producer.abort_transaction(10)
            positions.rewind(consumer)
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
