"""Both sides of a session, with lost requests and answers: the leader always has what the follower wants to be fetched."""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from streamactors.broker.replication.sessions.fetch_session import FetchSession
from streamactors.broker.replication.sessions.follower_session import FollowerSession, SessionRequest
from streamactors.broker.replication.sessions.session_cache import SessionCache

PARTITIONS = st.integers(0, 4)
TOPIC = bytes(16)


class BothSides(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cache = self.new_cache(2)
        self.follower: FollowerSession[int, int] = FollowerSession()
        self.wanted: dict[int, int] = {}  # offsets
        self.changed: set[int] = set()

    def new_cache(self, slots: int) -> SessionCache:
        return SessionCache(slots, lambda cached, session: None, Random(1))

    @rule(index=PARTITIONS, offset=st.integers(0, 3))
    def a_partition_is_followed_or_moves(self, index: int, offset: int) -> None:
        self.wanted[index] = offset
        self.changed.add(index)

    @rule(index=PARTITIONS)
    def a_partition_waits(self, index: int) -> None:
        self.wanted.pop(index, None)
        self.changed.add(index)

    @rule(slots=st.integers(0, 2))
    def the_leader_restarts(self, slots: int) -> None:
        self.cache = self.new_cache(slots)

    @rule(arrives=st.booleans(), answered=st.booleans())
    def a_fetch(self, arrives: bool, answered: bool) -> None:
        looked_at = set(self.wanted) if self.follower.is_whole else self.changed
        due = {index: self.wanted[index] for index in looked_at if index in self.wanted}
        asked = self.follower.request(due, self.changed - self.wanted.keys())
        self.changed = set()
        if arrives and answered:
            self.answer(asked)
        elif arrives:
            self.serve(asked)
            self.follower.failed()
        else:
            self.follower.failed()

    def serve(self, asked: SessionRequest[int, int]) -> FetchSession | ErrorCode | None:
        partitions = [FetchPartition(index, 0, offset, 0, 0, 1) for index, offset in asked.named.items()]
        message = FetchRequest(
            2,
            0,
            1,
            100,
            0,
            asked.session_id,
            asked.epoch,
            [FetchTopic("", TOPIC, partitions)],
            "",
            1,
            [(TOPIC, list(asked.forgotten))],
        )
        session = self.cache.enter(message, 17, 0.0)
        opened = self.cache.open(message, 17, 0.0) if session is None and asked.epoch == 0 else session
        if opened is None:
            # without a session, the request itself is all there is
            assert dict(asked.named) == self.wanted
        elif isinstance(opened, FetchSession):
            assert {index: each.asked.offset for (_, index), each in opened.entries.items()} == self.wanted
        return opened

    def answer(self, asked: SessionRequest[int, int]) -> None:
        served = self.serve(asked)
        if isinstance(served, ErrorCode):
            self.follower.failed(served)
        else:
            self.follower.answered(0 if served is None else served.id)


TestBothSides = BothSides.TestCase
TestBothSides.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_a_session_that_the_leader_does_not_know_is_not_closed_again() -> None:
    follower: FollowerSession[int, int] = FollowerSession()
    follower.request({1: 5}, ())
    follower.answered(77)
    assert (follower.id, follower.epoch) == (77, 1)
    follower.failed()
    assert (follower.id, follower.epoch) == (77, 0), "a whole request that closes the session"
    follower.failed(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert (follower.id, follower.epoch) == (0, 0)
