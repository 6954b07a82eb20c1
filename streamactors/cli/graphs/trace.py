"""`streamactors trace`: the latency of each hop of a graph."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from streamactors.cli.durations import Seconds
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.engine.latency import LatencyMeter

LOOK_S = 0.1


class NothingMeasured(StreamActorsError):
    """No element has gone the whole way."""


@click.command("trace")
@click.argument("what", metavar="URL|MODULE:GRAPH")
@click.option(
    "--seconds",
    type=Seconds(0.1),
    default="10s",
    show_default=True,
    metavar="TIME",
    help="Measure for this time, or until the graph ends. A number is seconds.",
)
@click.option(
    "--records",
    type=click.IntRange(1),
    metavar="N",
    help="End when N records have been followed to the end of their way.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON, one per line.")
def command(what: str, seconds: float, records: int | None, as_json: bool) -> None:
    """Print how long records need from hop to hop: from the moment when they were written through the consumer, each stage and the sinks to the commit.

    URL is the address of a live page, with its token; MODULE:GRAPH is run here, as by `streamactors run`, and its sources are stopped at the end.
    Of every source one chunk in 50 ms is followed, and with --records each chunk that is needed for N records in this time.

    \b
    Examples:
      streamactors trace my_streams:graph
      streamactors trace my_streams:graph --records 1000 --seconds 60
      streamactors trace 'http://127.0.0.1:4040/#token=…'
    """
    with ExitStack() as undo:
        rows = (_from_page if what.startswith(("http://", "https://")) else _from_run)(undo, what, seconds, records)
    if not any(row["whole"] and row["n"] for row in rows):
        raise NothingMeasured(
            f"no record of {what.partition('#')[0]} has gone its whole way in {seconds:g} s: nothing came, the sinks have done nothing yet, "
            "or nothing in the graph reads marks (docs/journey.md)"
        )
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
        return
    from streamactors.dashboard.latency_lines import latency_lines

    for line in latency_lines(rows):
        click.echo(line)


def _from_page(undo: ExitStack, url: str, seconds: float, records: int | None) -> list[dict[str, Any]]:
    from streamactors.dashboard.combining import Remote

    remote = Remote(url)
    undo.callback(remote.close)
    until = time.monotonic() + seconds
    rows: list[dict[str, Any]] = remote.state()["latency"]
    while time.monotonic() < until and not _enough(rows, records):
        time.sleep(LOOK_S)
        rows = remote.state()["latency"]
    return rows


def _enough(rows: list[dict[str, Any]], records: int | None) -> bool:
    from streamactors.engine.hops.ledger import COMMITTED

    return records is not None and sum(row["n"] for row in rows if row["whole"] and row["hop"] != COMMITTED) >= records


def _from_run(undo: ExitStack, name: str, seconds: float, records: int | None) -> list[dict[str, Any]]:
    from streamactors.cli.graphs.graph_module import load_graph
    from streamactors.cli.graphs.run import RunFailed
    from streamactors.engine.latency import LatencyMeter
    from streamactors.kafka.controls.supervised import SupervisedRun

    meters: list[LatencyMeter] = []

    def measure(system: ActorSystem) -> None:
        every = 0.05 if records is None else min(0.05, seconds / records / 2)
        meters.append(undo.enter_context(LatencyMeter(system, every)))

    running = undo.enter_context(SupervisedRun(load_graph(name), prepare=measure))
    (meter,) = meters
    until = time.monotonic() + seconds
    while time.monotonic() < until and not running.wait(LOOK_S):
        if records is not None and sum(len(graph.journeys) for graph in meter.graphs()) >= records:
            break
    running.stop()
    running.wait(seconds)
    error = running.error
    if error is not None:
        raise RunFailed("; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])) from error
    return _rows(meter)


def _rows(meter: LatencyMeter) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from streamactors.dashboard.reading.latency import hop_states

    return [asdict(state) for ledger in meter.ledgers for state in hop_states(ledger)]
