"""An alert when a group has too many records left to read. python examples/recipes/lag_alert.py"""

from streamactors import Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Admin,
    Consumer,
    ConsumerSettings,
    MetadataClient,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)


def lags(bootstrap: str, group: str) -> dict[str, int]:
    """Return the number of records of each partition that the group has not committed."""
    settings = ConsumerSettings(bootstrap)
    with Admin(settings) as admin, MetadataClient(settings) as client:
        committed = admin.committed(group)
        ends = client.end_offsets(committed)
    return {str(partition): ends[partition] - offset for partition, offset in committed.items()}


def alerts(bootstrap: str, group: str, limit: int) -> list[str]:
    return [
        f"{group}: {lag} records left in {name}" for name, lag in lags(bootstrap, group).items() if lag > limit
    ]


def main(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    cluster.create_topic("orders")
    settings = ConsumerSettings(bootstrap, group_id="billing", auto_offset_reset="earliest")

    def write(count: int) -> None:
        orders = Source.range(count).map(lambda n: ProducerRecord("orders", str(n)))
        orders.run_with(Producer.plain_sink(ProducerSettings(bootstrap))).result(30)

    write(10)
    Consumer.source(settings, Subscriptions.topics("orders"), until="end").to(
        Sink.ignore()
    ).run().is_shutdown.result(30)
    print(alerts(bootstrap, "billing", limit=100))
    write(500)
    every = Source.tick(0, "20ms", None).map(lambda _: alerts(bootstrap, "billing", limit=100))
    print(*every.filter(bool).take(1).run_with(Sink.head()).result(30))


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
