"""Which session of a full cache makes room: KIP-227. A follower comes before a consumer, a large session before a small one."""

from __future__ import annotations

from random import Random

import pytest

from streamactors.broker.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from streamactors.broker.replication.sessions.fetch_session import FetchSession
from streamactors.broker.replication.sessions.session_cache import SAFE_MS, SessionCache

CONSUMER = -1


def request(replica_id: int, partitions: int) -> FetchRequest:
    asked = [FetchPartition(number, -1, 0, -1, -1, 1 << 20) for number in range(partitions)]
    return FetchRequest(replica_id, 0, 1, 1 << 20, 0, 0, 0, [FetchTopic("t", None, asked)], "")


def opened(cache: SessionCache, replica_id: int, partitions: int, now_ms: float) -> FetchSession | None:
    session = cache.open(request(replica_id, partitions), 12, now_ms)
    if session is not None:
        for number in range(partitions):
            session.entries[number] = object()  # type: ignore[index, assignment]
    return session


@pytest.mark.parametrize(
    ("there", "comes", "after_ms", "has_room"),
    [
        ((CONSUMER, 9), (0, 1), 1, True),  # the smallest id of a broker is a broker
        ((CONSUMER, 9), (7, 1), 1, True),
        ((CONSUMER, 1), (CONSUMER, 9), 1, False),  # the session is young
        ((0, 1), (CONSUMER, 9), 1, False),
        ((0, 1), (7, 9), 1, False),
        ((0, 9), (CONSUMER, 1), SAFE_MS, False),
        ((0, 9), (CONSUMER, 1), SAFE_MS + 1, True),  # unused for longer than SAFE_MS
    ],
)
def test_a_session_takes_the_place_of_one_that_counts_less(
    there: tuple[int, int], comes: tuple[int, int], after_ms: float, has_room: bool
) -> None:
    cache = SessionCache(1, lambda cached, session: None, Random(1))
    assert opened(cache, *there, 0.0) is not None
    assert (opened(cache, *comes, after_ms) is not None) == has_room
