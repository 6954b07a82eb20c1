"""The metrics of share groups on the broker that leads their partitions, computed on request.

Owner: the metrics endpoint, on the data plane's thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from streamactors.broker.share.fetching.share_reading import bound_of
from streamactors.broker.share.partition.in_flight import RecordState
from streamactors.metric_family import Family, Samples, counter, gauge

if TYPE_CHECKING:
    from streamactors.broker.node import Node

_PARTITION: Final = ("group", "topic", "partition")
_GROUP: Final = ("group",)

SESSIONS: Final = gauge(
    "streamactors_broker_share_group_sessions", (), "Members of share groups that fetch from this broker"
)
LOCKED: Final = gauge(
    "streamactors_broker_share_group_locked_records", _PARTITION, "Records that members of a share group have locked"
)
LAG: Final = gauge(
    "streamactors_broker_share_group_lag",
    _PARTITION,
    "Records of a partition that a share group has not done: neither accepted nor given up",
    "it grows for ten minutes",
)
DEAD_LETTERS: Final = counter(
    "streamactors_broker_share_group_dead_letters_total",
    _GROUP,
    "Records that this broker has written to the dead letter queue of a share group",
    "it grows",
)
LOST_LETTERS: Final = counter(
    "streamactors_broker_share_group_dead_letter_failures_total",
    _GROUP,
    "Writes to the dead letter queue of a share group that were given up: the records are archived without",
    "it is above 0",
)
FAMILIES: Final = (SESSIONS, LOCKED, LAG, DEAD_LETTERS, LOST_LETTERS)


def sample_shares(node: Node) -> Iterator[tuple[Family, Samples]]:
    """Return the current metrics of share groups."""
    shares = node.share_partitions
    locked: list[tuple[tuple[str, ...], float]] = []
    lags: list[tuple[tuple[str, ...], float]] = []
    for led in shares.active():
        records, partition = led.records, led.partition
        labels = (led.key.group_id, partition.topic, str(partition.index))
        states = records.states()
        locked.append(
            (labels, sum(last - first + 1 for first, last, each in states if each.state is RecordState.ACQUIRED))
        )
        end = bound_of(partition, shares.config_of(led.key.group_id).read_committed)
        lags.append((labels, max(0, end - records.start - records.complete_count())))
    yield SESSIONS, [((), len(shares.sessions))]
    yield LOCKED, locked
    yield LAG, lags
    letters = shares.dead_letters
    yield DEAD_LETTERS, [((group,), count) for group, count in sorted(letters.records.items())]
    yield LOST_LETTERS, [((group,), count) for group, count in sorted(letters.failures.items())]
