"""Random histories of classic groups: rounds of joins and syncs, static members that return, leaves, late and wrong requests, offsets.

A history is played on one broker at a time, by the same seed. What it does next depends on the seed and on names of its own for the members, never
on an answer: so both brokers are asked the same. A round is in one order on every machine: a newcomer has arrived when the group's description shows
it, and the members that complete the round join last."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from streamactors.broker.protocol.decoding import Decoded
from tests.broker.wire import WireClient
from tests.differential.group_requests import (
    COMMIT,
    DELETE_GROUPS,
    DELETE_OFFSETS,
    DESCRIBE,
    FETCH,
    HEARTBEAT,
    JOIN,
    LEAVE,
    MEMBER_ID_REQUIRED,
    SUBSCRIPTION,
    SYNC,
    TOPIC,
)

PREPARING = "PreparingRebalance"
SHOWN_WITHIN_S = 60
MOST_MEMBERS = 5
PARTITIONS = 3
_PROTOCOLS = (("range",), ("range", "roundrobin"), ("range", "roundrobin", "sticky"))


@dataclass
class Member:
    """A client, and what it knows of itself."""

    name: str
    client: WireClient
    instance_id: str | None
    protocols: tuple[str, ...]
    member_id: str = ""
    version: int = 9
    """Of its JoinGroup."""
    old_id: str = ""
    """The id that it had before it returned as a static member."""


class History:
    """One group on one broker. `told` is what the broker answered, in order, with names in place of ids."""

    def __init__(self, address: str, seed: int) -> None:
        host, _, port = address.partition(":")
        self._connect: Callable[[str], WireClient] = lambda name: WireClient(
            host, int(port), client_id=f"client-{name}"
        )
        self.group = f"classic-{seed}"
        self.random = Random(seed)
        self.told: list[Any] = []
        self._observer = self._connect("observer")
        self._members: dict[str, Member] = {}
        self._names: dict[str, str] = {}
        self._leader = ""
        self._leads_by_rule = False
        """Whether both brokers have this leader. Who leads after a leader has gone depends on a hash table of ids, which are random."""
        self._generation = 0
        self._born = 0

    def run(self, steps: int) -> list[Any]:
        """Play a history; return what was told."""
        for _ in range(steps):
            if not self._members or self.random.random() < 0.3:
                self._round()
            else:
                self._steady()
        if self.random.random() < 0.5:
            self._leave(list(self._members.values()))
        self._ask("describe", DESCRIBE, 5, self._described())
        for client in (self._observer, *(each.client for each in self._members.values())):
            client.close()
        return self.told

    # --- a round ---

    def _round(self) -> None:
        choose = self.random
        before = list(self._members.values())
        leavers = [each for each in before if choose.random() < 0.15]
        if leavers:
            self._leave(leavers)
        stayed = list(self._members.values())
        # Into an empty group one comes alone: its round is over before a second one could join it.
        most = 1 if not stayed else MOST_MEMBERS - len(stayed)
        newcomers = [self._newcomer() for _ in range(choose.randint(0 if stayed else 1, max(most, 0)))]
        if not stayed and not newcomers:
            return
        for each in newcomers:
            if each.instance_id is None:
                self._take_an_id(each)
        order = choose.sample(stayed, len(stayed))
        for each in stayed:
            if choose.random() < 0.2:
                each.protocols = choose.choice(_PROTOCOLS)
        # without a newcomer the leader begins, or whoever comes first if it has left
        first = newcomers or [self._members.get(self._leader, stayed[0])]
        for each in first:
            self._send_join(each)
            self._members[each.name] = each
            if any(one not in first for one in stayed):
                self._await_round(len(self._members))
        odd = choose.randint(0, 3)
        if any(one not in first for one in stayed):
            for _ in range(odd):
                self._odd("during the joins")
        for each in order:
            if each not in first:
                self._send_join(each)
        self._take_joins(alone=not stayed)
        for _ in range(choose.randint(0, 3)):
            self._odd("before the syncs")
        self._sync()

    def _newcomer(self) -> Member:
        choose = self.random
        self._born += 1
        name = f"m{self._born}"
        taken = {each.instance_id for each in self._members.values()}
        instance_id = f"i{self._born}" if choose.random() < 0.35 and f"i{self._born}" not in taken else None
        return Member(
            name, self._connect(name), instance_id, choose.choice(_PROTOCOLS), version=choose.choice((5, 7, 9))
        )

    def _take_an_id(self, member: Member) -> None:
        answer = member.client.call(JOIN, 9, self._join(member))
        assert answer.error_code == MEMBER_ID_REQUIRED, answer
        member.member_id = answer.member_id
        self._names[member.member_id] = member.name
        self._tell("an id", answer)

    def _join(self, member: Member) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "session_timeout_ms": 600_000,
            "rebalance_timeout_ms": 600_000,
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "protocol_type": "consumer",
            "protocols": [{"name": each, "metadata": SUBSCRIPTION} for each in member.protocols],
            "reason": None,
        }

    def _send_join(self, member: Member) -> None:
        member.client.send(JOIN, member.version, self._join(member))

    def _await_round(self, members: int) -> None:
        give_up = time.monotonic() + SHOWN_WITHIN_S
        while True:
            (found,) = self._observer.call(DESCRIBE, 5, self._described()).groups
            if found.group_state == PREPARING and len(found.members) == members:
                return
            assert time.monotonic() < give_up, (self.group, found, members)
            time.sleep(0.005)

    def _take_joins(self, *, alone: bool) -> None:
        answers = {each.name: each.client.receive()[1] for each in self._members.values()}
        for name, answer in answers.items():
            self._members[name].member_id = answer.member_id
            self._names[answer.member_id] = name
        self._leads_by_rule = alone or (self._leads_by_rule and self._leader in self._members)
        self._leader = self._names[next(iter(answers.values())).leader]
        for name, answer in answers.items():
            said = self._plain(answer)
            assert (said.pop("members") == []) == (name != self._leader), answer
            self.told.append(("joined", name, said if self._leads_by_rule else {**said, "leader": "some member"}))
        self.told.append(("members", self._plain(answers[self._leader].members)))
        self._generation = next(iter(answers.values())).generation_id

    def _sync(self) -> None:
        members = list(self._members.values())
        leader = self._members[self._leader]
        early = {each.name for each in members if self.random.random() < 0.5} - {leader.name}
        for each in sorted(members, key=lambda one: 1 if one is leader else 0 if one.name in early else 2):
            part = [{"member_id": one.member_id, "assignment": b"part of " + one.name.encode()} for one in members]
            body = {
                **self._identity(each),
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": part if each is leader else (),
            }
            each.client.send(SYNC, 5, body)
        for each in members:
            self._tell(f"{each.name} synced", each.client.receive()[1])

    # --- between rounds ---

    def _steady(self) -> None:
        choose = self.random
        member = choose.choice(list(self._members.values()))
        kind = choose.random()
        if kind < 0.6:
            self._odd("at rest")
        elif kind < 0.75 and member.instance_id is not None and self._leads_by_rule:
            self._return(member)
        elif kind < 0.85 and self._leads_by_rule and member.name != self._leader:
            self._send_join(member)  # with nothing new: it is told its generation again
            self._tell(f"{member.name} again", member.client.receive()[1])
        elif kind < 0.95:
            self._ask("describe", DESCRIBE, choose.choice((0, 3, 5)), self._described())
        else:
            self._ask("delete", DELETE_GROUPS, 2, {"groups_names": [self.group]})

    def _return(self, member: Member) -> None:
        """A static member starts again: it gets another id, and its old one is fenced."""
        member.old_id, member.member_id = member.member_id, ""
        answer = member.client.call(JOIN, 9, self._join(member))
        member.member_id = answer.member_id
        self._names[answer.member_id] = f"{member.name} again"
        self._tell(f"{member.name} returned", answer)
        self._names[answer.member_id] = member.name
        self._names[member.old_id] = f"{member.name} before"

    def _odd(self, when: str) -> None:
        """Send a request that is answered at once, right or wrong."""
        choose = self.random
        member = choose.choice(list(self._members.values()))
        generation = self._generation + choose.choice((0, 0, 0, -1, 1))
        member_id = choose.choice((member.member_id, member.member_id, member.old_id or "stranger", "stranger", ""))
        instance_id = choose.choice((member.instance_id, member.instance_id, None, "i-nobody"))
        who = {
            "group_id": self.group,
            "generation_id": generation,
            "member_id": member_id,
            "group_instance_id": instance_id,
        }
        kind = choose.random()
        if kind < 0.4:
            self._ask(f"heartbeat {when}", HEARTBEAT, 4, who)
        elif kind < 0.75:
            self._commit(when, who)
        elif kind < 0.85:
            asked = [{"group_id": self.group, "topics": None}]
            self._ask("offsets", FETCH, 8, {"groups": asked, "require_stable": False})
        elif kind < 0.92:
            topics = [{"name": TOPIC, "partitions": [{"partition_index": choose.randrange(PARTITIONS + 1)}]}]
            self._ask("delete offsets", DELETE_OFFSETS, 0, {"group_id": self.group, "topics": topics})
        else:
            named = [{"member_id": "stranger", "group_instance_id": None, "reason": None}]
            self._ask("a stranger leaves", LEAVE, 5, {"group_id": self.group, "members": named})

    def _commit(self, when: str, who: dict[str, Any]) -> None:
        choose = self.random
        partition = {
            "partition_index": choose.randrange(PARTITIONS),
            "committed_offset": choose.randrange(100),
            "committed_leader_epoch": -1,
            "committed_metadata": choose.choice((None, "", "why")),
        }
        body = {
            "group_id": self.group,
            "generation_id_or_member_epoch": who["generation_id"],
            "member_id": who["member_id"],
            "group_instance_id": who["group_instance_id"],
            "retention_time_ms": -1,
            "topics": [{"name": TOPIC, "partitions": [partition]}],
        }
        self._ask(f"commit {when}", COMMIT, choose.choice((7, 8, 9)), body)

    def _leave(self, members: list[Member]) -> None:
        if not members:
            return
        named = [
            {
                "member_id": "" if each.instance_id and self.random.random() < 0.5 else each.member_id,
                "group_instance_id": each.instance_id,
                "reason": None,
            }
            for each in members
        ]
        self._ask("leave", LEAVE, 5, {"group_id": self.group, "members": named})
        for each in members:
            del self._members[each.name]
            each.client.close()

    # --- asking ---

    def _identity(self, member: Member) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "generation_id": self._generation,
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
        }

    def _described(self) -> dict[str, Any]:
        return {"groups": [self.group], "include_authorized_operations": False}

    def _ask(self, what: str, key: int, version: int, body: dict[str, Any]) -> None:
        self._tell(what, self._observer.call(key, version, body))

    def _tell(self, what: str, answer: Any) -> None:
        self.told.append((what, self._plain(answer)))

    def _plain(self, value: Any) -> Any:
        return plain(value, self._names)


def plain(value: Any, names: dict[str, str]) -> Any:
    """Return an answer as dictionaries and sorted lists, with names in place of member ids. What came in the request is shown as it is."""
    if isinstance(value, Decoded):
        fields = sorted({name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())})
        return {each: plain(getattr(value, each), names) for each in fields if each != "throttle_time_ms"}
    if isinstance(value, list | tuple):
        return sorted((plain(each, names) for each in value), key=repr)
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, uuid.UUID):
        return "<id>"
    return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else value
