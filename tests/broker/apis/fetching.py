"""What the tests of Fetch share: a broker for a module, a client and a topic for each test, and what a fetch gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streamactors.broker.records.batch import iter_batches
from tests.broker.live_broker import LiveBroker, batch, fetch_body, produce_body
from tests.broker.wire import WireClient


@pytest.fixture(scope="module", name="broker")
def live_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path_factory.mktemp("fetch")) as live:
        yield live


@pytest.fixture(name="client")
def live_client(broker: LiveBroker) -> Iterator[WireClient]:
    with broker.client() as made:
        yield made


_topics = iter(f"topic-{number}" for number in range(10_000))


@pytest.fixture(name="topic")
def new_topic(broker: LiveBroker) -> str:
    name = next(_topics)
    broker.create_topic(name, 3)
    return name


def fill(client: WireClient, topic: str, count: int, size: int = 100, partition: int = 0) -> list[bytes]:
    """Produce `count` batches of one record; return the values."""
    values = [(b"%06d" % number).ljust(size, b".") for number in range(count)]
    client.send_raw(b"".join(client.frame(0, 9, produce_body(batch(value), topic, partition)) for value in values))
    for _ in values:
        assert client.receive()[1].responses[0].partition_responses[0].error_code == 0
    return values


def fetched(client: WireClient, version: int = 12, **body: Any) -> Any:
    return client.call(1, version, fetch_body(**body)).responses[0].partitions[0]


def values_of(records: bytes | None) -> list[bytes]:
    return [bytes(record.value or b"") for part in iter_batches(records or b"") for record in part.records()]


def offsets_of(records: bytes | None) -> list[int]:
    return [record.offset for part in iter_batches(records or b"") for record in part.records()]
