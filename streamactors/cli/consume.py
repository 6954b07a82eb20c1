"""`streamactors consume`: the records of a topic, as a table or as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streamactors.cli.bootstrap import bootstrap_option
from streamactors.cli.tables import json_option, print_json, print_table
from streamactors.cli.texts import as_text, as_time, json_field, time_ms

if TYPE_CHECKING:
    from streamactors.kafka.client import Admin, Consumed, PartitionReader


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
@json_option
def command(
    bootstrap: str,
    topic: str,
    partitions: tuple[int, ...],
    start: str,
    count: int | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Print the records of a topic with key, headers and timestamp, up to its end.

    \b
    Examples:
      streamactors consume flights --count 10
      streamactors consume flights --from end --follow --json
    """
    from streamactors.kafka.client import Admin, PartitionReader

    admin = Admin(bootstrap)
    reader = PartitionReader(bootstrap)
    try:
        reader.assign(topic, _offsets(admin, reader, topic, partitions, start))
        left = count
        header = True
        for batch in reader.batches(follow=follow or start == "end"):
            shown = batch if left is None else batch[:left]
            if as_json:
                print_json(_as_json(record) for record in shown)
            elif shown:
                _print_rows(shown, header=header)
                header = False
            if left is not None:
                left -= len(shown)
                if left == 0:
                    return
    finally:
        reader.close()


def _offsets(admin: Admin, reader: PartitionReader, topic: str, wanted: tuple[int, ...], start: str) -> dict[int, int]:
    there = {p.partition: p for p in admin.describe(topic).partitions}
    missing = [number for number in wanted if number not in there]
    if missing:
        raise click.ClickException(f"topic {topic} has no partition {missing[0]}; it has 0 to {len(there) - 1}")
    chosen = {number: there[number] for number in wanted or there}
    if start == "beginning":
        return {number: p.earliest for number, p in chosen.items()}
    if start == "end":
        return {number: p.latest for number, p in chosen.items()}
    if start.removeprefix("-").isdecimal():
        offset = int(start)
        return {
            number: max(p.earliest, min(p.latest, offset if not start.startswith("-") else p.latest + offset))
            for number, p in chosen.items()
        }
    try:
        moment_ms = time_ms(start)
    except ValueError:
        raise click.UsageError(
            f"--from {start}: give beginning, end, an offset, -N or a time such as 2026-01-31T12:00"
        ) from None
    found = reader.offsets_at(topic, list(chosen), moment_ms)
    return {number: offset if offset >= 0 else chosen[number].latest for number, offset in found.items()}


def _print_rows(records: list[Consumed], *, header: bool) -> None:
    print_table(
        ("partition", "offset", "timestamp", "key", "value", "headers"),
        [
            (
                record.partition,
                record.offset,
                as_time(record.timestamp_ms),
                as_text(record.key),
                as_text(record.value),
                " ".join(f"{name}={as_text(value)}" for name, value in record.headers),
            )
            for record in records
        ],
        header=header,
    )


def _as_json(record: Consumed) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **json_field("key", record.key),
        **json_field("value", record.value),
        "headers": [{"name": name, **json_field("value", value)} for name, value in record.headers],
    }
