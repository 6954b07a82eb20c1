"""The metrics of Kafka clients are read while streams of other threads open and close their clients."""

from __future__ import annotations

import sys
import threading

from streamactors.kafka import ProducerSettings
from streamactors.kafka.client.producer import COUNTS, ProducerCounts
from streamactors.metrics.kafka import ConsumerCollector


class Producer:
    """A producer as the collector sees it."""

    outstanding = 3

    def __init__(self, counts: ProducerCounts) -> None:
        self.settings = ProducerSettings("broker:1", transactional_id="t")
        self.counts = counts


def test_a_scrape_shows_the_counts_that_producers_of_one_name_share_once():
    shared = ProducerCounts(sent=7, failed=1, commits=2, aborts=1)
    families = {each.name: each for each in ConsumerCollector((), [Producer(shared), Producer(shared)]).collect()}
    found = {name: [sample.value for sample in family.samples] for name, family in families.items() if family.samples}
    assert found["streamactors_kafka_producer_outstanding_records"] == [6]
    assert found["streamactors_kafka_producer_sent"] == [7]
    assert found["streamactors_kafka_producer_failed"] == [1]
    assert found["streamactors_kafka_transaction_commits"] == [2]
    assert found["streamactors_kafka_transaction_aborts"] == [1]


def test_a_scrape_meets_producers_that_come_and_go():
    """The scrape copied a WeakValueDictionary: a producer that was opened or collected meanwhile made it fail (RuntimeError, KeyError)."""
    stop = threading.Event()

    def open_and_drop() -> None:
        number = 0
        while not stop.is_set():
            kept = [COUNTS.setdefault((f"b{number}", str(each)), ProducerCounts()) for each in range(50)]
            number += len(kept)

    thread = threading.Thread(target=open_and_drop)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for _ in range(300):
            list(ConsumerCollector(()).collect())
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
