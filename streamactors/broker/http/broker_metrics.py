"""The metrics of a broker, computed on request. docs/broker-reference.md lists them.

Owner: the metrics endpoint. `sample` runs on the data plane's thread, which owns the state that `sample` reads. Requests count
nothing extra for metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from streamactors.broker.group.group_metrics import groups_by_state

if TYPE_CHECKING:
    from streamactors.broker.node import Node
    from streamactors.broker.purgatory import Purgatory


Sample = tuple[tuple[str, ...], float]  # values of the labels, value


class Metric(NamedTuple):
    """One metric with its samples."""

    name: str
    kind: str  # "gauge" or "counter"
    doc: str
    labels: tuple[str, ...]
    samples: tuple[Sample, ...]


def sample(node: Node) -> list[Metric]:
    """Return the current metrics of a broker. On the data plane's thread."""
    return [*_cluster(node), *_network(node), *_purgatories(node), *_topics(node), *_groups(node)]


def _cluster(node: Node) -> Iterator[Metric]:
    image = node.metadata.image
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
    both: tuple[Purgatory, ...] = (node.produce_purgatory, node.fetch_purgatory)
    watched = [((each.name,), each.watched) for each in both]
    waiting = [((each.name,), each.delayed) for each in both]
    doc = "Requests watched in a purgatory, completed ones that are not purged yet included."
    yield _labelled("streamactors_purgatory_size", doc, ("purgatory",), watched)
    yield _labelled("streamactors_purgatory_delayed", "Requests that wait in a purgatory.", ("purgatory",), waiting)


def _topics(node: Node) -> Iterator[Metric]:
    size: dict[str, int] = {}
    end: dict[str, int] = {}
    start: dict[str, int] = {}
    for partition in node.partitions:
        topic, log = partition.topic, partition.log
        size[topic] = size.get(topic, 0) + log.size_bytes
        end[topic] = end.get(topic, 0) + log.end_offset
        start[topic] = start.get(topic, 0) + log.log_start_offset
    by_topic = ("topic",)
    doc = "Bytes of a topic's logs."
    yield _labelled("streamactors_log_bytes", doc, by_topic, _of_topics(size))
    doc = "Sum of the end offsets of a topic: records ever appended."
    yield _labelled("streamactors_log_end_offset", doc, by_topic, _of_topics(end), "counter")
    doc = "Sum of the start offsets of a topic: records deleted."
    yield _labelled("streamactors_log_start_offset", doc, by_topic, _of_topics(start), "counter")


def _groups(node: Node) -> Iterator[Metric]:
    groups = node.groups
    counts = groups_by_state(groups.coordinated())
    doc = "Consumer groups coordinated by this broker, by state."
    yield _labelled("streamactors_groups", doc, ("state",), [((state,), count) for state, count in counts.items()])
    lags = [((each.group, each.topic, str(each.partition)), each) for each in groups.lags()]
    by_partition = ("group", "topic", "partition")
    doc = "Next offset a group will read after a restart."
    committed = [(labels, each.committed) for labels, each in lags]
    yield _labelled("streamactors_group_committed_offset", doc, by_partition, committed)
    doc = "Records of a partition that a group has not committed yet."
    yield _labelled("streamactors_group_lag", doc, by_partition, [(labels, each.lag) for labels, each in lags])
    ongoing = node.transactions.open_transactions()
    yield _gauge("streamactors_open_transactions", "Transactions begun and not decided yet.", ongoing)


def _gauge(name: str, doc: str, value: float) -> Metric:
    return _labelled(name, doc, (), [((), value)])


def _labelled(name: str, doc: str, labels: tuple[str, ...], samples: Iterable[Sample], kind: str = "gauge") -> Metric:
    return Metric(name, kind, doc, labels, tuple(samples))


def _of_topics(values: dict[str, int]) -> Iterator[Sample]:
    return (((topic,), value) for topic, value in sorted(values.items()))
