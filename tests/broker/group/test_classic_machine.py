"""Random clients, crashes and clocks against the classic group; the laws of the protocol hold after every step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_commit import check_commit
from streamactors.broker.group.classic.classic_events import GroupLoaded, JoinAnswer, Leaving, SyncAnswer
from streamactors.broker.group.classic.classic_group import GroupRules, GroupState
from streamactors.broker.group.group_record import decode_group_value, encode_group_value
from tests.broker.group.group_world import World

E = ErrorCode
PARTITIONS = range(6)
PROTOCOLS = [
    (("range", b"1"),),
    (("range", b"1"), ("cooperative-sticky", b"1")),
    (("cooperative-sticky", b"2"), ("range", b"1")),
    (("sticky", b"3"),),
]


@dataclass
class Client:
    """What a consumer knows of itself; it never looks into the group."""

    number: int
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    waiting: str | None = None  # the token of its parked request
    owns: frozenset[int] = frozenset()
    leads: tuple[str, ...] = ()  # the members it has to assign to
    synced: bool = False
    gone: bool = False

    @property
    def identity(self) -> str:
        return self.instance_id or f"dynamic-{self.number}"


class ClassicGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.clients: list[Client] = []
        self.highest_generation = 0
        self.loaded_generation = 0
        self.owners: dict[tuple[int, int], str] = {}  # (generation, partition) -> who was told to own it
        self.fenced: set[str] = set()  # member ids whose instance has been given to a successor

    @initialize(
        delay=st.sampled_from([0, 3_000]),
        max_size=st.sampled_from([3, 1_000]),
        auto=st.booleans(),
        instances=st.lists(st.sampled_from([None, None, "i0", "i1"]), min_size=1, max_size=4),
        settled=st.sampled_from([True, True, False]),
    )
    def begin(self, delay: int, max_size: int, auto: bool, instances: list[str | None], settled: bool) -> None:
        self.world = World(GroupRules(initial_rebalance_delay_ms=delay, max_size=max_size), auto_write=auto)
        for instance in instances:
            self.a_consumer_starts(instance)
        if settled:
            for _ in range(3):
                self.the_living_follow_the_protocol(2)
                self.time_passes(delay)

    # -- clients -------------------------------------------------------------------------------------------------------

    def client(self, number: int) -> Client | None:
        alive = [c for c in self.clients if not c.gone]
        return alive[number % len(alive)] if alive else None

    @rule(instance=st.sampled_from([None, None, "i0", "i1"]))
    def a_consumer_starts(self, instance: str | None) -> None:
        if instance is None and sum(not c.gone for c in self.clients) >= 4:
            return
        for client in self.clients:
            if instance is not None and client.instance_id == instance:
                client.gone = True  # the same process, restarted: the one before it is dead or a zombie
        self.clients.append(Client(len(self.clients), instance))

    @rule(number=st.integers(0, 20), protocols=st.sampled_from(PROTOCOLS), known=st.booleans(), patience=st.booleans())
    def a_consumer_joins(self, number: int, protocols, known: bool, patience: bool) -> None:
        client = self.client(number)
        if client is not None and client.waiting is None:
            client.owns = frozenset()
            client.waiting = self.world.join(
                client.member_id,
                instance_id=client.instance_id,
                protocols=protocols,
                needs_known_id=known,
                rebalance_timeout_ms=30_000 if patience else 12_000,
            )
            self.hear()

    @rule(number=st.integers(0, 20), seed=st.integers(0, 3))
    def a_consumer_syncs(self, number: int, seed: int) -> None:
        client = self.client(number)
        if client is None or client.waiting is not None or client.generation < 0:
            return
        assignments = {}
        for at, member_id in enumerate(client.leads):
            mine = bytes(p for p in PARTITIONS if (p + seed) % len(client.leads) == at)
            assignments[member_id] = mine
        client.waiting = self.world.sync(
            client.member_id, assignments, generation=client.generation, instance_id=client.instance_id
        )
        self.hear()

    @rule(rounds=st.integers(1, 8))
    def the_living_follow_the_protocol(self, rounds: int) -> None:
        """Drive everybody the way a client library does, so that chaos begins from groups that work."""
        for _ in range(rounds):
            for client in [c for c in self.clients if not c.gone and c.waiting is None]:
                if client.generation < 0:
                    self.a_consumer_joins(self.number(client), PROTOCOLS[1], False, True)
                    continue
                error = self.world.heartbeat(client.member_id, client.generation, client.instance_id)
                self.obey(client, error)
                if error is E.REBALANCE_IN_PROGRESS:
                    self.a_consumer_joins(self.number(client), PROTOCOLS[1], False, True)
                elif error is E.NONE and not client.synced:
                    self.a_consumer_syncs(self.number(client), client.generation)
            while self.world.writes:
                self.the_log_answers(E.NONE)

    def number(self, client: Client) -> int:
        return [c for c in self.clients if not c.gone].index(client)

    @rule(number=st.integers(0, 20))
    def a_consumer_heartbeats(self, number: int) -> None:
        client = self.client(number)
        if client is not None and client.generation >= 0:
            self.obey(client, self.world.heartbeat(client.member_id, client.generation, client.instance_id))

    @rule(number=st.integers(0, 20))
    def a_consumer_heartbeats_but_never_joins_again(self, number: int) -> None:
        for _ in range(15):
            self.a_consumer_heartbeats(number)
            self.time_passes(2_500)

    @rule(number=st.integers(0, 20))
    def a_consumer_leaves(self, number: int) -> None:
        client = self.client(number)
        if client is not None and client.member_id and client.waiting is None:
            self.world.leave(Leaving(client.member_id, client.instance_id))
            client.gone = True
            self.hear()

    @rule(number=st.integers(0, 20))
    def a_consumer_crashes(self, number: int) -> None:
        client = self.client(number)
        if client is not None:
            client.gone = True

    @rule(number=st.integers(0, 20))
    def a_consumer_gives_up_its_request(self, number: int) -> None:
        client = self.client(number)
        if client is not None:
            client.waiting = None

    @rule(instance=st.sampled_from(["i0", "i1"]))
    def an_administrator_removes(self, instance: str) -> None:
        self.world.leave(Leaving("", instance))
        self.hear()

    @rule(number=st.integers(0, 40))
    def anybody_commits(self, number: int) -> None:
        """Law: a fenced member never commits."""
        if not self.clients:
            return
        client = self.clients[number % len(self.clients)]  # zombies too
        error = check_commit(self.world.group, client.member_id, client.instance_id, client.generation)
        if error is E.NONE and client.generation >= 0:
            member = self.world.group.members[client.member_id]
            assert member.instance_id == client.instance_id or client.instance_id is None
            assert client.generation == self.world.group.generation
            assert client.member_id not in self.fenced

    # -- time and the log ----------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 500, 3_000, 9_999, 10_000, 30_000, 400_000]))
    def time_passes(self, ms: int) -> None:
        self.world.advance(ms)
        self.hear()

    @precondition(lambda self: self.world.writes)
    @rule(error=st.sampled_from([E.NONE, E.NONE, E.NONE, E.COORDINATOR_NOT_AVAILABLE]))
    def the_log_answers(self, error: ErrorCode) -> None:
        self.world.written(error)
        self.hear()

    @precondition(lambda self: self.world.log and not self.world.writes)
    @rule()
    def the_coordinator_restarts(self) -> None:
        group, assignments = self.world.log[-1]
        value = encode_group_value(group, dict(assignments))
        self.world.group = decode_group_value("g", value, self.world.rules)
        self.world.timers.clear()
        for client in self.clients:
            client.waiting = None  # its connection broke
        self.world.step(GroupLoaded())
        # Who was replaced in a rebalance that never got as far as a record is the instance's member again.
        self.fenced -= set(self.world.group.members)
        # A generation that was never written is made again: nobody was told to own anything in it.
        self.owners = {k: v for k, v in self.owners.items() if k[0] <= group.generation}
        self.highest_generation = self.loaded_generation = group.generation
        self.hear()

    # -- what clients make of the answers ------------------------------------------------------------------------------

    def hear(self) -> None:
        for client in self.clients:
            answer = self.world.answers.get(client.waiting)
            if client.gone or answer is None:
                continue
            client.waiting = None
            if isinstance(answer, JoinAnswer):
                self.hear_join(client, answer)
            elif isinstance(answer, SyncAnswer):
                self.hear_sync(client, answer)

    def hear_join(self, client: Client, answer: JoinAnswer) -> None:
        if answer.error is E.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error is E.NONE:
            if client.instance_id is not None:
                same = {c.member_id for c in self.clients if c.instance_id == client.instance_id}
                self.fenced |= same - {"", answer.member_id}
            client.member_id, client.generation = answer.member_id, answer.generation
            client.synced = False
            led = answer.leader == answer.member_id and not answer.skip_assignment
            client.leads = tuple(m for m, _, _ in answer.members) if led else ()
        else:
            self.obey(client, answer.error)

    def hear_sync(self, client: Client, answer: SyncAnswer) -> None:
        if answer.error is not E.NONE:
            self.obey(client, answer.error)
            return
        client.owns, client.synced = frozenset(answer.assignment), True
        for partition in answer.assignment:
            owner = self.owners.setdefault((client.generation, partition), client.identity)
            assert owner == client.identity, f"partition {partition} of generation {client.generation} has two owners"

    def joins_heard(self) -> list[JoinAnswer]:
        return [a for a in self.world.answers.values() if isinstance(a, JoinAnswer) and a.error is E.NONE]

    def obey(self, client: Client, error: ErrorCode) -> None:
        if error in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION):
            client.member_id, client.generation, client.owns = "", -1, frozenset()
            client.synced = False
        elif error is E.FENCED_INSTANCE_ID:
            client.gone = True
        elif error is E.REBALANCE_IN_PROGRESS:
            client.synced = False

    # -- laws ----------------------------------------------------------------------------------------------------------

    @invariant()
    def a_generation_never_comes_back(self) -> None:
        assert self.world.group.generation >= self.highest_generation
        self.highest_generation = self.world.group.generation

    @invariant()
    def the_leader_is_a_member(self) -> None:
        group = self.world.group
        assert (group.leader in group.members) if group.members else group.leader is None

    @invariant()
    def an_instance_is_one_member(self) -> None:
        instances = [m.instance_id for m in self.world.group.members.values() if m.instance_id is not None]
        assert len(instances) == len(set(instances))

    @invariant()
    def members_share_an_assignor(self) -> None:
        group = self.world.group
        assert not group.members or group.shared_protocols()

    @invariant()
    def the_state_fits_the_members(self) -> None:
        group = self.world.group
        if group.state is GroupState.EMPTY:
            assert not group.members
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert group.members
            assert all(group.protocol in m.protocol_names for m in group.members.values())
        if group.state is GroupState.STABLE:
            assert all(m.sync is None for m in group.members.values())
        assert group.pending_syncs <= set(group.members)
        assert not group.pending_joins & set(group.members)

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        """Every state that parks a request has a timer or a write that will end it; every silent member expires."""
        group, timers = self.world.group, self.world.timers
        if group.state is GroupState.PREPARING_REBALANCE:
            assert "join" in timers
        if group.state is GroupState.COMPLETING_REBALANCE and group.pending_syncs:
            assert "sync" in timers
        if group.state is GroupState.COMPLETING_REBALANCE and not group.pending_syncs:
            assert self.world.writes
        if group.state is not GroupState.PREPARING_REBALANCE and any(
            m.join is not None for m in group.members.values()
        ):
            assert group.state is GroupState.STABLE
            assert self.world.writes
        for member in group.members.values():
            assert f"session {member.member_id}" in timers or member.join is not None or member.sync is not None
        for member_id in group.pending_joins:
            assert f"session {member_id}" in timers

    @invariant()
    def whoever_missed_the_generation_is_not_in_it(self) -> None:
        group = self.world.group
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            told = {a.member_id: a.generation for a in self.joins_heard()}
            for member in group.members.values():
                if member.instance_id is None and group.generation > self.loaded_generation:
                    assert told[member.member_id] == group.generation

    @invariant()
    def no_timer_outlives_its_member(self) -> None:
        group = self.world.group
        sessions = {key.removeprefix("session ") for key in self.world.timers if key.startswith("session ")}
        assert sessions <= set(group.members) | group.pending_joins

    @invariant()
    def the_record_holds_what_is_stable(self) -> None:
        group = self.world.group
        if group.state is GroupState.STABLE and not self.world.writes:
            written, assignments = self.world.log[-1]
            assert written.generation == group.generation
            for member_id, assignment in assignments:
                if member_id in group.members:
                    assert group.members[member_id].assignment == assignment


TestClassicGroup = ClassicGroupMachine.TestCase
TestClassicGroup.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_thousands_of_runs() -> None:
    run_state_machine_as_test(
        ClassicGroupMachine,
        settings=settings(
            max_examples=5_000, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_the_machine_notices_an_assignment_given_to_two() -> None:
    """The laws above can fail: here the leader's assignment names one partition twice."""
    machine = ClassicGroupMachine()
    machine.world = World()
    a, b = machine.world.stable("i0", "i1")
    machine.clients = [Client(0, "i0", a, 2), Client(1, "i1", b, 2)]
    machine.world.group = machine.world.group.with_members(
        replace(m, assignment=b"\x00") for m in machine.world.group.members.values()
    )
    machine.a_consumer_syncs(0, 0)
    with pytest.raises(AssertionError, match="two owners"):
        machine.a_consumer_syncs(1, 0)
