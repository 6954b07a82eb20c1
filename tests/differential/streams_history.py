"""Random histories of streams groups as requests: joins, heartbeats with what a member has, leaves, static members, epochs of all kinds."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from streamactors.broker.protocol.decoding import Decoded
from tests.broker.wire import WireClient

HEARTBEAT, DESCRIBE = 88, 89
_RETRIED = (14, 15, 16)
_ROLES = ("active_tasks", "standby_tasks", "warmup_tasks")


class Asked(NamedTuple):
    """One request."""

    key: int
    version: int
    body: dict[str, Any]


def internal(name: str, partitions: int = 0, **configs: str) -> dict[str, Any]:
    pairs = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replication_factor": 1, "topic_configs": pairs}


def part(
    name: str,
    sources: list[str],
    changelogs: list[dict[str, Any]] | None = None,
    sinks: list[str] | None = None,
    repartitions: list[dict[str, Any]] | None = None,
    groups: list[tuple[list[int], list[int]]] | None = None,
) -> dict[str, Any]:
    return {
        "subtopology_id": name,
        "source_topics": sources,
        "source_topic_regex": [],
        "state_changelog_topics": changelogs or [],
        "repartition_sink_topics": sinks or [],
        "repartition_source_topics": repartitions or [],
        "copartition_groups": [
            {"source_topics": mine, "source_topic_regex": [], "repartition_source_topics": theirs}
            for mine, theirs in groups or ()
        ],
    }


TOPOLOGIES: dict[str, list[dict[str, Any]]] = {
    "one": [part("0", ["a"], [internal("one-log")])],
    "count": [
        part("0", ["a"], [], ["count-r"]),
        part("1", [], [internal("count-log", cleanup_policy="compact")], [], [internal("count-r")]),
    ],
    "join": [
        part("0", ["a", "b"], [internal("join-log")], ["join-r"], [], [([0, 1], [])]),
        part("1", ["c"], [], [], [internal("join-r", 3)], [([0], [0])]),
        part("2", ["c"], [internal("join-log2")]),
    ],
    "plain": [part("0", ["a"]), part("1", ["b"]), part("2", ["c"])],
    "missing": [part("0", ["a", "nowhere", "neither"])],
    "uneven": [part("0", ["a", "c"], [], [], [], [([0, 1], [])])],
    "wrong": [part("0", ["a"], [internal("c")])],
    "loop": [part("0", [], [], ["loop-r"], [internal("loop-r")])],
}
READY = ("one", "count", "join", "plain")
"""The topologies whose topics are there."""
TOPICS = {
    "a": 5,
    "b": 5,
    "c": 3,
    "one-log": 5,
    "count-log": 5,
    "count-r": 5,
    "join-log": 5,
    "join-r": 3,
    "join-log2": 3,
}


class _Member:
    def __init__(self, member_id: str, process: str, instance: str | None) -> None:
        self.member_id = member_id
        self.process = process
        self.instance = instance
        self.epoch = 0
        self.has: dict[str, Any] = {key: [] for key in _ROLES}
        self.wanted: dict[str, Any] = dict(self.has)


class History:
    """The next request, from the answers so far."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.name = list(TOPOLOGIES)[seed % len(TOPOLOGIES)]
        self.group = f"g{seed}-{self.name}"
        self.members = [
            _Member(f"m{n}", f"p{self.random.randint(0, 2)}", f"i{n}" if self.random.random() < 0.3 else None)
            for n in range(4)
        ]
        self.acting = self.members[0]
        self.left = 0

    def next(self) -> Asked:
        random = self.random
        member = self.acting = random.choice(self.members)
        chance = random.random()
        if chance < 0.06:
            body = {"group_ids": [self.group, "nobody"], "include_authorized_operations": False}
            return Asked(DESCRIBE, 1, {**body, "include_topology_description": False})
        if chance < 0.16:
            return self._leave(member)
        body = self._body(member, member.epoch)
        if member.epoch == 0:
            body |= self._join(member)
        elif chance < 0.9:
            if random.random() < 0.8:
                member.has = dict(member.wanted)
            body |= member.has
            if random.random() < 0.1:
                body["task_offsets"] = [
                    {"subtopology_id": "0", "partition": random.randint(0, 4), "offset": random.randint(0, 99)}
                ]
        else:
            body |= random.choice(
                [
                    {"member_epoch": member.epoch + 1},
                    {"member_epoch": max(member.epoch - 1, 1), **member.has},
                    {"member_epoch": -3},
                    {"active_tasks": []},
                    # With the instance id of another member Apache Kafka refuses it, and yet takes that member's tasks away.
                    {"member_id": "stranger", "instance_id": None},
                    {"member_id": ""},
                    {"instance_id": "nobody"},
                    {"topology": {"epoch": 1, "subtopologies": TOPOLOGIES[self.name]}},
                    {
                        "active_tasks": [{"subtopology_id": "9", "partitions": [0]}],
                        "standby_tasks": [],
                        "warmup_tasks": [],
                    },
                    {
                        "active_tasks": [{"subtopology_id": "0", "partitions": [77]}],
                        "standby_tasks": [],
                        "warmup_tasks": [],
                    },
                    {"shutdown_application": random.random() < 0.1},
                    {"rack_id": random.choice(["r1", "r2"])},
                ]
            )
        return Asked(HEARTBEAT, random.choice([0, 1]), body)

    def _body(self, member: _Member, epoch: int) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": member.member_id,
            "member_epoch": epoch,
            "endpoint_information_epoch": self.random.choice([-1, 0, 1]),
            "instance_id": member.instance,
            "rack_id": None,
            "rebalance_timeout_ms": -1,
            "topology": None,
            **dict.fromkeys(_ROLES),
            "process_id": None,
            "user_endpoint": None,
            "client_tags": None,
            "task_offsets": None,
            "task_end_offsets": None,
            "shutdown_application": False,
        }

    def _join(self, member: _Member) -> dict[str, Any]:
        random = self.random
        body: dict[str, Any] = {
            **{key: [] for key in _ROLES},
            "rebalance_timeout_ms": 3_600_000,
            "topology": {"epoch": 1, "subtopologies": TOPOLOGIES[self.name]},
            "process_id": member.process,
            "client_tags": [{"key": "zone", "value": random.choice("ab")}] if random.random() < 0.5 else [],
        }
        # With an endpoint, Apache Kafka fails while the topics of the topology do not fit.
        if random.random() < 0.5 and self.name in READY:
            body["user_endpoint"] = {"host": member.process, "port": 1000 + random.randint(0, 1)}
        if random.random() < 0.05:
            body["rebalance_timeout_ms"] = -1
        if random.random() < 0.05:
            body["topology"] = None
        if random.random() < 0.05:
            body["topology"] = {"epoch": random.choice([0, 2]), "subtopologies": TOPOLOGIES["plain"]}
        return body

    def _leave(self, member: _Member) -> Asked:
        epoch = -2 if member.instance and self.random.random() < 0.5 else -1
        if self.random.random() < 0.1:
            epoch = -2
        body = self._body(member, epoch)
        if member.instance and self.random.random() < 0.5:
            self.left += 1
            member.member_id = f"{member.member_id.split('-')[0]}-{self.left}"  # it comes back with another id
        return Asked(HEARTBEAT, 1, body)

    def note(self, asked: Asked, answer: Any) -> None:
        if asked.key != HEARTBEAT:
            return
        member = self.acting
        if answer.error_code or answer.member_epoch < 0:
            if (
                answer.error_code in (0, 25, 110) and asked.body["member_id"] == member.member_id
            ) or answer.member_epoch < 0:
                member.epoch, member.has = 0, {key: [] for key in _ROLES}
                member.wanted = dict(member.has)
            return
        member.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            for role in _ROLES:
                member.wanted[role] = [
                    {"subtopology_id": each.subtopology_id, "partitions": list(each.partitions)}
                    for each in getattr(answer, role)
                ]


def call(client: WireClient, asked: Asked) -> Any:
    while True:
        answer = client.call(*asked)
        if getattr(answer, "error_code", 0) not in _RETRIED:
            return answer


def play(client: WireClient, history: History, length: int) -> tuple[list[Asked], list[Any]]:
    """Ask `length` times; return what was asked and answered."""
    requests, answers = [], []
    for _ in range(length):
        asked = history.next()
        answer = call(client, asked)
        history.note(asked, answer)
        requests.append(asked)
        answers.append(answer)
    return requests, answers


_INTERNAL = ("repartition_source_topics", "state_changelog_topics")


def plain(value: Any, of: str = "") -> Any:
    """Return an answer as dictionaries and sorted lists, without throttle times, and without the partitions of internal topics: Apache Kafka
    describes what was true at the last record, and so may not know them yet."""
    if isinstance(value, Decoded):
        names = {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())} - {"throttle_time_ms"}
        if of in _INTERNAL:
            names -= {"partitions"}
        return {name: plain(getattr(value, name), name) for name in sorted(names)}
    if isinstance(value, list | tuple):
        return sorted((plain(each, of) for each in value), key=repr)
    return value
