"""The ends of partitions as one broker sees them: any broker of the cluster, or a certain one.

Owner: `newest_ends`. librdkafka asks the leader that the metadata of its first broker names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from streamactors.kafka.client.connection import REQUEST_TIMEOUT_MS, ClientConnection, ck, ck_admin
from streamactors.kafka.client.diagnosis.rights import Right
from streamactors.kafka.client.offsets.listed_offsets import answer, listed_offsets
from streamactors.kafka.settings import ClientSettings
from streamactors.kafka.subscriptions import TopicPartition


class EndView(NamedTuple):
    """The end of a partition. A broker that is cut off sees an old leader, or an earlier topic of this name."""

    offset: int
    leader_epoch: int
    """Of the leader that named the end, -1 if the leader names none."""
    topic_id: str | None
    replicas: Mapping[int, str]
    """The addresses of the brokers with the partition, by id; empty for a broker that is away."""


def views_of_ends(
    settings: ClientSettings, keys: Collection[TopicPartition], *, committed: bool = False, only: str = ""
) -> dict[TopicPartition, EndView]:
    """Return the high watermarks, or the last stable offsets with `committed`. Raises TopicNotFound, NoBroker, KafkaError.

    `only`: the address of the broker whose view is asked for. Without it other brokers are asked, too, while a leader does not answer."""
    connection = ClientConnection(settings)
    first = {"bootstrap.servers": only} if only else {}

    def connected() -> Any:
        return connection.make(ck_admin.AdminClient, {**settings.address(), **first, "log_level": 4})

    client = connected()
    topics = _described(connection, client, {key.topic for key in keys})
    isolation = ck.IsolationLevel.READ_COMMITTED if committed else ck.IsolationLevel.READ_UNCOMMITTED
    asked = {key: ck_admin.OffsetSpec.latest() for key in keys}
    found = {}
    for key, listed in listed_offsets(client, asked, isolation, again=None if only else connected).items():
        if isinstance(listed, ck.KafkaException):
            raise connection.failure(listed, f"the offsets of {key}", Right("DESCRIBE", "TOPIC", key.topic))
        topic = topics[key.topic]
        nodes = next((each.replicas for each in topic.partitions if each.id == key.partition), ())
        replicas = {node.id: _address(node) for node in nodes}
        found[key] = EndView(listed.offset, listed.leader_epoch, _id_of(topic), replicas)
    return found


def _described(connection: ClientConnection, client: Any, names: Iterable[str]) -> dict[str, Any]:
    timeout_s = REQUEST_TIMEOUT_MS / 1_000
    found = {}
    for name, future in client.describe_topics(ck.TopicCollection(list(names)), request_timeout=timeout_s).items():
        try:
            found[name] = answer(future, timeout_s)
        except ck.KafkaException as error:
            raise connection.failure(error, f"topic {name}", Right("DESCRIBE", "TOPIC", name)) from None
    return found


def _id_of(topic: Any) -> str | None:
    """Return the topic's id, None for the zero id that librdkafka gives for brokers without topic ids."""
    found = topic.topic_id
    known = found is not None and (found.get_most_significant_bits() or found.get_least_significant_bits())
    return str(found) if known else None


def _address(node: Any) -> str:
    host = node.host or ""
    return f"[{host}]:{node.port}" if ":" in host else f"{host}:{node.port}" if host else ""
