"""The ports of the nodes of a cluster."""

from __future__ import annotations

import random

from streamactors.broker.cluster.node_process import free_port


def test_processes_that_seed_random_alike_choose_ports_of_their_own() -> None:
    # pytest-randomly seeds each process of pytest-xdist alike before each test: two clusters began at the same port at the same time.
    chosen = set()
    for _ in range(20):
        random.seed(7)
        chosen.add(free_port())
    assert len(chosen) > 10
