"""Starts clusters for Java's integration tests, which ask for them line by line; `RaftClusterInvocationContext.java` says how.

A cluster of several brokers takes seconds to start, so the next test that asks for the same settings gets it again, without topics and groups."""

from __future__ import annotations

import sys
import time

import confluent_kafka
import confluent_kafka.admin

from streamactors.broker import Cluster
from streamactors.broker.errors import BrokerStartError

# what a cluster of the tests has, unless a test says otherwise: as in Apache Kafka's test kit
SETTINGS = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
TIMEOUT_S = 20
LEAVING_S = 8


class Clusters:
    """One cluster at a time."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._asked: list[str] = []
        self._was_stopped = False

    def answer(self, order: str, words: list[str]) -> str:
        """Carry an order out and return the line that answers it."""
        if order == "start":
            return self._start(words)
        if self._cluster is None:
            return "refused nothing runs"
        if order == "down":
            self._was_stopped = True
            self._cluster.stop(int(words[0]))
        elif order == "up":
            self._cluster.start(int(words[0]))
        elif self._was_stopped or not int(self._asked[0]) > 1 or not emptied(self._cluster):
            self.close()
        return "done"

    def _start(self, words: list[str]) -> str:
        if self._cluster is None or words != self._asked:
            self.close()
            settings = dict(word.split("=", 1) for word in words[1:])
            self._cluster = Cluster(brokers=int(words[0]), config=SETTINGS | settings).start()
            self._asked, self._was_stopped = words, False
        return self._cluster.bootstrap_servers

    def close(self) -> None:
        """End the cluster, if there is one."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def emptied(cluster: Cluster) -> bool:
    """Delete all groups and topics of a cluster; return whether that was possible. The last members of a group may still be leaving it."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    give_up = time.monotonic() + LEAVING_S
    try:
        while names := [group.group_id for group in admin.list_consumer_groups().result(TIMEOUT_S).valid]:
            for each in admin.delete_consumer_groups(names).values():
                each.exception(TIMEOUT_S)
            if time.monotonic() > give_up:
                return False
        cluster.reset()
    except (confluent_kafka.KafkaException, BrokerStartError):
        return False
    return True


def serve() -> None:
    """Answer one line to each line, until there are no more."""
    clusters = Clusters()
    for line in sys.stdin:
        order, *words = line.rstrip("\n").split("\t")
        try:
            said = clusters.answer(order, words)
        except BrokerStartError as error:
            said = f"refused {error}".replace("\n", " ")
        print(said, flush=True)
    clusters.close()


if __name__ == "__main__":
    serve()
