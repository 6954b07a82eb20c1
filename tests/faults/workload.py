"""Several clients of a Kafka cluster at once, recording a history for `tests.history.check`.

Producers, transactional producers, a group of consumers and consumers that assign to themselves, each in a thread. Everybody goes
on through errors for as long as the run lasts; a nemesis does what it likes to the broker meanwhile."""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.history import Event, Outcome, Partition, Poll, Read, Repositioned, Send, Transaction, Write

TOPIC = "history"
Body = Callable[[str, random.Random, list[Event]], None]
"""What a client does in its thread."""
RESETS: list[str] = []
"""What librdkafka's consumers have said of positions that they gave up: a reset shows a log that went back."""


class _Resets(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if "offset reset" in line:
            RESETS.append(f"{time.strftime('%H:%M:%S')} {line}")


_log = logging.getLogger("tests.faults.clients")
_log.propagate = False
_log.addHandler(_Resets(logging.WARNING))
QUIET = {"log_level": 4, "logger": _log, "error_cb": lambda error: None}

CLOSE_S = 60.0


def close(name: str, consumer: Consumer) -> None:
    """Close a consumer, whose history is complete. Seen once: librdkafka 2.16 waited for itself in `close` for ten minutes, without an open request."""
    closing = threading.Thread(target=consumer.close, name=f"close of {name}", daemon=True)
    closing.start()
    closing.join(CLOSE_S)
    if closing.is_alive():
        print(f"{name}: librdkafka has not closed the consumer within {CLOSE_S:.0f} s; it is left alone", flush=True)


@dataclass
class Run:
    """One run of the workload."""

    bootstrap_servers: str
    seed: int = 0
    partitions: int = 3
    transaction_timeout_ms: int = 4_000
    idempotent: bool = True  # of the senders; transactional producers always are
    histories: dict[str, list[Event]] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stop = threading.Event()  # producers
        self.finish = threading.Event()  # consumers
        self.values = itertools.count(1)
        self.paused: dict[str, threading.Event] = {}

    @property
    def history(self) -> list[Event]:
        return [event for events in list(self.histories.values()) for event in events]

    def acknowledged(self) -> int:
        return sum(len(e.writes) for e in self.history if isinstance(e, Send | Transaction) and e.outcome is Outcome.OK)

    def go(
        self,
        seconds: float,
        *,
        senders: int = 2,
        transactional: int = 2,
        members: int = 2,
        assigned: int = 1,
        nemesis: Callable[[Run, threading.Event], None] | None = None,
        more_producers: Mapping[str, Body] | None = None,
        more_consumers: Mapping[str, Body] | None = None,
        drained: Callable[[], None] = lambda: None,
    ) -> list[Event]:
        """Run for so long, let everybody finish, read everything once more, wait until it is `drained`, and return the history."""
        producers = [self._thread(f"sender-{n}", self._sender) for n in range(senders)]
        producers += [self._thread(f"transactional-{n}", self._transactional) for n in range(transactional)]
        consumers = [self._thread(f"member-{n}", self._member) for n in range(members)]
        consumers += [self._thread(f"assigned-{n}", self._assigned) for n in range(assigned)]
        producers += [self._thread(name, body) for name, body in (more_producers or {}).items()]
        consumers += [self._thread(name, body) for name, body in (more_consumers or {}).items()]
        over = threading.Event()
        trouble = threading.Thread(target=self._guard(nemesis or (lambda *_: None)), args=(self, over))
        for thread in (*producers, *consumers, trouble):
            thread.start()
        self.stop.wait(seconds)
        over.set()
        trouble.join()
        self.stop.set()
        for thread in producers:
            thread.join()
        self._read_everything()
        drained()
        self.finish.set()
        for thread in consumers:
            thread.join()
        if self.failures:
            raise self.failures[0]
        return self.history

    def _thread(self, name: str, body: Body) -> threading.Thread:
        events = self.histories.setdefault(name, [])
        self.paused[name] = threading.Event()
        dice = random.Random(f"{self.seed} {name}")
        return threading.Thread(target=self._guard(body), args=(name, dice, events), name=name, daemon=True)

    def _guard(self, body: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: Any) -> None:
            try:
                body(*arguments)
            except BaseException as error:
                # confluent-kafka raises a fatal error in the midst of flush; where a delivery report follows it, Python makes a SystemError of it
                told = error.__cause__ if isinstance(error, SystemError) else None
                self.failures.append(told if isinstance(told, KafkaException) else error)
                self.stop.set()
                self.finish.set()

        return run

    def _breathe(self, name: str) -> None:
        """Stand still for as long as the nemesis wants this client to."""
        while self.paused[name].is_set() and not self.finish.is_set():
            self.stop.wait(0.05)

    def _partition(self, dice: random.Random) -> int:
        return dice.randrange(self.partitions)

    # -- producers -----------------------------------------------------------------------------------------------------

    def _producer(self, **settings: Any) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 60_000,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                **QUIET,
                **settings,
            }
        )

    def _sender(self, name: str, dice: random.Random, events: list[Event]) -> None:
        producer = self._producer(**{"enable.idempotence": self.idempotent})

        def delivered(error: Any, message: Any, value: int) -> None:
            where = (TOPIC, message.partition())
            if error is None:
                events.append(Send(name, Outcome.OK, (Write(where, value, message.offset()),)))
            else:
                events.append(Send(name, Outcome.UNKNOWN, (Write(where, value),)))

        while not self.stop.is_set():
            self._breathe(name)
            for _ in range(dice.randrange(1, 6)):
                value = next(self.values)
                producer.produce(
                    TOPIC,
                    str(value),
                    partition=self._partition(dice),
                    on_delivery=lambda error, message, value=value: delivered(error, message, value),
                )
            producer.poll(0.02)
        producer.flush(60)

    def _transactional(self, name: str, dice: random.Random, events: list[Event]) -> None:
        producer: Producer | None = None
        while not self.stop.is_set():
            self._breathe(name)
            if producer is None:
                producer = self._initialized(name)
                continue
            writes: dict[int, Write] = {}
            commit = dice.random() < 0.75
            outcome = self._run_transaction(producer, dice, writes, commit)
            events.append(Transaction(name, outcome, tuple(writes.values())))
            if outcome is Outcome.UNKNOWN:
                producer = None
        del producer

    def _initialized(self, name: str) -> Producer | None:
        producer = self._producer(
            **{
                "transactional.id": name,
                "transaction.timeout.ms": self.transaction_timeout_ms,
                "message.timeout.ms": self.transaction_timeout_ms,
                "linger.ms": 0,
            }
        )
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up and not self.stop.is_set():
            try:
                producer.init_transactions(5)
                return producer
            except KafkaException as error:
                if error.args[0].fatal():
                    return None
        return None

    def _run_transaction(
        self, producer: Producer, dice: random.Random, writes: dict[int, Write], commit: bool
    ) -> Outcome:
        def delivered(error: Any, message: Any, value: int) -> None:
            if error is None:
                writes[value] = Write((TOPIC, message.partition()), value, message.offset())

        try:
            producer.begin_transaction()
            for _ in range(dice.randrange(1, 6)):
                value, partition = next(self.values), self._partition(dice)
                writes[value] = Write((TOPIC, partition), value)
                producer.produce(
                    TOPIC,
                    str(value),
                    partition=partition,
                    on_delivery=lambda error, message, value=value: delivered(error, message, value),
                )
                producer.poll(0)
            if not commit:
                producer.flush(0.05 if dice.random() < 0.5 else 5)
                return self._abort(producer)
        except KafkaException:
            return self._abort(producer)
        try:
            return self._commit(producer)
        except KafkaException as error:
            # Only what says so has surely not been committed.
            if error.args[0].txn_requires_abort():
                return self._abort(producer)
            return Outcome.UNKNOWN

    def _commit(self, producer: Producer) -> Outcome:
        give_up = time.monotonic() + 40
        while True:
            try:
                producer.commit_transaction(5)
                return Outcome.OK
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > give_up:
                    raise

    def _abort(self, producer: Producer) -> Outcome:
        give_up = time.monotonic() + 40
        while True:
            try:
                producer.abort_transaction(5)
                return Outcome.FAIL
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > give_up:
                    return Outcome.UNKNOWN

    # -- consumers -----------------------------------------------------------------------------------------------------

    def _consumer(self, group: str, *, by_broker: bool = False, **settings: Any) -> Consumer:
        """Return a consumer. `by_broker`: with the group protocol whose assignments and times are the broker's."""
        classic = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300}
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **({"group.protocol": "consumer"} if by_broker else classic),
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "auto.commit.interval.ms": 200,
                "enable.partition.eof": False,
                **QUIET,
                **settings,
            }
        )

    def _poll(self, name: str, consumer: Consumer, events: list[Event]) -> None:
        messages = consumer.consume(50, 0.05)
        reads = tuple(Read((TOPIC, m.partition()), m.offset(), int(m.value())) for m in messages if m.error() is None)
        if reads:
            events.append(Poll(name, reads))

    def _poll_one(self, name: str, consumer: Consumer, events: list[Event]) -> None:
        """Read one record: a batch can begin with records from before a rebalance that is served in its middle, and noted before them."""
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            events.append(Poll(name, (Read((TOPIC, message.partition()), message.offset(), int(message.value())),)))

    def _member(self, name: str, dice: random.Random, events: list[Event]) -> None:
        strategy = "cooperative-sticky" if self.seed % 2 else "range"
        consumer = self._consumer("members", **{"partition.assignment.strategy": strategy})

        def moved(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            events.append(Repositioned(name, frozenset((TOPIC, p.partition) for p in partitions)))

        consumer.subscribe([TOPIC], on_assign=moved, on_revoke=moved, on_lost=moved)
        while not self.finish.is_set():
            self._breathe(name)
            self._poll_one(name, consumer, events)
        close(name, consumer)

    def _assigned(self, name: str, dice: random.Random, events: list[Event]) -> None:
        consumer = self._consumer(name)
        where = [TopicPartition(TOPIC, n, 0) for n in range(self.partitions)]
        events.append(Repositioned(name))
        consumer.assign(where)
        while not self.finish.is_set():
            self._breathe(name)
            self._poll(name, consumer, events)
            if dice.random() < 0.01:
                events.append(Repositioned(name))
                consumer.assign([TopicPartition(TOPIC, n, 0) for n in range(self.partitions)])
        close(name, consumer)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _read_everything(self) -> None:
        events = self.histories.setdefault("final", [])
        ends = self._stable_ends()
        consumer = self._consumer("final", **{"enable.partition.eof": True})
        consumer.assign([TopicPartition(TOPIC, n, 0) for n in range(self.partitions)])
        open_partitions = {partition for partition, end in ends.items() if end > 0}
        reads: list[Read] = []
        give_up = time.monotonic() + 60
        while open_partitions:
            assert time.monotonic() < give_up, f"the final reader stopped before the end of {open_partitions}"
            for message in consumer.consume(500, 0.2):
                if message.error() is not None:
                    if (
                        message.error().name() == "_PARTITION_EOF"
                        and message.offset() >= ends[TOPIC, message.partition()]
                    ):
                        open_partitions.discard((TOPIC, message.partition()))
                    continue
                reads.append(Read((TOPIC, message.partition()), message.offset(), int(message.value())))
        close("final", consumer)
        events.append(Poll("final", tuple(reads), final=True))
        # A partition that nothing was ever read from has been read to its end all the same.
        events.extend(Poll("final", (), final=True) for _ in ends)

    def _stable_ends(self) -> dict[Partition, int]:
        """Wait until no transaction is open any more; return where each partition ends."""
        from tests.broker.wire import WireClient

        host, port = self.bootstrap_servers.split(":")
        give_up = time.monotonic() + 60
        while True:
            assert time.monotonic() < give_up, "a transaction is open although all its producers have stopped"
            try:
                with WireClient(host, int(port)) as client:
                    by_isolation = [self._ends(client, isolation) for isolation in (0, 1)]
            except OSError:
                continue
            if by_isolation[0] == by_isolation[1]:
                return by_isolation[0]
            self.finish.wait(0.05)

    def _ends(self, client: Any, isolation: int) -> dict[Partition, int]:
        partitions = [
            {"partition_index": n, "timestamp": -1, "current_leader_epoch": -1} for n in range(self.partitions)
        ]
        body = {"replica_id": -1, "isolation_level": isolation, "topics": [{"name": TOPIC, "partitions": partitions}]}
        (topic,) = client.call(2, 5, body).topics
        return {(TOPIC, p.partition_index): p.offset for p in topic.partitions}
