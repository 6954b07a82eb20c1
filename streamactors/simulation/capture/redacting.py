"""Hiding values: the user's function changes each record before anything is written.

A function that fails says so without the record's value: its message may contain it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamactors.simulation.capture.capsule import CapturedRecord
from streamactors.simulation.capture.errors import RedactionFailed

Redact = Callable[[CapturedRecord], CapturedRecord]
"""Returns the record as it may be written: `record._replace(value=…, key=…, headers=…)`."""


def redacted(records: Iterable[CapturedRecord], redact: Redact, name: str) -> tuple[CapturedRecord, ...]:
    """Return what the function makes of the records. Raises RedactionFailed."""
    return tuple(_one(record, redact, name) for record in records)


def _one(record: CapturedRecord, redact: Redact, name: str) -> CapturedRecord:
    try:
        new = redact(record)
    except Exception as error:  # noqa: BLE001  # whatever the user's function raised
        raise RedactionFailed(
            f"{name} raised {type(error).__name__} at {record.place}; nothing was written (the message of the error may "
            "have the value, so it is not shown)"
        ) from None
    if not isinstance(new, CapturedRecord):
        raise RedactionFailed(
            f"{name} returned a {type(new).__name__} for {record.place}; it takes a CapturedRecord and returns one: "
            "record._replace(value=b'…'). Nothing was written"
        )
    if new[:4] != record[:4]:
        raise RedactionFailed(f"{name} has moved {record.place}: it may change key, value and headers only")
    for what, found in (("key", new.key), ("value", new.value), *((f"header {n}", v) for n, v in new.headers)):
        if found is not None and not isinstance(found, bytes):
            raise RedactionFailed(
                f"{name} returned a {what} of type {type(found).__name__} for {record.place}; it must be bytes or None"
            )
    return new
