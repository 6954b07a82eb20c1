"""Settings of a `Cluster`, for tests and demos, not for a long-lived broker.

Owner: `Cluster`. Settings that the caller gives win."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import Plain

PROFILE: Final[Mapping[str, Plain]] = {
    "auto.create.topics.enable": True,
    "group.initial.rebalance.delay.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}
QUICK_GROUPS: Final[Mapping[str, Plain]] = {
    "min.heartbeat.interval.ms": 200,
    "heartbeat.interval.ms": 200,
    "assignment.interval.ms": 0,
}
"""Settings of each kind of group whose members learn their partitions from heartbeats. With Kafka's 5 s a rebalance takes 5 to 10 s."""
KINDS: Final = ("consumer", "share", "streams")
# clients use real time: their timestamps may be far from the given clock, and a connection may be silent while the clock moves by hours
ANY_TIME: Final[Mapping[str, Plain]] = {
    "log.message.timestamp.after.max.ms": 2**63 - 1,
    "connections.max.idle.ms": 2**63 - 1,
}


def with_profile(given: Mapping[str, Plain], *, virtual: bool) -> dict[str, Plain]:
    """Return the settings of a Cluster. A kind of group for which `given` has an interval keeps Kafka's other intervals: a given minimum may be above 200 ms."""
    quick = {
        f"group.{kind}.{name}": value
        for kind in KINDS
        if not any(f"group.{kind}.{name}" in given for name in (*QUICK_GROUPS, *_LIMITS))
        for name, value in QUICK_GROUPS.items()
    }
    return {**PROFILE, **quick, **(ANY_TIME if virtual else {}), **given}


_LIMITS: Final = ("max.heartbeat.interval.ms", "min.assignment.interval.ms", "max.assignment.interval.ms")
