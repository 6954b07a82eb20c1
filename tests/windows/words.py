"""Short words for the tests of rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import BufferConfig, Record, Suppressed, WindowedRecord

UNBOUNDED = BufferConfig.unbounded()
CLOSED = Suppressed.until_window_closes(UNBOUNDED)


def W(key: Any, start: int, end: int, value: Any, timestamp: int) -> WindowedRecord:
    return WindowedRecord(key, start, end, value, timestamp)


def R(key: Any, value: Any, timestamp: int) -> Record:
    return Record(key, value, timestamp)


def updates(windows: Any, **options: Any) -> WindowTestDriver:
    """Every update of a count."""
    return WindowTestDriver(lambda records: records.group_by_key().windowed_by(windows, **options).count())


def finals(windows: Any, **options: Any) -> WindowTestDriver:
    """The final counts, suppressed until the window closes."""
    return WindowTestDriver(
        lambda records: records.group_by_key().windowed_by(windows, **options).count().suppress(CLOSED)
    )


def emitted(windows: Any, **options: Any) -> WindowTestDriver:
    """The final counts, emitted on window close."""
    return WindowTestDriver(
        lambda records: records.group_by_key().windowed_by(windows, **options).count().emit_on_window_close()
    )


def joined(windows: Any, **options: Any) -> WindowTestDriver:
    """Every update of the values put together, in the order in which they were added."""
    return WindowTestDriver(
        lambda records: (
            records.group_by_key()
            .windowed_by(windows, **options)
            .aggregate(str, lambda text, value: text + value, lambda a, b: a + "+" + b)
        )
    )


def limited(limit: int, buffer: Any = UNBOUNDED) -> WindowTestDriver:
    """The latest value of each key, suppressed for a limit of stream time."""
    return WindowTestDriver(lambda records: records.to_table().suppress(Suppressed.until_time_limit(limit, buffer)))


def pipe_all(driver: WindowTestDriver, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """What rows (key, value, timestamp) released altogether."""
    return [out for key, value, timestamp in rows for out in driver.pipe(key, value, timestamp)]
