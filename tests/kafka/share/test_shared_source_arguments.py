"""What `Consumer.shared_source` refuses when it is built, and what its control refuses."""

from __future__ import annotations

import pytest

from streamactors import Keep, Sink
from streamactors.errors import BuildError
from streamactors.kafka import Consumer, ConsumerSettings, ProducerSettings, SharedSourceSettings, Subscriptions
from streamactors.kafka.errors import NoBroker
from streamactors.kafka.round_trips.transactional import Transactional
from streamactors.kafka.sources.share_group.shared_sources import of_consumer

SETTINGS = SharedSourceSettings("localhost:1", "workers", preflight_timeout_ms=100)


def test_settings_of_a_consumer_name_the_cluster_the_user_the_group_and_the_beginning() -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
    consumer = ConsumerSettings("localhost:1", "workers", "earliest", preflight_timeout_ms=100, properties=login)
    taken = of_consumer(consumer)
    assert (taken.bootstrap_servers, taken.group_id, taken.auto_offset_reset) == ("localhost:1", "workers", "earliest")
    assert dict(taken.client_properties()) == {"bootstrap.servers": "localhost:1", **login}
    assert taken.preflight_timeout_ms == 100
    assert of_consumer(ConsumerSettings("localhost:1", "workers")).auto_offset_reset is None, "as the group has it"
    done = Consumer.shared_source(consumer, Subscriptions.topics("jobs")).run_with(Sink.ignore())
    assert isinstance(done.exception(30), NoBroker)


def test_settings_of_a_consumer_without_a_group_and_patterns_are_refused() -> None:
    with pytest.raises(BuildError, match="needs the id of a share group"):
        Consumer.shared_source(ConsumerSettings("localhost:1"), "jobs")
    with pytest.raises(BuildError, match="names of topics"):
        Consumer.shared_source(SETTINGS, Subscriptions.topic_pattern("jobs.*"))


@pytest.mark.parametrize("topics", [[], [""], [5], ""])
def test_topics_are_names(topics) -> None:
    with pytest.raises(BuildError, match="names of topics"):
        Consumer.shared_source(SETTINGS, topics)


@pytest.mark.parametrize(
    "wrong",
    [
        {"group_id": " "},
        {"max_in_flight": 0},
        {"delivery_limit": 0},
        {"max_bytes": 0},
        {"group_id": None},
        {"auto_offset_reset": "none"},
    ],
)
def test_a_wrong_setting_is_named(wrong) -> None:
    with pytest.raises(BuildError, match=next(iter(wrong)).replace("_id", "")):
        SharedSourceSettings(**{"bootstrap_servers": "localhost:1", "group_id": "workers", **wrong})


def test_a_transaction_cannot_own_the_positions_of_a_queue() -> None:
    source = Consumer.shared_source(SETTINGS, "jobs").map(lambda record: record)
    sink = Transactional.sink(ProducerSettings("localhost:1", transactional_id="t"))
    with pytest.raises(BuildError, match="acknowledgement of each record"):
        source.to(sink).run()


def test_a_control_without_partitions_refuses_to_pause_them() -> None:
    control, done = Consumer.shared_source(SETTINGS, "jobs").to_mat(Sink.ignore(), Keep.both).run()
    for refused in (control.stop_at_end, lambda: control.pause(("jobs", 0)), lambda: control.resume(("jobs", 0))):
        with pytest.raises(BuildError):
            refused()
    assert isinstance(done.exception(timeout=30), NoBroker)
    assert isinstance(control.is_shutdown.exception(30), NoBroker)


def test_a_source_that_is_stopped_before_it_finds_a_broker_ends() -> None:
    settings = SharedSourceSettings("localhost:1", "workers", preflight_timeout_ms=60_000)
    control, done = Consumer.shared_source(settings, "jobs").to_mat(Sink.ignore(), Keep.both).run()
    assert control.drain_and_shutdown(done, timeout=30) is None
    assert control.snapshot()["locked"] == 0
