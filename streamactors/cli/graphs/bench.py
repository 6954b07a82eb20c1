"""`streamactors bench`: what one core does for a graph of yours."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import click

from streamactors.cli.durations import SECONDS
from streamactors.cli.graphs.graph_module import graph_argument, load_graph
from streamactors.collector import collecting_seldom
from streamactors.errors import StreamActorsError

if TYPE_CHECKING:
    from streamactors.cli.graphs.bench_run import MeasuredRun, Sample

LOOK_S: Final = 0.1
FULL: Final = 0.85
"""From this share of a core on, the CPU is the limit."""
PLANNED: Final = 0.7
"""The share of a core that a plan uses; the rest is for restarts, peaks and the records that waited meanwhile."""
STOP_S: Final = 30.0
SHOWN_STAGES: Final = 4
SHORTEST_S: Final = 0.5
SECONDS_WITHOUT: Final = 60.0
OWN_STAGES: Final = ("counted", "kill_switch", "watch_termination")


class NothingMeasured(StreamActorsError):
    """No source has emitted anything, or too little for a measurement."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a graph did. `core_share`: the CPU used, in cores; `queued_share`: the CPU that other processes had while the graph was ready to run.
    `one_core_records_s`: what it does with a whole core, by its CPU per record."""

    graph: str
    seconds: float
    records: int
    records_s: float
    bytes_s: float | None
    cpu_us_per_record: float
    core_share: float
    queued_share: float
    memory_bytes: int | None
    memory_bytes_at_start: int | None
    one_core_records_s: float
    one_core_bytes_s: float | None
    stages: dict[str, float]

    def processes_for(self, records_s: float) -> int:
        """Return how many processes of one core a rate needs, with room to spare."""
        return math.ceil(records_s / (self.one_core_records_s * PLANNED))


@click.command("bench")
@graph_argument
@click.option(
    "--seconds", type=SECONDS, default="10s", show_default=True, help="How long to measure. A number is seconds."
)
@click.option(
    "--warm-up", type=SECONDS, default="2s", show_default=True, help="Time after the first record that is not measured."
)
@click.option(
    "--for",
    "wanted",
    type=click.FloatRange(min=1),
    metavar="RATE",
    help="Say how many processes RATE records a second need.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
def command(graph: str, seconds: float, warm_up: float, wanted: float | None, as_json: bool) -> None:
    """Run a graph, and print what it does with one core: records and bytes a second, CPU for each record, and memory.

    The graph really runs: it reads, writes and commits as with `streamactors run`. Give it a group and topics of its own, with
    enough records that it does not wait for more. Records are what its sources emit. At the end its sources are stopped.

    MODULE is a module's name or the path of a .py file, GRAPH a runnable graph in it or a function of no arguments that
    returns one.

    \b
    Examples:
      streamactors bench my_streams:graph
      streamactors bench my_streams:graph --seconds 60 --for 50000
      streamactors bench my_streams:graph --json
    """
    from streamactors.cli.graphs.bench_run import MeasuredRun

    if seconds <= 0:
        raise click.BadParameter("it must be more than 0", param_hint="--seconds")
    loaded = load_graph(graph)
    with ExitStack() as undo:
        undo.enter_context(collecting_seldom())
        running = undo.enter_context(MeasuredRun(loaded))
        samples, stages = _measure(running, seconds, warm_up)
        running.stop()
        running.wait(STOP_S)
        if running.error is not None:
            from streamactors.cli.graphs.run import RunFailed

            error = running.error
            raise RunFailed(f"{type(error).__name__}: {error}") from error
        measured = measurement(graph, samples, warm_up, running.bytes_each(), stages)
    if as_json:
        processes = {} if wanted is None else {"processes": measured.processes_for(wanted)}
        click.echo(json.dumps({**asdict(measured), **processes}))
        return
    for line in lines(measured, wanted):
        click.echo(line)


def _measure(running: MeasuredRun, seconds: float, warm_up: float) -> tuple[list[Sample], dict[str, float]]:
    """Return samples from the first record on, and the share of each stage in the working time."""
    from streamactors.cli.graphs.bench_run import sample
    from streamactors.engine.snapshot import snapshots

    before = sample(running)
    samples: list[Sample] = []
    stages: dict[str, float] = {}
    patience = time.monotonic() + SECONDS_WITHOUT
    while True:
        ended = running.wait(LOOK_S)
        now = sample(running)
        if now.elements and not samples:
            samples.append(before)
        if samples:
            samples.append(now)
        before = now
        shots = snapshots(running.system)
        if shots:
            stages = {
                stage.name: stage.busy
                for shot in shots
                for stage in shot.stages
                if stage.busy and stage.name not in OWN_STAGES
            }
        since = now.at_s - samples[0].at_s if samples else 0.0
        if ended or since >= warm_up + seconds or (not samples and now.at_s > patience):
            return samples, stages


def measurement(
    graph: str, samples: Sequence[Sample], warm_up: float, bytes_each: float | None, stages: dict[str, float]
) -> Measurement:
    """Return the numbers between the end of the warm-up and the last sample with new records; a run that ended sooner counts as a whole.

    Raises NothingMeasured."""
    if not samples:
        raise NothingMeasured(
            f"{graph}: no source has emitted anything in {SECONDS_WITHOUT:g} s; write records into its topics, and read them from the beginning: "
            "auto_offset_reset='earliest' and a new group"
        )
    last = max(
        number for number, each in enumerate(samples) if number == 0 or each.elements > samples[number - 1].elements
    )
    last = (
        last if samples[-1].at_s - samples[last].at_s > 1.0 else len(samples) - 1
    )  # a source that is at its end does nothing more
    first = next((n for n, each in enumerate(samples) if each.at_s - samples[0].at_s >= warm_up), last)
    if samples[last].at_s - samples[first].at_s < (samples[last].at_s - samples[0].at_s) / 2:
        first = 0
    start, end = samples[first], samples[last]
    records, passed_s, cpu = end.elements - start.elements, end.at_s - start.at_s, end.cpu_s - start.cpu_s
    if passed_s < SHORTEST_S or not records or cpu <= 0:
        raise NothingMeasured(
            f"{graph}: its sources had ended after {passed_s:.1f} s, which is too short to measure; give them more records"
        )
    one_core = records / cpu
    memory = [each.memory_bytes for each in samples if each.memory_bytes is not None]
    return Measurement(
        graph,
        passed_s,
        records,
        records / passed_s,
        None if bytes_each is None else bytes_each * records / passed_s,
        cpu / records * 1e6,
        cpu / passed_s,
        max(0.0, end.queued_s - start.queued_s) / passed_s,
        max(memory, default=None),
        samples[0].memory_bytes,
        one_core,
        None if bytes_each is None else bytes_each * one_core,
        dict(sorted(stages.items(), key=lambda item: -item[1])[:SHOWN_STAGES]),
    )


def lines(found: Measurement, wanted: float | None) -> list[str]:
    """Return the measurement for a person."""
    told = [
        f"{found.graph}: {found.records:,} records in {found.seconds:.1f} s",
        f"  records      {found.records_s:,.0f} /s",
        f"  bytes        {'not known: the elements have no bytes' if found.bytes_s is None else _bytes(found.bytes_s) + '/s, keys and values'}",
        f"  CPU          {found.cpu_us_per_record:,.1f} µs a record, {found.core_share:.0%} of a core",
        f"  memory       {_memory(found)}",
        f"  one core     {found.one_core_records_s:,.0f} records/s"
        + ("" if found.one_core_bytes_s is None else f", {_bytes(found.one_core_bytes_s)}/s"),
    ]
    if found.stages:
        told.append(f"  busy         {', '.join(f'{name} {share:.0%}' for name, share in found.stages.items())}")
    if found.core_share + found.queued_share < FULL:
        told.append("The CPU was not the limit: the graph waited for its input, for a sink or for a service.")
    elif found.core_share < FULL:
        told.append(
            "Other processes used the CPU meanwhile. The CPU for a record, and what one core does, hold nevertheless."
        )
    if wanted is not None:
        count = found.processes_for(wanted)
        told.append(
            f"{wanted:,.0f} records/s need {count} process{'' if count == 1 else 'es'}, each with {PLANNED:.0%} of a core busy, "
            f"and a topic of at least {count} partition{'' if count == 1 else 's'}."
        )
    return told


def _memory(found: Measurement) -> str:
    if found.memory_bytes is None or found.memory_bytes_at_start is None:
        return "not known on this system"
    return f"{_bytes(found.memory_bytes)} at most, {_bytes(found.memory_bytes_at_start)} before the first record"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1_000:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1_000
    return f"{size:,.1f} GB"
