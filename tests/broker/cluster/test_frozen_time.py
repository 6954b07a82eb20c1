"""A test that freezes the time beside a broker, as freezegun does: it replaces functions of modules, and `datetime`."""

from __future__ import annotations

import datetime
import subprocess
import sys
import threading
import time

import pytest

from streamactors import Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import Consumer, ConsumerSettings, ProducerRecord, ProducerSettings, SendProducer, Subscriptions

FROZEN_S = 1_577_836_800.0  # 2020-01-01
BUILTIN = type(time.time)


class _FrozenMeta(type):
    pass


class FrozenDatetime(datetime.datetime, metaclass=_FrozenMeta):
    """Has a metaclass, as freezegun's class has."""


def freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the functions of `time` under every name of every module, real `threading` apart."""
    frozen = {
        time.time: lambda: FROZEN_S,
        time.time_ns: lambda: int(FROZEN_S * 1e9),
        time.monotonic: lambda: FROZEN_S,
        time.monotonic_ns: lambda: int(FROZEN_S * 1e9),
    }
    for name, module in list(sys.modules.items()):
        if module is time or name.startswith(("streamactors", "datetime")):
            for key, value in list(vars(module).items()):
                if type(value) is BUILTIN and value in frozen:
                    monkeypatch.setattr(module, key, frozen[value])
    monkeypatch.setattr(datetime, "datetime", FrozenDatetime)


def test_a_broker_serves_while_the_time_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    # The broker compared librdkafka's real timestamps with 2020 and refused them; timers of its threads were due in 50 years.
    with Cluster() as cluster:
        cluster.create_topic("orders", config={"cleanup.policy": "compact"})
        with monkeypatch.context() as frozen:
            freeze(frozen)
            with SendProducer(ProducerSettings(cluster.bootstrap_servers)) as producer:
                written = producer.send(ProducerRecord("orders", b"v", b"k")).result(30)
            reading = ConsumerSettings(cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest")
            records = Consumer.plain_source(reading, Subscriptions.topics("orders")).take(1)
            (record,) = records.run_with(Sink.to_list()).result(30)
            assert Source.tick(0.01, 0.01, 1).take(2).run_with(Sink.to_list()).result(30) == [1, 1]
            names = {thread.name for thread in threading.enumerate()}
    assert (written.offset, record.value) == (0, b"v")
    assert {"broker-1", "broker-1-logs", "broker-1-cleaner"} <= names


def test_the_first_message_may_be_encoded_while_the_time_is_frozen() -> None:
    # kio's classes are loaded with the first message and derive from datetime: a conflict of metaclasses
    code = (
        "import datetime\n"
        "class Meta(type): pass\n"
        "class Frozen(datetime.datetime, metaclass=Meta): pass\n"
        "datetime.datetime = Frozen\n"
        "from streamactors.broker.protocol.schema import load_struct\n"
        "print(load_struct(0, 9, 'request').name, datetime.datetime is Frozen)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["ProduceRequest", "True"], ran.stderr
