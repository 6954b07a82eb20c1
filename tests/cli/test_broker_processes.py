"""`streamactors broker --processes N`: real processes, on one data folder, on loopback."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest

from streamactors.broker.cluster.acked import check_acked
from streamactors.broker.cluster.view import View
from tests.actors.eventually import eventually

COMMAND = [sys.executable, "-m", "streamactors.cli.main", "broker"]
READY = re.compile(r"streamactors broker ready: (?P<addresses>.+), data in (?P<folder>\S+).*, cluster id (?P<id>\S+)\n")
BROKER = re.compile(r"  broker (\d+): (\S+), process (\d+)\n")


class Running:
    """The command when it is ready: its addresses, and the processes of its brokers by node id."""

    def __init__(self, process: subprocess.Popen[str], count: int) -> None:
        self.process = process
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        match = READY.fullmatch(line)
        assert match is not None, line + process.stderr.read()
        self.addresses = match["addresses"].split(", ")
        self.folder = Path(match["folder"])
        found = [BROKER.fullmatch(process.stdout.readline()) for _ in range(count)]
        self.pids = {int(each[1]): int(each[3]) for each in found if each is not None}
        self.view = View(lambda: self.addresses)

    def stop(self) -> str:
        """Ask it to stop; return what it wrote to its standard error."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def brokers(*arguments: str, count: int = 2) -> Iterator[Running]:
    command = [*COMMAND, "--listen", "127.0.0.1:0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Running(process, count)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(30)


def produce(addresses: list[str], topic: str, values: list[bytes], partitions: int = 4) -> None:
    """Create a topic and write the values, in turns to each partition."""
    servers = ",".join(addresses)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})
    admin.create_topics([confluent_kafka.admin.NewTopic(topic, partitions)])[topic].result(30)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all"})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(30) == 0


@pytest.mark.expects_log("it starts again in", "runs again: process")
def test_each_process_leads_some_partitions_and_one_that_dies_is_started_again() -> None:
    values = [b"%d" % number for number in range(40)]
    with brokers("--processes", "2") as running:
        assert set(running.view.brokers()) == set(running.pids) == {1, 2}
        produce(running.addresses, "t", values)
        found = [running.view.partition("t", number) for number in range(4)]
        assert {each.leader for each in found} == {1, 2}
        assert all(len(each.replicas) == 1 for each in found), "one copy: the processes share a disk"
        os.kill(running.pids[2], signal.SIGKILL)
        assert running.process.stderr is not None
        told = iter(running.process.stderr.readline, "")
        assert any("broker 2: its process ended (exit code -9)" in line for line in told)
        with socket.socket() as another, pytest.raises(OSError, match="in use"):
            another.bind(("127.0.0.1", int(running.addresses[1].rpartition(":")[2])))
        assert any("broker 2 runs again" in line for line in told)
        eventually(lambda: {running.view.partition("t", number).leader for number in range(4)} == {1, 2}, 60)
        assert check_acked(running.view, [("t", each) for each in values]) == 40
        folder = running.folder
        running.stop()
    assert not folder.exists(), "it was temporary"


def test_the_folder_of_a_single_broker_is_adopted_with_its_data(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    values = [b"before %d" % number for number in range(20)]
    with brokers(*data, count=0) as single:
        address = single.addresses[0].removeprefix("PLAINTEXT://")
        produce([address], "old", values)
        assert single.stop() == ""
    ran = subprocess.run([*COMMAND, *data, "--processes", "2"], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert "--adopt moves its data into" in ran.stderr
    with brokers(*data, "--processes", "2", "--adopt") as running:
        assert check_acked(running.view, [("old", each) for each in values]) == 20
        produce(running.addresses, "new", [b"after"])
        assert {running.view.partition("new", number).leader for number in range(4)} == {1, 2}
        running.stop()
    ran = subprocess.run([*COMMAND, *data], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert "has 0, but no meta.properties" in ran.stderr


@pytest.mark.slow
def test_a_folder_in_use_is_refused_and_leaves_no_process(tmp_path: Path) -> None:
    with brokers("--processes", "2", "--data", str(tmp_path)) as running:
        again = [*COMMAND, "--processes", "2", "--data", str(tmp_path), "--listen", "127.0.0.1:0"]
        ran = subprocess.run(again, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 2
        assert "is in use by another broker" in ran.stderr
        running.stop()


@pytest.mark.slow
def test_adopt_without_processes_is_a_mistake() -> None:
    ran = subprocess.run([*COMMAND, "--adopt"], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert "give --processes N too" in ran.stderr
