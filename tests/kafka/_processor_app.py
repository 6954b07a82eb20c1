"""A child process: a member of a group with state on disk that counts the rows of each key; killed by the tests at random.

It writes each count in the transaction of its state, and says "row" for each chunk of results."""

from __future__ import annotations

import sys
from typing import Any

from streamactors import ActorSystem
from streamactors.kafka import Consumer, ConsumerSettings, ProducerSettings
from streamactors.windows import KeyValueStore, Processor, Record, State


class Counting(Processor):
    """Forwards how many rows of the key there were."""

    def init(self, context: Any) -> None:
        self.context, self.counts = context, context.store("counts")

    def process(self, record: Record) -> None:
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        self.context.forward(record.replace(value=count))


def main(bootstrap: str, group: str, member: str, state: str, source: str, target: str, standbys: str) -> None:
    consumer = ConsumerSettings(
        bootstrap,
        group,
        "earliest",
        properties={"session.timeout.ms": 6_000, "group.instance.id": member, "heartbeat.interval.ms": 300},
        max_poll_records=100,
        revoke_timeout_ms=40_000,  # as in _joins_app.py: a member that has ended with an error is not started again
    )
    producer = ProducerSettings(bootstrap, transactional_id=f"{group}-{member}", commit_interval_ms=50)
    topics = Consumer.topics(
        consumer, producer=producer, state=State.on_disk(state, cache="16MB", standbys=int(standbys))
    )
    counted = topics.stream(source, value="bytes").process(Counting, stores=[KeyValueStore("counts")], name="counting")

    def tell(record: Record) -> None:
        if record.value % 20 == 0:
            print("row", flush=True)

    counted.peek(tell).to(target, value="json")
    with ActorSystem(member) as system:
        topics.graph().run(system).is_shutdown.result()


if __name__ == "__main__":
    main(*sys.argv[1:])
