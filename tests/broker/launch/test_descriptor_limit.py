"""The process of a broker may open as many files as the system allows."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from streamactors.broker import Cluster


@pytest.fixture
def few() -> Iterator[int]:
    """A soft limit far below the hard one, as a shell has it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1_024), hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_broker_raises_the_soft_limit_of_its_process(few: int) -> None:
    with Cluster(process=True) as cluster:
        soft, hard = resource.prlimit(cluster.pid, resource.RLIMIT_NOFILE)
        assert soft == min(hard, 1 << 20)
        assert hard == few


def test_a_broker_in_the_process_of_a_program_leaves_the_limit_alone(few: int) -> None:
    with Cluster():
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(1_024, few)
