"""The metrics of a broker, computed on request. docs/metrics.md lists them.

Owner: the metrics endpoint. `sample` runs on the data plane's thread, which owns the state that `sample` reads. Serving a request updates no
counter for metrics alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from streamactors.broker.group.group_metrics import groups_by_state
from streamactors.broker.http.share_metrics import FAMILIES as SHARES
from streamactors.broker.http.share_metrics import sample_shares
from streamactors.metric_family import Family, Samples, counter, gauge

if TYPE_CHECKING:
    from streamactors.broker.node import Node
    from streamactors.broker.purgatory import Purgatory

Found = Iterator[tuple[Family, Samples]]

_TOPIC: Final = ("topic",)
_GROUP: Final = ("group", "topic", "partition")

METADATA_OFFSET: Final = gauge(
    "streamactors_broker_metadata_offset", (), "Last record of the metadata log that is applied"
)
TOPICS: Final = gauge("streamactors_broker_topics", (), "Topics of the cluster")
PARTITIONS: Final = gauge("streamactors_broker_partitions", (), "Partitions hosted by this broker")
LEADERS: Final = gauge("streamactors_broker_leaders", (), "Partitions led by this broker")
UNDER_REPLICATED: Final = gauge(
    "streamactors_broker_under_replicated_partitions",
    (),
    "Partitions led by this broker with a replica that is not in sync",
    "it is above 0 for five minutes",
)
OFFLINE: Final = gauge(
    "streamactors_broker_offline_partitions",
    (),
    "Partitions that take no records because the disk failed",
    "it is above 0",
)
CONNECTIONS: Final = gauge("streamactors_broker_connections", (), "Open client connections")
IN_FLIGHT: Final = gauge("streamactors_broker_request_in_flight_bytes", (), "Bytes of requests being served")
WATCHED: Final = gauge(
    "streamactors_broker_purgatory_watched_requests",
    ("purgatory",),
    "Requests watched in a purgatory, completed ones that are not purged yet included",
)
DELAYED: Final = gauge(
    "streamactors_broker_purgatory_delayed_requests", ("purgatory",), "Requests that wait in a purgatory"
)
LOG_BYTES: Final = gauge("streamactors_broker_log_bytes", _TOPIC, "Bytes of a topic's logs")
APPENDED: Final = counter(
    "streamactors_broker_log_end_offset_total", _TOPIC, "Sum of the end offsets of a topic: records ever appended"
)
DELETED: Final = counter(
    "streamactors_broker_log_start_offset_total", _TOPIC, "Sum of the start offsets of a topic: records deleted"
)
DISK_FREE: Final = gauge(
    "streamactors_broker_disk_free_bytes",
    ("folder",),
    "Bytes that are free on the disk of a data folder",
    "it is below what a day of records needs",
)
GROUPS: Final = gauge(
    "streamactors_broker_groups", ("state",), "Groups of every kind that this broker coordinates, by state"
)
COMMITTED: Final = gauge(
    "streamactors_broker_group_committed_offset", _GROUP, "Next offset a group will read after a restart"
)
LAG: Final = gauge(
    "streamactors_broker_group_lag",
    _GROUP,
    "Records of a partition that a group has not committed yet",
    "it grows for ten minutes",
)
TRANSACTIONS: Final = gauge("streamactors_broker_open_transactions", (), "Transactions begun and not decided yet")
TELEMETRY_CLIENTS: Final = gauge(
    "streamactors_broker_telemetry_clients", (), "Clients whose pushed metrics are shown, as streamactors_client_*"
)
TELEMETRY_DROPPED: Final = counter(
    "streamactors_broker_telemetry_dropped_total",
    (),
    "Numbers pushed by clients that are not shown: of another kind, or beyond a bound",
)
FAMILIES: Final = (
    METADATA_OFFSET, TOPICS, PARTITIONS, LEADERS, UNDER_REPLICATED, OFFLINE, CONNECTIONS, IN_FLIGHT, WATCHED, DELAYED, LOG_BYTES, APPENDED, DELETED,
    DISK_FREE, GROUPS, COMMITTED, LAG, TRANSACTIONS, TELEMETRY_CLIENTS, TELEMETRY_DROPPED, *SHARES,
)  # fmt: skip


def sample(node: Node) -> list[tuple[Family, Samples]]:
    """Return the current metrics of a broker. On the data plane's thread."""
    return [
        *_cluster(node),
        *_network(node),
        *_purgatories(node),
        *_topics(node),
        *_disks(node),
        *_groups(node),
        *sample_shares(node),
        *_telemetry(node),
    ]


def _cluster(node: Node) -> Found:
    image = node.metadata.image
    partitions = list(node.partitions)
    yield METADATA_OFFSET, _one(image.offset)
    yield TOPICS, _one(len(image.topics))
    yield PARTITIONS, _one(len(partitions))
    yield LEADERS, _one(sum(p.is_leader for p in partitions))
    yield UNDER_REPLICATED, _one(sum(p.is_leader and len(p.isr) < len(p.state.replicas) for p in partitions))
    yield OFFLINE, _one(sum(p.offline is not None for p in partitions))


def _network(node: Node) -> Found:
    processor = node.processor
    yield CONNECTIONS, _one(len(processor.connections))
    yield IN_FLIGHT, _one(processor.in_flight_bytes)


def _purgatories(node: Node) -> Found:
    both: tuple[Purgatory, ...] = (node.produce_purgatory, node.fetch_purgatory)
    yield WATCHED, [((each.name,), each.watched) for each in both]
    yield DELAYED, [((each.name,), each.delayed) for each in both]


def _topics(node: Node) -> Found:
    size: dict[str, int] = {}
    end: dict[str, int] = {}
    start: dict[str, int] = {}
    for partition in node.partitions:
        topic, log = partition.topic, partition.log
        size[topic] = size.get(topic, 0) + log.size_bytes
        end[topic] = end.get(topic, 0) + log.end_offset
        start[topic] = start.get(topic, 0) + log.log_start_offset
    yield LOG_BYTES, _of_topics(size)
    yield APPENDED, _of_topics(end)
    yield DELETED, _of_topics(start)


def _disks(node: Node) -> Found:
    free: list[tuple[tuple[str, ...], float]] = []
    for folder in node.logs.folders.all:
        try:
            space = os.statvfs(folder.path)
        except OSError:
            continue  # it has failed: its partitions are offline
        free.append(((str(folder.path),), space.f_bavail * space.f_frsize))
    yield DISK_FREE, free


def _groups(node: Node) -> Found:
    groups = node.groups
    yield GROUPS, [((state,), count) for state, count in groups_by_state(groups.coordinated()).items()]
    lags = [((each.group, each.topic, str(each.partition)), each) for each in groups.lags()]
    yield COMMITTED, [(labels, each.committed) for labels, each in lags]
    yield LAG, [(labels, each.lag) for labels, each in lags]
    yield TRANSACTIONS, _one(node.transactions.open_transactions())


def _telemetry(node: Node) -> Found:
    pushed = node.telemetry.pushed
    yield TELEMETRY_CLIENTS, _one(pushed.clients)
    yield TELEMETRY_DROPPED, _one(pushed.dropped)


def _one(value: float) -> Samples:
    return [((), value)]


def _of_topics(values: Mapping[str, int]) -> Samples:
    return [((topic,), value) for topic, value in sorted(values.items())]
