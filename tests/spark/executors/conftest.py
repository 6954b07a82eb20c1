"""One broker per test module, a system per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamactors import ActorSystem
from streamactors.broker import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem("executors") as system:
        yield system
