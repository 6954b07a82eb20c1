"""Random histories of a group: members join, leave, restart, read and commit; the group settles after each change.

Members with a group.instance.id are sorted by it, so each must get the same partitions on both sides. Others are sorted by random ids: then the sets of
partitions are compared, not who has which."""

from __future__ import annotations

import random
from typing import Any

import confluent_kafka as ck

PROTOCOLS: list[dict[str, Any]] = [
    {"partition.assignment.strategy": "range"},
    {"partition.assignment.strategy": "roundrobin"},
    {"partition.assignment.strategy": "cooperative-sticky"},
    {"group.protocol": "consumer"},
    {"group.protocol": "consumer", "group.remote.assignor": "range"},
]
BY_BROKER = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}
MEMBER = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "log_level": 0,
    "fetch.wait.max.ms": 10,
}
OF_MEMBER = {"heartbeat.interval.ms": 200, "session.timeout.ms": 10_000}
TOPICS = {"a": 5, "b": 2}
QUIET_S = 1.0
LIMIT_S = 30.0
_TRIES = 3
Step = tuple[Any, ...]


def history(seed: int, steps: int = 6) -> list[Step]:
    """Return the steps of a seed: the name of a method of `Player`, and its arguments."""
    dice = random.Random(seed)
    protocol, static = dice.choice(PROTOCOLS), dice.random() < 0.4
    made: list[Step] = [("begin", protocol, static), ("join", 0)]
    members = {0}
    for _ in range(steps):
        absent = {0, 1, 2} - members
        what = dice.choice(["join", "join", "leave", "commit", "commit", "stranger", "restart"])
        if what == "join" and absent:
            members.add(joins := min(absent))
            made.append(("join", joins))
        elif what == "leave" and len(members) > 1 and not static:
            members.discard(leaves := dice.choice(sorted(members)))
            made.append(("leave", leaves))
        elif what == "restart" and static:
            made.append(("restart", dice.choice(sorted(members))))
        elif what == "commit":
            made.append(("commit", dice.randint(1, 5)))
        elif what == "stranger":
            made.append(("stranger",))
    return [*made, ("committed",)]


