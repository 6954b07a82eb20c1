"""The methods of a `Cluster` of several brokers: what can be done to its nodes, and what is seen of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from streamactors.broker.errors import BrokerStartError
from streamactors.durations import Duration, duration_s

if TYPE_CHECKING:
    from streamactors.broker.cluster.several import SeveralBrokers


class ClusterControl:
    """Mixed into `Cluster`. Every method but `stop` and `kill` raises BrokerStartError if the Cluster has one broker only. Nodes have ids from 1 on."""

    def _several(self) -> SeveralBrokers:
        raise NotImplementedError

    def _end_only(self, node: int, *, kill: bool) -> bool:
        """Stop or kill the only broker; return False if there are several."""
        raise NotImplementedError

    def kill(self, node: int) -> None:
        """End a node's process at once (SIGKILL). While no controller runs, no leader is elected and no topic is made. A single broker, with
        `process=True`, is node 1."""
        if not self._end_only(node, kill=True):
            self._several().node(node).kill()

    def stop(self, node: int) -> None:
        """Have a node leave cleanly: its leaderships move to other nodes first. A single broker is node 1; `start(1)` starts it again."""
        if not self._end_only(node, kill=False):
            self._several().node(node).stop()

    def pause(self, node: int) -> None:
        """Freeze a node's process (SIGSTOP), as a long garbage collection would: its connections stay open."""
        self._several().node(node).pause()

    def resume(self, node: int) -> None:
        """Let a paused node continue (SIGCONT)."""
        self._several().node(node).resume()

    def partition(self, *sides: Collection[int]) -> None:
        """Cut the network between nodes of different sides, as in `partition({1}, {2, 3})`. Clients still reach every node.

        Returns when every node has cut its links; a paused one cuts them before `resume` returns."""
        self._several().partition(*sides)

    def slow(self, node: int, ms: float) -> None:
        """Delay every request between a node and the others by `ms`."""
        self._several().slow(node, ms)

    def heal(self) -> None:
        """End every partition and delay."""
        self._several().heal()

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of a partition's leader, -1 without one."""
        return self._several().seen(topic, partition).leader

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        """Return the ids of the replicas that are in sync."""
        return set(self._several().seen(topic, partition).isr)

    @property
    def pids(self) -> dict[int, int]:
        """The ids of the processes of the nodes that run, by node."""
        return {node_id: node.child.pid for node_id, node in self._several().nodes.items() if node.alive}

    def controller(self) -> int:
        """Return the id of the active controller's node."""
        return self._several().controller()

    def await_isr(
        self, topic: str, partition: int, isr: Collection[int] | None = None, timeout: Duration = 10.0
    ) -> None:
        """Wait until the replicas in sync are exactly those that are wanted. `isr` has the ids of their nodes; without it all replicas are wanted.

        `timeout` is the longest wait: seconds, a string or a timedelta. Raises TimeoutError with what was seen."""
        self._several().await_isr(topic, partition, isr, duration_s(timeout, "timeout"))

    def acked_check(self, acked: Iterable[tuple[str, bytes]]) -> int:
        """Check that acknowledged records, as (topic, value) with distinct values, are there exactly once. Return their number.

        Raises AckedRecordsDiffer, which is an AssertionError too."""
        return self._several().acked_check(acked)

    def reset(self) -> None:
        """Bring every node back, heal every link, and delete every topic but the internal ones."""
        self._several().reset()


def one_broker_only() -> BrokerStartError:
    """Return the error of a method that needs several brokers."""
    return BrokerStartError("this Cluster has one broker; Cluster(brokers=3) has nodes that can be killed and cut off")
