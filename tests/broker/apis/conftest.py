"""One broker per test module, as the module's `BROKER_CONFIG` has it, a client of it and a topic for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from streamactors.broker import Cluster
from tests.broker.wire import WireClient


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(config=getattr(request.module, "BROKER_CONFIG", {})) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[WireClient]:
    """Connected; the coordinators that the module's `COORDINATORS` names (0: groups, 1: transactions) are there."""
    host, port = cluster.bootstrap_servers.split(":")
    with WireClient(host, int(port)) as client:
        for kind in getattr(request.module, "COORDINATORS", ()):
            client.call(10, 3, {"key": "any", "key_type": kind})
        yield client


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, 2)
    return name


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def tx() -> str:
    return f"tx-{uuid.uuid4().hex[:8]}"
