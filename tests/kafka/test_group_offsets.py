"""Offsets of a group, asked for and committed by one who is no member, while the broker is slow."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamactors.broker import Cluster
from streamactors.kafka import Admin, TopicPartition
from streamactors.kafka.settings import ClientSettings

ASK = """
import sys
import time
from streamactors.kafka import Admin, TopicPartition
from streamactors.kafka.client import admin as of_admin
from streamactors.kafka.client.offsets import group_offsets
from streamactors.kafka.errors import GroupNotFound, KafkaError
from streamactors.kafka.settings import ClientSettings

of_admin.REQUEST_TIMEOUT_MS = group_offsets.REQUEST_TIMEOUT_MS = 1_000
of_admin._WAIT["request_timeout"] = 1
admin = Admin(ClientSettings(sys.argv[1]))
ask = eval(sys.argv[2])
begin = time.monotonic()
try:
    ask()
except KafkaError as error:
    print("refused:", error, flush=True)
else:
    print(f"answered after {time.monotonic() - begin:.3f} s although the broker stands still", flush=True)
sys.stdin.readline()  # the broker answers now
of_admin.REQUEST_TIMEOUT_MS = group_offsets.REQUEST_TIMEOUT_MS = 30_000
try:
    ask()
except GroupNotFound:
    pass  # the broker has carried out the first request
print("answered", flush=True)
"""


@pytest.mark.parametrize(
    ("ask", "then"),
    [
        ('lambda: admin.commit("readers", {TopicPartition("orders", 0): 8})', {TopicPartition("orders", 0): 8}),
        ('lambda: admin.delete_group("readers")', {}),
    ],
)
def test_a_request_that_timed_out_and_is_answered_later_ends_no_process(
    ask: str, then: dict[TopicPartition, int]
) -> None:
    # librdkafka's admin client aborted the process, with an assertion about the request, when the answer came
    with Cluster(process=True) as cluster:
        cluster.create_topic("orders", 1)
        with Admin(ClientSettings(cluster.bootstrap_servers)) as admin:
            admin.commit("readers", {TopicPartition("orders", 0): 1})
            # The process asks within 100 ms of its start. On a busy machine some threads of the broker go on for 200 ms after SIGSTOP: `pause` waits.
            cluster._running.pause()
            try:
                asking = subprocess.Popen(
                    [sys.executable, "-c", ASK, cluster.bootstrap_servers, ask],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                assert asking.stdin is not None
                assert asking.stdout is not None
                first = asking.stdout.readline()
            finally:
                cluster._running.resume()
            with asking:
                assert first.startswith("refused:"), first
                asking.stdin.write("\n")
                asking.stdin.flush()
                assert asking.stdout.read() == "answered\n"
            assert asking.returncode == 0
            assert admin.committed("readers") == then
