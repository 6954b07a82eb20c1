"""The lease of a leader: until when it may speak for its partition. Pure.

A leader that is cut off does not hear that another one was elected. Without a lease it would name an old end of the partition, and accept records
that it must give up later. A lease has one of two reasons:

* the active controller has accepted a heartbeat of this broker: until the session that begins when the heartbeat was sent is over, the controller
  elects no other leader;
* every replica that could be elected in this broker's place has fetched from it within the lag time: none of them leads. So a cluster whose only
  controller is down serves the partitions whose replicas in sync are alive.

Owner: the hosted partition, on the data plane. Times are those of the clock's monotonic time. Apache Kafka has no lease."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

NEVER: Final = float("-inf")
ALWAYS: Final = float("inf")


def candidates(
    me: int, *, replicas: Collection[int], isr: Collection[int], elr: Collection[int], unclean: bool
) -> frozenset[int]:
    """Return the replicas that the controller may elect in place of `me`.

    `isr`: the maximal ISR, with the members that a proposal adds. `elr`: the eligible replicas outside the ISR (KIP-966). With `unclean` elections it
    may elect every replica. Without one of them this broker is the only possible leader."""
    return frozenset(replicas if unclean else {*isr, *elr}) - {me}


def lease_end_ms(
    controller_end_ms: float, others: Collection[int], fetched_ms: Mapping[int, float], lag_ms: float
) -> float:
    """Return when the lease ends.

    `controller_end_ms`: the end of the session with the controller. `others`: the `candidates`. `fetched_ms`: when each replica has fetched last."""
    by_followers = min((fetched_ms.get(each, NEVER) + lag_ms for each in others), default=ALWAYS)
    return max(controller_end_ms, by_followers)
