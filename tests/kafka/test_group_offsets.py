"""Offsets of a group, asked for and committed by one who is no member, while the broker is slow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from streamactors.broker import Cluster
from streamactors.kafka import Admin, TopicPartition
from streamactors.kafka.settings import ClientSettings

COMMIT = """
import sys
from streamactors.kafka import Admin, TopicPartition
from streamactors.kafka.client import group_offsets
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.settings import ClientSettings

group_offsets.REQUEST_TIMEOUT_MS = 1_000
admin = Admin(ClientSettings(sys.argv[1]))
try:
    admin.commit("readers", {TopicPartition("orders", 0): 7})
except KafkaError as error:
    print("refused:", error, flush=True)
sys.stdin.readline()  # the broker answers now
admin.commit("readers", {TopicPartition("orders", 0): 8})
print("committed", flush=True)
"""


def test_a_commit_that_timed_out_and_is_answered_later_ends_no_process() -> None:
    # librdkafka's admin client aborted the process, with an assertion about the request, when the answer came
    with Cluster(process=True) as cluster:
        cluster.create_topic("orders", 1)
        with Admin(ClientSettings(cluster.bootstrap_servers)) as admin:
            key = TopicPartition("orders", 0)
            admin.commit("readers", {key: 1})
            asking = subprocess.Popen(
                [sys.executable, "-c", COMMIT, cluster.bootstrap_servers],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert asking.stdin is not None
            assert asking.stdout is not None
            with asking:
                os.kill(cluster.pid, signal.SIGSTOP)
                try:
                    assert asking.stdout.readline().startswith("refused:")
                finally:
                    os.kill(cluster.pid, signal.SIGCONT)
                asking.stdin.write("\n")
                asking.stdin.flush()
                assert asking.stdout.read() == "committed\n"
            assert asking.returncode == 0
            assert admin.committed("readers") == {key: 8}
