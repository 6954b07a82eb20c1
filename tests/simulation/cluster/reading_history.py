"""Random histories of calls on producers and on consumers of assigned partitions.

A history is made from a seed alone, and played on either side; `play` returns what every call returned, in terms that both sides share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka as ck

PRODUCER = {"enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 1}
CONSUMER = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "log_level": 0,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 1,
}
TIME = 1_690_000_000_000
WAIT_S = 20.0
PATIENCE_S = 30.0
Step = tuple[Any, ...]


def history(seed: int, steps: int = 14) -> list[Step]:
    """Return the steps of a seed: the name of a method of `Player`, and its arguments."""
    dice = random.Random(seed)
    made: list[Step] = [("produce", 0, dice.randint(1, 20), dice.random())]
    for _ in range(steps):
        partition = dice.randrange(3)
        offset = dice.randint(0, 25)
        reader = dice.randrange(2)
        made.append(
            dice.choice(
                [
                    ("produce", partition, dice.randint(1, 20), dice.random()),
                    ("produce", partition, dice.randint(1, 20), dice.random()),
                    ("produce_by_key", dice.randint(1, 12), dice.random()),
                    ("produce_refused", dice.choice(["large", "partition", "type"])),
                    (
                        "assign",
                        reader,
                        [(each, dice.choice([-2, -1, -1000, dice.randint(0, 12)])) for each in range(2)],
                    ),
                    ("assign_more", reader, 2, dice.choice([-2, offset])),
                    ("assign_less", reader, partition),
                    ("read", reader),
                    ("read", reader),
                    ("read", reader),
                    ("seek", reader, partition, dice.choice([offset, -2, 3])),
                    ("pause", reader, partition),
                    ("resume", reader, partition),
                    ("position", reader),
                    ("commit", reader, partition, offset),
                    ("commit_refused", reader),
                    ("committed", reader),
                    ("watermarks", reader, dice.choice([partition, 7])),
                    ("times", reader, partition, TIME + dice.randint(-5, 60) * 100),
                ]
            )
        )
    return [*made, ("read", 0), ("read", 1), ("committed", 0)]


class Player:
    """Plays the steps of one history on one side."""

    def __init__(self, side: Any, tag: str) -> None:
        self.topic = f"t-{tag}"
        side.create({self.topic: 3}, {})
        self._readers = side.readers(CONSUMER)
        self._assigned: list[set[int]] = [set(), set()]
        self._paused: list[set[int]] = [set(), set()]
        self._seen: list[set[int]] = [set(), set()]
        self._producer = side.writer(PRODUCER)
        self._sent = 0
        self._ends = [0, 0, 0]
        self._ended: list[dict[int, int]] = [{}, {}]  # the ends that each reader was told, since it began there

    def close(self) -> None:
        for reader in self._readers:
            reader.unassign()

    def play(self, steps: list[Step]) -> list[Any]:
        return [(step, self._outcome(getattr(self, step[0]), step[1:])) for step in steps]

    def _outcome(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            return call(*arguments)
        except ck.KafkaException as error:
            return f"KafkaException {error.args[0].name()}"
        except (TypeError, ValueError, BufferError) as error:
            return type(error).__name__

    # --- writing ---

    def _send(self, records: list[tuple[Any, ...]]) -> list[Any]:
        reports: list[Any] = []
        for value, key, partition, timestamp, headers in records:
            self._producer.produce(
                self.topic, value, key, partition, timestamp=timestamp, headers=headers,
                on_delivery=lambda error, message: reports.append(
                    (error and error.name(), message.partition(), message.offset(), message.value())
                ),
            )  # fmt: skip
        assert self._producer.flush(PATIENCE_S) == 0
        for error, partition, _, _ in reports:
            self._ends[partition] += error is None
        return sorted(reports, key=repr)

    def produce(self, partition: int, count: int, mood: float) -> Any:
        records = []
        for _ in range(count):
            self._sent += 1
            headers = [("h", b"1"), ("n", None)] if mood < 0.2 else None
            value = None if mood > 0.9 else b"v%d" % self._sent
            records.append((value, b"k%d" % (self._sent % 5), partition, TIME + self._sent * 100, headers))
        return self._send(records)

    def produce_by_key(self, count: int, mood: float) -> Any:
        return self._send([(b"x", b"%f-%d" % (mood, each), -1, TIME, None) for each in range(count)])

    def produce_refused(self, how: str) -> Any:
        value: Any = {"large": b"x" * 2_000_000, "partition": b"", "type": 5}[how]
        return self._send([(value, None, 9 if how == "partition" else 0, TIME, None)])

    # --- reading ---

    def _at(self, partition: int, offset: int = -1001) -> Any:
        return ck.TopicPartition(self.topic, partition, offset)

    def assign(self, reader: int, starts: list[tuple[int, int]]) -> None:
        self._readers[reader].assign([self._at(*each) for each in starts])
        self._assigned[reader] = {partition for partition, _ in starts}
        self._seen[reader] |= self._assigned[reader]
        self._ended[reader] = {}
        self.read(reader)  # librdkafka refuses to seek before the beginning is known

    def assign_more(self, reader: int, partition: int, offset: int) -> None:
        self._readers[reader].incremental_assign([self._at(partition, offset)])
        self._assigned[reader].add(partition)
        self._seen[reader].add(partition)
        self._ended[reader].pop(partition, None)
        self.read(reader)

    def assign_less(self, reader: int, partition: int) -> None:
        self._readers[reader].incremental_unassign([self._at(partition)])
        self._assigned[reader].discard(partition)

    def read(self, reader: int) -> Any:
        """Read to the end of every partition that is assigned and not paused."""
        wanted = self._assigned[reader] - self._paused[reader]
        ended = self._ended[reader]
        found: dict[int, list[Any]] = {}
        client = self._readers[reader]
        until_s = time.monotonic() + PATIENCE_S
        while any(ended.get(each) != self._ends[each] for each in wanted):
            assert time.monotonic() < until_s, (wanted, ended, self._ends, client.assignment(), found)
            for message in client.consume(100, 0) or [client.poll(0.5)]:
                if message is None or message.topic() != self.topic:
                    continue
                of_partition = found.setdefault(message.partition(), [])
                if message.error() is None:
                    of_partition.append(
                        (message.offset(), message.key(), message.value(), message.timestamp(), message.headers())
                    )
                elif message.error().code() == ck.KafkaError._PARTITION_EOF:
                    ended[message.partition()] = message.offset()
                else:
                    of_partition.append(message.error().name())
        return sorted((partition, records) for partition, records in found.items() if records)

    def seek(self, reader: int, partition: int, offset: int) -> Any:
        if offset > self._ends[partition]:
            return "beyond the end"  # records that are written soon after may come before librdkafka asks, or not
        try:
            self._readers[reader].seek(self._at(partition, offset))
        except ck.KafkaException as error:
            # librdkafka says the second as long as it knows nothing of the topic
            name = error.args[0].name()
            return "not read" if name in ("_STATE", "_UNKNOWN_PARTITION") else name
        self._ended[reader].pop(partition, None)
        return None

    def pause(self, reader: int, partition: int) -> None:
        if partition in self._seen[reader]:  # librdkafka knows another one only if it was asked for it before
            self._readers[reader].pause([self._at(partition)])
            self._paused[reader].add(partition)  # librdkafka keeps it over assignments

    def resume(self, reader: int, partition: int) -> None:
        self._readers[reader].resume([self._at(partition)])
        self._paused[reader].discard(partition)

    def position(self, reader: int) -> Any:
        """Return the positions of assigned partitions: librdkafka forgets that of another one a moment after it was taken away."""
        found = self._readers[reader].position([self._at(each) for each in sorted(self._assigned[reader])])
        return [(each.partition, each.offset) for each in found]

    # --- offsets ---

    def commit(self, reader: int, partition: int, offset: int) -> Any:
        told = [ck.TopicPartition(self.topic, partition, offset, f"m{offset}")]
        found = self._readers[reader].commit(offsets=told, asynchronous=False)
        return [(each.partition, each.offset, each.error) for each in found]

    def commit_refused(self, reader: int) -> Any:
        told = [ck.TopicPartition("no-such-topic", 0, 1), ck.TopicPartition("no-such-topic", 1, 1)]
        found = self._readers[reader].commit(offsets=told, asynchronous=False)
        return [(each.partition, each.offset, each.error and each.error.name()) for each in found]

    def committed(self, reader: int) -> Any:
        found = self._readers[reader].committed([self._at(each) for each in range(3)], timeout=WAIT_S)
        return [(each.partition, each.offset, each.metadata) for each in found]

    def watermarks(self, reader: int, partition: int) -> Any:
        return self._readers[reader].get_watermark_offsets(self._at(partition), timeout=WAIT_S)

    def times(self, reader: int, partition: int, time: int) -> Any:
        found = self._readers[reader].offsets_for_times([self._at(partition, time)], timeout=WAIT_S)
        return [(each.partition, each.offset) for each in found]
