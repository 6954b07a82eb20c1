"""Programs that have done some work and now wait for more: `python -m tests.watch.idle_programs NAME BOOTSTRAP`.

Each prints a line when its work is done, and ends with its input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

TOPIC = "idle"
RECORDS = 100


def committing_source(bootstrap: str) -> Any:
    """A consumer that has read everything and committed it."""
    from streamactors import Keep
    from streamactors.kafka import Committer, CommitterSettings, Consumer, ConsumerSettings, Subscriptions

    settings = ConsumerSettings(bootstrap, group_id="committing", auto_offset_reset="earliest")
    source = Consumer.committable_source(settings, Subscriptions.topics(TOPIC))
    control, done = (
        source.map(lambda message: message.offset).to_mat(Committer.sink(CommitterSettings()), Keep.both).run()
    )
    while (
        not (partitions := control.snapshot()["partitions"])
        or sum(at["committed"] or 0 for at in partitions.values()) < RECORDS
    ):
        pass
    return control, done


def windows(bootstrap: str) -> Any:
    """A windowed count whose last window stays open."""
    from streamactors import Keep, Sink
    from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
    from streamactors.windows import TimeWindows

    settings = ConsumerSettings(bootstrap, group_id="windows", auto_offset_reset="earliest")
    seen: list[object] = []
    counted = (
        Consumer.records(settings, Subscriptions.topics(TOPIC), value="string")
        .map(lambda record: record.replace(key="all"))
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1h").with_no_grace())
        .count()
        .to_stream()
    )
    running = counted.to_mat(Sink.foreach(seen.append), Keep.both).run()
    while not seen:
        pass
    return running


def producer(bootstrap: str) -> Any:
    """A producer that waits for its next record."""
    from streamactors import Keep, Source
    from streamactors.kafka import Producer, ProducerRecord, ProducerSettings

    queue, done = Source.queue(8).to_mat(Producer.plain_sink(ProducerSettings(bootstrap)), Keep.both).run()
    queue.offer(ProducerRecord(TOPIC, "more"))
    return queue, done


def worker_process(bootstrap: str) -> Any:
    """A stream with a worker process that waits for its next element."""
    from streamactors import Keep, Sink, Source

    seen: list[object] = []
    queue, done = (
        Source.queue(8)
        .async_boundary(process=True)
        .map(str)
        .async_boundary()
        .to_mat(Sink.foreach(seen.append), Keep.both)
        .run()
    )
    queue.offer(1)
    while not seen:
        pass
    return queue, done


def coroutines(bootstrap: str) -> Any:
    """A stream that has called a coroutine and waits for its next element, and a timer once an hour."""
    import asyncio

    from streamactors import Keep, Sink, Source

    async def call(n: int) -> int:
        await asyncio.sleep(0)
        return n

    seen: list[object] = []
    queue, done = Source.queue(8).map_async(4, call).to_mat(Sink.foreach(seen.append), Keep.both).run()
    ticks = Source.tick("1h", "1h", None).run_with(Sink.ignore())
    queue.offer(1)
    while not seen:
        pass
    return queue, done, ticks


PROGRAMS: dict[str, Callable[[str], Any]] = {
    program.__name__: program for program in (committing_source, windows, producer, worker_process, coroutines)
}


if __name__ == "__main__":
    kept = PROGRAMS[sys.argv[1]](sys.argv[2])
    print("idle", flush=True)
    sys.stdin.read()
