"""How `consume` prints records: raw values, a format, JSON lines or a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from streamactors.cli.colours import has_colours
from streamactors.cli.records.formats import RecordFormat
from streamactors.cli.tables import StreamedTable
from streamactors.cli.texts import as_text, as_time, json_field

if TYPE_CHECKING:
    from streamactors.cli.progress import Count
    from streamactors.cli.records.schema_values import ReadValue
    from streamactors.kafka.record import ConsumerRecord

Print: TypeAlias = Callable[[Sequence["ConsumerRecord"]], None]
"""Prints records; what it has printed is written when it returns."""

COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
_COLOURS: Final = ("dim", "dim", "dim", "cyan", "", "dim")


def raw(read: ReadValue) -> Print:
    """Print values as they are, each with a line feed after it; a tombstone is an empty line."""

    def show(records: Sequence[ConsumerRecord]) -> None:
        _write(b"".join([(read(record.value) or b"") + b"\n" for record in records]))

    return show


def formatted(form: RecordFormat, read: ReadValue) -> Print:
    """Print records by a format, without a line feed of its own."""
    return lambda records: _write(form((record, read(record.value)) for record in records))


def json_lines(read: ReadValue) -> Print:
    """Print a JSON object for each record."""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def show(records: Sequence[ConsumerRecord]) -> None:
        sys.stdout.write("".join([f"{encode(as_object(record, read(record.value)))}\n" for record in records]))
        sys.stdout.flush()

    return show


def table(read: ReadValue, bar: Count) -> Print:
    """Print a row for each record, above the progress line."""
    rows = StreamedTable(COLUMNS, _COLOURS if has_colours(sys.stdout) else None)

    def show(records: Sequence[ConsumerRecord]) -> None:
        bar.write(rows.lines(_row(record, read(record.value)) for record in records))

    return show


def as_object(record: ConsumerRecord, value: bytes | None) -> dict[str, Any]:
    """Return a record as `--json` prints it, and as `produce --json` takes it."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        **json_field("key", record.key),
        **json_field("value", value),
        "headers": [{"name": name, **json_field("value", data)} for name, data in record.headers],
    }


def _row(record: ConsumerRecord, value: bytes | None) -> tuple[Any, ...]:
    return (
        record.partition,
        record.offset,
        as_time(record.timestamp),
        as_text(record.key),
        as_text(value),
        " ".join(f"{name}={'NULL' if data is None else as_text(data)}" for name, data in record.headers),
    )


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
