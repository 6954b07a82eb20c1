"""`streamactors produce`: lines from standard input become records."""

from __future__ import annotations

import sys
import threading
from typing import Any, Final

import click

from streamactors.cli.bootstrap import admin_client, bootstrap_option, producer_settings
from streamactors.cli.records.schema_values import value_options, value_writer

NEW_TOPIC_MS: Final = 10_000
"""How long the broker may not know a topic that was just created."""
FULL_S: Final = 0.1
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
@click.option(
    "--no-create", is_flag=True, help="Fail if the topic does not exist, also where the broker would create it."
)
@value_options
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
def command(
    bootstrap: str,
    topic: str,
    key_separator: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    compression: str,
    acks: str,
    no_create: bool,
    value: str,
    registry: str | None,
) -> None:
    """Produce every line of standard input as a record.

    \b
    Examples:
      echo hello | streamactors produce greetings
      streamactors produce flights --key-separator : < flights.txt
      streamactors produce orders --value avro --registry http://localhost:8081 < orders.jsonl
    """
    if key_separator == "":
        raise click.UsageError("--key-separator: give at least one character")
    for header in headers:
        if "=" not in header:
            raise click.UsageError(f"--header {header}: its form is NAME=VALUE, as in source=sensor-1")
    given = [(name, text.encode()) for name, _, text in (header.partition("=") for header in headers)]
    separator = key_separator.encode() if key_separator else None
    write = value_writer(topic, value, registry)
    if no_create:
        admin_client(bootstrap).partitions_of(topic)  # raises TopicNotFound
    producer = _Lines(bootstrap, topic, compression, acks)
    try:
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
            producer.send(write(line, number), key, partition, given)
        count = producer.finish()
    finally:
        producer.close()
    click.echo(f"{count} record{'' if count == 1 else 's'} produced to {topic}")


class _Lines:
    """Sends lines to a topic and counts the acknowledged records. Raises NoBroker unless a broker answers."""

    def __init__(self, bootstrap: str, topic: str, compression: str, acks: str) -> None:
        from streamactors.kafka.client.producer import StreamProducer

        self._topic = topic
        self._delivered = 0
        self._failure: BaseException | None = None
        self._room = threading.Event()
        settings = producer_settings(bootstrap)
        defaults = {
            "compression.type": compression,
            "acks": acks,
            "enable.idempotence": acks == "all",
            "linger.ms": 20,
            "topic.metadata.propagation.max.ms": NEW_TOPIC_MS,
        }
        self._client = StreamProducer(settings.with_properties({**defaults, **settings.properties}))
        self._client.listen(self._room.set)
        self._client.start().result()

    def send(self, value: bytes, key: bytes | None, partition: int | None, headers: list[tuple[str, bytes]]) -> None:
        """Queue a record; wait while the queue is full. Raises RecordError when a record was not delivered."""
        from streamactors.kafka.errors import RecordError
        from streamactors.kafka.producer_record import ProducerRecord

        record = ProducerRecord(self._topic, value, key, partition, None, headers or None)
        while True:
            self._check()
            self._room.clear()
            try:
                self._client.send(record, self._report)
            except BufferError:
                self._room.wait(FULL_S)
                continue
            except RecordError as error:
                raise RecordError(f"{error} ({self.finish()} records were delivered before)") from None
            self._client.wake()
            return

    def finish(self) -> int:
        """Wait for the acknowledgement of every record; return their number. Raises RecordError."""
        self._client.call(self._client.flush).result()
        self._check()
        return self._delivered

    def close(self) -> None:
        """Disconnect; drop what was not sent."""
        self._client.close(drop=True).result()

    def _report(self, error: Any, message: Any) -> None:
        from streamactors.kafka.writing.deliveries import as_record

        if error is None:
            self._delivered += 1
        elif self._failure is None:
            self._failure = self._client.not_delivered(as_record(message), error)

    def _check(self) -> None:
        from streamactors.kafka.errors import RecordError

        if self._failure is not None:
            raise RecordError(f"{self._failure} ({self._delivered} records were delivered before)")
