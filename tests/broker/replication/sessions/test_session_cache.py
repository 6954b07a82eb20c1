"""Which sessions a broker keeps, and which requests belong to one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from streamactors.broker.replication.sessions.fetch_session import FetchSession
from streamactors.broker.replication.sessions.session_cache import SAFE_MS, SessionCache

NEWEST = 17


class Cache(SessionCache):
    def __init__(self, slots: int) -> None:
        self.given_up: list[int] = []
        super().__init__(slots, lambda cached, session: self.given_up.append(cached.key[1]), Random(1))

    def opened(self, partitions: int, now_ms: float = 0.0, *, replica: int = -1) -> FetchSession | None:
        return self.open(request(partitions, replica=replica), NEWEST, now_ms)


def request(
    partitions: int = 1, session_id: int = 0, epoch: int = 0, *, replica: int = -1, forgotten: Any = ()
) -> FetchRequest:
    asked = [FetchPartition(index, -1, 0, -1, -1, 100) for index in range(partitions)]
    topics = [FetchTopic("", bytes(16), asked)] if partitions else []
    return FetchRequest(replica, 0, 1, 100, 0, session_id, epoch, topics, "", -1, forgotten)


def test_a_session_goes_on_with_the_epoch_that_follows() -> None:
    cache = Cache(2)
    session = cache.opened(3)
    assert session is not None
    assert cache.enter(request(0, session.id, 1), NEWEST, 5.0) is session
    assert (session.epoch, session.used_ms) == (2, 5.0)
    assert cache.enter(request(0, session.id, 1), NEWEST, 5.0) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.enter(request(0, session.id + 1, 2), NEWEST, 5.0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.enter(request(0, session.id, 2), 12, 5.0) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert cache.enter(request(0, session.id, 2), NEWEST, 5.0) is session


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_whole_request_closes_the_session_that_it_names(epoch: int) -> None:
    cache = Cache(2)
    session = cache.opened(3)
    assert session is not None
    assert cache.enter(request(1, session.id, epoch), NEWEST, 0.0) is None
    assert (len(cache), cache.given_up) == (0, [0, 1, 2])


def test_a_session_without_partitions_ends() -> None:
    cache = Cache(2)
    session = cache.opened(2)
    assert session is not None
    forgotten = [(bytes(16), [0, 1])]
    assert cache.enter(request(0, session.id, 1, forgotten=forgotten), NEWEST, 0.0) is None
    assert (len(cache), cache.given_up) == (0, [0, 1])


def test_a_full_cache_gives_up_what_nobody_has_used_for_two_minutes() -> None:
    cache = Cache(1)
    assert cache.opened(50) is not None
    assert cache.opened(60, SAFE_MS) is None
    assert cache.opened(1, SAFE_MS + 1) is not None
    assert len(cache) == 1


def test_an_old_session_gives_way_to_one_with_more_partitions() -> None:
    cache = Cache(2)
    small, large = cache.opened(5), cache.opened(50)
    assert small is not None
    assert large is not None
    for session in (small, large):
        cache.enter(request(0, session.id, 1), NEWEST, SAFE_MS + 1)
    assert cache.opened(4, SAFE_MS + 2) is None
    assert cache.opened(6, SAFE_MS + 2) is not None
    assert cache.get(small.id) is None
    assert cache.get(large.id) is large


def test_a_follower_takes_the_place_of_a_consumer_at_once_and_never_that_of_a_new_follower() -> None:
    cache = Cache(1)
    assert cache.opened(50) is not None
    follower = cache.opened(1, replica=2)
    assert follower is not None
    assert cache.opened(100) is None, "it is safe from consumers"
    assert cache.opened(100, replica=3) is None, "and for two minutes from followers"
    cache.enter(request(0, follower.id, 1, replica=2), NEWEST, SAFE_MS + 1)
    assert cache.opened(100, SAFE_MS + 2) is None, "a consumer is worth less than any follower"
    assert cache.opened(100, SAFE_MS + 2, replica=3) is not None


def test_a_cache_without_slots_opens_no_session() -> None:
    assert Cache(0).opened(5) is None


def test_a_session_whose_first_answer_was_not_sent_is_removed() -> None:
    cache = Cache(2)
    session = cache.opened(1)
    assert session is not None
    session.take()
    cache.unsent(session.id, False)
    assert len(session.changed) == 1
    cache.unsent(session.id, True)
    assert len(cache) == 0
    cache.unsent(session.id, False)  # it is not there any more
