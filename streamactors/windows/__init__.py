"""Event-time windows, tables and Suppress: final results only.

`stream.group_by_key().windowed_by(TimeWindows.of_size("2m").with_grace("2m")).count()
.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream()`

Names are loaded when first used: settings of Kafka name a state, and need no operator of windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamactors.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamactors.codec import CodecError as CodecError
    from streamactors.errors import StoreNotReady as StoreNotReady
    from streamactors.errors import UnknownStore as UnknownStore
    from streamactors.state import State as State
    from streamactors.windows.definitions.count_windows import CountWindows as CountWindows
    from streamactors.windows.definitions.join_windows import JoinWindows as JoinWindows
    from streamactors.windows.definitions.suppressed import BufferConfig as BufferConfig
    from streamactors.windows.definitions.suppressed import BufferPolicyError as BufferPolicyError
    from streamactors.windows.definitions.suppressed import Suppressed as Suppressed
    from streamactors.windows.definitions.windowing import Semantics as Semantics
    from streamactors.windows.definitions.windows import SessionWindows as SessionWindows
    from streamactors.windows.definitions.windows import SlidingWindows as SlidingWindows
    from streamactors.windows.definitions.windows import TimeWindows as TimeWindows
    from streamactors.windows.definitions.windows import UnlimitedWindows as UnlimitedWindows
    from streamactors.windows.definitions.windows import Windows as Windows
    from streamactors.windows.errors import AggregationFailed as AggregationFailed
    from streamactors.windows.errors import BufferFull as BufferFull
    from streamactors.windows.errors import InvalidRecord as InvalidRecord
    from streamactors.windows.errors import OperatorFailed as OperatorFailed
    from streamactors.windows.errors import RestoreError as RestoreError
    from streamactors.windows.errors import TaskDead as TaskDead
    from streamactors.windows.processors.context import NoStore as NoStore
    from streamactors.windows.processors.context import ProcessorContext as ProcessorContext
    from streamactors.windows.processors.definitions import Processor as Processor
    from streamactors.windows.processors.store_definitions import KeyValueStore as KeyValueStore
    from streamactors.windows.processors.store_definitions import SessionStore as SessionStore
    from streamactors.windows.processors.store_definitions import StoreDefinition as StoreDefinition
    from streamactors.windows.processors.store_definitions import VersionedStore as VersionedStore
    from streamactors.windows.processors.store_definitions import WindowStore as WindowStore
    from streamactors.windows.processors.versioned import REFUSED as REFUSED
    from streamactors.windows.processors.versioned import Version as Version
    from streamactors.windows.record import InvalidTimestamp as InvalidTimestamp
    from streamactors.windows.record import LateRecord as LateRecord
    from streamactors.windows.record import Record as Record
    from streamactors.windows.record import RecordContext as RecordContext
    from streamactors.windows.record import WindowedRecord as WindowedRecord
    from streamactors.windows.state.reads import StoreEntry as StoreEntry
    from streamactors.windows.state.serdes import Serdes as Serdes
    from streamactors.windows.state.store_log import TaskIdentity as TaskIdentity
    from streamactors.windows.topology.grouped import GroupedStream as GroupedStream
    from streamactors.windows.topology.table import TopologyTable as TopologyTable

__getattr__, __dir__ = lazy_names(__name__)
