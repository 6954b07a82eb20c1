"""`streamactors replay`: a graph on a capsule, record by record; or two versions of a graph, and how their results differ."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamactors.cli.byte_sizes import BYTES
from streamactors.cli.durations import SECONDS
from streamactors.cli.graphs.graph_module import graph_argument, load_graph
from streamactors.cli.tables import print_table
from streamactors.cli.texts import as_time, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamactors.dsl.runnable import RunnableGraph
    from streamactors.simulation.capture.capsule import Capsule
    from streamactors.simulation.capture.replaying import OnStep, Replayed, Step

MOST_DIFFERENCES = 50


@click.command("replay")
@click.argument("capsule", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="CAPSULE")
@graph_argument
@click.option(
    "--from",
    "begin",
    type=click.Choice(("start", "committed")),
    default="start",
    show_default=True,
    help="Begin at the first record of the span with the state of that time, or at the group's offsets with its newest state.",
)
@click.option("--step", is_flag=True, help="At a terminal: wait for a key after each record.")
@click.option(
    "--only",
    metavar="TEXT",
    help="Show only records whose place (orders-0@17), key or value contains TEXT; all are replayed.",
)
@click.option(
    "--compare",
    "other",
    metavar="MODULE:OTHER",
    help="Run a second version of the graph, too, and show how their results differ, by key and window.",
)
@click.option(
    "--settle",
    type=SECONDS,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="The virtual time after the last record, for timers and commits.",
)
@click.option("--seed", default="0", show_default=True, help="Decides the order of tasks.")
@click.option(
    "--max-bytes",
    type=BYTES,
    default="1GiB",
    show_default=True,
    metavar="SIZE",
    help="The most bytes of records that a capsule may have.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print each step, or each difference, as a JSON object on one line."
)
def command(
    capsule: Path,
    graph: str,
    begin: str,
    step: bool,
    only: str | None,
    other: str | None,
    settle: float,
    seed: str,
    max_bytes: int,
    as_json: bool,
) -> int:
    """Run a graph on a capsule, with simulated clients under virtual time, and show what each stage emits for each record.

    The graph runs unchanged, without a broker. Records arrive at their captured times, in virtual time. What the graph does
    beside Kafka is done: a file is written; sockets and processes are refused. Exit code: 0 the graph has processed all records, 1 it failed,
    or the two versions of --compare differ, 2 an option, the file or the graph is wrong.

    \b
    Examples:
      streamactors replay payments.capsule my_streams:graph
      streamactors replay payments.capsule my_streams:graph --step
      streamactors replay payments.capsule my_streams:graph --only order-17
      streamactors replay payments.capsule my_streams:graph --compare my_streams_new:graph
    """
    from streamactors.simulation.capture.capsule_file import read_capsule
    from streamactors.simulation.capture.loading import Begin

    try:
        from streamactors.simulation.capture.replaying import replay
    except ImportError as error:
        if error.name != "greenlet":
            raise
        raise click.ClickException("replay needs greenlet: pip install 'streamactors[simulation]'") from None

    held = read_capsule(capsule, most_bytes=max_bytes)

    def run(name: str, on_step: OnStep) -> Replayed:
        return replay(held, load_graph(name), begin=Begin(begin), seed=seed, settle_s=settle, on_step=on_step)

    if other is not None:
        return _compare(graph, other, run, as_json=as_json)
    began = time.monotonic()
    loaded = load_graph(graph)
    if not as_json:
        _tell_begin(held, graph, loaded, begin)
    on_step = _json_steps(only) if as_json else _line_steps(loaded, only, step=step)
    done = replay(held, loaded, begin=Begin(begin), seed=seed, settle_s=settle, on_step=on_step)
    if not as_json:
        _tell_end(done, time.monotonic() - began)
    return _code(done)


def _code(done: Replayed) -> int:
    return 1 if done.ended or any(not each.dropped for each in done.failures) else 0


# ── one graph ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tell_begin(capsule: Capsule, name: str, graph: RunnableGraph[Any], begin: str) -> None:
    from streamactors.simulation.capture.capsule import GraphIdentity

    where = "the first record of the span" if begin == "start" else "the committed offsets"
    click.echo(
        f"group {capsule.group}, {as_time(capsule.since_ms)} to {as_time(capsule.taken_ms)}: {counted(capsule.records, 'record')}; "
        f"{name} begins at {where}"
    )
    for note in capsule.notes:
        click.echo(f"note: {note}")
    if capsule.graph is not None and (told := _changed(capsule.graph, GraphIdentity.of(name, graph))):
        click.echo(f"note: {told}")
    click.echo()


def _changed(then: Any, now: Any) -> str:
    if then.stages != now.stages:
        return f"the group ran {then.name} with other stages: {', '.join(then.stages)}"
    if then.source and now.source and then.source != now.source:
        return f"the file of {now.name} has changed since the capture"
    return ""


def _json_steps(only: str | None) -> OnStep:
    from streamactors.cli.captures.showing import step_json

    def show(step: Step) -> bool:
        if _is_wanted(step, only):
            click.echo(step_json(step))
        return True

    return show


def _line_steps(graph: RunnableGraph[Any], only: str | None, *, step: bool) -> OnStep:
    from streamactors.cli.captures.showing import Lines
    from streamactors.engine.planning.plan import flat_of

    labels = [node.label for node in flat_of(graph.module).nodes]
    lines = Lines([*labels, *(f"{label} 2" for label, count in Counter(labels).items() if count > 1)], labels[0])
    asking = _Asking() if step and sys.stdin.isatty() and sys.stdout.isatty() else None

    def show(each: Step) -> bool:
        if not _is_wanted(each, only):
            return True
        lines.show(each)
        return asking is None or asking.after(each)

    return show


def _is_wanted(step: Step, only: str | None) -> bool:
    if only is None or step.failures:
        return True
    record = step.record
    if record is None:
        return False
    wanted = only.encode()
    return only in record.place or wanted in (record.key or b"") or wanted in (record.value or b"")


class _Asking:
    """Asks after each record how to go on."""

    HELP = "Enter: next record, a number: so many, f: to the next failure, c: to the end, q: quit"

    def __init__(self) -> None:
        self._free = 0
        self._to_failure = self._to_end = False

    def after(self, step: Step) -> bool:
        """Return False to end the replay."""
        if self._to_end or (self._to_failure and not step.failures) or step.record is None:
            return True
        self._to_failure = False
        if self._free > 0 and not step.failures:
            self._free -= 1
            return True
        return self._ask()

    def _ask(self) -> bool:
        while True:
            sys.stdout.write(f"      [{self.HELP}] ")
            sys.stdout.flush()
            line = sys.stdin.readline()
            answer = line.strip().lower()
            if not line or answer == "q":
                return False
            if answer == "c":
                self._to_end = True
            elif answer == "f":
                self._to_failure = True
            elif answer.isdecimal():
                self._free = int(answer) - 1
            elif answer:
                continue
            return True


def _tell_end(done: Replayed, seconds: float) -> None:
    sent = Counter(each.place for each in done.results if each.window is None)
    told = ", ".join(f"{count:,} to {place}" for place, count in sent.items()) or "nothing"
    click.echo()
    click.echo(
        f"{done.records:,} of {counted(done.of, 'record')}; sent {told}; {done.virtual_s:,.0f} s of virtual time in {seconds:.1f} s"
    )
    if done.committed:
        click.echo(f"committed {', '.join(f'{key}@{offset}' for key, offset in sorted(done.committed.items()))}")
    failed = [each for each in done.failures if not each.dropped]
    if failed:
        click.echo(
            f"the graph failed {counted(len(failed), 'time')}; first at {failed[0].stage or 'its start'}: {failed[0].error}"
        )
    elif done.ended:
        click.echo("the graph ended before all records had arrived")


# ── two graphs ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _compare(name: str, other: str, run: Callable[[str, OnStep], Replayed], *, as_json: bool) -> int:
    from streamactors.cli.captures.showing import difference_json, difference_rows
    from streamactors.simulation.capture.comparing import differences, groups_of

    first, second = (run(each, lambda step: True) for each in (name, other))
    found = differences(first.results, second.results)
    failed = [(each, done) for each, done in ((name, first), (other, second)) if _code(done)]
    if as_json:
        for each in found:
            click.echo(difference_json(each))
        return 1 if found or failed else 0
    for each_name, done in ((name, first), (other, second)):
        click.echo(
            f"{each_name}: {done.records:,} of {counted(done.of, 'record')}, {counted(len(done.results), 'result')}"
        )
        for failure in done.failures[:3]:
            click.echo(
                f"  {'dropped' if failure.dropped else 'failed'} at {failure.stage or 'its start'}: {failure.error}"
            )
    if not found:
        click.echo(
            f"\nthe results are equal, for {counted(groups_of(first.results), 'key and window', 'keys and windows')}"
        )
        return 1 if failed else 0
    click.echo()
    print_table(("change", "where", "key", "window", "before", "after"), difference_rows(found[:MOST_DIFFERENCES]))
    if len(found) > MOST_DIFFERENCES:
        click.echo(f"… and {len(found) - MOST_DIFFERENCES:,} more; --json prints all")
    kinds = Counter(each.change.value for each in found)
    keys = groups_of([*first.results, *second.results])
    click.echo(
        f"\n{counted(len(found), 'difference')} in {counted(keys, 'key and window', 'keys and windows')}: "
        + ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    )
    return 1
