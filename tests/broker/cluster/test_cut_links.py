"""`partition`, `slow` and `heal` return when the nodes have done it: what a test does next is behind the cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from streamactors.broker.errors import BrokerStartError


@pytest.fixture(scope="module")
def two() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


def test_the_cut_returns_when_every_node_has_cut_its_links(two: Cluster) -> None:
    # partition() returned -> the test wrote to the leader -> the follower, which read the message late, copied the record
    child = two._several().node(2).child
    child.pause()  # not by two.pause(): the cluster does not know of it
    cutting = threading.Thread(target=two.partition, args=({1}, {2}))
    cutting.start()
    try:
        cutting.join(0.3)
        assert cutting.is_alive(), "node 2 cannot have cut anything"
    finally:
        child.resume()
    cutting.join(20)
    assert not cutting.is_alive()
    two.heal()


def test_pause_returns_when_every_thread_has_stopped(two: Cluster) -> None:
    # pause() returned -> the test cut a link -> the node, whose main thread had not taken the signal yet, answered
    node = two._several().node(2)
    cpu = min(os.sched_getaffinity(0))
    os.sched_setaffinity(node.child.pid, {cpu})  # the main thread alone; it takes the signal and then stops the others
    os.sched_setscheduler(node.child.pid, os.SCHED_IDLE, os.sched_param(0))
    burning = f"import os\nos.sched_setaffinity(0, [{cpu}])\nprint(flush=True)\nwhile True: pass"
    burner = subprocess.Popen([sys.executable, "-c", burning], stdout=subprocess.PIPE)
    try:
        assert burner.stdout is not None
        assert burner.stdout.readline() == b"\n"
        for _ in range(3):  # each takes as long as a busy machine keeps an idle process waiting
            two.pause(2)
            assert _states(node.child.pid) == {"T"}
            two.resume(2)
    finally:
        burner.kill()
        burner.wait()
        os.sched_setscheduler(node.child.pid, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(node.child.pid, os.sched_getaffinity(0))


def _states(pid: int) -> set[str]:
    """The states of a process's threads; T is stopped."""
    tasks = [Path(f"/proc/{pid}/task/{task}/stat").read_text() for task in os.listdir(f"/proc/{pid}/task")]
    return {stat.rpartition(")")[2].split()[0] for stat in tasks}


def test_a_paused_node_does_what_it_was_told_before_resume_returns(two: Cluster) -> None:
    two.pause(2)
    two.partition({1}, {2})  # does not wait for a node that cannot answer
    two.heal()
    two.resume(2)
    child = two._several().node(2).child
    assert child._followed == child._told > 0


def test_a_node_that_has_died_is_not_waited_for(two: Cluster) -> None:
    child = two._several().node(2).child
    os.kill(child.pid, signal.SIGKILL)  # the cluster does not know of it
    child._process.wait()
    two.slow(2, ms=5)
    two.heal()
    two.kill(2)
    two.start(2)


@pytest.mark.expects_exit_code(2)
@pytest.mark.slow
def test_a_node_that_starts_cut_off_stays_cut_off() -> None:
    # A started node had whole links until it served clients: it registered with a controller that it was cut off from.
    with Cluster(brokers=2, config={"initial.broker.registration.timeout.ms": 5_000}) as cluster:
        cluster.partition({1}, {2})
        cluster.kill(2)
        with pytest.raises(BrokerStartError):
            cluster.start(2)
        cluster.heal()
        cluster.start(2)
