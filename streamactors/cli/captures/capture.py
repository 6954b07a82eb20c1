"""`streamactors capture`: a capsule of a live group."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamactors.cli.bootstrap import bootstrap_option, client_settings
from streamactors.cli.byte_sizes import BYTES, size_text
from streamactors.cli.completing import complete_groups
from streamactors.cli.dashboard_options import redact_of
from streamactors.cli.durations import Seconds
from streamactors.cli.places import MOMENT
from streamactors.cli.tables import print_table
from streamactors.cli.texts import as_time, counted

if TYPE_CHECKING:
    from streamactors.dsl.runnable import RunnableGraph
    from streamactors.simulation.capture.capsule import Capsule, GraphIdentity

COMMITTED = "read_committed"
ISOLATIONS = (COMMITTED, "read_uncommitted")


@click.command("capture")
@bootstrap_option
@click.option(
    "--group",
    "-g",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="The consumer group.  [default: that of --graph]",
)
@click.option(
    "--graph",
    metavar="MODULE:GRAPH",
    help="The graph that the group runs: its topics, its isolation and its stages are captured, too.",
)
@click.option(
    "--topics",
    metavar="TOPIC,…",
    multiple=True,
    help="Topics beside those that the group has offsets of; may be given several times.",
)
@click.option(
    "--last",
    type=Seconds(0.001),
    default="10m",
    show_default=True,
    metavar="TIME",
    help="The length of the span, to now.",
)
@click.option(
    "--since",
    type=MOMENT,
    metavar="WHEN",
    help="The begin of the span, in place of --last: a time such as 2026-01-31T12:00, or -1h.",
)
@click.option(
    "--isolation",
    type=click.Choice(ISOLATIONS),
    help="How the group reads.  [default: as the graph does, or read_committed]",
)
@click.option(
    "--redact",
    metavar="MODULE:FUNCTION",
    help="Write FUNCTION(record) in place of each record. State is left out then.",
)
@click.option(
    "--state/--no-state",
    "state",
    default=None,
    help="Capture the changelogs of the group.  [default: yes, and no with --redact]",
)
@click.option(
    "--max-bytes",
    type=BYTES,
    default="64MB",
    show_default=True,
    metavar="SIZE",
    help="The most bytes of records; the oldest are left out.",
)
@click.option(
    "--max-records",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="The most records; the oldest are left out.",
)
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print what is in the capsule as JSON.")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path), metavar="OUT.CAPSULE")
def command(
    bootstrap: str,
    group: str | None,
    graph: str | None,
    topics: tuple[str, ...],
    last: float,
    since: int | None,
    isolation: str | None,
    redact: str | None,
    state: bool | None,
    max_bytes: int,
    max_records: int,
    force: bool,
    as_json: bool,
    out: Path,
) -> None:
    """Write what a group has read lately into one file: records, offsets, state, and the settings of topics.

    The group keeps running, and nothing is written to the cluster. `streamactors replay` runs a graph on the file. The file has the records' values;
    only its owner may read it. --redact hides values before anything is written: its function takes a record and returns
    record._replace(value=…, key=…, headers=…).

    \b
    Examples:
      streamactors capture --group payments --last 10m payments.capsule
      streamactors capture --graph my_streams:graph payments.capsule
      streamactors capture --group payments --redact my_streams:hide_cards payments.capsule
    """
    from streamactors.simulation.capture.capsule_file import write_capsule
    from streamactors.simulation.capture.limiting import Limits
    from streamactors.simulation.capture.taking import capture

    if out.exists() and not force:
        raise click.UsageError(f"{out} is there already; give --force to replace it, or another file")
    if not out.absolute().parent.is_dir():
        raise click.UsageError(f"there is no folder {out.absolute().parent}")
    loaded = _Graph(graph)
    hide = redact_of(redact)
    group = group or loaded.group
    if group is None:
        raise click.UsageError("which group? give --group, or --graph with a graph that reads in one group")
    settings = client_settings(bootstrap)
    since_ms = int(time.time() * 1_000 - last * 1_000) if since is None else since
    asked = [name.strip() for each in topics for name in each.split(",") if name.strip()]
    taken = capture(
        settings,
        group,
        since_ms=since_ms,
        topics=[*asked, *loaded.read_in(group)],
        named=loaded.written,
        committed_only=(isolation or loaded.isolation) == COMMITTED,
        limits=Limits(max_bytes, max_records),
        redact=hide,
        keep_state=state,
        graph=loaded.identity,
    )
    size = write_capsule(taken, out)
    if as_json:
        click.echo(json.dumps(_as_json(taken, out, size), ensure_ascii=False))
    else:
        _tell(taken, out, size, graph)


class _Graph:
    """What a graph tells about its group."""

    def __init__(self, name: str | None) -> None:
        self.identity: GraphIdentity | None = None
        self.isolation = COMMITTED
        self.written: list[str] = []
        self._read: dict[str, list[str]] = {}
        if name is not None:
            self._load(name)

    def _load(self, name: str) -> None:
        from streamactors.cli.graphs.graph_module import load_graph
        from streamactors.cli.graphs.preflight import kafka_clients, topics_read, topics_written
        from streamactors.kafka.settings import ConsumerSettings
        from streamactors.simulation.capture.capsule import GraphIdentity

        graph: RunnableGraph[Any] = load_graph(name)
        self.identity = GraphIdentity.of(name, graph)
        self.written = list(topics_written(graph))
        for _, settings, subscription in kafka_clients(graph):
            if isinstance(settings, ConsumerSettings) and settings.group_id:
                self._read.setdefault(settings.group_id, []).extend(topics_read(subscription))
                self.isolation = str(settings.client_properties().get("isolation.level", COMMITTED))

    @property
    def group(self) -> str | None:
        """The one group that the graph reads in."""
        return next(iter(self._read)) if len(self._read) == 1 else None

    def read_in(self, group: str) -> list[str]:
        """Return the topics that the graph reads in a group."""
        return self._read.get(group, [])


def _tell(capsule: Capsule, out: Path, size: int, graph: str | None) -> None:
    records = counted(capsule.records, "record")
    click.echo(
        f"{out}: {records} of group {capsule.group}, {as_time(capsule.since_ms)} to {as_time(capsule.taken_ms)}, {size_text(size)}\n"
    )
    print_table(("topic", "is", "partitions", "records", "offsets"), _rows(capsule))
    for note in capsule.notes:
        click.echo(f"note: {note}")
    if capsule.redacted_by:
        click.echo(f"note: {capsule.redacted_by} has changed the records")
    click.echo(f"\nnext: streamactors replay {out} {graph or 'MODULE:GRAPH'}")


def _rows(capsule: Capsule) -> list[tuple[Any, ...]]:
    rows = []
    for topic in capsule.topics:
        slices = [each for each in capsule.slices if each.topic == topic.name]
        held = sum(len(each.records) for each in slices)
        ranges = ", ".join(f"{each.partition}: {each.begin}–{each.end}" for each in slices if each.begin < each.end)
        rows.append(
            (topic.name, topic.kind.value, topic.partitions, held, ranges if topic.kind.value != "other" else "")
        )
    return rows


def _as_json(capsule: Capsule, out: Path, size: int) -> dict[str, Any]:
    return {
        "capsule": str(out),
        "bytes": size,
        "group": capsule.group,
        "since_ms": capsule.since_ms,
        "taken_ms": capsule.taken_ms,
        "records": capsule.records,
        "redacted_by": capsule.redacted_by or None,
        "topics": [{"topic": t.name, "is": t.kind.value, "partitions": t.partitions} for t in capsule.topics],
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "begin": each.begin,
                "end": each.end,
                "committed": each.committed,
                "records": len(each.records),
            }
            for each in capsule.slices
        ],
        "notes": list(capsule.notes),
    }
