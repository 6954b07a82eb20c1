"""`streamactors produce`: lines from standard input become records."""

from __future__ import annotations

import sys

import click

from streamactors.cli.bootstrap import bootstrap_option

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command("produce")
@bootstrap_option
@click.argument("topic")
@click.option("--key-separator", "-k", metavar="TEXT", help="What stands between key and value on a line.")
@click.option(
    "--partition", "-p", type=click.IntRange(0, (1 << 31) - 1), help="Partition for all of them.  [default: by key]"
)
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="A header for every record.")
@click.option("--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
def command(
    bootstrap: str,
    topic: str,
    key_separator: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    compression: str,
    acks: str,
) -> None:
    """Produce every line of standard input as a record.

    \b
    Examples:
      echo hello | streamactors produce greetings
      streamactors produce flights --key-separator : < flights.txt
    """
    from streamactors.kafka.client import LineProducer

    if key_separator == "":
        raise click.UsageError("--key-separator: give at least one character")
    for header in headers:
        if "=" not in header:
            raise click.UsageError(f"--header {header}: its form is NAME=VALUE, as in source=sensor-1")
    given = [(name, value.encode()) for name, _, value in (header.partition("=") for header in headers)]
    separator = key_separator.encode() if key_separator else None
    producer = LineProducer(bootstrap, compression=compression, acks=acks)
    producer.connect()
    if sys.stdin.isatty():
        click.echo("every line is a record; Ctrl-D ends", err=True)
    for number, raw in enumerate(sys.stdin.buffer, 1):
        line = raw.rstrip(b"\r\n")
        key: bytes | None = None
        if separator is not None:
            key, found, line = line.partition(separator)
            if not found:
                before = producer.finish()
                raise click.ClickException(
                    f"line {number} has no {key_separator!r} between key and value ({before} records were delivered before)"
                )
        producer.send(topic, line, key, partition=-1 if partition is None else partition, headers=given)
    count = producer.finish()
    click.echo(f"{count} record{'' if count == 1 else 's'} produced to {topic}")
