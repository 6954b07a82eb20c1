"""Event-time windows, tables and Suppress: final results only.

`stream.group_by_key().windowed_by(TimeWindows.of_size("2m").with_grace("2m")).count()
.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream()`"""

from streamactors.codec import CodecError
from streamactors.windows.definitions.blueprint import Blueprint, Semantics
from streamactors.windows.definitions.count_windows import CountWindows
from streamactors.windows.definitions.join_windows import JoinWindows
from streamactors.windows.definitions.suppressed import BufferConfig, BufferPolicyError, Suppressed
from streamactors.windows.definitions.windows import (
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)
from streamactors.windows.errors import (
    AggregationFailed,
    BufferFull,
    InvalidRecord,
    OperatorFailed,
    RestoreError,
    TaskDead,
)
from streamactors.windows.fluent import Grouped, Table, Windowed, WindowedTable, WindowOps
from streamactors.windows.operators.task_factory import TaskFactory, compile
from streamactors.windows.operators.window_task import WindowTask
from streamactors.windows.processors.context import NoStore, ProcessorContext
from streamactors.windows.processors.definitions import Processor
from streamactors.windows.processors.store_definitions import (
    KeyValueStore,
    SessionStore,
    StoreDefinition,
    VersionedStore,
    WindowStore,
)
from streamactors.windows.processors.versioned import REFUSED, Version
from streamactors.windows.record import InvalidTimestamp, LateRecord, Record, RecordContext, WindowedRecord
from streamactors.windows.state.disk.definition import State
from streamactors.windows.state.reads import StoreEntry, UnknownStore
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.state.store_log import Change, TaskIdentity

__all__ = [
    "REFUSED",
    "AggregationFailed",
    "Blueprint",
    "BufferConfig",
    "BufferFull",
    "BufferPolicyError",
    "Change",
    "CodecError",
    "CountWindows",
    "Grouped",
    "InvalidRecord",
    "InvalidTimestamp",
    "JoinWindows",
    "KeyValueStore",
    "LateRecord",
    "NoStore",
    "OperatorFailed",
    "Processor",
    "ProcessorContext",
    "Record",
    "RecordContext",
    "RestoreError",
    "Semantics",
    "Serdes",
    "SessionStore",
    "SessionWindows",
    "SlidingWindows",
    "State",
    "StoreDefinition",
    "StoreEntry",
    "Suppressed",
    "Table",
    "TaskDead",
    "TaskFactory",
    "TaskIdentity",
    "TimeWindows",
    "UnknownStore",
    "UnlimitedWindows",
    "Version",
    "VersionedStore",
    "WindowOps",
    "WindowStore",
    "WindowTask",
    "Windowed",
    "WindowedRecord",
    "WindowedTable",
    "Windows",
    "compile",
]
