"""What people do with the product, each in a process of its own: `python -m tests.watch.scenarios NAME COUNT [BOOTSTRAP]`.

Prints the largest resident memory of the process in MB. Ten times the elements must not need more of it."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from typing import Any

TOPIC = "tenfold-{count}"


def kafka(name: str, count: int, bootstrap: str) -> Any:
    """The records of a topic. A scenario has a group of its own: one that goes on after the commits of another would read nothing."""
    from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions

    settings = ConsumerSettings(bootstrap, group_id=f"{name}-{count}", auto_offset_reset="earliest")
    return Consumer.records(settings, Subscriptions.topics(TOPIC.format(count=count)), value="integer", until="end")


def boundary(count: int) -> None:
    """Two actors, one slower than the other."""
    from streamactors import Sink, Source

    stream = Source.range(count).map(str).async_boundary().map_concat(lambda text: [text] * 3)
    assert stream.run_with(Sink.count()).result(600) == 3 * count


def map_async(count: int) -> None:
    """Calls on the pool, in order."""
    from streamactors import Sink, Source

    assert Source.range(count // 10).map_async(8, str).run_with(Sink.count()).result(600) == count // 10


def group_by_and_merge(count: int) -> None:
    """Substreams side by side."""
    from streamactors import Sink, Source

    stream = Source.range(count).group_by(lambda n: n % 10, 10).map(lambda n: n + 1).merge_substreams()
    assert stream.run_with(Sink.count()).result(600) == count


def split_and_concat(count: int) -> None:
    """Substreams after each other."""
    from streamactors import Sink, Source

    stream = Source.range(count // 10).split_when(lambda n: n % 10 == 0).concat_substreams()
    assert stream.run_with(Sink.count()).result(600) == count // 10


def source_to_sink(count: int, bootstrap: str) -> None:
    """A topic, read to its end."""
    from streamactors import Sink

    assert (
        kafka("source_to_sink", count, bootstrap)
        .map(lambda record: record.value + 1)
        .run_with(Sink.count())
        .result(600)
        == count
    )


def topic_to_topic(count: int, bootstrap: str) -> None:
    """A topic copied into another one."""
    from streamactors.kafka import Producer, ProducerRecord, ProducerSettings

    read = 0

    def copy(record: Any) -> ProducerRecord:
        nonlocal read
        read += 1
        return ProducerRecord("copied", str(record.value))

    records = kafka("topic_to_topic", count, bootstrap).map(copy)
    records.run_with(Producer.plain_sink(ProducerSettings(bootstrap))).result(600)
    assert read == count


def windows(count: int, bootstrap: str) -> None:
    """Counts of closed windows. Timestamps are the records' numbers, so windows open and close all the time."""
    from streamactors import Sink
    from streamactors.windows import BufferConfig, Suppressed, TimeWindows

    counted = (
        kafka("windows", count, bootstrap)
        .map(lambda record: record.replace(key=record.value % 100, timestamp=record.value))
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1s").with_no_grace())
        .count()
        .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
        .to_stream()
    )
    assert sum(counted.map(lambda record: record.value).run_with(Sink.to_list()).result(600)) == count


def spark_sink(count: int) -> None:
    """A table in memory of Spark, batch by batch."""
    from tempfile import TemporaryDirectory

    from streamactors import Source
    from streamactors.spark import SparkSink, spark_session

    seen = []
    with TemporaryDirectory() as folder:
        sink = SparkSink.foreach_batch(
            spark_session(), lambda df, epoch: seen.append(df.count()), "n long", f"{folder}/ck"
        )
        query = Source.range(count).map(lambda n: (n,)).run_with(sink)
        assert query.await_termination(600)
    assert sum(seen) == count


SCENARIOS: dict[str, Callable[..., None]] = {
    scenario.__name__: scenario
    for scenario in (
        *(boundary, map_async, group_by_and_merge, split_and_concat),
        *(source_to_sink, topic_to_topic, windows, spark_sink),
    )
}


def main(name: str, count: int, bootstrap: str) -> None:
    """Run a scenario and print its largest resident memory."""
    scenario = SCENARIOS[name]
    scenario(*((count, bootstrap) if "bootstrap" in scenario.__annotations__ else (count,)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_024)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *(sys.argv[3:] or [""]))
