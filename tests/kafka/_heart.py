"""A child process whose sink is slow; killed with -9 by the test. Prints each record that was processed, and the consumer's counts."""

from __future__ import annotations

import os
import sys
import threading

import reactivex.operators as rx

from streamactors import ActorSystem, Flow, Keep, Sink
from streamactors.kafka import Committer, CommitterSettings, Consumer, ConsumerSettings, Subscriptions


def say(*words: object) -> None:
    """Write a line in one piece: two threads speak here."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(bootstrap: str, topic: str, way: str) -> None:
    settings = ConsumerSettings(
        bootstrap,
        way,
        "earliest",
        commit_interval_ms=20,
        high_bytes=262_144,
        low_bytes=131_072,
        max_buffered_bytes=4 << 20,
        pause_dwell_ms=10,
        properties={"session.timeout.ms": 6_000, "group.instance.id": "only"},
    )
    subscription = Subscriptions.topics(topic)
    pause = threading.Event()

    def store(record):
        pause.wait(0.002)
        say("done", record.partition, record.offset)

    with ActorSystem("heart") as system:
        if way == "marks":
            pipeline = Flow.rx(
                rx.map(lambda record: (record,)), rx.flat_map(list), rx.filter(lambda record: True), holds=False
            )
            graph = Consumer.source(settings, subscription).via(pipeline).to_mat(Sink.foreach(store), Keep.both)
        else:

            def batch(messages):
                for message in messages:
                    store(message.record)
                return messages

            source = Consumer.committable_source(settings, subscription).via(Flow.rx(rx.buffer_with_count(4)))
            sink = Committer.sink(CommitterSettings(16, 20), offset=lambda batch: [m.offset for m in batch])
            graph = source.map(batch).to_mat(sink, Keep.both)
        control, done = graph.run(system)
        while not done.done():
            pause.wait(0.2)
            found = control.snapshot()
            held = sum(p["buffered_bytes"] for p in found.get("partitions", {}).values())
            say("state", found.get("pauses", 0), held)
        say("error", done.exception())


if __name__ == "__main__":
    main(*sys.argv[1:])
