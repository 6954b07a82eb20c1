"""Runs a Case through WindowTestDriver."""

from __future__ import annotations

from typing import Any

from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import (
    BufferConfig,
    BufferFull,
    Record,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from tests.models.window_case import Case, Outcome, add, keeps, mapped, merge


def _bounded(records: int | None, size: int | None) -> Any:
    if records is None and size is None:
        return None
    if records is None:
        assert size is not None
        return BufferConfig.max_bytes(size)
    config = BufferConfig.max_records(records)
    return config if size is None else config.with_max_bytes(size)


def suppressed(step: tuple[Any, ...]) -> Suppressed:
    if step[0] == "final":
        return Suppressed.until_window_closes(_bounded(step[1], step[2]) or BufferConfig.unbounded())
    _, limit, records, size, policy = step
    config = _bounded(records, size)
    if config is None:
        config = BufferConfig.unbounded()
    else:
        config = config.shut_down_when_full() if policy == "shut_down" else config.emit_early_when_full()
    return Suppressed.until_time_limit(limit, config)


def definition(windows: tuple[Any, ...]) -> Any:
    match windows:
        case ("time", size, advance, grace):
            return TimeWindows.of_size(size).advance_by(advance).with_grace(grace)
        case ("session", gap, grace):
            return SessionWindows.with_gap(gap).with_grace(grace)
        case ("sliding", difference, grace):
            return SlidingWindows.of_difference(difference).with_grace(grace)
        case ("unlimited", start):
            return UnlimitedWindows.of().start_on(start)
    raise AssertionError(windows)


def build(case: Case, records: Any) -> Any:
    """The fluent words for a case."""
    if case.aggregate == "table":
        table = records.to_table()
    else:
        grouped = records.group_by_key()
        windowed = case.windows[0] != "none"
        if windowed:
            grouped = grouped.windowed_by(definition(case.windows), semantics=case.semantics)
        if case.aggregate == "count":
            table = grouped.count()
        elif case.aggregate == "reduce":
            table = grouped.reduce(add)
        elif windowed:
            table = grouped.aggregate(str, add, merge)
        else:
            table = grouped.aggregate(str, add)
    return with_steps(table, case)


def with_steps(table: Any, case: Case) -> Any:
    """Return the stream of a table's rows behind the steps of a case."""
    if case.emits:
        table = table.emit_on_window_close()
    for step in case.steps:
        if step[0] == "filter":
            table = table.filter(keeps)
        elif step[0] == "map":
            table = table.map_values(mapped)
        else:
            table = table.suppress(suppressed(step))
    return table.to_stream()


def driver(case: Case, **options: Any) -> WindowTestDriver:
    return WindowTestDriver(lambda records: build(case, records), **options)


def plain(record: Any) -> tuple[Any, ...]:
    if isinstance(record, Record):
        return record.key, record.value, record.timestamp
    return record.key, record.start, record.end, record.value, record.timestamp


def run(case: Case) -> Outcome:
    outcome = Outcome()
    under_test = driver(case)
    out: list[Any] = []
    for at, (key, value, timestamp) in enumerate(case.rows):
        out = []
        try:
            under_test.pipe_into(key, value, timestamp, out)
        except BufferFull as full:
            outcome.error = (at, full.records, full.bytes)
        outcome.released.append([plain(record) for record in out])
        outcome.held.append(tuple(under_test.buffered))
        if outcome.error:
            break
    outcome.late, outcome.null = under_test.dropped_late, under_test.dropped_null
    return outcome
