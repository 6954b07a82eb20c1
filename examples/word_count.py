"""Word count: lines in a topic, a running count of each word in another. Run it: python examples/word_count.py

The counts and the read positions are committed in one transaction, so no word counts twice after a crash."""

from __future__ import annotations

from streamactors import Keep, RunnableGraph, Sink, Source, StreamFuture
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.windows import Record

LINES = [
    "a stream is a river that waits for you",
    "a river waits for nobody",
    "a stream waits for demand",
]


def graph(bootstrap: str = "localhost:9092") -> RunnableGraph[StreamFuture[None]]:
    """Count the words of topic `lines` into topic `word-counts`, until the end of what is there."""
    settings = ConsumerSettings(bootstrap, group_id="word-count", auto_offset_reset="earliest")
    return (
        Consumer.records(settings, Subscriptions.topics("lines"), value="string", until="end")
        .map_concat(words)
        .group_by_key()
        .count(name="words")
        .to_stream()
        .map(lambda count: ProducerRecord("word-counts", str(count.value), count.key))
        .to_mat(Transactional.sink(ProducerSettings(bootstrap, transactional_id="word-count")), Keep.right)
    )


def words(line: Record) -> list[Record]:
    """Return a record for each word of a line; it keeps the line's place in the topic."""
    return [line.replace(key=word, value=1) for word in line.value.split()]


def main() -> None:
    """Write the lines, count, and print the last count of each word."""
    with Cluster() as cluster:
        bootstrap = cluster.bootstrap_servers
        for topic in ("lines", "word-counts"):
            cluster.create_topic(topic)
        lines = Source.from_iterable(LINES).map(lambda line: ProducerRecord("lines", line))
        lines.run_with(Producer.plain_sink(ProducerSettings(bootstrap))).result(timeout=30)

        graph(bootstrap).run().result(timeout=60)

        settings = ConsumerSettings(bootstrap, group_id="reader", auto_offset_reset="earliest")
        counts = (
            Consumer.plain_source(settings, Subscriptions.topics("word-counts"), until="end")
            .map(lambda record: ((record.key or b"").decode(), int(record.value)))
            .run_with(Sink.to_list())
            .result(timeout=30)
        )
        for word, count in sorted(dict(counts).items(), key=lambda pair: (-pair[1], pair[0])):
            print(f"{count:3} {word}")


if __name__ == "__main__":
    main()
