"""Event-time windows, tables and Suppress: final results only.

`stream.group_by_key().windowed_by(TimeWindows.of_size("2m").with_grace("2m")).count()
.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream()`"""

from streamactors.windows.blueprint import Blueprint, Semantics
from streamactors.windows.changelog import Change, TaskIdentity
from streamactors.windows.codec import CodecError, Serdes
from streamactors.windows.compiler import TaskFactory, compile
from streamactors.windows.definitions import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from streamactors.windows.errors import (
    AggregationFailed,
    BufferFull,
    InvalidRecord,
    OperatorFailed,
    RestoreError,
    TaskDead,
)
from streamactors.windows.fluent import Grouped, Table, Windowed, WindowedTable, WindowOps
from streamactors.windows.record import InvalidTimestamp, LateRecord, Record, RecordContext, WindowedRecord
from streamactors.windows.suppressed import BufferConfig, BufferPolicyError, Suppressed
from streamactors.windows.task import WindowTask

__all__ = [
    "AggregationFailed",
    "Blueprint",
    "BufferConfig",
    "BufferFull",
    "BufferPolicyError",
    "Change",
    "CodecError",
    "Grouped",
    "InvalidRecord",
    "InvalidTimestamp",
    "LateRecord",
    "OperatorFailed",
    "Record",
    "RecordContext",
    "RestoreError",
    "Semantics",
    "Serdes",
    "SessionWindows",
    "SlidingWindows",
    "Suppressed",
    "Table",
    "TaskDead",
    "TaskFactory",
    "TaskIdentity",
    "TimeWindows",
    "UnlimitedWindows",
    "WindowOps",
    "WindowTask",
    "Windowed",
    "WindowedRecord",
    "WindowedTable",
    "Windows",
    "compile",
]
