"""Starts members of every kind of group beside a run, and judges what they saw."""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.faults.kinds.group_history import Acknowledged, Delivered, GroupEvent, Owned, check_groups
from tests.faults.kinds.owner import ConsumerOwner, StreamsOwner
from tests.faults.kinds.sharer import DELIVERIES, Sharer, configure
from tests.faults.kinds.transactor import Transactor, ledgers
from tests.faults.workload import TOPIC, Body, Run, close
from tests.history import Event, Outcome, Poll, Repositioned, Send, Transaction, Value

CONFIG = {
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 3_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.assignment.interval.ms": 100,
    "group.share.min.session.timeout.ms": 1_000,
    "group.share.session.timeout.ms": 3_000,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 300,
    "group.share.assignment.interval.ms": 100,
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.streams.min.session.timeout.ms": 1_000,
    "group.streams.session.timeout.ms": 3_000,
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.streams.heartbeat.interval.ms": 300,
    "group.streams.assignment.interval.ms": 100,
    "group.streams.initial.rebalance.delay.ms": 0,
    "share.coordinator.state.topic.num.partitions": 2,
    "share.coordinator.snapshot.update.records.per.snapshot": 50,
}
MEMBERS, TRANSACTORS = 3, 2
STUCK_S = 60.0
"""How long no member gets anything new before the groups are taken for stuck."""


def _commit_the_beginning(run: Run, group: str) -> None:
    """Commit offset 0 of each partition, before the group has members.

    Without it librdkafka 2.16 asks the leaders where its partitions begin. If the answer comes after a rebalance has paused the partition, its
    timer asks again, and the answer takes the member back to offset 0 without a callback."""
    admin = AdminClient({"bootstrap.servers": run.bootstrap_servers})
    beginning = [TopicPartition(TOPIC, each, 0) for each in range(run.partitions)]
    (committed,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, beginning)]).values()
    assert not [each.error for each in committed.result(30).topic_partitions if each.error]


class AllKinds:
    """What the members of one run saw."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._seen: dict[str, list[GroupEvent]] = {}
        self.transactors = [f"transactor-{n}" for n in range(TRANSACTORS)]
        configure(run)
        _commit_the_beginning(run, "modern")

    def producers(self) -> dict[str, Body]:
        """Return the bodies of the threads that end with the producers of the run."""
        return {name: self._of(Transactor) for name in self.transactors}

    def consumers(self) -> dict[str, Body]:
        """Return the bodies of the threads that end when the run finishes."""
        found: dict[str, Body] = {}
        for kind, maker in (("owner", ConsumerOwner), ("streams", StreamsOwner), ("sharer", Sharer)):
            found |= {f"{kind}-{n}": self._of(maker) for n in range(MEMBERS)}
        return found | {f"modern-{n}": self._modern for n in range(2)}

    def _of(self, maker: Any) -> Body:
        def body(name: str, dice: random.Random, events: list[Event]) -> None:
            maker(self._run, name, dice, events, self._seen.setdefault(name, [])).work()

        return body

    def _modern(self, name: str, _dice: random.Random, events: list[Event]) -> None:
        """Be a member of a consumer group with librdkafka."""
        consumer: Consumer = self._run._consumer("modern", by_broker=True)

        def moved(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            events.append(Repositioned(name, frozenset((TOPIC, p.partition) for p in partitions)))

        consumer.subscribe([TOPIC], on_assign=moved, on_revoke=moved, on_lost=moved)
        while not self._run.finish.is_set():
            self._run._breathe(name)
            self._run._poll_one(name, consumer, events)
        close(name, consumer)

    # -- the end -------------------------------------------------------------------------------------------------------

    def await_drained(self) -> None:
        """Wait until every group has had every acknowledged value, for as long as they get on. `judge` says what is missing."""
        least, give_up = sys.maxsize, 0.0
        while not self._run.finish.wait(0.5):
            left = sum(len(values) for values in self._missing().values())
            if left < least:
                least, give_up = left, time.monotonic() + STUCK_S
            if not left or time.monotonic() > give_up:
                return

    def _missing(self) -> dict[str, set[Value]]:
        """Return the acknowledged values that did not come through each kind of group."""
        wanted = self._acknowledged()
        missing = {"sharer": wanted - self._through_share_group()}
        for kind in ("owner", "streams", "modern"):
            missing[kind] = wanted - {
                read.value
                for name, events in self._run.histories.copy().items()
                if name.startswith(f"{kind}-")
                for event in list(events)
                if isinstance(event, Poll)
                for read in event.reads
            }
        return missing

    def _acknowledged(self) -> set[Value]:
        return {
            write.value
            for event in self._run.history
            if isinstance(event, Send | Transaction) and event.outcome is Outcome.OK
            for write in event.writes
        }

    def _through_share_group(self) -> set[Value]:
        """Return the values that were delivered and acknowledged, or delivered as often as may be."""
        events = self.seen
        done = {(each.partition, each.offset) for each in events if isinstance(each, Acknowledged) and each.done}
        return {
            each.value
            for each in events
            if isinstance(each, Delivered) and ((each.partition, each.offset) in done or each.count >= DELIVERIES)
        }

    @property
    def seen(self) -> list[GroupEvent]:
        return [event for events in list(self._seen.values()) for event in list(events)]

    def judge(self) -> list[str]:
        """Return what is wrong."""
        final = self._run.histories["final"]
        visible = {read.value for event in final if isinstance(event, Poll) for read in event.reads}
        wrong = [
            str(each)
            for each in check_groups(self.seen, visible, ledgers(self._run.bootstrap_servers, self.transactors))
        ]
        refused = {
            write.value
            for event in self._run.history
            if isinstance(event, Transaction) and event.outcome is Outcome.FAIL
            for write in event.writes
        }
        shared = {each.value for each in self.seen if isinstance(each, Delivered)}
        wrong += [
            f"sharer: {each} was delivered, and its transaction was aborted"
            for each in sorted(shared & refused, key=str)
        ]
        return wrong + [
            f"{kind}: {len(values)} acknowledged values are not through, such as {sorted(values, key=str)[:5]}"
            for kind, values in self._missing().items()
            if values
        ]

    def __str__(self) -> str:
        counted = {
            kind: sum(isinstance(each, of) for each in self.seen)
            for kind, of in (("owned", Owned), ("shared", Delivered), ("acknowledged", Acknowledged))
        }
        return ", ".join(f"{kind} {number}" for kind, number in counted.items())
