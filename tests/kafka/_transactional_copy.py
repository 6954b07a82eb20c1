"""A child process that copies a topic transactionally until it has read it all; killed by the test at random."""

from __future__ import annotations

import sys

from streamactors import ActorSystem
from streamactors.kafka import (
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)


def main(bootstrap: str, source: str, target: str) -> None:
    consumer = ConsumerSettings(
        bootstrap, "copy", "earliest", properties={"session.timeout.ms": 6_000, "group.instance.id": "only"}
    )
    producer = ProducerSettings(bootstrap, transactional_id="copy", commit_interval_ms=20)

    def copy(record):
        print(record.offset, flush=True)
        return ProducerRecord(target, record.value, partition=record.partition)

    with ActorSystem("copy") as system:
        Transactional.source(consumer, Subscriptions.topics(source), until="end").map(copy).run_with(
            Transactional.sink(producer), system
        ).result(120)
    print("end", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
