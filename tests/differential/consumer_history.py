"""Random histories of consumer groups (KIP-848): joins, heartbeats, reconciliations, leaves, static members, commits, and requests that are wrong.

The history is made while it is played against one broker, because members go on with what they were answered. `again` plays the same requests
against another broker: member ids are the clients', so both answer the same."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from streamactors.broker.protocol.decoding import Decoded
from tests.broker.wire import WireClient

HEARTBEAT, DESCRIBE, COMMIT, FETCH, LIST = 68, 69, 8, 9, 16
JOINS, LEAVES, RESTS = 0, -1, -2


class Asked(NamedTuple):
    """One request of a history."""

    key: int
    version: int
    body: Mapping[str, Any]


class Member:
    """A client as it knows itself."""

    def __init__(self, member_id: str, instance_id: str | None, topics: list[str]) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = topics
        self.assignor: str | None = None
        self.epoch = JOINS
        self.assigned: dict[uuid.UUID, list[int]] = {}
        self.owned: dict[uuid.UUID, list[int]] = {}


class History:
    """Makes requests, and follows the answers."""

    def __init__(self, seed: int, topics: Mapping[str, uuid.UUID], *, versions: tuple[int, ...] = (1,)) -> None:
        self._random = random.Random(seed)
        self._topics = topics
        self._versions = versions
        self._groups = {f"h{seed}-{number}": dict[str, Member]() for number in range(3)}
        self._gone: list[tuple[str, Member]] = []
        self._number = 0
        self._last: tuple[dict[str, Member], Member] | None = None

    def next(self) -> Asked:
        """Return the next request."""
        choose = self._random
        group_id = choose.choice(list(self._groups))
        members = self._groups[group_id]
        self._last = None
        if not members or (len(members) < 14 and choose.random() < 0.12):
            return self._join(group_id, members)
        member = choose.choice(list(members.values()))
        kind = choose.random()
        if kind < 0.62:
            return self._beat(group_id, members, member)
        if kind < 0.72:
            return self._other_subscription(group_id, members, member)
        if kind < 0.82:
            return self._leave(group_id, members, member)
        if kind < 0.88:
            return self._odd(group_id, members, member)
        if kind < 0.93:
            return self._commit(group_id, member)
        if kind < 0.96:
            asked = {
                "group_id": group_id,
                "member_id": member.member_id,
                "member_epoch": member.epoch + choose.choice((0, 0, -1, 1)),
                "topics": None,
            }
            return Asked(FETCH, 9, {"groups": [asked], "require_stable": True})
        if kind < 0.98:
            return Asked(LIST, 5, {"states_filter": [], "types_filter": []})
        return Asked(DESCRIBE, 1, {"group_ids": [group_id], "include_authorized_operations": False})

    def note(self, answer: Any) -> None:
        """Let the member that asked take the answer."""
        if self._last is None or answer.error_code:
            return
        _, member = self._last
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            member.assigned = {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}

    def _some_topics(self) -> list[str]:
        names = sorted(self._topics)
        if self._random.random() < 0.6:
            return names[:3]
        return self._random.sample([*names, "missing"], self._random.randint(0, 4))

    def _join(self, group_id: str, members: dict[str, Member]) -> Asked:
        choose = self._random
        self._number += 1
        instance_id = f"i{choose.randint(0, 5)}" if choose.random() < 0.3 else None
        member = Member(f"{'m' * choose.randint(1, 3)}-{choose.getrandbits(40):x}", instance_id, self._some_topics())
        if choose.random() < 0.3:
            member.assignor = choose.choice(("range", "uniform"))
        holder = next(
            (each for each in members.values() if instance_id is not None and each.instance_id == instance_id), None
        )
        if holder is not None and holder.epoch == RESTS:
            del members[holder.member_id]
        members[member.member_id] = member
        return self._first(group_id, members, member)

    def _first(self, group_id: str, members: dict[str, Member], member: Member) -> Asked:
        member.epoch, member.owned, member.assigned = JOINS, {}, {}
        return self._ask(
            group_id, members, member,
            rebalance_timeout_ms=3_600_000, subscribed_topic_names=member.topics, topic_partitions=[],
            server_assignor=member.assignor,
        )  # fmt: skip

    def _beat(self, group_id: str, members: dict[str, Member], member: Member) -> Asked:
        if member.epoch in (JOINS, LEAVES, RESTS):
            return self._first(group_id, members, member)
        choose = self._random
        if choose.random() < 0.75:
            member.owned = member.assigned
        owned = None if choose.random() < 0.25 else _listed(member.owned)
        if choose.random() < 0.1:
            return self._ask(
                group_id, members, member,
                rebalance_timeout_ms=3_600_000, subscribed_topic_names=member.topics, topic_partitions=_listed(member.owned),
            )  # fmt: skip
        return self._ask(group_id, members, member, topic_partitions=owned)

    def _other_subscription(self, group_id: str, members: dict[str, Member], member: Member) -> Asked:
        if member.epoch in (JOINS, LEAVES, RESTS):
            return self._first(group_id, members, member)
        fields: dict[str, Any] = {}
        if self._random.random() < 0.7:
            member.topics = fields["subscribed_topic_names"] = self._some_topics()
        if self._random.random() < 0.4:
            member.assignor = fields["server_assignor"] = self._random.choice(("range", "uniform"))
        if self._random.random() < 0.2:
            fields["rack_id"] = self._random.choice(("r1", "r2"))
        return self._ask(group_id, members, member, topic_partitions=_listed(member.owned), **fields)

    def _leave(self, group_id: str, members: dict[str, Member], member: Member) -> Asked:
        if member.instance_id is not None and self._random.random() < 0.7:
            member.epoch = RESTS
        else:
            member.epoch = LEAVES
            del members[member.member_id]
        return self._ask(group_id, members, member)

    def _odd(self, group_id: str, members: dict[str, Member], member: Member) -> Asked:
        choose = self._random
        epoch = choose.choice((member.epoch - 1, member.epoch + 1, member.epoch - 2, 0, -3, 1))
        body = {
            **_EMPTY,
            "group_id": choose.choice((group_id, "nobody", "", " ")),
            "member_id": choose.choice((member.member_id, "stranger", "")),
            "member_epoch": epoch,
            "instance_id": choose.choice((None, member.instance_id, "i9", "")),
            "server_assignor": choose.choice((None, None, "sticky")),
            "topic_partitions": choose.choice((None, [], _listed(member.owned))),
            "rebalance_timeout_ms": choose.choice((-1, 50_000)),
            "subscribed_topic_names": choose.choice((None, member.topics)),
        }
        if (epoch == 0 and body["member_id"] in ("stranger", "")) or body["member_epoch"] < 0:
            body["group_id"] = "nobody"
        return Asked(HEARTBEAT, 1, body)

    def _commit(self, group_id: str, member: Member) -> Asked:
        choose = self._random
        name = choose.choice(sorted(self._topics))
        partitions = [
            {"partition_index": index, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
            for index in choose.sample(range(2), choose.randint(1, 2))
        ]
        return Asked(COMMIT, choose.choice((8, 9, 9, 9)), {
            "group_id": group_id,
            "generation_id_or_member_epoch": member.epoch + choose.choice((0, 0, 0, -1, -1, -2, 1)),
            "member_id": choose.choice((member.member_id,) * 5 + ("stranger",)),
            "group_instance_id": None,
            "retention_time_ms": -1,
            "topics": [{"name": name, "partitions": partitions}],
        })  # fmt: skip

    def _ask(self, group_id: str, members: dict[str, Member], member: Member, **fields: Any) -> Asked:
        self._last = members, member
        body = {
            **_EMPTY,
            "group_id": group_id,
            "member_id": member.member_id,
            "member_epoch": member.epoch,
            "instance_id": member.instance_id,
            **fields,
        }
        return Asked(HEARTBEAT, 1, body)


_EMPTY: Mapping[str, Any] = {
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout_ms": -1,
    "subscribed_topic_names": None,
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": None,
}


def _listed(owned: Mapping[uuid.UUID, list[int]]) -> list[dict[str, Any]]:
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in owned.items()]


def play(client: WireClient, history: History, length: int) -> tuple[list[Asked], list[Any]]:
    """Make and play a history; return the requests and the answers."""
    asked, answers = [], []
    for _ in range(length):
        request = history.next()
        answer = client.call(request.key, request.version, request.body)
        if request.key == HEARTBEAT:
            history.note(answer)
        asked.append(request)
        answers.append(answer)
    return asked, answers


def again(client: WireClient, asked: list[Asked]) -> list[Any]:
    """Play the same requests; return the answers."""
    return [client.call(request.key, request.version, request.body) for request in asked]


def plain(value: Any) -> Any:
    """Return an answer as dictionaries and sorted lists, without throttle times."""
    if isinstance(value, Decoded):
        names = sorted({name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())})
        return {name: plain(getattr(value, name)) for name in names if name != "throttle_time_ms"}
    if isinstance(value, list | tuple):
        return sorted(map(plain, value), key=repr)
    return value
