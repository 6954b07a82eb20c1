"""This broker's part in replication: which partitions it copies from whom, and who follows the ones that it leads.

Owner: the data plane. It follows the metadata, after the partition table has."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.isr_publisher import ActiveController, IsrPublisher, Membership
from streamactors.broker.replication.leader_state import Proposal
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.replication.replica_fetcher import ReplicaFetcher
from streamactors.broker.replication.throttling import Throttles

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.replication")

NO_LEADER: Final = -1


class Replicas:
    """The fetchers by leader, the proposals for the ISR, and the regular check for members that lag."""

    def __init__(
        self, node: Runtime, partitions: PartitionTable, membership: Membership, controller: ActiveController
    ) -> None:
        self._node = node
        self._partitions = partitions
        self._membership = membership
        self._publisher = IsrPublisher(node, membership, controller)
        self._buffers = Buffers()
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leaders: dict[HostedPartition, int] = {}  # of the partitions that are copied
        self._timer: Timer | None = None
        self._stopped = False
        self._lapsed = False
        self.throttles = Throttles(node)
        self.lag_ms = float(node.config.replica_lag_time_max_ms)

    others: Final = True

    # --- life ---

    def start(self) -> None:
        """Follow the metadata from now on. On the data plane's thread, before the first image is applied."""
        self._node.metadata.subscribe(self._changed)
        self._timer = self._node.data_plane.call_later(self.lag_ms / 2, self._check_lag)

    def stop(self) -> None:
        """End the fetchers. Later changes of the metadata start none. On the data plane's thread."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._publisher.stop()
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._leaders.clear()

    @property
    def broker_epoch(self) -> int:
        """The epoch in which this broker has registered, -1 before it."""
        return self._membership.broker_epoch

    # --- for partitions that this broker leads ---

    @property
    def lease_end_ms(self) -> float:
        """Until when the session with the controller is a lease for every partition that this broker leads."""
        return self._membership.lease_end_ms

    def eligible(self, replica: int, broker_epoch: int) -> bool:
        """Whether a replica may be in the ISR."""
        broker = self._node.metadata.image.brokers.get(replica)
        return (
            broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            and broker_epoch in (-1, broker.broker_epoch)
        )

    def propose(self, partition: HostedPartition, proposal: Proposal) -> None:
        """Ask the controller for another ISR."""
        self._publisher.propose(partition, proposal)

    def _check_lag(self) -> None:
        now_ms = self._node.clock.now_ms()
        self._timer = self._node.data_plane.call_later(self.lag_ms / 2, self._check_lag)
        lapsed: list[HostedPartition] = []
        for partition in self._partitions:
            leading = partition.leader_state
            if leading is None:
                continue
            if not partition.has_lease:
                lapsed.append(partition)
            proposal = leading.shrinkage(partition.log_end_offset, now_ms, self.lag_ms)
            if proposal is not None:
                self.propose(partition, proposal)
            partition.update_high_watermark()  # a follower outside the ISR may have stopped to be waited for
        self._report_leases(lapsed)

    def _report_leases(self, lapsed: list[HostedPartition]) -> None:
        """Log when leases have lapsed, and when the last one is back."""
        if lapsed and not self._lapsed:
            named = ", ".join(map(str, lapsed[:5])) + (", …" if len(lapsed) > 5 else "")
            _log.warning(
                "no controller has accepted a heartbeat of this broker within broker.session.timeout.ms, and followers that may lead by now do not fetch: "
                "%d partitions that it led last answer NOT_LEADER_OR_FOLLOWER: %s",
                len(lapsed),
                named,
            )
        elif self._lapsed and not lapsed:
            _log.info("this broker leads again all partitions that the metadata gives it")
        self._lapsed = bool(lapsed)

    # --- for partitions that other brokers lead ---

    @property
    def lost_leaders(self) -> list[int]:
        """The brokers that have closed or refused the connection over which this broker copies their partitions, and have not answered since."""
        return [leader for leader, fetcher in self._fetchers.items() if fetcher.lost]

    @property
    def refusing_leaders(self) -> list[int]:
        """The brokers that have refused the connection over which this broker copies their partitions, and have not answered since."""
        return [leader for leader, fetcher in self._fetchers.items() if fetcher.refused]

    def _changed(self, delta: ImageDelta) -> None:
        if self._stopped:
            return
        for topic in (*delta.created, *delta.changed):
            for record in topic.partitions:
                partition = self._partitions.get(topic.name, record.partition)
                if partition is not None:
                    self._follow(partition)
        if delta.deleted or delta.changed:
            for partition in [each for each in self._leaders if each.deleted]:
                self._leave(partition)
        if delta.changed_brokers:
            for leader in delta.changed_brokers & set(self._leaders.values()):
                self._reach(leader)
        for leader in [each for each, fetcher in self._fetchers.items() if fetcher.idle]:
            self._fetchers.pop(leader).stop()

    def _follow(self, partition: HostedPartition) -> None:
        leader = partition.leader
        copied = leader not in (NO_LEADER, self._node.node_id) and self._node.node_id in partition.state.replicas
        if self._leaders.get(partition, NO_LEADER) != (leader if copied else NO_LEADER):
            self._leave(partition)
        if copied and not partition.deleted:
            self._leaders[partition] = leader
            fetcher = self._fetchers.get(leader)
            if fetcher is None:
                self._reach(leader)
            else:
                fetcher.follow(partition)

    def _leave(self, partition: HostedPartition) -> None:
        leader = self._leaders.pop(partition, None)
        if leader is not None and leader in self._fetchers:
            self._fetchers[leader].forget(partition)

    def _reach(self, leader: int) -> None:
        """Fetch from a leader at its current address."""
        address = self._address(leader)
        fetcher = self._fetchers.get(leader)
        if fetcher is not None and fetcher.address == address:
            return
        if fetcher is not None:
            self._fetchers.pop(leader).stop()
        if address is None:
            return  # it is fenced or unknown: the next change of its registration is looked at
        fetcher = ReplicaFetcher(self._node, leader, address, self._buffers, lambda: self.broker_epoch)
        self._fetchers[leader] = fetcher
        for partition, followed in self._leaders.items():
            if followed == leader:
                fetcher.follow(partition)

    def _address(self, broker_id: int) -> Address | None:
        broker = self._node.metadata.image.brokers.get(broker_id)
        if broker is None:
            return None
        name = self._node.to_brokers.listener
        endpoint = broker.endpoint(name)
        if endpoint is None:
            _log.error("broker %d has no listener %s: its partitions cannot be copied", broker_id, name)
            return None
        return endpoint.host, endpoint.port
