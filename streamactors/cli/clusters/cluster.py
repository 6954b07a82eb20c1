"""`streamactors cluster`: several brokers on this machine, one process each, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
from typing import Any

import click

from streamactors.cli.progress import progress


@click.command("cluster")
@click.option("--brokers", type=click.IntRange(2, 9), default=3, show_default=True, help="Number of brokers.")
@click.option(
    "--controllers",
    type=click.IntRange(1, 9),
    help="Number of the brokers that are controllers too; of three, one may die.  [default: 3, or 1 of two brokers]",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    metavar="P",
    help="Port of broker 1; broker 2 has the next one, and so on.  [default: free ports]",
)
@click.option(
    "--data", metavar="DIR", help="Folder of the data folders, one for each broker.  [default: a temporary one]"
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting of every broker; may be given several times.",
)
def command(
    brokers: int, controllers: int | None, port: int | None, data: str | None, settings: tuple[str, ...]
) -> None:
    """Start several brokers that form a cluster, for tests and demos on one machine.

    Brokers 1 to 3 are controllers, too, and elect one of them; with --controllers 1 broker 1 is the only one.

    \b
    Examples:
      streamactors cluster
      streamactors cluster --port 9092 --data ./cluster
      streamactors cluster --brokers 5 --data ./cluster --set num.partitions=4
    """
    from streamactors.broker.cluster.cluster import Cluster
    from streamactors.broker.launch.startup import parse_setting

    stop = threading.Event()

    def asked(*_: Any) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
    given = dict(parse_setting(each) for each in settings)
    cluster = Cluster(brokers=brokers, controllers=controllers, data=data, config=given, port=port)
    with progress(f"start {brokers} brokers"):
        cluster.start()
    with cluster:
        click.echo(
            f"streamactors cluster ready: {cluster.bootstrap_servers}, data in {cluster.data_folder}, cluster id {cluster.cluster_id}"
        )
        for node_id, pid in cluster.pids.items():
            click.echo(f"  broker {node_id}: process {pid}")
        stop.wait()
