"""Tests that do what the product must never do, and tests beside them that do not: run by `test_watch.py` with the watch around them.

Pytest does not collect this file by itself."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time

import pytest

from streamactors import Sink, Source
from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.dispatching.spinning import spins
from streamactors.gauges import Gauge
from streamactors.kafka import ConsumerSettings, ProducerSettings
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.consumer import StreamConsumer
from streamactors.kafka.client.producer import StreamProducer

_log = logging.getLogger("streamactors.faulty")


@pytest.mark.expects_log("whole core")
def test_spins() -> None:
    ours, theirs = socket.socketpair()
    dispatcher = Dispatcher("faulty")
    with ours, theirs:
        dispatcher.execute(lambda: dispatcher.register(ours, None, int))
        while not spins():
            time.sleep(0.001)
        dispatcher.stop()


@pytest.mark.expects_log("holds more than it may")
def test_overfills_a_buffer() -> None:
    Gauge("a queue of faulty", bound=2).reached(3)


def test_leaves_a_stream_running() -> None:
    Source.never().run_with(Sink.ignore())


def test_leaves_a_stream_that_ends_by_itself() -> None:
    Source.range(20_000).run_with(Sink.ignore())


CONSUMING, PRODUCING = ConsumerSettings("localhost:1", "g"), ProducerSettings("localhost:1")
KEPT: list[object] = []


def test_leaves_a_consumer_open() -> None:
    client = StreamConsumer(CONSUMING)
    client.subscribe(["t"], print, print, print)
    KEPT.append(client)


def test_closes_a_consumer() -> None:
    client = StreamConsumer(CONSUMING)
    client.close()
    KEPT.append(client)


def test_leaves_a_producer() -> None:
    KEPT.append(StreamProducer(PRODUCING.with_transactional_id("mine")))


def test_drops_a_client_in_a_cycle() -> None:
    producer = StreamProducer(PRODUCING)
    producer.close(drop=True).result(10)
    cycle: list[object] = [Admin(CONSUMING)]
    cycle.append(cycle)


@pytest.fixture(scope="module")
def admin() -> Admin:
    KEPT.append(Admin(ConsumerSettings("localhost:2", "g")))
    return KEPT[-1]  # type: ignore[return-value]


def test_has_a_client_of_a_fixture(admin: Admin) -> None:
    assert admin


def test_starts_a_process_that_aborts() -> None:
    subprocess.run(["sh", "-c", "kill -ABRT $$"], check=False)


def test_starts_a_process_that_starts_one_that_aborts() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import os; os.abort()'])"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_drops_the_exit_code_of_a_process() -> None:
    subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=False)


def test_waits_for_a_process_and_drops_its_exit_code() -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(4)"]) as process:
        while process.poll() is None:
            time.sleep(0.001)
        process.wait()


def test_starts_a_process_that_another_one_kills() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        subprocess.run(["sh", "-c", f"kill -TERM {process.pid}"], check=True)


def test_has_a_broker_that_does_not_stop() -> None:
    logging.getLogger("streamactors.broker.launch").error("the broker's process %d did not stop within %g s", 7, 10)


def test_starts_a_process_that_warns() -> None:
    program = "import logging; logging.getLogger('streamactors.far').warning('a disk is full')"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.stderr == "a disk is full\n"  # the watch changes nothing of what a process shows


def test_warns() -> None:
    _log.warning("a disk is full")


@pytest.mark.expects_log("a disk is")
def test_warns_twice() -> None:
    for _ in range(2):
        _log.warning("a disk is %s", "full")


@pytest.mark.expects_log("connection of")
def test_floods_the_log() -> None:
    for port in range(100):
        _log.warning("connection of 127.0.0.1:%d closed", port)


@pytest.mark.expects_log("a disk is full")
def test_warns_as_expected() -> None:
    _log.warning("a disk is full")


def test_reads_what_it_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    _log.warning("a disk is full")
    assert "full" in caplog.text


def test_warns_after_it_has_read(caplog: pytest.LogCaptureFixture) -> None:
    assert not caplog.records
    _log.warning("a disk is full")


def test_kills_a_process_and_starts_one_that_fails() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        process.kill()
    assert subprocess.run([sys.executable, "-c", "raise SystemExit(3)"]).returncode == 3


def test_uses_the_exit_codes_of_its_processes() -> None:
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    with subprocess.Popen(command) as process:
        assert process.wait() == 3
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(command, check=True)
    with subprocess.Popen(command) as process:
        process.communicate()
    assert process.returncode == 3


def test_runs_a_command_of_the_system_that_fails() -> None:
    subprocess.run(["sh", "-c", "exit 1"], check=False)


@pytest.mark.expects_exit_code(3)
def test_starts_a_process_that_is_meant_to_fail() -> None:
    subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=False)


@pytest.mark.expects_crash
def test_starts_a_process_that_is_meant_to_crash() -> None:
    subprocess.run([sys.executable, "-c", "import os; os.abort()"], check=False)


@pytest.mark.expects_log("a disk is full", again=True)
def test_warns_often_as_expected() -> None:
    for _ in range(50):
        _log.warning("a disk is full")


def test_is_quiet() -> None:
    assert os.getpid()


def test_is_the_last_with_a_client_of_a_fixture(admin: Admin) -> None:
    assert admin
