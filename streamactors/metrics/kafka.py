"""Metrics of the consumers, producers and transactions of this process for Prometheus: register COLLECTOR where the process registers its metrics.

Labels: `graph` (the name of the graph, or of its source), `group`, `topic`, `partition`. Owner: the process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.registry import Collector

from streamactors.actors.futures import StreamFuture
from streamactors.kafka.client.producer import PRODUCERS, StreamProducer
from streamactors.kafka.controls.control import RUNNING, Control
from streamactors.kafka.dead_letters import WRITTEN
from streamactors.metric_family import Family, counter, gauge

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_GRAPH: Final = ("graph", "group")
_PARTITION: Final = (*_GRAPH, "topic", "partition")
_CLIENT: Final = ("bootstrap_servers", "transactional_id")


def _of_partition(name: str, meaning: str, alert: str = "") -> tuple[str, Family]:
    return name, gauge(f"streamactors_kafka_{name}", _PARTITION, meaning, alert)


PARTITION: Final = (
    _of_partition("lag", "Records of the partition that are not done yet", "it grows for ten minutes"),
    _of_partition(
        "lag_seconds",
        "Age of the oldest record of the partition that is not done, by its timestamp; no sample while that is not known",
        "it is above what the users of the results accept",
    ),
    _of_partition("position", "Offset of the next record to be delivered"),
    _of_partition("done", "Offset before which every record is done at every sink"),
    _of_partition("committed", "Offset that is committed", "it stays while the position moves"),
    _of_partition("end", "Offset after the last record, as far as the consumer knows it"),
    _of_partition("in_flight", "Records that were delivered and are not done"),
    _of_partition("buffered_records", "Records of the partition that wait for demand"),
    _of_partition("buffered_bytes", "Bytes of the partition that wait for demand"),
    _of_partition("paused", "Whether back-pressure has the partition paused: 1, else 0"),
)
COUNTS: Final = (
    ("delivered", counter("streamactors_kafka_delivered_total", _GRAPH, "Records given to the stream")),
    ("pauses", counter("streamactors_kafka_pauses_total", _GRAPH, "Times a partition was paused by back-pressure")),
    (
        "rebalances",
        counter(
            "streamactors_kafka_rebalances_total",
            _GRAPH,
            "Times that partitions came to the consumer or went",
            "it keeps growing",
        ),
    ),
    ("resumes", counter("streamactors_kafka_resumes_total", _GRAPH, "Times a partition was resumed")),
)
RESTARTS: Final = counter(
    "streamactors_kafka_restarts_total",
    _GRAPH,
    "Times the stream was aborted and has begun again in its process, as after a freeze",
    "it keeps growing",
)
OUTSTANDING: Final = gauge(
    "streamactors_kafka_producer_outstanding_records", _CLIENT, "Records that were sent and not acknowledged yet"
)
SENT: Final = counter("streamactors_kafka_producer_sent_total", _CLIENT, "Records given to the producer")
FAILED: Final = counter(
    "streamactors_kafka_producer_failed_total",
    _CLIENT,
    "Records that could not be written; the stream fails, or drops them as its supervision says",
    "it grows",
)
COMMITS: Final = counter("streamactors_kafka_transaction_commits_total", _CLIENT, "Transactions that were committed")
ABORTS: Final = counter(
    "streamactors_kafka_transaction_aborts_total",
    _CLIENT,
    "Transactions that were aborted; their records are written again",
    "it grows as fast as the commits",
)
LETTERS: Final = counter(
    "streamactors_kafka_dead_letters_total",
    ("topic",),
    "Records that were handed to a topic of dead letters or of retries, since the process began",
    "it grows",
)
FAMILIES: Final = (
    *(family for _, family in (*PARTITION, *COUNTS)),
    RESTARTS,
    OUTSTANDING,
    SENT,
    FAILED,
    COMMITS,
    ABORTS,
    LETTERS,
)
ANSWERS_S: Final = 2.0
"""How long a scrape waits for all consumers together; one that does not answer is looked at as it is."""


class ConsumerCollector(Collector):
    """Asks the running clients when it is scraped; costs nothing between."""

    def __init__(self, controls: Iterable[Control] = RUNNING, producers: Iterable[StreamProducer] = PRODUCERS) -> None:
        self._controls = controls
        self._producers = producers

    def collect(self) -> Iterator[Metric]:
        """The families of all running clients."""
        controls = list(self._controls)
        shots = list(_snapshots(controls))
        for name, family in PARTITION:
            yield family.metric(
                ((*labels, *_place(key)), float(known[name]))
                for labels, shot in shots
                for key, known in shot["partitions"].items()
                if known[name] is not None
            )
        for name, family in COUNTS:
            yield _sum(family, ((labels, shot[name]) for labels, shot in shots))
        yield _sum(RESTARTS, (((control.graph, control.group), control.restarts) for control in controls))
        yield from self._of_producers()
        yield _sum(LETTERS, (((topic,), count) for topic, count in dict(WRITTEN).items()))

    def _of_producers(self) -> Iterator[Metric]:
        producers = [
            ((each.settings.bootstrap_servers, each.settings.transactional_id or ""), each) for each in self._producers
        ]
        yield _sum(OUTSTANDING, ((labels, each.outstanding) for labels, each in producers))
        counts = {labels: each.counts for labels, each in producers}
        yield SENT.metric((labels, each.sent) for labels, each in counts.items())
        yield FAILED.metric((labels, each.failed) for labels, each in counts.items())
        transactional = {labels: each for labels, each in counts.items() if labels[1]}
        yield COMMITS.metric((labels, each.commits) for labels, each in transactional.items())
        yield ABORTS.metric((labels, each.aborts) for labels, each in transactional.items())

    def describe(self) -> list[Metric]:
        """Return nothing: registering asks no consumer."""
        return []


def _snapshots(controls: Iterable[Control]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Ask all consumers at once. One that waits in a rebalance, or for the broker, is looked at from outside."""
    asked: list[tuple[Control, StreamFuture[dict[str, Any]]]] = [(each, each.ask_snapshot()) for each in controls]
    until = time.monotonic() + ANSWERS_S
    for control, reply in asked:
        try:
            shot = reply.result(max(0.0, until - time.monotonic()))
        except TimeoutError:
            if control.look is None:
                continue
            shot = control.look()
        yield (control.graph, control.group), shot


def _place(key: str) -> tuple[str, str]:
    topic, _, number = key.rpartition("-")
    return topic, number


def _sum(family: Family, found: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    """Add up what has the same labels: two sources of one graph, two producers of one broker."""
    sums: Counter[tuple[str, ...]] = Counter()
    for labels, count in found:
        sums[labels] += count  # type: ignore[assignment]
    return family.metric(sums.items())


COLLECTOR: Final = ConsumerCollector()
