"""`make demo-cluster`: the graph of hours in this process, and on a standalone cluster of Spark that loses a worker on the way.

The topics of both runs are compared row for row in each partition."""

from __future__ import annotations

import os
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

from streamactors.broker import Cluster
from streamactors.demo import hours, hours_on_executors, produce, topics
from streamactors.demo.checking.tables import read
from streamactors.demo.data import flights_frame, planned
from streamactors.demo.folder import Folder
from streamactors.demo.killing.standalone import HOST, Standalone

FLIGHTS: Final = 60_000
BATCH: Final = 6_000
KILL_AFTER: Final = 3
"""Batches that are in the checkpoint when the worker is killed."""
CONTENT: Final = ("cluster-broker", "cluster-spark", "cluster-checkpoint")
END_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 0.1


def run_cluster_demo(into: Path) -> bool:
    """Run it anew in a folder of its own; return whether both runs wrote the same. Raises DemoError for a folder with other things in it."""
    marked = Folder(into)
    marked.prepare()
    folder = marked.path
    with marked.locked(print):
        for name in CONTENT:
            shutil.rmtree(folder / name, ignore_errors=True)
        return _both_ways(folder)


def _both_ways(folder: Path) -> bool:
    with Cluster(process=True, data=folder / "cluster-broker").start() as broker:
        servers = broker.bootstrap_servers
        for topic, partitions in topics.PARTITIONS.items():
            broker.create_topic(topic, partitions, topics.CONFIG)
        flights = planned(flights_frame().head(FLIGHTS))
        produce.graph(topics.producer(servers), flights, {}, lambda n: None, None).run().result()
        control, done = hours.graph(servers).run()
        done.result()
        control.is_shutdown.result()
        print(f"{FLIGHTS:,} flights into hours, in this process", flush=True)
        with Standalone(folder / "cluster-spark") as spark:
            print(f"a master and two workers on {spark.url}", flush=True)
            _on_cluster(servers, spark, folder / "cluster-checkpoint")
        found = hours_on_executors.first_difference(partial(read, servers))
    for topic, (rows, differs) in found.items():
        print(f"  {'✓' if differs is None else '✗'} {topic}: {rows:,} rows, {differs or 'the same both ways'}")
    return all(differs is None and rows for rows, differs in found.values())


def _on_cluster(servers: str, standalone: Standalone, checkpoint: Path) -> None:
    spark = _session(standalone.url)
    try:
        query = hours_on_executors.start(servers, spark, checkpoint, BATCH)
        killed = False
        until = time.monotonic() + END_SECONDS
        while not query.await_termination(LOOK_SECONDS):
            if time.monotonic() > until:
                raise TimeoutError(f"the query on {standalone.url} has not ended after {END_SECONDS:.0f} s")
            if not killed and query.progress()["batches"] >= KILL_AFTER:
                killed = True
                print(f"kill -9 of a worker (process {standalone.kill_worker()})", flush=True)
        print(f"{query.progress()['batches']} batches on the cluster", flush=True)
    finally:
        spark.stop()


def _session(url: str) -> Any:
    from streamactors.spark import spark_session

    return spark_session(
        "streamactors-demo",
        master=url,
        **{
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.memory": "512m",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        },
    )
