"""Random histories of calls on two transactional producers, one with the other's transactional id or not, and on readers of what they wrote."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import confluent_kafka as ck

READER = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0}
WRITER = {"linger.ms": 1, "log_level": 0, "transaction.timeout.ms": 60_000}
WAIT_S = 20.0
Step = tuple[Any, ...]


def history(seed: int, steps: int = 16) -> list[Step]:
    """Return the steps of a seed: the name of a method of `Player`, and its arguments."""
    dice = random.Random(seed)
    made: list[Step] = [("init", 0)]
    for _ in range(steps):
        who = dice.choice([0, 0, 0, 1])
        made.append(
            dice.choice(
                [
                    ("init", who),
                    ("begin", who),
                    ("begin", who),
                    ("produce", who, dice.randrange(2), dice.randint(1, 3)),
                    ("produce", who, dice.randrange(2), dice.randint(1, 3)),
                    ("produce", who, dice.randrange(2), dice.randint(1, 3)),
                    ("flush", who),
                    ("offsets", who, dice.randrange(2), dice.randint(0, 9)),
                    ("commit", who),
                    ("commit", who),
                    ("abort", who),
                    ("refused", who),
                    ("committed",),
                    ("ends",),
                ]
            )
        )
    return [*made, ("abort", 0), ("abort", 1), ("read", "read_committed"), ("read", "read_uncommitted"), ("committed",)]


class Player:
    """Plays the steps of one history on one side."""

    def __init__(self, side: Any, tag: str) -> None:
        self._topic, self._group = f"x-{tag}", f"x-{tag}"
        side.create({self._topic: 2}, {})
        self._side = side
        same = random.Random(tag).random() < 0.6
        ids = [f"id-{tag}", f"id-{tag}" if same else f"other-{tag}"]
        self._producers = [side.producer({**WRITER, "transactional.id": each}) for each in ids]
        (self._reader,) = side.readers({**READER, "isolation.level": "read_uncommitted"})[:1]
        self._sent = 0
        self._fenced: set[Any] = set()

    def close(self) -> None:
        self._producers = []

    def play(self, steps: list[Step]) -> list[Any]:
        return [(step, self._outcome(getattr(self, step[0]), step[1:])) for step in steps]

    def _outcome(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if arguments and arguments[0] in self._fenced:
            return "fenced"
        try:
            return call(*arguments)
        except ck.KafkaException as error:
            cause = error.args[0]
            if cause.fatal():
                self._fenced.add(arguments[0])  # librdkafka answers _FENCED, _FATAL or _CONFLICT from now on
            return cause.name(), cause.fatal(), cause.txn_requires_abort()

    def init(self, who: int) -> None:
        self._producers[who].init_transactions(WAIT_S)

    def begin(self, who: int) -> None:
        self._producers[who].begin_transaction()

    def produce(self, who: int, partition: int, count: int) -> Any:
        for _ in range(count):
            self._sent += 1
            self._producers[who].produce(self._topic, b"%d" % self._sent, partition=partition)
        return self.flush(who)  # so that both sides know what an abort drops

    def flush(self, who: int) -> Any:
        return self._producers[who].flush(WAIT_S)

    def offsets(self, who: int, partition: int, offset: int) -> None:
        told = [ck.TopicPartition(self._topic, partition, offset)]
        group = self._side.group_of(self._group)
        self._producers[who].send_offsets_to_transaction(told, group, WAIT_S)

    def refused(self, who: int) -> None:
        self._producers[who].produce(self._topic, b"x" * 2_000_000, partition=0)

    def commit(self, who: int) -> None:
        self._producers[who].commit_transaction(WAIT_S)

    def abort(self, who: int) -> None:
        self._producers[who].abort_transaction(WAIT_S)

    def committed(self) -> Any:
        reader = self._side.member_of(self._group, READER)
        found = reader.committed([ck.TopicPartition(self._topic, each) for each in range(2)], timeout=2.0)
        return [(each.partition, each.offset) for each in found]

    def ends(self) -> Any:
        return [
            self._reader.get_watermark_offsets(ck.TopicPartition(self._topic, each), timeout=WAIT_S)
            for each in range(2)
        ]

    def read(self, isolation: str) -> Any:
        reader = self._side.consumer({**READER, "group.id": "r", "isolation.level": isolation})
        reader.poll(0.2)  # the markers of the last transaction arrive
        reader.assign([ck.TopicPartition(self._topic, each, 0) for each in range(2)])
        ends, found = set(), []
        while len(ends) < 2:
            message = reader.poll(WAIT_S)
            assert message is not None
            if message.error() is None:
                found.append((message.partition(), message.offset(), message.value()))
            else:
                ends.add(message.partition())
        reader.close()
        return sorted(found)
