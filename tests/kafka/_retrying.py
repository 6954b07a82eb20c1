"""A child process that reads a topic with retry topics, until a test kills it. It says what it has billed, and what it has given up."""

from __future__ import annotations

import os
import sys

from streamactors import ActorSystem, Flow, Keep, RestartSettings, Sink
from streamactors.kafka import ConsumerSettings, ProducerSettings, RetryTopics


def main(bootstrap: str, topic: str) -> None:
    settings = ConsumerSettings(
        bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        commit_interval_ms=20,
        properties={
            "session.timeout.ms": 6_000,
            "group.instance.id": "only",
        },  # the next process takes its place at once
    )
    retries = RetryTopics(topic, topic, delays=["20ms", "40ms"], dead_letters=f"{topic}-dead")
    retries.create(settings, partitions=2)

    def bill(record):  # type: ignore[no-untyped-def]
        number = int(record.value)
        level = retries.names.index(record.topic) + 1 if record.topic in retries.names else 0
        if number % 4 > level:  # 3 of 4 fail at first; those that leave 3 are given up
            raise ValueError("no money")
        os.write(1, f"{number}\n".encode())
        return number

    flow = Flow.map(bill).retry(
        1, RestartSettings("1ms", "1ms"), dead_letters=retries.sink(ProducerSettings(bootstrap))
    )
    with ActorSystem("retrying") as system:
        _, done = retries.source(settings).via(flow).to_mat(Sink.ignore(), Keep.both).run(system)
        done.result()


if __name__ == "__main__":
    main(*sys.argv[1:])
