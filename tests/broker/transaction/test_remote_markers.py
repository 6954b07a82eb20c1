"""A marker for a partition of another broker: the version of the request that the broker gets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.metadata.metadata_record import Feature
from streamactors.broker.transaction.remote_markers import RemoteMarkers
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers

WHERE = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("metadata_version", "transaction_version", "sent"), [(27, 2, (1, None)), (28, 2, (2, 2)), (33, 0, (1, None))]
)
def test_only_a_broker_that_knows_it_gets_the_version_of_the_transaction(
    metadata_version: int, transaction_version: int, sent: tuple[int, int | None]
) -> None:
    # Apache Kafka 4.1 closes the connection of a broker that sends WriteTxnMarkers 2, and the transaction would never end.
    asked: list[tuple[int, dict[str, Any]]] = []
    topic = SimpleNamespace(partitions=[SimpleNamespace(leader=2)])
    broker = SimpleNamespace(features=(Feature("metadata.version", 7, metadata_version),))
    image = SimpleNamespace(topics={"orders": topic}, brokers={2: broker})
    node: Any = SimpleNamespace(node_id=1, metadata=SimpleNamespace(image=image))
    markers = RemoteMarkers(node, SimpleNamespace())  # type: ignore[arg-type]
    channel = SimpleNamespace(request=lambda key, version, body, then: asked.append((version, body["markers"][0])))
    markers._channels = SimpleNamespace(to=lambda leader: channel)  # type: ignore[assignment]
    markers.write(WHERE, SendMarkers(7, 3, True, frozenset({WHERE}), transaction_version), 0, lambda error: None)
    assert [(version, marker.get("transaction_version")) for version, marker in asked] == [sent]
