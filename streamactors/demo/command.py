"""`streamactors demo`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("demo")
@click.option(
    "--into",
    default="out/demo",
    show_default=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of everything: the broker's data, checkpoints, Parquet, tables, pictures.",
)
@click.option(
    "--speed",
    type=click.IntRange(1),
    metavar="FLIGHTS",
    help="Produce at most this many flights a second.  [default: no limit]",
)
@click.option(
    "--dashboard",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=0,
    metavar="[PORT]",
    help="Serve a live page of the graphs, the partitions and the broker, and print its address.",
)
@click.option(
    "--crash", is_flag=True, help="Kill it twice with -9 on the way, and compare with a run that was left alone."
)
@click.option(
    "--cluster",
    is_flag=True,
    help="Run the graph of hours on a standalone Spark cluster of two workers, kill one, and compare with a run in one process.",
)
@click.option(
    "--seed", type=int, default=None, help="Where --crash kills.  [default: another one each time; it is printed]"
)
def command(into: Path, speed: int | None, dashboard: int | None, crash: bool, cluster: bool, seed: int | None) -> int:
    """Send 336,776 real flights through a broker, stream graphs and Spark, and check that the totals add up.

    An interrupted run continues where it stopped. Ctrl-C ends every process of the demo. Exit code 1: a total is wrong.

    \b
    Examples:
      streamactors demo
      streamactors demo --into /tmp/demo --speed 100000
      streamactors demo --speed 20000 --dashboard
      streamactors demo --crash --seed 7
      streamactors demo --cluster
    """
    if crash:
        from streamactors.demo.killing.crash import crash_demo

        return 0 if crash_demo(into, seed) else 1
    if cluster:
        from streamactors.demo.killing.cluster_demo import run_cluster_demo

        return 0 if run_cluster_demo(into) else 1
    from streamactors.demo.main import run_demo

    return 0 if run_demo(into, speed, dashboard) else 1
