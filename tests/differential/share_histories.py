"""Random histories of members of a share group, single requests each, and what the broker answers.

The same history is sent to Apache Kafka and to this broker. Every request waits for its answer, so both see them in one order; locks last longer than a
history. What a fetch acquired, how often, which acknowledgement was refused and why, and what the share coordinator has stored must be the same."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from random import Random
from typing import Any

from streamactors.broker.errors import ErrorCode
from tests.broker.apis.share_member import ShareMember
from tests.broker.live_broker import batch, produce_body
from tests.broker.wire import WireClient

E = ErrorCode
MEMBERS = ("m1", "m2", "m3")
TOPIC = "shared"


class ServerFailed(Exception):
    """The broker answers that it does not know what went wrong. Apache Kafka does, for some acknowledgements of records below the start offset."""


@dataclass
class History:
    """One share partition on one broker, with its members. `told` are the answers, in order."""

    host: str
    port: int
    group: str
    random: Random
    told: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._client = self._connect()
        self._topic = self.group + "-topic"
        self._topic_id = self._create()
        self._begin()
        self._members = {name: self._member(name) for name in MEMBERS}
        self._held: dict[str, dict[int, int]] = {name: {} for name in MEMBERS}
        """What each member has acquired: the deliveries of each offset."""

    def _connect(self) -> WireClient:
        return WireClient(self.host, self.port)

    def _member(self, name: str) -> ShareMember:
        return ShareMember(self._connect(), self._topic_id, name, self.group)

    def _create(self) -> uuid.UUID:
        topic = {"name": self._topic, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        answer = self._client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
        assert answer.topics[0].error_code == E.NONE, answer
        found = answer.topics[0].topic_id
        assert isinstance(found, uuid.UUID)
        return found

    def _begin(self) -> None:
        partition = {"partition": 0, "state_epoch": 1, "start_offset": 0}
        asked = {"group_id": self.group, "topics": [{"topic_id": self._topic_id, "partitions": [partition]}]}
        key = f"{self.group}:AAAAAAAAAAAAAAAAAAAAAA:0"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            (found,) = self._client.call(10, 6, {"key_type": 2, "coordinator_keys": [key]}).coordinators
            if not found.error_code and not self._client.call(83, 0, asked).results[0].partitions[0].error_code:
                return
            time.sleep(0.1)
        raise AssertionError(f"{self.group} cannot be begun")

    # --- steps ---

    def run(self, steps: int) -> list[Any]:
        """Run a history and return what the broker told."""
        self._produce()
        self._first_fetch()
        for _ in range(steps):
            draw = self.random.random()
            name = self.random.choice(MEMBERS)
            if draw < 0.15:
                self._produce()
            elif draw < 0.5:
                self._fetch(name)
            elif draw < 0.92:
                self._acknowledge(name)
            else:
                self._close(name)
            self._summary()
        return self.told

    def _produce(self) -> None:
        values = [b"%d" % each for each in range(self.random.randint(1, 7))]
        answer = self._client.call(0, 9, produce_body(batch(*values, timestamp=1), self._topic))
        assert answer.responses[0].partition_responses[0].error_code == E.NONE

    def _first_fetch(self) -> None:
        """Both brokers load the share partition in their own time."""
        acquired = self._members["m1"].take(wait_ms=1_000)
        self._hold("m1", acquired)
        self.told.append(("first", acquired))

    def _fetch(self, name: str) -> None:
        strict, most = self.random.random() < 0.4, self.random.randint(1, 12)
        size = self.random.randint(1, 6)
        answer = self._members[name].fetch(max_records=most, strict=strict, batch_size=size)
        parts = ShareMember.parts(answer)
        acquired = [
            (each.first_offset, each.last_offset, each.delivery_count)
            for part in parts
            for each in part.acquired_records
        ]
        self._hold(name, acquired)
        errors = [(part.error_code, part.error_message) for part in parts if part.error_code]
        self.told.append(
            (name, "fetch", strict, most, answer.error_code, errors, acquired, len(ShareMember.values(answer)))
        )

    def _hold(self, name: str, acquired: list[tuple[int, int, int]]) -> None:
        self._held[name] |= {at: count for first, last, count in acquired for at in range(first, last + 1)}

    def _acknowledge(self, name: str) -> None:
        held = sorted(self._held[name])
        if held and self.random.random() < 0.9:
            first = last = self.random.choice(held)
            while last + 1 in held and self.random.random() < 0.8:
                last += 1
        else:
            first = self.random.randint(0, 40)
            last = first + self.random.randint(0, 3)
        kinds = [1, 1, 2, 2, 2, 3, 0]
        types = [self.random.choice(kinds)]
        if self.random.random() < 0.4:
            types = [self.random.choice(kinds) for _ in range(first, last + 1)]
        wrong = self.random.random() < 0.05
        ack = {"first_offset": first, "last_offset": last, "acknowledge_types": [7] if wrong else types}
        member = self._members[name]
        if member.epoch == 0:
            self.told.append((name, "no session"))
            return
        answer = member.fetch(acks={0: [ack]}, max_records=0)
        if answer.error_code == E.UNKNOWN_SERVER_ERROR:
            raise ServerFailed
        (part,) = ShareMember.parts(answer)
        if not part.acknowledge_error_code:
            for at in range(first, last + 1):
                self._held[name].pop(at, None)
        message = None if part.acknowledge_error_code == E.INVALID_REQUEST else part.acknowledge_error_message
        self.told.append((name, "acknowledge", ack, answer.error_code, part.acknowledge_error_code, message))

    def _close(self, name: str) -> None:
        member = self._members[name]
        others = [each for each in self._members.values() if each is not member and each.epoch > 0]
        if member.epoch == 0 or not others:
            return  # without a session of the group the broker forgets the share partition, and loads it again in its own time
        member.close()
        self._members[name] = self._member(name)
        self._await_release(self._held[name])
        self._held[name] = {}
        self.told.append((name, "closed"))

    def _await_release(self, held: dict[int, int]) -> None:
        """Wait until what a closed session had is released: no answer says so."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            _, _, start, batches = self._stored()
            counts = {at: count for first, last, _, count in batches for at in range(first, last + 1)}
            if all(at < start or counts.get(at, 0) >= count for at, count in held.items()):
                time.sleep(1)  # Apache Kafka's leader hears of it from the share coordinator, a moment later
                return
            time.sleep(0.05)
        raise AssertionError(f"{self.group}: {held} is not released: {self._stored()}")

    def _stored(self) -> Any:
        asked = {
            "group_id": self.group,
            "topics": [{"topic_id": self._topic_id, "partitions": [{"partition": 0, "leader_epoch": 0}]}],
        }
        (part,) = self._client.call(84, 0, asked).results[0].partitions
        batches = [
            (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in part.state_batches
        ]
        return part.error_code, part.state_epoch, part.start_offset, batches

    def _summary(self) -> None:
        self.told.append(("stored", self._stored()))

    def end(self) -> None:
        """Close the connections."""
        for client in (self._client, *(each.client for each in self._members.values())):
            client.close()


def history(address: str, group: str, seed: int, steps: int) -> list[Any]:
    """Run one history on a broker."""
    host, _, port = address.partition(":")
    run = History(host, int(port), group, Random(seed))
    try:
        return run.run(steps)
    except ServerFailed:
        return [*run.told, "server failed"]
    finally:
        run.end()
