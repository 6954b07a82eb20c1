"""Random commits, transactions, deletions and crashes against a coordinator and its log: what was acknowledged survives."""

from __future__ import annotations

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
from streamactors.broker.group.classic.classic_group import GroupState
from streamactors.broker.group.group_messages import DeleteOffsets, Sweep
from streamactors.broker.group.offset_record import decode_offset_key, decode_offset_value
from streamactors.broker.records.control import read_marker
from tests.broker.group.shard_world import ShardWorld

E = ErrorCode
GROUPS = st.sampled_from(["g", "h"])
PARTITIONS = st.sampled_from([("t", 0), ("t", 1), ("u", 0)])
PRODUCERS = st.sampled_from([(7, 0), (8, 0)])


class ShardMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = ShardWorld(auto=False)
        self.members: dict[str, tuple[str, int]] = {}
        self.asked: list[str] = []

    @initialize(settled=st.booleans())
    def begin(self, settled: bool) -> None:
        self.world.log.auto = settled

    # -- what clients do -----------------------------------------------------------------------------------------------

    @rule(group=GROUPS, partition=PARTITIONS, offset=st.integers(0, 99))
    def somebody_commits(self, group: str, partition, offset: int) -> None:
        member_id, generation = self.members.get(group, ("", -1))
        self.asked.append(self.world.commit(group, [(*partition, offset)], member_id=member_id, generation=generation))

    @rule(group=GROUPS, partition=PARTITIONS, offset=st.integers(0, 99), producer=PRODUCERS)
    def somebody_commits_in_a_transaction(self, group: str, partition, offset: int, producer) -> None:
        self.asked.append(self.world.commit(group, [(*partition, offset)], producer=producer))

    @rule(producer=PRODUCERS, committed=st.booleans())
    def a_transaction_ends(self, producer, committed: bool) -> None:
        self.asked.append(self.world.end(producer, committed))

    @rule(group=GROUPS)
    def a_member_joins(self, group: str) -> None:
        joined = self.world.answers.get(self.world.join(group))
        if joined is not None and joined.error is E.NONE:
            self.members[group] = (joined.member_id, joined.generation)
            self.asked.append(
                self.world.sync(group, joined.member_id, joined.generation, {joined.member_id: group.encode()})
            )

    @rule(group=GROUPS)
    def a_member_leaves(self, group: str) -> None:
        if group in self.members:
            self.world.leave(group, self.members.pop(group)[0])

    @rule(group=GROUPS)
    def an_administrator_deletes(self, group: str) -> None:
        self.asked.append(self.world.delete(group))

    @rule(group=GROUPS, partition=PARTITIONS)
    def an_administrator_deletes_an_offset(self, group: str, partition) -> None:
        self.asked.append(self.world.ask("delete-offset", lambda reply: DeleteOffsets(reply, group, [partition])))

    # -- time, the log, crashes ----------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.log.pending)
    @rule()
    def the_log_acknowledges(self) -> None:
        self.world.log.acknowledge()
        self.world.settle()

    @rule(error=st.sampled_from([E.NOT_ENOUGH_REPLICAS, E.KAFKA_STORAGE_ERROR]))
    def the_log_will_refuse(self, error: ErrorCode) -> None:
        self.world.log.fail_next = error

    @rule(ms=st.sampled_from([1, 5_000, 20_000]))
    def time_passes(self, ms: int) -> None:
        self.world.advance(ms)

    @rule()
    def the_sweep_comes_by(self) -> None:
        self.world.tell(Sweep())

    @rule(lost=st.integers(0, 3))
    def the_coordinator_crashes(self, lost: int) -> None:
        """Law: whatever was acknowledged is there afterwards, and nothing that the log does not hold."""
        self.world.log.fail_next = None
        self.world.crash(lost)
        self.members.clear()
        self.asked.clear()
        assert self.memory() == self.read_the_log(len(self.world.log.batches))

    def teardown(self) -> None:
        while self.world.log.pending:
            self.the_log_acknowledges()
        for token in self.asked:
            if not token.startswith("sync"):  # a sync may be parked by a rebalance
                assert token in self.world.answers, f"{token} was never answered"

    # -- laws ----------------------------------------------------------------------------------------------------------

    def memory(self) -> dict:
        return {group: self.world.offsets(group) for group in ("g", "h")}

    def read_the_log(self, batches: int) -> dict:
        """Return the offsets a reader of so many batches would know; written apart from the loader."""
        offsets: dict[str, dict] = {"g": {}, "h": {}}
        waiting: dict[int, list] = {}
        for batch in list(self.world.log.replay())[:batches]:
            if batch.is_control:
                marker = read_marker(batch)
                done = waiting.pop(batch.producer_id, [])
                for group, partition, offset, at in done if marker and marker.committed else ():
                    if offsets[group].get(partition, (0, -1))[1] < at:
                        offsets[group][partition] = (offset, at)
                continue
            for record in batch.records():
                if record.key[:2] != b"\x00\x01":
                    continue
                group, topic, number = decode_offset_key(record.key)
                partition = (topic, number)
                if record.value is None:
                    offsets[group].pop(partition, None)
                    for held in waiting.values():
                        held[:] = [h for h in held if h[:2] != (group, partition)]
                elif batch.is_transactional:
                    held = waiting.setdefault(batch.producer_id, [])
                    held[:] = [h for h in held if h[:2] != (group, partition)]
                    held.append((group, partition, decode_offset_value(record.value).offset, record.offset))
                else:
                    offsets[group][partition] = (decode_offset_value(record.value).offset, record.offset)
        return {group: {p: offset for p, (offset, _) in known.items()} for group, known in offsets.items()}

    @invariant()
    def nobody_sees_what_the_log_has_not_acknowledged(self) -> None:
        known = self.read_the_log(self.world.log.acknowledged)
        for group, offsets in self.memory().items():
            assert offsets == ({} if self.is_being_deleted(group) else known[group])

    @invariant()
    def a_group_with_offsets_is_listed(self) -> None:
        listed = self.world.listed()
        for group, offsets in self.memory().items():
            assert not offsets or group in listed

    def is_being_deleted(self, group: str) -> bool:
        known = self.world.shard.groups.get(group)
        return known is not None and known.state is GroupState.DEAD


TestShard = ShardMachine.TestCase
TestShard.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_thousands_of_runs() -> None:
    run_state_machine_as_test(
        ShardMachine,
        settings=settings(
            max_examples=3_000, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