class Player:
    """Plays the steps of one history on one side."""

    def __init__(self, side: Any, tag: str) -> None:
        self._side, self._tag = side, tag
        self._topics = {f"{name}-{tag}": count for name, count in TOPICS.items()}
        side.create(self._topics, {})
        self._members: dict[int, Any] = {}
        self._owned: dict[int, set[Any]] = {}
        self._heard: list[Any] = []
        self._static = False

    def close(self) -> None:
        for member in self._members.values():
            member.close()

    def play(self, steps: list[Step]) -> list[Any]:
        return [(step, getattr(self, step[0])(*step[1:])) for step in steps]

    def begin(self, protocol: dict[str, Any], static: bool) -> None:
        self._protocol, self._static = protocol, static
        producer = self._side.producer({"linger.ms": 1, "log_level": 0})
        for topic, count in self._topics.items():
            for each in range(count * 4):
                producer.produce(topic, b"%d" % each, partition=each % count)
        assert producer.flush(LIMIT_S) == 0

    # --- members ---

    def _make(self, number: int) -> Any:
        named = {"group.instance.id": f"i{number}"} if self._static else {}
        mine = {} if "group.protocol" in self._protocol else OF_MEMBER
        return self._side.consumer({**MEMBER, **mine, **self._protocol, **named, "group.id": f"gr-{self._tag}"})

    def join(self, number: int) -> Any:
        member = self._members[number] = self._make(number)
        self._owned[number] = set()

        def heard(what: str) -> Any:
            def called(_: Any, partitions: Any) -> None:
                keys = {(each.topic[0], each.partition) for each in partitions}
                (self._owned[number].update if what == "assign" else self._owned[number].difference_update)(keys)
                self._heard.append((number, what, sorted(keys)))

            return called

        member.subscribe(
            list(self._topics), on_assign=heard("assign"), on_revoke=heard("revoke"), on_lost=heard("lost")
        )
        return self._settled()

    def leave(self, number: int) -> Any:
        self._members.pop(number).close()
        self._owned.pop(number)
        return self._settled()

    def restart(self, number: int) -> Any:
        self._members.pop(number).close()
        return self.join(number)

    def _settled(self) -> Any:
        """Poll until every partition has one owner and nothing has happened for a while."""
        every = {(topic[0], each) for topic, count in self._topics.items() for each in range(count)}
        read: list[Any] = []
        clock = self._side.clock_s
        began_s = changed_s = clock()
        while clock() - changed_s < QUIET_S or not self._is_whole(every):
            assert clock() - began_s < LIMIT_S, (self._owned, self._heard)
            before = len(self._heard) + len(read)
            for member in self._members.values():
                messages = member.consume(50, 0.02)
                read += [(m.topic()[0], m.partition(), m.offset()) for m in messages if not m.error()]
            if len(self._heard) + len(read) != before:
                changed_s = clock()
        heard, self._heard = self._heard, []
        by_broker, chosen = "group.protocol" in self._protocol, set(self._protocol.values())
        owned = {number: sorted(keys) for number, keys in self._owned.items()}
        if self._static and (by_broker or not {"range", "roundrobin"} & chosen):
            # the broker's uniform assignor goes by topic ids, which are random
            return sorted(map(len, owned.values())) if by_broker and "range" not in chosen else owned
        if self._static:
            return sorted(read), sorted(_without_repetitions(heard)), owned
        if by_broker or not {"range", "roundrobin"} & chosen:
            return sorted(map(len, owned.values()))  # which partitions move depends on random ids
        told = sorted((what, len(keys)) for _, what, keys in heard if keys)
        return sorted(read), told, sorted(sorted(keys) for keys in self._owned.values())

    def _is_whole(self, every: set[Any]) -> bool:
        owned = [key for keys in self._owned.values() for key in keys]
        return sorted(owned) == sorted(every) and all(self._owned.values())

    # --- offsets ---

    def commit(self, offset: int) -> Any:
        found = []
        names = {topic[0]: topic for topic in self._topics}
        for number, member in self._members.items():
            told = [ck.TopicPartition(names[topic], each, offset) for topic, each in sorted(self._owned[number])]
            if told:
                answer = member.commit(offsets=told, asynchronous=False)
                found += [(each.topic[0], each.partition, each.offset, each.error) for each in answer]
        return sorted(found)

    def stranger(self) -> Any:
        stranger = self._side.consumer({"enable.auto.commit": False, "log_level": 0, "group.id": f"gr-{self._tag}"})
        try:
            stranger.commit(offsets=[ck.TopicPartition(min(self._topics), 0, 1)], asynchronous=False)
        except ck.KafkaException as error:
            return error.args[0].name()
        finally:
            stranger.close()
        return None

    def committed(self) -> Any:
        asked = [ck.TopicPartition(topic, each) for topic, count in self._topics.items() for each in range(count)]
        found = self._asked(next(iter(self._members.values())), asked)
        return [(each.topic[0], each.partition, each.offset) for each in found]

    def _asked(self, member: Any, asked: list[Any]) -> Any:
        """Ask for committed offsets again after a time-out: librdkafka queues the request until it knows the coordinator, which it promises in no time."""
        for tries in range(_TRIES):
            try:
                return member.committed(asked, timeout=LIMIT_S)
            except ck.KafkaException as error:
                if error.args[0].code() != ck.KafkaError._TIMED_OUT_QUEUE or tries == _TRIES - 1:
                    raise
        raise AssertionError


def _without_repetitions(heard: list[Any]) -> list[Any]:
    """Leave out what a member gave back and got again at once: on a busy machine librdkafka's metadata come after its join, and it joins once more."""
    kept: list[Any] = []
    for number, what, keys in heard:
        mine = [at for at, each in enumerate(kept) if each[0] == number]
        if what == "assign" and mine and kept[mine[-1]] == (number, "revoke", keys):
            del kept[mine[-1]]
        elif keys:
            kept.append((number, what, keys))
    return kept
