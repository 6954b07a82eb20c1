"""A broker that is there refuses records for a reason that may pass, as a full disk: librdkafka sends them again, and then says that they timed out."""

from __future__ import annotations

import errno
import logging
import re
import sys
from io import BytesIO, TextIOWrapper

import pytest

from streamactors import Keep, Source
from streamactors.cli.main import run
from streamactors.kafka import (
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.client.diagnosis import refused_writes
from streamactors.kafka.client.diagnosis.refused_writes import OVER_AFTER_S, SAID_AFTER_S, RefusedWrites, with_reasons
from tests.broker.failing_folder import FailingDisk
from tests.broker.live_broker import LiveBroker

pytestmark = pytest.mark.expects_log(
    "its partitions take records again"
)  # in a test that lasts as long as the broker's pause
DISK = "Disk error when trying to access log file on disk"
LINE = f"BROKERUA [rdkafka#producer-1] [thrd:here:1/1]: orders [2]: broker unavailable: produce: Broker: {DISK}"
NAMED = (
    rf"refused records of orders-0 for \d+ s: Broker: {DISK} \(KAFKA_STORAGE_ERROR\); its disk is full or has failed"
)


def test_a_refusal_that_lasts_is_logged_once():
    refused = RefusedWrites("here:1")
    refused.look("METADATA [rdkafka#producer-1]: Topic orders [2] Leader 1", 0)
    assert not refused
    refused.look(LINE, 10)
    assert refused
    assert refused.due(5) == []
    refused.look(LINE, 10 + SAID_AFTER_S)
    (said,) = refused.due(5)
    assert said.startswith("orders-2: the broker at here:1 refuses records for 5 s; they are sent again until ")
    assert DISK in said
    refused.look(LINE, 20)
    assert refused.due(5) == []


@pytest.mark.parametrize("between", ["all records are acknowledged", "a long time passes"])
def test_a_leader_that_moves_is_not_logged(between):
    refused = RefusedWrites("here:1")
    for now in (0, 10 if "all" in between else 100):  # two elections
        refused.look(LINE.replace(DISK, "Not leader for partition"), now)
        assert refused.due(5) == []
        if "all" in between:
            assert refused.due(0) == []


def test_the_reason_belongs_to_the_partition_that_is_refused_now():
    refused = RefusedWrites("here:1")
    refused.look(LINE, 10)
    refused.look(LINE, 22)
    refused.due(0)  # the last record has failed, and its error is yet to be made
    assert refused.reason(23, "orders", 2).startswith(
        f"the broker at here:1 refused records of orders-2 for 12 s: Broker: {DISK}"
    )
    assert refused.reason(23, "orders")
    assert refused.reason(23)
    assert refused.reason(23, "orders", 1) == ""
    assert refused.reason(23, "others", 2) == ""
    assert refused.reason(23 + OVER_AFTER_S, "orders", 2) == ""


def test_the_debug_lines_of_the_user_are_kept():
    assert with_reasons({"debug": "msg"}) == {"debug": "msg,topic"}
    assert with_reasons({"acks": "1"}) == {"acks": "1", "debug": "topic"}


@pytest.fixture
def full(tmp_path, monkeypatch):
    """A broker with topics; the function fills its disk, or frees it."""
    monkeypatch.setattr(refused_writes, "SAID_AFTER_S", 0.2)
    disk = FailingDisk()
    with LiveBroker(
        tmp_path, {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}, disk=disk
    ) as live:
        for topic in ("orders", "inputs"):
            live.create_topic(topic)

        def fill(yes):
            if yes:
                disk.fail(live.partition("orders").log.directory, errno.ENOSPC)
            else:
                disk.broken.clear()

        yield live.address, fill
        disk.broken.clear()


def warned(caplog, part):
    return [record for record in caplog.records if part in record.getMessage() and record.levelno == logging.WARNING]


def test_a_sink_names_the_full_disk_early_and_in_its_error(full, system, caplog, wait_for):
    address, fill = full
    fill(True)
    settings = ProducerSettings(address, properties={"message.timeout.ms": 3_000})
    done = Source.single(ProducerRecord("orders", b"1")).run_with(Producer.plain_sink(settings), system)
    wait_for(lambda: warned(caplog, "orders-0: the broker at"))
    assert not done.done()
    with pytest.raises(Exception, match=NAMED):
        done.result(30)
    assert len(warned(caplog, "orders-0: the broker at")) == 1


def test_records_are_written_when_the_disk_has_room_again(full, system, caplog, wait_for):
    address, fill = full
    fill(True)
    settings = ProducerSettings(address)
    done = Source.single(ProducerRecord("orders", b"1")).run_with(Producer.plain_sink(settings), system)
    wait_for(lambda: warned(caplog, "orders-0: the broker at"))
    fill(False)
    done.result(30)


@pytest.mark.expects_log("its partitions may refuse records")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_produce_command_names_the_full_disk(full, caplog, capsys, monkeypatch, acks):
    address, fill = full
    fill(True)
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"hello\n")))
    code = run(["produce", "orders", "-b", address, "--acks", acks, "-X", "message.timeout.ms=3000"])
    if acks == "0":
        assert code == 0, "the broker's answer is not asked for"
        return
    assert code == 1
    assert re.search(
        f"topic orders-0: a record of 5 bytes was not delivered: the broker at {address} {NAMED}",
        capsys.readouterr().err,
    )
    assert warned(caplog, "orders-0: the broker at")


@pytest.mark.slow
def test_a_transaction_names_the_full_disk(full, system, caplog):
    address, fill = full
    fill(True)
    reading = ConsumerSettings(address, "group", "earliest")
    writing = ProducerSettings(address, transactional_id="copies", transaction_timeout_ms=3_000)
    source = Transactional.source(reading, Subscriptions.topics("inputs")).map(
        lambda r: ProducerRecord("orders", r.value)
    )
    _, done = source.to_mat(Transactional.sink(writing), Keep.both).run(system)
    Source.single(ProducerRecord("inputs", b"1")).run_with(
        Producer.plain_sink(ProducerSettings(address)), system
    ).result(30)
    with pytest.raises(Exception, match=NAMED):
        done.result(60)
    assert warned(caplog, "orders-0: the broker at")
