"""librdkafka properties that break a promise are refused, and those that are secret are shown nowhere."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamactors import Sink, Source
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerSettings, Subscriptions, Transactional
from streamactors.kafka.client.connection import ClientConnection, ck
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.property_rules import BROKER_GROUP_RULES, CONSUMER_RULES, PRODUCER_RULES, is_secret

SECRET = "s3cr3t-of-a-test"
PAGE = Path(__file__).parents[2] / "docs" / "kafka-errors.md"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.auto.commit", True),
        ("enable.auto.commit", "true"),
        ("enable.auto.offset.store", True),
        ("auto.commit.enable", "t"),
        ("enable.partition.eof", False),
        ("statistics.interval.ms", 0),
        ("offset.store.method", "file"),
        ("group.id", "another"),
        ("auto.offset.reset", "latest"),
        ("default.topic.config", {"auto.offset.reset": "latest"}),
        ("error_cb", print),
        ("logger", logging.getLogger("mine")),
    ],
)
def test_a_consumers_property_that_breaks_a_promise_is_refused_by_name(monkeypatch, name, value):
    # enable.auto.commit with enable.auto.offset.store was accepted: librdkafka committed records that were not done
    with pytest.raises(BuildError, match=re.escape(f"ConsumerSettings: the property {name}")):
        ConsumerSettings("localhost:1", "g", properties={name: value})
    if isinstance(value, (str, int)):
        monkeypatch.setenv("STREAMACTORS_KAFKA_" + name.upper().replace(".", "_"), str(value))
        with pytest.raises(BuildError, match="STREAMACTORS_KAFKA_"):
            ConsumerSettings("localhost:1", "g").client_properties()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transactional.id", "t"),
        ("delivery.report.only.error", True),
        ("on_delivery", print),
        ("queuing.strategy", "lifo"),
        ("error_cb", print),
    ],
)
def test_a_producers_property_that_breaks_a_promise_is_refused_by_name(name, value):
    with pytest.raises(BuildError, match=re.escape(f"ProducerSettings: the property {name}")):
        ProducerSettings("localhost:1").with_property(name, value)


def test_what_states_the_default_is_accepted():
    ConsumerSettings(
        "localhost:1",
        "g",
        properties={"enable.auto.commit": "False", "enable.auto.offset.store": False, "enable.partition.eof": True},
    )
    ProducerSettings("localhost:1", properties={"delivery.report.only.error": 0, "acks": "1"})


@pytest.mark.parametrize("name", ["acks", "request.required.acks"])
def test_records_that_nobody_acknowledges_are_refused_where_they_would_count_as_done(name):
    settings = ProducerSettings("localhost:1", properties={name: 0, "enable.idempotence": False})
    with pytest.raises(BuildError, match=r"Producer.plain_sink: the property acks=0"):
        Producer.plain_sink(settings)


def test_a_transactional_source_reads_committed_records_whatever_the_properties_say(monkeypatch):
    settings = ConsumerSettings("localhost:1", "g")
    topics = Subscriptions.topics("t")
    with pytest.raises(BuildError, match=r"isolation.level must be read_committed"):
        Transactional.source(settings.with_property("isolation.level", "read_uncommitted"), topics)
    monkeypatch.setenv("STREAMACTORS_KAFKA_ISOLATION_LEVEL", "read_uncommitted")
    with pytest.raises(BuildError, match=r"isolation.level must be read_committed"):
        Transactional.source(settings, topics)


def test_statistics_go_to_the_users_callback_too():
    seen = []
    client = StreamConsumer(ConsumerSettings("localhost:1", "g", properties={"stats_cb": seen.append}))
    client._on_statistics('{"topics": {}}')
    assert seen == ['{"topics": {}}']
    client.close()


def test_the_page_lists_every_refused_property():
    page = PAGE.read_text()
    assert [
        name for name in {**CONSUMER_RULES, **PRODUCER_RULES, **BROKER_GROUP_RULES} if f"`{name}`" not in page
    ] == []


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────────

SECRETS = {
    "sasl.password": SECRET,
    "sasl.pasword": SECRET,
    "sasl.username": SECRET,
    "ssl.key.pem": SECRET,
    "ssl.keystore.password": SECRET,
    "sasl.oauthbearer.config": SECRET,
    "sasl.oauthbearer.client.secret": SECRET,
    "oauth_cb": SECRET,
}


def test_no_way_of_printing_settings_shows_a_secret():
    settings = ConsumerSettings("localhost:1", "g", properties={**SECRETS, "sasl.mechanism": "PLAIN"})
    shown = [settings, settings.properties, settings.client_properties(), settings.security(), settings.address()]
    shown += [settings.as_producer(), settings.as_consumer(), settings.with_group_id("h"), [settings], {"a": settings}]
    for each in shown:
        assert SECRET not in f"{each} {each!r}"
    assert "'sasl.mechanism': 'PLAIN'" in repr(settings)
    assert settings.client_properties()["sasl.password"] == SECRET


@pytest.mark.parametrize("name", ["sasl.mechanism", "ssl.ca.location", "security.protocol", "fetch.min.bytes"])
def test_what_is_no_secret_is_shown(name):
    assert not is_secret(name)


def test_errors_of_the_settings_show_no_secret():
    with pytest.raises(BuildError) as wrong_type:
        ConsumerSettings("localhost:1", properties=[("sasl.password", SECRET)])  # type: ignore[arg-type]
    with pytest.raises(BuildError) as user_in_address:
        ConsumerSettings(f"ann:{SECRET}@localhost:1")
    assert SECRET not in f"{wrong_type.value} {user_in_address.value}"


def test_librdkafkas_complaints_and_its_log_show_no_secret(caplog):
    # librdkafka repeats a wrong sasl.oauthbearer.config in its error and in its log
    connection = ClientConnection(ConsumerSettings("localhost:1"))
    log = logging.getLogger("streamactors.kafka.librdkafka")
    log.addHandler(caplog.handler)
    try:
        client = connection.make(
            ck.Consumer,
            {
                "bootstrap.servers": "localhost:1",
                "group.id": "g",
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": True,
                "sasl.oauthbearer.config": SECRET,
            },
        )
        for _ in range(50):
            client.poll(0.1)
            if connection.complaint:
                break
        client.close()
    finally:
        log.removeHandler(caplog.handler)
    assert "[hidden]" in connection.complaint
    assert SECRET not in connection.complaint + caplog.text
    with pytest.raises(KafkaError) as misspelt:
        connection.make(ck.Consumer, {"group.id": "g", "sasl.pasword": SECRET})
    assert SECRET not in str(misspelt.value)


GRAPH = """
import logging
from streamactors import Sink
from streamactors.kafka import Consumer, ConsumerSettings, Subscriptions
logging.basicConfig(level=logging.DEBUG)
librdkafka = logging.getLogger("streamactors.kafka.librdkafka")
librdkafka.propagate = True
settings = ConsumerSettings(
    "localhost:1", "g", preflight_timeout_ms=300,
    properties={"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "SECRET-user",
                "sasl.password": "SECRET", "debug": "all"},
)
print(settings)
graph = Consumer.source(settings, Subscriptions.topics("t")).to(Sink.ignore())
"""


@pytest.mark.parametrize("command", [["run"], ["run", "--dry-run"], ["check"], ["graph"]])
def test_nothing_that_a_command_prints_shows_a_secret(tmp_path, command):
    path = tmp_path / "secret_graph.py"
    path.write_text(GRAPH.replace("SECRET", SECRET))
    ran = subprocess.run(
        [sys.executable, "-m", "streamactors.cli.main", *command, f"{path}:graph"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "[hidden]" in ran.stdout  # the settings were printed
    assert ran.returncode == (0 if command == ["graph"] else 1)
    assert SECRET not in ran.stdout + ran.stderr


def test_a_running_source_shows_no_secret_in_its_snapshot_and_metrics(cluster, settings, topic_with, system):
    topic = topic_with("no-secrets", [b"1"])
    control = (
        Consumer.source(settings.with_property("sasl.password", SECRET), Subscriptions.topics(topic))
        .to(Sink.ignore())
        .run(system)
    )
    seen = f"{control.snapshot()} {control.metrics()} {control} {system} {Source.single(settings)}"
    control.stop()
    control.is_shutdown.result(30)
    assert SECRET not in seen + f"{control.snapshot()}"
