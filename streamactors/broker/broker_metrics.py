"""What a broker measures of itself, taken when it is asked for. Names: docs/broker.md lists them.

Owner: the metrics endpoint. `sample` runs on the data plane's thread, because what it reads belongs to it; nothing is
counted for it on the way of a request beyond what the parts keep anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from streamactors.broker.group.group_metrics import groups_by_state

if TYPE_CHECKING:
    from streamactors.broker.node import Node
    from streamactors.broker.purgatory import Purgatory


class Metric(NamedTuple):
    """One metric with its samples: (values of the labels, value)."""

    name: str
    kind: str  # "gauge" or "counter"
    doc: str
    labels: tuple[str, ...]
    samples: tuple[tuple[tuple[str, ...], float], ...]


def sample(node: Node) -> list[Metric]:
    """Return all metrics of a broker as of now. On the data plane's thread."""
    return [*_cluster(node), *_network(node), *_purgatories(node), *_topics(node), *_groups(node)]


def _cluster(node: Node) -> Iterator[Metric]:
    image = node.controller.image
    partitions = list(node.partitions)
    yield _gauge("streamactors_metadata_offset", "Last record of the metadata log that is applied.", image.offset)
    yield _gauge("streamactors_topics", "Topics of the cluster.", len(image.topics))
    yield _gauge("streamactors_partitions", "Partitions hosted by this broker.", len(partitions))
    yield _gauge("streamactors_leaders", "Partitions led by this broker.", sum(p.is_leader for p in partitions))
    offline = sum(p.offline is not None for p in partitions)
    yield _gauge("streamactors_offline_partitions", "Partitions that take no records because the disk failed.", offline)


def _network(node: Node) -> Iterator[Metric]:
    processor = node.processor
    yield _gauge("streamactors_connections", "Open client connections.", len(processor.connections))
    yield _gauge("streamactors_request_bytes_in_flight", "Bytes of requests being served.", processor.in_flight_bytes)


def _purgatories(node: Node) -> Iterator[Metric]:
    purgatories: tuple[Purgatory, ...] = (node.produce_purgatory, node.fetch_purgatory)
    yield Metric(
        "streamactors_purgatory_size",
        "gauge",
        "Requests watched in a purgatory, completed ones that are not purged yet included.",
        ("purgatory",),
        tuple(((each.name,), each.watched) for each in purgatories),
    )
    yield Metric(
        "streamactors_purgatory_delayed",
        "gauge",
        "Requests that wait in a purgatory.",
        ("purgatory",),
        tuple(((each.name,), each.delayed) for each in purgatories),
    )


def _topics(node: Node) -> Iterator[Metric]:
    size: dict[str, int] = {}
    end: dict[str, int] = {}
    start: dict[str, int] = {}
    for partition in node.partitions:
        topic, log = partition.topic, partition.log
        size[topic] = size.get(topic, 0) + log.size_bytes
        end[topic] = end.get(topic, 0) + log.end_offset
        start[topic] = start.get(topic, 0) + log.log_start_offset
    yield _by_topic("streamactors_log_bytes", "gauge", "Bytes of a topic's logs.", size.items())
    yield _by_topic(
        "streamactors_log_end_offset",
        "counter",
        "Sum of the end offsets of a topic: records ever appended.",
        end.items(),
    )
    yield _by_topic(
        "streamactors_log_start_offset",
        "counter",
        "Sum of the start offsets of a topic: records deleted.",
        start.items(),
    )


def _groups(node: Node) -> Iterator[Metric]:
    groups = node.groups
    counts = groups_by_state(groups.coordinated())
    yield Metric(
        "streamactors_groups",
        "gauge",
        "Consumer groups coordinated by this broker, by state.",
        ("state",),
        tuple(((state,), count) for state, count in counts.items()),
    )
    lags = groups.lags()
    labels = tuple((each.group, each.topic, str(each.partition)) for each in lags)
    yield Metric(
        "streamactors_group_committed_offset",
        "gauge",
        "Next offset a group will read after a restart.",
        ("group", "topic", "partition"),
        tuple((names, each.committed) for names, each in zip(labels, lags, strict=True)),
    )
    yield Metric(
        "streamactors_group_lag",
        "gauge",
        "Records of a partition that a group has not committed yet.",
        ("group", "topic", "partition"),
        tuple((names, each.lag) for names, each in zip(labels, lags, strict=True)),
    )
    ongoing = node.transactions.open_transactions()
    yield _gauge("streamactors_open_transactions", "Transactions begun and not decided yet.", ongoing)


def _gauge(name: str, doc: str, value: float) -> Metric:
    return Metric(name, "gauge", doc, (), (((), value),))


def _by_topic(name: str, kind: str, doc: str, values: Iterable[tuple[str, float]]) -> Metric:
    return Metric(name, kind, doc, ("topic",), tuple(((topic,), value) for topic, value in sorted(values)))
