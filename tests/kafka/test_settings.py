"""Settings: what a client is made with by default, and who has the last word."""

from __future__ import annotations

from streamactors.kafka import ProducerSettings

PRODUCER = ProducerSettings("localhost:1")


def test_a_transactional_producer_keeps_its_brokers_when_none_of_them_answers() -> None:
    # The only broker was restarted -> librdkafka re-bootstrapped, its broker handle went away -> the TxnOffsetCommit that waited for
    # that handle was never sent -> send_offsets_to_transaction never returned.
    strategy = "metadata.recovery.strategy"
    transactional = PRODUCER.with_transactional_id("t")
    assert transactional.client_properties()[strategy] == "none"
    assert strategy not in PRODUCER.client_properties()
    assert transactional.with_property(strategy, "rebootstrap").client_properties()[strategy] == "rebootstrap"
