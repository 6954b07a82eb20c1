"""Shared pieces of the actor tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.pool.elastic_pool import ElasticPool
from streamactors.actors.system import ActorSystem
from streamactors.clock import VirtualClock


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    dispatcher = Dispatcher("test-dispatcher")
    yield dispatcher
    assert dispatcher.stop(5)


@pytest.fixture
def pool() -> Iterator[ElasticPool]:
    pool = ElasticPool("test-pool")
    yield pool
    assert pool.stop(5) == []


@pytest.fixture
def virtual() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def actor_system() -> Iterator[ActorSystem]:
    with ActorSystem("test") as system:
        yield system
