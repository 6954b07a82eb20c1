"""A member of a consumer group (KIP-848) or of a streams group (KIP-1071), by single requests.

It reads its partitions with a consumer of librdkafka that assigns to itself, and commits with its member epoch. Now and then it leaves, or vanishes."""

from __future__ import annotations

import random
import time
import uuid
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, ClassVar

from confluent_kafka import Consumer, TopicPartition

from tests.faults.kinds.group_history import Began, Committed, GroupEvent, Owned
from tests.faults.kinds.wires import ELSEWHERE, GROUP, E, Lost, Wires
from tests.faults.workload import TOPIC, Run, close
from tests.history import Event, Poll, Read, Repositioned

FENCED = frozenset({E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.UNRELEASED_INSTANCE_ID, E.GROUP_ID_NOT_FOUND})
BEAT_S = 0.3
LEAVES = -1


class Rejoin(Exception):
    """The coordinator does not know the member any more."""


class Owner(ABC):
    """One member after the other, under one name."""

    group: ClassVar[str]

    def __init__(self, run: Run, name: str, dice: random.Random, events: list[Event], seen: list[GroupEvent]) -> None:
        self._run = run
        self._name = name
        self._dice = dice
        self._events = events
        self._seen = seen
        self._wires = Wires(run.bootstrap_servers, name)
        self._consumer: Consumer = run._consumer(name, **{"enable.auto.commit": False})
        self._member = ""
        self._epoch = 0
        self._owned: set[int] = set()
        self._waiting: set[int] = set()
        """What of it has no position yet."""
        self._positions: dict[int, int] = {}
        self._beat_at = self._commit_at = 0.0
        self._wrong: list[str] = []

    @abstractmethod
    def _ask(self, epoch: int) -> Any:
        """Send a heartbeat to the coordinator; return its answer."""

    @abstractmethod
    def _given(self, answer: Any) -> set[int] | None:
        """Return the partitions that the answer names, None if it names none."""

    def work(self) -> None:
        """Be a member until the run finishes."""
        while not self._run.finish.is_set():
            self._member, self._epoch = str(uuid.uuid4()), 0
            self._beat_at = 0.0
            lives_until = time.monotonic() + self._dice.uniform(3.0, 30.0)
            leaves = self._dice.random() < 0.6
            while not self._run.finish.is_set() and time.monotonic() < lives_until:
                self._run._breathe(self._name)
                try:
                    self._step()
                except Lost:
                    self._run.finish.wait(0.1)
                except Rejoin:
                    self._lose(self._owned)
                    self._epoch, self._beat_at = 0, 0.0
            if leaves:
                with suppress(Lost, Rejoin):
                    self._commit(self._owned)
                    self._ask(LEAVES)
            self._lose(self._owned)
        close(self._name, self._consumer)
        self._wires.close()

    def _step(self) -> None:
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat()
            self._beat_at = now + BEAT_S
        if self._waiting:
            self._begin()
        message = self._consumer.poll(0.05)
        if message is not None and message.error() is None and message.partition() in self._positions:
            read = Read((TOPIC, message.partition()), message.offset(), int(message.value()))
            self._events.append(Poll(self._name, (read,)))
            self._positions[message.partition()] = message.offset() + 1
        if now >= self._commit_at:
            self._commit(self._owned)
            self._commit_at = now + 0.4

    def _beat(self) -> None:
        answer = self._ask(self._epoch)
        if answer.error_code in FENCED:
            raise Rejoin
        if answer.error_code in ELSEWHERE:
            self._wires.moved(GROUP, self.group)
            raise Lost(str(answer.error_code))
        if answer.error_code:
            raise AssertionError(f"{self._name}: {answer}")
        self._epoch = answer.member_epoch
        given = self._given(answer)
        if given is not None:
            gone = self._owned - given
            if gone:
                with suppress(Lost):
                    self._commit(gone)
                self._lose(gone)
            for each in given - self._owned:
                self._seen.append(Owned(self._member, self.group, (TOPIC, each), self._epoch))
            self._waiting |= given - self._owned
            self._owned = set(given)
            if gone:
                self._beat_at = 0.0

    def _lose(self, gone: set[int]) -> None:
        """Read no more from these partitions."""
        reading = [TopicPartition(TOPIC, each) for each in gone if each in self._positions]
        if reading:
            self._consumer.incremental_unassign(reading)
        for each in gone:
            self._positions.pop(each, None)
        self._waiting = self._waiting - gone
        self._owned = self._owned - gone

    def _begin(self) -> None:
        """Ask where the partitions begin, and read from there."""
        asked = time.monotonic()
        topics = [{"name": TOPIC, "partition_indexes": sorted(self._waiting)}]
        group = {"group_id": self.group, "member_id": self._member, "member_epoch": self._epoch, "topics": topics}
        answer = self._wires.coordinated(GROUP, self.group, 9, 9, {"groups": [group], "require_stable": True})
        (found,) = answer.groups
        self._judge(found.error_code)
        for each in (part for topic in found.topics for part in topic.partitions):
            if each.error_code:
                continue
            offset = max(each.committed_offset, 0)
            self._seen.append(Began(self._member, self.group, (TOPIC, each.partition_index), offset, asked))
            self._events.append(Repositioned(self._name, frozenset({(TOPIC, each.partition_index)})))
            self._consumer.incremental_assign([TopicPartition(TOPIC, each.partition_index, offset)])
            self._positions[each.partition_index] = offset
            self._waiting.discard(each.partition_index)

    def _judge(self, error: int) -> None:
        if error in FENCED:
            raise Rejoin
        if error in ELSEWHERE:
            self._wires.moved(GROUP, self.group)
        if error:
            raise Lost(str(error))  # such as STALE_MEMBER_EPOCH: the next heartbeat says what to do

    def _commit(self, partitions: set[int]) -> None:
        moved = {each: self._positions[each] for each in partitions if self._positions.get(each)}
        if not moved:
            return
        asked = time.monotonic()
        named = [{"partition_index": each, "committed_offset": offset, "committed_leader_epoch": -1,
                  "committed_metadata": ""} for each, offset in moved.items()]  # fmt: skip
        body = {
            "group_id": self.group, "generation_id_or_member_epoch": self._epoch, "member_id": self._member,
            "group_instance_id": None, "topics": [{"name": TOPIC, "partitions": named}],
        }  # fmt: skip
        codes: dict[int, int | None] = dict.fromkeys(moved)
        try:
            answer = self._wires.coordinated(GROUP, self.group, 8, 9, body)
            codes = {each.partition_index: each.error_code for topic in answer.topics for each in topic.partitions}
        finally:
            answered = time.monotonic()
            for each, code in codes.items():
                if code in (None, E.NONE) or code in ELSEWHERE:
                    at = answered if code == E.NONE else None
                    place = (TOPIC, each)
                    self._seen.append(Committed(self._member, self.group, place, self._epoch, moved[each], asked, at))
        for code in codes.values():
            self._judge(code or 0)


