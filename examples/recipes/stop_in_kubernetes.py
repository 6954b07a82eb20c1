"""A worker that SIGTERM ends in order: finished, committed, left. python examples/recipes/stop_in_kubernetes.py"""

import os
import signal
import subprocess
import sys
import time
from typing import Any

from streamactors import Keep, RunnableGraph, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Admin,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)


def graph() -> RunnableGraph[Any]:
    """What the container runs: streamactors run worker.py:graph --drain-timeout 25s"""
    settings = ConsumerSettings(os.environ["BOOTSTRAP"], group_id="worker", auto_offset_reset="earliest")
    jobs = Consumer.source(settings, Subscriptions.topics("jobs"))
    return jobs.map(lambda job: time.sleep(0.01)).to_mat(Sink.ignore(), Keep.both)


def committed(bootstrap: str) -> int:
    with Admin(ConsumerSettings(bootstrap)) as admin:
        return sum(admin.committed("worker").values())


def main(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    cluster.create_topic("jobs")
    jobs = Source.range(100_000).map(lambda n: ProducerRecord("jobs", str(n)))
    jobs.run_with(Producer.plain_sink(ProducerSettings(bootstrap))).result(30)

    command = [sys.executable, "-m", "streamactors", "run", f"{__file__}:graph", "--drain-timeout", "25s"]
    worker = subprocess.Popen(
        command, env={**os.environ, "BOOTSTRAP": bootstrap}, stderr=subprocess.PIPE, text=True
    )
    while not committed(bootstrap) and worker.poll() is None:
        time.sleep(0.05)
    worker.send_signal(signal.SIGTERM)  # as Kubernetes does when it ends a pod
    _, log = worker.communicate(timeout=30)
    if worker.returncode:
        sys.exit(log)
    last = log.splitlines()[-1]
    print("exit code", worker.returncode)
    print("it says what is committed:", last.endswith(f"committed jobs-0@{committed(bootstrap)}"))


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
