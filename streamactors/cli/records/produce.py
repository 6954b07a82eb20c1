"""`streamactors produce`: lines from standard input become records."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import click

from streamactors.cli.bootstrap import admin_client, bootstrap_option
from streamactors.cli.completing import topic_argument
from streamactors.cli.places import MOMENT
from streamactors.cli.progress import progress
from streamactors.cli.records.json_records import BadLine, record_of
from streamactors.cli.records.schema_values import WriteValue, value_options, value_writer
from streamactors.cli.records.sending import RecordSender, before
from streamactors.cli.texts import counted

if TYPE_CHECKING:
    from streamactors.kafka.producer_record import ProducerRecord

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RecordOf: TypeAlias = Callable[[bytes, int], "ProducerRecord"]
"""Returns the record of a line and its number. Raises BadLine."""


@click.command("produce")
@bootstrap_option
@topic_argument
@click.option("--json", "as_json", is_flag=True, help="Each line is a JSON object as `consume --json` prints it.")
@click.option("--key-separator", "-k", metavar="TEXT", help="What separates key and value on a line.")
@click.option("--key", metavar="KEY", help="The key of all records.")
@click.option(
    "--null-marker", metavar="TEXT", help="A key or value that is TEXT is null: a null value is a tombstone. Also ''."
)
@click.option(
    "--partition", "-p", type=click.IntRange(0, (1 << 31) - 1), help="Partition for all of them.  [default: by key]"
)
@click.option("--keep-partitions", is_flag=True, help="With --json: send each record to the partition that it names.")
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="A header for every record.")
@click.option(
    "--timestamp",
    type=MOMENT,
    metavar="WHEN",
    help="The timestamp of all records: ms since 1970, -1h, or a time such as 2026-01-31T12:00 (UTC).  [default: now, or as the JSON says]",
)
@click.option("--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option(
    "--no-create", is_flag=True, help="Fail if the topic does not exist, also where the broker would create it."
)
@value_options
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
def command(
    bootstrap: str,
    topic: str,
    as_json: bool,
    key_separator: str | None,
    key: str | None,
    null_marker: str | None,
    partition: int | None,
    keep_partitions: bool,
    headers: tuple[str, ...],
    timestamp: int | None,
    compression: str,
    acks: str,
    no_create: bool,
    value: str,
    registry: str | None,
) -> None:
    """Produce every line of standard input as a record.

    With --json a line is an object as `consume --json` prints it: key, value, headers and timestamp become those of the record. The
    key chooses the partition, unless --keep-partitions is given.

    \b
    Examples:
      echo hello | streamactors produce greetings
      streamactors produce flights --key-separator : < flights.txt
      streamactors consume flights --json | streamactors produce flights-copy --json
      echo JFK: | streamactors produce airports --key-separator : --null-marker ''
      streamactors produce orders --value avro --registry http://localhost:8081 < orders.jsonl
    """
    if key_separator == "":
        raise click.UsageError("--key-separator: give at least one character")
    if as_json and (key_separator is not None or null_marker is not None):
        raise click.UsageError(
            "--json has the key and null of each record; leave out --key-separator and --null-marker"
        )
    if keep_partitions and (not as_json or partition is not None):
        raise click.UsageError("--keep-partitions goes with --json and without --partition")
    if key is not None and key_separator is not None:
        raise click.UsageError("--key is the key of all records; leave out --key-separator")
    for header in headers:
        if "=" not in header:
            raise click.UsageError(f"--header {header}: its form is NAME=VALUE, as in source=sensor-1")
    given = [(name, text.encode()) for name, _, text in (header.partition("=") for header in headers)]
    write = value_writer(topic, value, registry)
    fixed = None if key is None else key.encode()
    if as_json:
        of_line = _json_lines(topic, write, fixed, partition, keep_partitions, given, timestamp)
    else:
        marker = None if null_marker is None else null_marker.encode()
        of_line = _plain_lines(topic, write, key_separator, fixed, marker, partition, given, timestamp)
    if no_create:
        admin_client(bootstrap).partitions_of(topic)  # raises TopicNotFound
    sender = RecordSender(bootstrap, compression, acks)
    typed = sys.stdin.isatty()
    try:
        if typed:
            click.echo("every line is a record; Ctrl-D ends", err=True)
        with progress(f"produce to {topic}", _input_bytes(), "bytes", quiet=typed, beside_stdout=True) as bar:
            bar.note = lambda: f"{sender.delivered:,} record{'' if sender.delivered == 1 else 's'} acknowledged"
            for number, raw in enumerate(sys.stdin.buffer, 1):
                bar.add(len(raw))
                try:
                    record = of_line(raw.rstrip(b"\r\n"), number)
                except BadLine as error:
                    raise click.ClickException(f"line {number} {error} ({before(sender.finish())})") from None
                sender.send(record)
            count = sender.finish()
    finally:
        sender.close()
    click.echo(f"{counted(count, 'record')} produced to {topic}")


def _plain_lines(
    topic: str,
    write: WriteValue,
    key_separator: str | None,
    fixed: bytes | None,
    marker: bytes | None,
    partition: int | None,
    headers: list[tuple[str, bytes]],
    timestamp: int | None,
) -> RecordOf:
    from streamactors.kafka.producer_record import ProducerRecord

    separator = key_separator.encode() if key_separator else None

    def record(line: bytes, number: int) -> ProducerRecord:
        key = fixed
        if separator is not None:
            key, found, line = line.partition(separator)
            if not found:
                raise BadLine(f"has no {key_separator!r} between key and value")
            if key == marker:
                key = None
        value = None if line == marker else write(line, number)
        return ProducerRecord(topic, value, key, partition, timestamp, headers or None)

    return record


def _json_lines(
    topic: str,
    write: WriteValue,
    fixed: bytes | None,
    partition: int | None,
    keep_partitions: bool,
    headers: list[tuple[str, bytes]],
    timestamp: int | None,
) -> RecordOf:
    from streamactors.kafka.producer_record import ProducerRecord

    def record(line: bytes, number: int) -> ProducerRecord:
        found = record_of(line)
        return ProducerRecord(
            topic,
            None if found.value is None else write(found.value, number),
            found.key if fixed is None else fixed,
            found.partition if keep_partitions else partition,
            found.timestamp_ms if timestamp is None else timestamp,
            [*found.headers, *headers] or None,
        )

    return record


def _input_bytes() -> int | None:
    """Return the size of stdin if it is a file."""
    try:
        found = os.fstat(sys.stdin.fileno())
    except OSError:  # it is no file of the system
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
