"""Work that takes longer than max.poll.interval.ms keeps its partitions. python examples/recipes/slow_handler.py"""

import time
from typing import Any

from streamactors import Keep, RunnableGraph, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerRecord,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)

IMPATIENT = {"session.timeout.ms": "6000", "max.poll.interval.ms": "6000"}


def graph(bootstrap: str) -> RunnableGraph[Any]:
    def handle(record: ConsumerRecord) -> str:
        time.sleep(4)  # the records of one poll take longer than max.poll.interval.ms
        return record.value.decode()

    # the impatience makes the demonstration short: leave it out
    settings = ConsumerSettings(bootstrap, group_id="slow", auto_offset_reset="earliest", properties=IMPATIENT)
    jobs = Consumer.source(settings, Subscriptions.topics("jobs"), until="end")
    return jobs.map(handle).to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("jobs")
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    Source.from_iterable(["print", "bind"]).map(lambda job: ProducerRecord("jobs", job)).run_with(writer).result(
        30
    )

    control, done = graph(cluster.bootstrap_servers).run()
    print(done.result(30), "each handled once")
    control.is_shutdown.result(30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
