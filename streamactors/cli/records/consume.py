"""`streamactors consume`: the records of a topic, as a table or as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streamactors.cli.bootstrap import admin_client, bootstrap_option
from streamactors.cli.records.partition_records import records_from
from streamactors.cli.records.schema_values import ReadValue, value_options, value_reader
from streamactors.cli.tables import json_option, print_json, print_table
from streamactors.cli.texts import as_text, as_time, json_field, time_ms

if TYPE_CHECKING:
    from streamactors.kafka.record import ConsumerRecord
    from streamactors.kafka.subscriptions import TopicPartition


@click.command("consume")
@bootstrap_option
@click.argument("topic")
@click.option(
    "--partition", "-p", "partitions", multiple=True, type=click.IntRange(0), help="Only this one.  [default: all]"
)
@click.option(
    "--from",
    "start",
    default="beginning",
    show_default=True,
    metavar="WHERE",
    help="beginning, end, an offset, -N for the last N of each partition, or a time such as 2026-01-31T12:00 (UTC unless it says "
    "otherwise).",
)
@click.option("--count", "-n", type=click.IntRange(1), help="Stop after so many records.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes later, until Ctrl-C.")
@value_options
@json_option
def command(
    bootstrap: str,
    topic: str,
    partitions: tuple[int, ...],
    start: str,
    count: int | None,
    follow: bool,
    value: str,
    registry: str | None,
    as_json: bool,
) -> None:
    """Print the records of a topic with key, headers and timestamp, up to its end.

    \b
    Examples:
      streamactors consume flights --count 10
      streamactors consume flights --from end --follow --json
      streamactors consume orders --value avro --registry http://localhost:8081
    """
    read = value_reader(topic, value, registry)
    left = count
    header = True
    starts = _starts(bootstrap, topic, partitions, start)
    for batch in records_from(bootstrap, starts, follow=follow or start == "end"):
        shown = batch if left is None else batch[:left]
        if as_json:
            print_json(_as_json(record, read) for record in shown)
        elif shown:
            _print_rows(shown, read, header=header)
            header = False
        if left is not None:
            left -= len(shown)
            if left == 0:
                return


def _starts(bootstrap: str, topic: str, wanted: tuple[int, ...], start: str) -> dict[TopicPartition, int]:
    from streamactors.kafka.client.diagnosis.rights import Right
    from streamactors.kafka.subscriptions import TopicPartition

    moment_ms = _moment_ms(start)
    admin = admin_client(bootstrap)
    admin.check_rights(
        [Right("READ", "TOPIC", topic)]
    )  # an empty topic is not fetched from, so no fetch would be refused
    there = {p.partition: p for p in admin.partitions(topic)}
    missing = [number for number in wanted if number not in there]
    if missing:
        raise click.ClickException(f"topic {topic} has no partition {missing[0]}; it has 0 to {len(there) - 1}")
    chosen = {TopicPartition(topic, number): there[number] for number in wanted or there}
    if start == "beginning":
        return {key: p.earliest for key, p in chosen.items()}
    if start == "end":
        return {key: p.latest for key, p in chosen.items()}
    if start.removeprefix("-").isdecimal():
        offset = int(start)
        behind = [f"{key} ends at {p.latest}" for key, p in chosen.items() if offset > p.latest]
        if len(behind) == len(chosen):
            raise click.ClickException(f"--from {start} is behind the last record: {', '.join(behind[:3])}")
        return {
            key: max(p.earliest, min(p.latest, offset if not start.startswith("-") else p.latest + offset))
            for key, p in chosen.items()
        }
    found = admin.offsets(dict.fromkeys(chosen, moment_ms))
    return {key: offset if offset >= 0 else chosen[key].latest for key, offset in found.items()}


def _moment_ms(start: str) -> int:
    """Return the time that `start` names in ms since 1970; 0 for an offset, the beginning and the end. Raises UsageError."""
    if start in ("beginning", "end") or start.removeprefix("-").isdecimal():
        return 0
    try:
        return time_ms(start)
    except ValueError:
        raise click.UsageError(
            f"--from {start}: give beginning, end, an offset, -N or a time such as 2026-01-31T12:00"
        ) from None


def _print_rows(records: list[ConsumerRecord], read: ReadValue, *, header: bool) -> None:
    print_table(
        ("partition", "offset", "timestamp", "key", "value", "headers"),
        [
            (
                record.partition,
                record.offset,
                as_time(record.timestamp),
                as_text(record.key),
                as_text(read(record.value)),
                " ".join(f"{name}={as_text(value)}" for name, value in record.headers),
            )
            for record in records
        ],
        header=header,
    )


def _as_json(record: ConsumerRecord, read: ReadValue) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        **json_field("key", record.key),
        **json_field("value", read(record.value)),
        "headers": [{"name": name, **json_field("value", value)} for name, value in record.headers],
    }
