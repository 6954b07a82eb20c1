"""The files that one record passes through on its way from Kafka to Spark, and the files that one unit of demand passes through.

    python tools/record_path.py

A stream from a topic into `SparkSink.foreach_batch` runs until its demand windows have grown, and comes to rest. The script then produces
one record after the other and lists the functions of the product that run for each of them until Spark has the record, less the functions
that also run while the stream rests
(polls, ticks, the profiler's own). What runs for some records only is a timer that came in between. A file counts when at least one
such function is defined in it. The broker runs in a process of its own and is not counted."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

WARM_UP = 12
"""Records that go before: the demand window doubles with each of the first chunks, and each time the source asks for more."""
RECORDS = 5
PRODUCT = str(Path(__file__).resolve().parent.parent / "streamactors")


class Calls:
    """Functions of the product that are called while `seen` is a dict. Installed for every thread."""

    def __init__(self) -> None:
        self.seen: dict[CodeType, int] | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        seen = self.seen
        if seen is not None and event == "call":
            code = frame.f_code
            seen[code] = seen.get(code, 0) + 1

    def during(self, action: Any) -> set[CodeType]:
        """Return the functions that run while `action` does."""
        self.seen = seen = {}
        action()
        self.seen = None
        return {code for code in seen if code.co_filename.startswith(PRODUCT)}


calls = Calls()
threading.setprofile(calls)
sys.setprofile(calls)

from confluent_kafka import Producer  # noqa: E402

from streamactors import Keep  # noqa: E402
from streamactors.broker import Cluster  # noqa: E402
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions  # noqa: E402
from streamactors.spark import SparkSink, spark_session  # noqa: E402


def show(title: str, functions: set[CodeType]) -> None:
    """Print a title, then the files with their functions."""
    files: dict[str, list[str]] = defaultdict(list)
    for code in functions:
        files[code.co_filename[len(PRODUCT) + 1 :]].append(code.co_name)
    print(f"{title}: {len(files)} files")
    for file, names in sorted(files.items()):
        print(f"  {file}: {', '.join(sorted(set(names)))}")


def main() -> None:
    """Run the stream, let one record through, and print both lists."""
    spark = spark_session("record path")
    arrived = threading.Event()
    with Cluster(process=True) as cluster:
        cluster.create_topic("t", partitions=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

        def send() -> None:
            producer.produce("t", b"1")
            producer.flush()

        def arrive(df: Any, epoch: int) -> None:
            if df.count():
                arrived.set()

        def one_record() -> None:
            arrived.clear()
            send()
            assert arrived.wait(60), "the record did not reach Spark"

        settings = ConsumerSettings(cluster.bootstrap_servers, group_id="path", auto_offset_reset="earliest")
        control, query = (
            Consumer.source(settings, Subscriptions.topics("t"))
            .map(lambda record: (int(record.value),))
            .filter(lambda row: row[0] > 0)
            .to_mat(SparkSink.foreach_batch(spark, arrive, "n long", f"{cluster.data_folder}-path"), Keep.both)
            .run()
        )
        for _ in range(WARM_UP):
            one_record()
        time.sleep(3)
        resting = calls.during(lambda: time.sleep(5))
        record = set.intersection(*(calls.during(one_record) for _ in range(RECORDS)))
        show("one record, from the topic to Spark", record - resting)
        control.shutdown()
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
