"""Back-pressured stream graphs, a Kafka-compatible broker and Spark as the distributed end.

    from streamactors import Source, Sink
    Source.range(0, 10).map(str).run_with(Sink.to_list()).result()

Names are loaded when first used: `import streamactors` alone costs next to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamactors.lazy_names import lazy_names

__version__ = "0.2.0"

if TYPE_CHECKING:
    from streamactors.actors.futures import StreamFuture as StreamFuture
    from streamactors.actors.system import ActorSystem as ActorSystem
    from streamactors.clock import SystemClock as SystemClock
    from streamactors.clock import VirtualClock as VirtualClock
    from streamactors.dsl.context.with_context import FlowWithContext as FlowWithContext
    from streamactors.dsl.context.with_context import SourceWithContext as SourceWithContext
    from streamactors.dsl.dynamic.hubs import BroadcastHub as BroadcastHub
    from streamactors.dsl.dynamic.hubs import MergeHub as MergeHub
    from streamactors.dsl.dynamic.hubs import PartitionHub as PartitionHub
    from streamactors.dsl.dynamic.kill_switches import KillSwitches as KillSwitches
    from streamactors.dsl.dynamic.kill_switches import SharedKillSwitch as SharedKillSwitch
    from streamactors.dsl.dynamic.pub_sub import PubSub as PubSub
    from streamactors.dsl.dynamic.restarts import RestartFlow as RestartFlow
    from streamactors.dsl.dynamic.restarts import RestartSettings as RestartSettings
    from streamactors.dsl.dynamic.restarts import RestartSink as RestartSink
    from streamactors.dsl.dynamic.restarts import RestartSource as RestartSource
    from streamactors.dsl.dynamic.restarts import RetryFlow as RetryFlow
    from streamactors.dsl.dynamic.stream_refs import SinkRef as SinkRef
    from streamactors.dsl.dynamic.stream_refs import SourceRef as SourceRef
    from streamactors.dsl.dynamic.stream_refs import StreamRefs as StreamRefs
    from streamactors.dsl.dynamic.tcp import IncomingConnection as IncomingConnection
    from streamactors.dsl.dynamic.tcp import Tcp as Tcp
    from streamactors.dsl.flow import Flow as Flow
    from streamactors.dsl.graph.component import BidiFlow as BidiFlow
    from streamactors.dsl.graph.graph_dsl import GraphDSL as GraphDSL
    from streamactors.dsl.keep import Keep as Keep
    from streamactors.dsl.runnable import RunnableGraph as RunnableGraph
    from streamactors.dsl.sink import Sink as Sink
    from streamactors.dsl.source import Source as Source
    from streamactors.dsl.topics import Topics as Topics
    from streamactors.durations import Duration as Duration
    from streamactors.durations import EventSpan as EventSpan
    from streamactors.engine.element.graph_stage_logic import GraphStageLogic as GraphStageLogic
    from streamactors.engine.latency import GraphLatency as GraphLatency
    from streamactors.engine.latency import HopLatency as HopLatency
    from streamactors.engine.latency import LatencyMeter as LatencyMeter
    from streamactors.engine.marks.marks import EXACT as EXACT
    from streamactors.engine.marks.marks import EXACT_MEMORY as EXACT_MEMORY
    from streamactors.engine.marks.marks import Handling as Handling
    from streamactors.engine.snapshot import snapshots as snapshots
    from streamactors.engine.stage import ChunkLogic as ChunkLogic
    from streamactors.engine.stage import GraphStage as GraphStage
    from streamactors.engine.stage import NotUsed as NotUsed
    from streamactors.engine.stage import Stage as Stage
    from streamactors.engine.stage_traits import StageTraits as StageTraits
    from streamactors.engine.stalls.watchdog import Watchdog as Watchdog
    from streamactors.engine.supervision import Directive as Directive
    from streamactors.errors import AbruptTermination as AbruptTermination
    from streamactors.errors import BufferOverflow as BufferOverflow
    from streamactors.errors import BuildError as BuildError
    from streamactors.errors import CallTimeout as CallTimeout
    from streamactors.errors import CircuitOpen as CircuitOpen
    from streamactors.errors import CircuitTimeout as CircuitTimeout
    from streamactors.errors import CompressionError as CompressionError
    from streamactors.errors import ConnectionFailed as ConnectionFailed
    from streamactors.errors import FramingError as FramingError
    from streamactors.errors import NoSuchElement as NoSuchElement
    from streamactors.errors import ProcessFailed as ProcessFailed
    from streamactors.errors import ProtocolError as ProtocolError
    from streamactors.errors import RateExceeded as RateExceeded
    from streamactors.errors import StageFailed as StageFailed
    from streamactors.errors import StreamActorsError as StreamActorsError
    from streamactors.errors import StreamError as StreamError
    from streamactors.errors import StreamLimitReached as StreamLimitReached
    from streamactors.errors import StreamRefError as StreamRefError
    from streamactors.errors import StreamTimeout as StreamTimeout
    from streamactors.errors import TooManySubstreams as TooManySubstreams
    from streamactors.stages.asynchronous.circuit_breaker import CircuitBreaker as CircuitBreaker
    from streamactors.stages.errors.failed_element import FailedElement as FailedElement
    from streamactors.stages.files.io_result import IOResult as IOResult
    from streamactors.stages.framing.server_sent_events import ServerSentEvent as ServerSentEvent
    from streamactors.stages.junctions.fan_in import Concat as Concat
    from streamactors.stages.junctions.fan_in import Interleave as Interleave
    from streamactors.stages.junctions.fan_in import Merge as Merge
    from streamactors.stages.junctions.fan_in import MergePreferred as MergePreferred
    from streamactors.stages.junctions.fan_in import OrElse as OrElse
    from streamactors.stages.junctions.fan_out import Balance as Balance
    from streamactors.stages.junctions.fan_out import Broadcast as Broadcast
    from streamactors.stages.junctions.fan_out import Partition as Partition
    from streamactors.stages.junctions.fan_out import WireTap as WireTap
    from streamactors.stages.junctions.zipping import Unzip as Unzip
    from streamactors.stages.junctions.zipping import UnzipWith as UnzipWith
    from streamactors.stages.junctions.zipping import Zip as Zip
    from streamactors.stages.junctions.zipping import ZipLatest as ZipLatest
    from streamactors.stages.junctions.zipping import ZipN as ZipN
    from streamactors.stages.junctions.zipping import ZipWith as ZipWith
    from streamactors.stages.rate.strategies import OverflowStrategy as OverflowStrategy
    from streamactors.stages.rate.strategies import ThrottleMode as ThrottleMode
    from streamactors.stages.sources.actor_ref import StreamCompleted as StreamCompleted
    from streamactors.stages.sources.actor_ref import StreamFailed as StreamFailed
    from streamactors.stages.sources.queue_results import DROPPED as DROPPED
    from streamactors.stages.sources.queue_results import ENQUEUED as ENQUEUED
    from streamactors.stages.sources.queue_results import QUEUE_CLOSED as QUEUE_CLOSED
    from streamactors.stages.sources.queue_results import QueueOfferResult as QueueOfferResult

__getattr__, __dir__ = lazy_names(__name__)
