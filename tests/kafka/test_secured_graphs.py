"""Every connection that graphs open, against a broker that takes SASL_SSL with SCRAM only and one that takes OAUTHBEARER only."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors import Flow, Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Admin,
    Consumer,
    ConsumerSettings,
    MetadataClient,
    Producer,
    ProducerRecord,
    ProducerSettings,
    RetryTopics,
    SendProducer,
    Subscriptions,
)
from tests.kafka._windows import CLOSED, SECOND

joserfc = pytest.importorskip("joserfc")
from joserfc import jwt  # noqa: E402
from joserfc.jwk import KeySet, RSAKey  # noqa: E402

WAIT = 60


@pytest.fixture(params=["SASL_SSL", "OAUTHBEARER"])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The address of a broker, and the properties of its clients."""
    if request.param == "SASL_SSL":
        with Cluster(users={"ann": "pw"}, tls=True) as cluster:
            properties = cluster.client_properties("ann")
            yield properties.pop("bootstrap.servers"), dict(properties)
        return
    key = RSAKey.generate_key(2048, {"kid": "one"})
    (tmp_path / "keys.json").write_text(json.dumps(KeySet([key]).as_dict(private=False)))

    def token(_: str) -> tuple[str, float]:
        expires = time.time() + 600
        return jwt.encode({"alg": "RS256", "kid": "one"}, {"sub": "ann", "exp": expires}, key), expires

    doors = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
    }
    with Cluster(listen="SASL_PLAINTEXT://127.0.0.1:0", config=doors) as cluster:
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": token}
        yield cluster.bootstrap_servers, login


@pytest.mark.slow  # OAUTHBEARER takes about 20 s: with oauth_cb confluent-kafka waits 1 s for the first token of each client
def test_one_settings_object_opens_every_connection(door: tuple[str, dict[str, Any]], system: Any) -> None:
    address, properties = door
    reading = ConsumerSettings(address, "readers", "earliest", properties=properties)
    writing = ProducerSettings(address, properties=properties)
    with Admin(reading) as admin:
        admin.create(["orders", "orders-dead", "bad-dead"], partitions=2)
    with SendProducer(writing) as producer:
        producer.send(ProducerRecord("orders", b"0", key=b"z0", timestamp=5_000)).result(WAIT)
    records = [
        ProducerRecord("orders", b"%d" % i, key=b"%c%d" % (97 + i % 3, i), timestamp=5_000 + i) for i in range(60)
    ]
    Source.from_iterable(records).run_with(Producer.plain_sink(writing), system).result(WAIT)

    # repartition topic, changelog, transactions, dead letters of records that cannot be read
    counts = (
        Consumer.records(
            reading, Subscriptions.topics("orders"), key="string", value="json", until="end", dead_letters="bad-dead"
        )
        .key_by(lambda record: record.key[0])
        .windowed_by(SECOND)
        .count(name="letters")
        .suppress(CLOSED)
        .to_stream()
    )
    control, done = counts.to_mat(Sink.to_list(), Keep.both).run(system)
    assert {row.key: row.value for row in done.result(WAIT)} == {"a": 20, "b": 20, "c": 20, "z": 1}
    control.is_shutdown.result(WAIT)

    # retry topics and their dead letters
    retries = RetryTopics("retries", "orders", delays=["20ms"], dead_letters="orders-dead")
    retries.create(reading, partitions=1)

    def fail(record: Any) -> Any:
        if record.value == b"7":
            raise ValueError("seven")
        return record

    flow = Flow.map(fail).retry(1, "1ms", dead_letters=retries.sink(writing))
    again = reading.with_group_id("retriers")
    retries.source(again, until="end").via(flow).run_with(Sink.ignore(), system).result(WAIT)
    with MetadataClient(reading) as metadata:
        ends = metadata.end_offsets(metadata.partitions_for("retries-retry-1"))
    assert sum(ends.values()) == 1
