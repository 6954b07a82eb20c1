"""Settings: what a client is made with by default, and who has the last word."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from streamactors.errors import BuildError
from streamactors.kafka import CommitterSettings, ConsumerSettings, ProducerSettings, Subscriptions
from streamactors.kafka.settings import ResetProtection
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription
from streamactors.state import State

PRODUCER = ProducerSettings("localhost:1")


def test_a_transactional_producer_keeps_its_brokers_when_none_of_them_answers() -> None:
    # The only broker was restarted -> librdkafka re-bootstrapped, its broker handle went away -> the TxnOffsetCommit that waited for
    # that handle was never sent -> send_offsets_to_transaction never returned.
    strategy = "metadata.recovery.strategy"
    transactional = PRODUCER.with_transactional_id("t")
    assert transactional.client_properties()[strategy] == "none"
    assert strategy not in PRODUCER.client_properties()
    assert transactional.with_property(strategy, "rebootstrap").client_properties()[strategy] == "rebootstrap"


def test_settings_read_no_number_of_a_member_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMACTORS_MEMBER", "2")
    assert PRODUCER.with_transactional_id("t").client_properties()["transactional.id"] == "t"


def test_every_with_changes_one_thing_and_leaves_the_settings_as_they_were() -> None:
    consumer = ConsumerSettings("localhost:1", "g")
    assert consumer.with_group_id("h").group_id == "h"
    assert consumer.with_auto_offset_reset("earliest").auto_offset_reset == "earliest"
    assert consumer.with_bootstrap_servers("other:1").client_properties()["bootstrap.servers"] == "other:1"
    several = consumer.with_properties({"fetch.min.bytes": 5}).with_property("fetch.wait.max.ms", 7).client_properties()
    assert (several["fetch.min.bytes"], several["fetch.wait.max.ms"]) == (5, 7)
    assert consumer == ConsumerSettings("localhost:1", "g")
    assert PRODUCER.with_transactional_id("t").with_transactional_id(None) == PRODUCER
    committer = CommitterSettings().with_max_batch(5).with_max_interval(7)
    assert (committer.max_batch, committer.max_interval_ms) == (5, 7)


def test_other_clients_of_the_same_user_get_what_lets_them_in_also_from_the_environment(monkeypatch) -> None:
    given = ConsumerSettings("localhost:1", "g", properties={"sasl.username": "ann", "fetch.min.bytes": 5})
    assert given.address() == {"bootstrap.servers": "localhost:1", "sasl.username": "ann"}
    monkeypatch.setenv("STREAMACTORS_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("STREAMACTORS_KAFKA_BOOTSTRAP_SERVERS", "other:1")
    assert given.security() == {"sasl.username": "ann", "security.protocol": "SASL_SSL"}
    assert given.address() == {"bootstrap.servers": "other:1", **given.security()}


@pytest.mark.parametrize(
    "name",
    [
        "oauth_cb",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "enable.ssl.certificate.verification",
        "https.ca.location",
        "client.dns.lookup",
        "broker.address.family",
    ],
)
def test_other_clients_of_the_same_user_get_its_callbacks_and_its_way_to_the_broker(name: str) -> None:
    # a run with OAUTHBEARER logged in with its consumer, and its changelog's producer asked nobody for a token and failed
    value = object()
    assert ConsumerSettings("there:1", properties={name: value}).security() == {name: value}


def test_a_client_beside_another_has_its_user_and_its_patience_and_nothing_else() -> None:
    given = ConsumerSettings(
        "there:1", "g", properties={"ssl.ca.location": "ca", "fetch.min.bytes": 5}, preflight_timeout_ms=7
    )
    producer, consumer = given.as_producer(), given.as_consumer("h")
    assert producer == ProducerSettings("there:1", properties={"ssl.ca.location": "ca"}, preflight_timeout_ms=7)
    assert (consumer.group_id, consumer.auto_offset_reset, dict(consumer.properties)) == (
        "h",
        "earliest",
        {"ssl.ca.location": "ca"},
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ConsumerSettings("localhost:1", " "), "group_id must not be empty; None reads without a group"),
        (lambda: ConsumerSettings("localhost:1").with_properties(["a"]), "expects a mapping of librdkafka properties"),
        (lambda: ConsumerSettings("localhost:1").with_properties(None), "expects a mapping of librdkafka properties"),
        (lambda: State("state"), r"path is 'state'; use State\.on_disk"),
        (lambda: AutoSubscription("orders"), r"use Subscriptions\.topics"),
        (lambda: ManualSubscription("orders"), r"use Subscriptions\.assignment"),
        (lambda: Subscriptions.topics("orders-.*", "a b"), "is not the name of a topic"),
        (lambda: Subscriptions.topics("^orders"), "is a pattern; give Subscriptions.topic_pattern"),
        (lambda: Subscriptions.assignment(("a/b", 0)), "'a/b' is not the name of a topic"),
        (lambda: Subscriptions.topics("a" * 250), "at most 249"),
    ],
)
def test_what_would_fail_later_or_never_is_refused_where_it_is_written(make, said):
    # librdkafka takes "^orders" for a pattern and waits for a topic "a b" forever
    with pytest.raises(BuildError, match=said):
        make()


SETTINGS: dict[str, Any] = {
    "consumer": lambda **given: ConsumerSettings("localhost:1", **given),
    "producer": lambda **given: ProducerSettings("localhost:1", **given),
    "committer": CommitterSettings,
    "reset": ResetProtection,
}
LEAST = {"max_poll_records": 1, "max_in_flight": 1, "parallelism": 1}
NUMBERS = [
    (kind, field.name)
    for kind, make in SETTINGS.items()
    for field in dataclasses.fields(make() if kind in ("consumer", "producer") else make)
    if str(field.type).startswith("int")
]


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
def test_a_number_has_a_least_value_and_what_is_no_number_is_refused(kind: str, name: str) -> None:
    make = SETTINGS[kind]
    least = 1 if kind == "committer" else LEAST.get(name, 0)
    beside = {"high_bytes": {"low_bytes": 0}, "low_bytes": {}}.get(name, {})
    assert getattr(make(**{name: least}, **beside), name) == least
    for wrong in (least - 1, True, "7", None if "None" not in str(make().__dataclass_fields__[name].type) else -1):
        with pytest.raises(BuildError, match=name):
            make(**{name: wrong}, **beside)


def test_the_low_limit_of_memory_may_be_the_high_one_and_not_above_it() -> None:
    assert ConsumerSettings("localhost:1", low_bytes=7, high_bytes=7).low_bytes == 7
    with pytest.raises(BuildError, match=r"low_bytes \(8\) must not exceed high_bytes \(7\)"):
        ConsumerSettings("localhost:1", low_bytes=8, high_bytes=7)


def test_a_group_whose_broker_divides_is_told_nothing_that_the_broker_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = ConsumerSettings("localhost:1", "g", group_protocol="consumer")
    assert consumer.client_properties()["group.protocol"] == "consumer"
    assert "group.protocol" not in ConsumerSettings("localhost:1", "g").client_properties()
    assert "group.protocol" not in consumer.with_group_id(None).client_properties()
    with pytest.raises(
        BuildError, match=r"session.timeout.ms is refused: .* at the broker, consumer.session.timeout.ms"
    ):
        consumer.with_property("session.timeout.ms", 6_000)
    with pytest.raises(
        BuildError, match=r"group.protocol is refused: give ConsumerSettings\(…, group_protocol='consumer'\)"
    ):
        ConsumerSettings("localhost:1", "g", properties={"group.protocol": "consumer"})
    with pytest.raises(BuildError, match="group_protocol must be one of classic, consumer, got 'streams'"):
        ConsumerSettings("localhost:1", "g", group_protocol="streams")
    monkeypatch.setenv("STREAMACTORS_KAFKA_HEARTBEAT_INTERVAL_MS", "300")
    with pytest.raises(BuildError, match=r"heartbeat.interval.ms=?.* \(from STREAMACTORS_KAFKA_…\) is refused"):
        consumer.client_properties()
