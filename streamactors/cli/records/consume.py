"""`streamactors consume`: the records of a topic as values, by a format, as JSON lines or as a table."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from streamactors.cli.bootstrap import bootstrap_option
from streamactors.cli.completing import topic_argument
from streamactors.cli.places import PLACE, Kind, Place
from streamactors.cli.progress import Count, progress
from streamactors.cli.records.bounds import Bounds
from streamactors.cli.records.ends import UNTIL, Until
from streamactors.cli.records.formats import HELP, RecordFormat
from streamactors.cli.records.partition_records import records_from
from streamactors.cli.records.printing import Print, formatted, json_lines, raw, table
from streamactors.cli.records.schema_values import value_options, value_reader
from streamactors.cli.tables import json_option

if TYPE_CHECKING:
    from streamactors.kafka.record import ConsumerRecord


@click.command("consume")
@bootstrap_option
@topic_argument
@click.option(
    "--partition",
    "-p",
    "partitions",
    multiple=True,
    type=click.IntRange(0),
    help="Only this partition.  [default: all]",
)
@click.option(
    "--from",
    "start",
    type=PLACE,
    default="beginning",
    show_default=True,
    metavar="WHERE",
    help="beginning or earliest, end or latest, an offset, -N for the last N of each partition, +N to skip N, a time ago such as -1h, or a "
    "time such as 2026-01-31T12:00 (UTC unless it says otherwise).",
)
@click.option(
    "--until",
    type=UNTIL,
    metavar="WHERE",
    help="The end of reading: as --from, or '10 records'. A time still to come, such as +10s, is waited for.  [default: the end now]",
)
@click.option("--count", "-n", type=click.IntRange(1), help="Stop after this many records.")
@click.option("--follow", "-f", is_flag=True, help="Then print new records as they arrive, until Ctrl-C.")
@click.option(
    "--group",
    "-g",
    metavar="GROUP",
    help="Read as a member of a consumer group: begin at its committed offsets, and commit what was printed.",
)
@click.option("--key", metavar="KEY", help="Only records with this key.")
@click.option("--format", "form", metavar="FORMAT", help=f"Print each record by a format: {HELP}.")
@click.option("--table", "as_table", is_flag=True, help="Print a table, also in a pipe.")
@value_options
@json_option
def command(
    bootstrap: str,
    topic: str,
    partitions: tuple[int, ...],
    start: Place,
    until: Until | None,
    count: int | None,
    follow: bool,
    group: str | None,
    key: str | None,
    form: str | None,
    as_table: bool,
    value: str,
    registry: str | None,
    as_json: bool,
) -> None:
    r"""Print the records of a topic, up to its end: at a terminal a table, in a pipe the values, each with a line feed.

    \b
    Examples:
      streamactors consume flights --count 10
      streamactors consume flights --format '%k %v\n' --from -1h
      streamactors consume flights --from end --follow --json
      streamactors consume flights --from 2026-01-31 --until 2026-02-01 > january-31.txt
      streamactors consume flights --group reader --until '100 records'
      streamactors consume orders --value avro --registry http://localhost:8081
    """
    if sum((as_json, as_table, form is not None)) > 1:
        raise click.UsageError("--json, --table and --format exclude each other; give one of them")
    end = until or Until()
    if end.records is not None:
        count = min(count or end.records, end.records)
    endless = follow or end.deadline_ms is not None or (start.kind is Kind.END and end.place is None)
    given = Bounds(bootstrap, topic, partitions, start, end.place, follow=endless)
    read = value_reader(topic, value, registry)
    text = sys.stdout.isatty()
    lines = as_json or form is not None
    quiet = lines if text else not _is_file()
    quiet = quiet or group is not None or (endless and count is None)
    form_of = _form(form)
    with ExitStack() as undo:
        bar = undo.enter_context(progress(f"consume {topic}", count, quiet=quiet, beside_stdout=not text))
        show = (
            json_lines(read)
            if as_json
            else formatted(form_of, read)
            if form_of is not None
            else table(read, bar)
            if text or as_table
            else raw(read)
        )
        printed: Callable[[Sequence[ConsumerRecord]], None] = _nothing
        batches: Iterable[list[ConsumerRecord]]
        if group is None:
            counted = None if endless or count else bar
            batches = records_from(bootstrap, given.starts(), until=given.until(), follow=endless, bar=counted)
        else:
            member = undo.enter_context(given.member_of(group))
            batches, printed = member, member.printed
        _print(batches, show, printed, None if key is None else key.encode(), count, end.deadline_ms, bar)
        if group is not None and member.assigned_nothing:
            click.echo(f"streamactors: other members of group {group} read all partitions of {topic}", err=True)


def _print(
    batches: Iterable[list[ConsumerRecord]],
    show: Print,
    printed: Callable[[Sequence[ConsumerRecord]], None],
    key: bytes | None,
    count: int | None,
    deadline_ms: int | None,
    bar: Count,
) -> None:
    left = count
    for batch in batches:
        shown = batch if key is None else [record for record in batch if record.key == key]
        done = batch
        if left is not None and len(shown) >= left:
            shown = shown[:left]
            done = batch[: batch.index(shown[-1]) + 1]
        if shown:
            show(shown)
        printed(done)
        if left is not None:
            bar.add(len(shown))
            left -= len(shown)
            if left == 0:
                return
        if deadline_ms is not None and time.time() * 1_000 >= deadline_ms:
            return


def _form(text: str | None) -> RecordFormat | None:
    try:
        return None if text is None else RecordFormat(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


def _is_file() -> bool:
    """Return whether stdout is a file, so that a progress line on stderr is of use."""
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:  # it is no file of the system
        return False


def _nothing(_: Any) -> None:
    """Nothing is to be remembered without a group."""
