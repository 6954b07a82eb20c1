"""Dead letters and replay: bad records go to a dead-letter topic, are repaired and sent again. python examples/dead_letters.py"""

from __future__ import annotations

from streamactors import Keep, RunnableGraph, Sink, Source, StreamFuture
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerRecord,
    ConsumerSettings,
    Control,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)

ORDERS = ['{"amount": 10}', '{"amount": 20', '{"amount": 30}', "amount=40", '{"amount": 50}']


def graph(bootstrap: str = "localhost:9092") -> RunnableGraph[tuple[Control, StreamFuture[int]]]:
    """Add up topic `orders`; what is no JSON goes to `orders-dead`, and its offset is committed when it is stored there."""
    settings = ConsumerSettings(bootstrap, group_id="totals", auto_offset_reset="earliest")
    return (
        Consumer.records(
            settings, Subscriptions.topics("orders"), value="json", dead_letters="orders-dead", until="end"
        )
        .map(lambda record: record.value["amount"])
        .to_mat(Sink.fold(0, lambda total, amount: total + amount), Keep.both)
    )


def replay(bootstrap: str = "localhost:9092") -> RunnableGraph[StreamFuture[None]]:
    """Repair the dead letters and send them to the topic they came from."""
    settings = ConsumerSettings(bootstrap, group_id="replay", auto_offset_reset="earliest")
    return (
        Consumer.source(settings, Subscriptions.topics("orders-dead"), until="end")
        .map(repaired)
        .to_mat(Producer.plain_sink(ProducerSettings(bootstrap)), Keep.right)
    )


def repaired(letter: ConsumerRecord) -> ProducerRecord:
    """Return the order that was meant; the headers tell where it came from and what was wrong."""
    told = {name.removeprefix("dead-letter."): (value or b"").decode() for name, value in letter.headers}
    print(
        f"dead letter from {told['topic']}-{told['partition']}@{told['offset']}: {letter.value!r}: {told['error']}"
    )
    digits = "".join(filter(str.isdigit, (letter.value or b"").decode()))
    return ProducerRecord(told["topic"], f'{{"amount": {digits}}}', letter.key)


def total(bootstrap: str) -> int:
    """Run the graph; return the total when all is committed, which for a dead letter means that it is stored."""
    control, added = graph(bootstrap).run()
    control.is_shutdown.result(timeout=60)
    return added.result(timeout=60)


def main() -> None:
    """Add up, repair, and add up what was missing."""
    with Cluster() as cluster:
        bootstrap = cluster.bootstrap_servers
        for topic in ("orders", "orders-dead"):
            cluster.create_topic(topic)
        orders = Source.from_iterable(ORDERS).map(lambda order: ProducerRecord("orders", order))
        orders.run_with(Producer.plain_sink(ProducerSettings(bootstrap))).result(timeout=30)

        print("first run:", total(bootstrap))
        replay(bootstrap).run().result(timeout=60)
        print("the replayed ones:", total(bootstrap))


if __name__ == "__main__":
    main()
