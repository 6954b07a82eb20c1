"""The replication of a broker that is its whole cluster: it copies nothing, and nobody copies from it.

Owner: the data plane, in the place of `Replicas`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamactors.broker.replication.isr_publisher import Membership


class NoThrottles:
    """No replica is throttled."""

    def hold_back(self, topics: object, replica: int) -> None:
        """Hold back nothing."""

    def count(self, topics: object, reading: object) -> None:
        """Count nothing."""

    def may_fetch(self, partition: object) -> bool:
        """Return True."""
        return True

    def got(self, partition: object, size: int) -> None:
        """Count nothing."""


class NoReplicas:
    """The members of the ISR are all that counts, and no partition has a `LeaderState`."""

    others: Final = False
    lag_ms: Final = 0.0
    lost_leaders: Final[Sequence[int]] = ()
    refusing_leaders: Final[Sequence[int]] = ()

    def __init__(self, membership: Membership) -> None:
        self.throttles: Final = NoThrottles()
        self._membership = membership

    @property
    def broker_epoch(self) -> int:
        """The epoch in which this broker has registered, -1 before it."""
        return self._membership.broker_epoch

    @property
    def lease_end_ms(self) -> float:
        """Until when no other broker is elected in this one's place."""
        return self._membership.lease_end_ms

    def eligible(self, replica: int, broker_epoch: int) -> bool:
        """Return False: no other broker is there."""
        return False

    def propose(self, partition: Any, proposal: Any) -> None:
        """Do nothing: an ISR without followers does not change."""
