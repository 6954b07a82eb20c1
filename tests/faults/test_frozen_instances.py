"""Instances of transactional streams that are frozen for longer than their session and their transaction may last: each continues in its own process.

While an instance is frozen the group gives its partitions to the other one, and the broker aborts its open transaction. When it wakes, it restarts its
run, without a service manager; what was written is exactly once and in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streamactors.broker.wire_request import create_topic
from tests.faults.broker_process import BrokerProcess
from tests.faults.chaos import copied, counts, rows_of
from tests.faults.connector_worker import SOURCE, TARGET
from tests.faults.test_exactly_once import CONFIG, PARTITIONS
from tests.faults.workload import QUIET

FROZEN_S = 6.0
"""Longer than the worker's session (2 s), and than its transactions may last (3 s)."""


class Instance:
    """A process whose run is never started again from outside."""

    def __init__(self, servers: str, name: str, way: str, folder: Path) -> None:
        self.told = folder / f"{name}.log"
        state = {"WORKER_STATE": str(folder / name)} if way == "count" else {}
        command = [sys.executable, "-m", "tests.faults.connector_worker", servers, name, way, "range"]
        with self.told.open("wb") as told:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=told, stderr=subprocess.STDOUT, env={**os.environ, **state}
            )

    def said(self) -> str:
        return self.told.read_text(errors="replace")

    def drain(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(90)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", ["copy", "count"])
def test_an_instance_that_was_frozen_beyond_its_session_continues_in_its_process(tmp_path: Path, way: str) -> None:
    with BrokerProcess(tmp_path / "data", CONFIG) as broker:
        servers = broker.bootstrap_servers
        for topic in (SOURCE, TARGET):
            create_topic(servers, topic, PARTITIONS, {})
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, **QUIET})
        made = 0

        def produce_for(seconds: float) -> None:
            nonlocal made
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                producer.produce(SOURCE, b"%d" % made, partition=made % PARTITIONS)
                made += 1
                producer.poll(0.002)

        def written() -> dict[int, list[bytes]]:
            return {n: copied(rows) for n, rows in rows_of(servers, TARGET).items()}

        def judged() -> bool:
            model = copied if way == "copy" else counts
            return written() == {n: model(rows) for n, rows in rows_of(servers, SOURCE).items()}

        instances = [Instance(servers, f"{way}-{n}", way, tmp_path) for n in range(2)]
        try:
            give_up = time.monotonic() + 60
            while not all(written().values()):
                produce_for(0.5)
                assert time.monotonic() < give_up
            for frozen in instances:  # each once
                produce_for(1)
                frozen.process.send_signal(signal.SIGSTOP)
                produce_for(FROZEN_S)
                frozen.process.send_signal(signal.SIGCONT)
                produce_for(4)
            assert producer.flush(60) == 0
            give_up = time.monotonic() + 60
            while not judged():
                assert time.monotonic() < give_up, [each.said()[-2_000:] for each in instances]
                time.sleep(0.2)
            pids = [each.process.pid for each in instances]
            assert [each.process.poll() for each in instances] == [None, None], pids
            assert [each.drain() for each in instances] == [0, 0]
        finally:
            for each in instances:
                each.process.kill()
                each.process.wait()
    told = "\n".join(each.said() for each in instances)
    assert "restart 1 of at most 10 in a row of the run" in told
    assert "failed" not in told, told  # the worker begins its run again when it fails
