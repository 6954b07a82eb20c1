"""A new version takes over from the old one, and no other member notices. python examples/recipes/blue_green.py"""

import threading
from typing import Any

from streamactors import RunnableGraph, Sink
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    DrainingControl,
    PartitionAssignmentHandler,
    Subscriptions,
)


class Watch(PartitionAssignmentHandler):
    def __init__(self) -> None:
        self.assigned, self.revoked = threading.Event(), 0

    def on_assigned(self, partitions: set[Any], consumer: Any) -> None:
        if partitions:
            self.assigned.set()

    def on_revoked(self, partitions: set[Any], consumer: Any) -> None:
        self.revoked += 1


def graph(bootstrap: str, instance: str, watch: Watch) -> RunnableGraph[DrainingControl[Any]]:
    settings = ConsumerSettings(bootstrap, group_id="orders", auto_offset_reset="earliest").with_properties(
        {"group.instance.id": instance, "partition.assignment.strategy": "cooperative-sticky"}
    )
    orders = Consumer.source(settings, Subscriptions.topics("orders").with_assignment_handler(watch))
    return orders.to_mat(Sink.ignore(), DrainingControl.create)


def main(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    cluster.create_topic("orders", partitions=4)
    other, blue, green = Watch(), Watch(), Watch()
    staying = graph(bootstrap, "orders-1", other).run()
    version_1 = graph(bootstrap, "orders-0", blue).run()
    other.assigned.wait(30)
    blue.assigned.wait(30)
    before = other.revoked

    version_1.drain_and_shutdown(timeout=30)  # finished and committed; its name keeps the place in the group
    version_2 = graph(bootstrap, "orders-0", green).run()
    green.assigned.wait(30)
    print("green has partitions:", green.assigned.is_set())
    print("partitions that the other member lost meanwhile:", other.revoked - before)
    for control in (version_2, staying):
        control.drain_and_shutdown(timeout=30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