class ConsumerOwner(Owner):
    """A member of a consumer group."""

    group = "owners"

    def _ask(self, epoch: int) -> Any:
        topic_id, _ = self._wires.leaders(TOPIC) if not hasattr(self, "_topic_id") else (self._topic_id, None)
        self._topic_id = topic_id
        owned = [{"topic_id": topic_id, "partitions": sorted(self._owned)}] if self._owned else []
        body = {
            "group_id": self.group, "member_id": self._member, "member_epoch": epoch, "instance_id": None,
            "rack_id": None, "rebalance_timeout_ms": 10_000, "subscribed_topic_names": [TOPIC],
            "subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": owned,
        }  # fmt: skip
        return self._wires.coordinated(GROUP, self.group, 68, 1, body)

    def _given(self, answer: Any) -> set[int] | None:
        if answer.assignment is None:
            return None
        return {part for topic in answer.assignment.topic_partitions for part in topic.partitions}


class StreamsOwner(Owner):
    """A member of a streams group: one subtopology that reads the topic and has a changelog."""

    group = "streaming"
    _TOPOLOGY: ClassVar = {
        "epoch": 1,
        "subtopologies": [
            {
                "subtopology_id": "0",
                "source_topics": [TOPIC],
                "source_topic_regex": [],
                "state_changelog_topics": [
                    {"name": f"{group}-store-changelog", "partitions": 0, "replication_factor": 0,
                     "topic_configs": [{"key": "cleanup.policy", "value": "compact"}]}
                ],
                "repartition_sink_topics": [],
                "repartition_source_topics": [],
                "copartition_groups": [],
            }
        ],
    }  # fmt: skip

    def _ask(self, epoch: int) -> Any:
        joins = epoch == 0
        tasks = [{"subtopology_id": "0", "partitions": sorted(self._owned)}] if self._owned else []
        body = {
            "group_id": self.group, "member_id": self._member, "member_epoch": epoch, "endpoint_information_epoch": 0,
            "instance_id": None, "rack_id": None, "rebalance_timeout_ms": 10_000 if joins else -1,
            "topology": self._TOPOLOGY if joins else None, "active_tasks": tasks, "standby_tasks": [], "warmup_tasks": [],
            "process_id": f"process of {self._name}" if joins else None, "user_endpoint": None,
            "client_tags": [] if joins else None, "task_offsets": None, "task_end_offsets": None,
            "shutdown_application": False,
        }  # fmt: skip
        return self._wires.coordinated(GROUP, self.group, 88, 1, body)

    def _given(self, answer: Any) -> set[int] | None:
        if answer.active_tasks is None:
            return None
        return {part for task in answer.active_tasks for part in task.partitions}
