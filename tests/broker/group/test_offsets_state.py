"""Committed offsets as the fold of a log: sentences, and a machine against a plain model that re-reads the whole log."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from streamactors.broker.group.classic.classic_group import Group, GroupState, Member
from streamactors.broker.group.classic.classic_kind import kept_since
from streamactors.broker.group.offset_record import CommittedOffset
from streamactors.broker.group.offsets_state import OffsetsState

DAY = 86_400_000
WEEK = 7 * DAY
SUBSCRIBED_TO_T = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"


def committed(*offsets: tuple[str, int, CommittedOffset]) -> OffsetsState:
    state = OffsetsState()
    for topic, partition, offset in offsets:
        state.put("g", (topic, partition), offset)
    return state


def test_a_transactional_offset_shows_when_its_transaction_commits() -> None:
    state = committed(("t", 0, CommittedOffset(5, record_offset=1)))
    state.put("g", ("t", 0), CommittedOffset(9, record_offset=2), producer_id=7)
    assert state.get("g", ("t", 0)) == CommittedOffset(5, record_offset=1)
    assert state.is_unstable("g", ("t", 0))
    assert not state.is_unstable("g", ("t", 1))
    assert state.end_transaction(7, committed=True) == {"g"}
    assert state.get("g", ("t", 0)) == CommittedOffset(9, record_offset=2)
    assert not state.is_unstable("g", ("t", 0))


def test_an_aborted_transaction_leaves_the_offset_before_it() -> None:
    state = committed(("t", 0, CommittedOffset(5, record_offset=1)))
    state.put("g", ("t", 0), CommittedOffset(9, record_offset=2), producer_id=7)
    state.end_transaction(7, committed=False)
    assert state.get("g", ("t", 0)) == CommittedOffset(5, record_offset=1)


def test_an_offset_committed_after_the_transactional_one_wins_whenever_the_marker_comes() -> None:
    state = OffsetsState()
    state.put("g", ("t", 0), CommittedOffset(9, record_offset=1), producer_id=7)
    state.put("g", ("t", 0), CommittedOffset(5, record_offset=2))
    state.end_transaction(7, committed=True)
    assert state.get("g", ("t", 0)) == CommittedOffset(5, record_offset=2)


def test_a_tombstone_ends_pending_offsets_too() -> None:
    state = OffsetsState()
    state.put("g", ("t", 0), CommittedOffset(9, record_offset=1), producer_id=7)
    state.delete("g", ("t", 0))
    assert not state.is_unstable("g", ("t", 0))
    state.end_transaction(7, committed=True)
    assert state.get("g", ("t", 0)) is None


def test_offsets_of_deleted_topics_are_found_in_every_group() -> None:
    state = committed(("t", 0, CommittedOffset(1)), ("u", 0, CommittedOffset(1)))
    state.put("h", ("t", 3), CommittedOffset(1), producer_id=7)
    assert set(state.of_topics(frozenset({"t"}))) == {("g", ("t", 0)), ("h", ("t", 3))}


# -- expiry ------------------------------------------------------------------------------------------------------------


def members(metadata: bytes) -> dict[str, Member]:
    return {"a": Member("a", None, "c", "h", 1, 1, (("range", metadata),))}


@pytest.mark.parametrize(
    ("group", "committed_at_ms", "now_ms", "gone"),
    [
        # nobody ever joined: since the commit
        (Group("g"), 0, WEEK - 1, False),
        (Group("g"), 0, WEEK, True),
        # empty: since it is empty, however old the commit
        (Group("g", protocol_type="consumer", state_since_ms=5 * DAY), 0, WEEK, False),
        (Group("g", protocol_type="consumer", state_since_ms=5 * DAY), 0, 5 * DAY + WEEK, True),
        # empty, from a record that does not say since when
        (Group("g", protocol_type="consumer", state_since_ms=-1), DAY, WEEK, False),
        (Group("g", protocol_type="consumer", state_since_ms=-1), DAY, DAY + WEEK, True),
        # in use: never, while the topic is subscribed to
        (Group("g", state=GroupState.STABLE, protocol_type="consumer", protocol="range",
               members=members(SUBSCRIBED_TO_T)), 0, 10 * WEEK, False),
        # in use, but the topic is not any more
        (Group("g", state=GroupState.STABLE, protocol_type="consumer", protocol="range",
               members=members(b"\x00\x00\x00\x00\x00\x00")), 0, WEEK, True),
        # in use, and what it subscribes to cannot be read, or is not a consumer's business
        (Group("g", state=GroupState.STABLE, protocol_type="consumer", protocol="range",
               members=members(b"\x00")), 0, 10 * WEEK, False),
        (Group("g", state=GroupState.STABLE, protocol_type="connect", protocol="range",
               members=members(b"")), 0, 10 * WEEK, False),
        (Group("g", state=GroupState.PREPARING_REBALANCE, protocol_type="consumer", protocol="range",
               members=members(b"\x00\x00\x00\x00\x00\x00")), 0, 10 * WEEK, False),
    ],
)  # fmt: skip
def test_an_offset_expires_a_retention_after_it_was_last_of_use(
    group: Group, committed_at_ms: int, now_ms: int, gone: bool
) -> None:
    state = committed(("t", 0, CommittedOffset(1, committed_at_ms=committed_at_ms)))
    assert state.expired("g", partial(kept_since, group), now_ms, WEEK) == ([("t", 0)] if gone else [])


def test_a_client_that_named_its_own_retention_gets_it() -> None:
    state = committed(("t", 0, CommittedOffset(1, committed_at_ms=0, expires_at_ms=DAY)))
    assert state.expired("g", partial(kept_since, Group("g")), DAY - 1, WEEK) == []
    assert state.expired("g", partial(kept_since, Group("g")), DAY, WEEK) == [("t", 0)]


def test_nothing_expires_under_an_open_transaction() -> None:
    state = committed(("t", 0, CommittedOffset(1, committed_at_ms=0)))
    state.put("g", ("t", 0), CommittedOffset(2), producer_id=7)
    assert state.expired("g", partial(kept_since, Group("g")), WEEK, WEEK) == []


# -- the machine -------------------------------------------------------------------------------------------------------

GROUPS = st.sampled_from(["g", "h"])
PARTITIONS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 1))


class OffsetsMachine(RuleBasedStateMachine):
    """Law: the state is what reading the whole log from its start would give, in any order of doors."""

    def __init__(self) -> None:
        super().__init__()
        self.state = OffsetsState()
        self.log: list[tuple] = []

    @rule(group=GROUPS, partition=PARTITIONS, offset=st.integers(0, 99), producer=st.sampled_from([-1, -1, 7, 8]))
    def commit(self, group: str, partition, offset: int, producer: int) -> None:
        committed = CommittedOffset(offset, record_offset=len(self.log))
        self.log.append(("put", group, partition, committed, producer))
        self.state.put(group, partition, committed, producer)

    @rule(group=GROUPS, partition=PARTITIONS)
    def tombstone(self, group: str, partition) -> None:
        self.log.append(("delete", group, partition))
        self.state.delete(group, partition)

    @rule(producer=st.sampled_from([7, 8]), committed=st.booleans())
    def marker(self, producer: int, committed: bool) -> None:
        self.log.append(("end", producer, committed))
        self.state.end_transaction(producer, committed=committed)

    @invariant()
    def the_latest_surviving_commit_is_the_committed_one(self) -> None:
        for group in ("g", "h"):
            for topic in ("t", "u"):
                for number in (0, 1):
                    partition = (topic, number)
                    expected, unstable = self.read_the_log(group, partition)
                    assert self.state.get(group, partition) == expected
                    assert self.state.is_unstable(group, partition) == unstable

    def read_the_log(self, group: str, partition) -> tuple[CommittedOffset | None, bool]:
        best: CommittedOffset | None = None
        waiting: dict[int, CommittedOffset] = {}
        for entry in self.log:
            match entry:
                case ("put", g, p, committed, producer) if (g, p) == (group, partition):
                    if producer == -1:
                        best = committed
                    else:
                        waiting[producer] = committed
                case ("delete", g, p) if (g, p) == (group, partition):
                    best = None
                    waiting.clear()
                case ("end", producer, True) if producer in waiting:
                    done = waiting.pop(producer)
                    if best is None or best.record_offset < done.record_offset:
                        best = done
                case ("end", producer, False):
                    waiting.pop(producer, None)
        return best, bool(waiting)

    @invariant()
    def a_compacted_log_gives_the_same(self) -> None:
        """Compaction keeps the last record of a key outside transactions; a new coordinator must not see a difference."""
        if any(entry[0] == "put" and entry[4] != -1 for entry in self.log):
            return
        last = {(e[1], e[2]): e for e in self.log if e[0] != "end"}
        loaded = OffsetsState()
        for entry in last.values():
            if entry[0] == "put":
                loaded.put(entry[1], entry[2], entry[3])
        assert {g: dict(loaded.of_group(g)) for g in ("g", "h")} == {
            g: dict(self.state.of_group(g)) for g in ("g", "h")
        }

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.state) == sum(len(self.state.of_group(g)) for g in ("g", "h"))
        assert self.state.groups() >= {g for g in ("g", "h") if self.state.of_group(g)}


TestOffsets = OffsetsMachine.TestCase
TestOffsets.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_thousands_of_runs() -> None:
    run_state_machine_as_test(
        OffsetsMachine, settings=settings(max_examples=5_000, stateful_step_count=60, deadline=None)
    )


def test_record_offsets_decide_not_the_order_of_markers() -> None:
    state = OffsetsState()
    early, late = CommittedOffset(1, record_offset=1), CommittedOffset(2, record_offset=2)
    state.put("g", ("t", 0), early, producer_id=7)
    state.put("g", ("t", 0), late, producer_id=8)
    state.end_transaction(8, committed=True)
    state.end_transaction(7, committed=True)
    assert state.get("g", ("t", 0)) == late
