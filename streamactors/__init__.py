"""Back-pressured stream graphs, a Kafka-compatible broker and Spark as the distributed end.

    from streamactors import Source, Sink
    Source.range(0, 10).map(str).run_with(Sink.to_list()).result()

Names are loaded when first used: `import streamactors` alone costs next to nothing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamactors.actors.futures import StreamFuture as StreamFuture
    from streamactors.actors.system import ActorSystem as ActorSystem
    from streamactors.clock import SystemClock as SystemClock
    from streamactors.clock import VirtualClock as VirtualClock
    from streamactors.dsl.component import BidiFlow as BidiFlow
    from streamactors.dsl.flow import Flow as Flow
    from streamactors.dsl.graph_dsl import GraphDSL as GraphDSL
    from streamactors.dsl.keep import Keep as Keep
    from streamactors.dsl.kill_switches import KillSwitches as KillSwitches
    from streamactors.dsl.kill_switches import SharedKillSwitch as SharedKillSwitch
    from streamactors.dsl.restarts import RestartFlow as RestartFlow
    from streamactors.dsl.restarts import RestartSettings as RestartSettings
    from streamactors.dsl.restarts import RestartSink as RestartSink
    from streamactors.dsl.restarts import RestartSource as RestartSource
    from streamactors.dsl.runnable import RunnableGraph as RunnableGraph
    from streamactors.dsl.sink import Sink as Sink
    from streamactors.dsl.source import Source as Source
    from streamactors.dsl.with_context import FlowWithContext as FlowWithContext
    from streamactors.dsl.with_context import SourceWithContext as SourceWithContext
    from streamactors.engine.element import GraphStageLogic as GraphStageLogic
    from streamactors.engine.stage import ChunkLogic as ChunkLogic
    from streamactors.engine.stage import GraphStage as GraphStage
    from streamactors.engine.stage import NotUsed as NotUsed
    from streamactors.engine.stage import Stage as Stage
    from streamactors.engine.supervision import Directive as Directive
    from streamactors.errors import AbruptTermination as AbruptTermination
    from streamactors.errors import BufferOverflow as BufferOverflow
    from streamactors.errors import BuildError as BuildError
    from streamactors.errors import NoSuchElement as NoSuchElement
    from streamactors.errors import ProtocolError as ProtocolError
    from streamactors.errors import RateExceeded as RateExceeded
    from streamactors.errors import StageFailed as StageFailed
    from streamactors.errors import StreamActorsError as StreamActorsError
    from streamactors.errors import StreamError as StreamError
    from streamactors.errors import StreamLimitReached as StreamLimitReached
    from streamactors.errors import StreamTimeout as StreamTimeout
    from streamactors.stages.actor_ref import StreamCompleted as StreamCompleted
    from streamactors.stages.actor_ref import StreamFailed as StreamFailed
    from streamactors.stages.fan_in import Concat as Concat
    from streamactors.stages.fan_in import Interleave as Interleave
    from streamactors.stages.fan_in import Merge as Merge
    from streamactors.stages.fan_in import MergePreferred as MergePreferred
    from streamactors.stages.fan_in import OrElse as OrElse
    from streamactors.stages.fan_out import Balance as Balance
    from streamactors.stages.fan_out import Broadcast as Broadcast
    from streamactors.stages.fan_out import Partition as Partition
    from streamactors.stages.fan_out import WireTap as WireTap
    from streamactors.stages.queue_results import DROPPED as DROPPED
    from streamactors.stages.queue_results import ENQUEUED as ENQUEUED
    from streamactors.stages.queue_results import QUEUE_CLOSED as QUEUE_CLOSED
    from streamactors.stages.queue_results import QueueOfferResult as QueueOfferResult
    from streamactors.stages.strategies import OverflowStrategy as OverflowStrategy
    from streamactors.stages.strategies import ThrottleMode as ThrottleMode
    from streamactors.stages.zipping import Unzip as Unzip
    from streamactors.stages.zipping import UnzipWith as UnzipWith
    from streamactors.stages.zipping import Zip as Zip
    from streamactors.stages.zipping import ZipLatest as ZipLatest
    from streamactors.stages.zipping import ZipN as ZipN
    from streamactors.stages.zipping import ZipWith as ZipWith

_HOMES = {
    "streamactors.actors.futures": ("StreamFuture",),
    "streamactors.actors.system": ("ActorSystem",),
    "streamactors.clock": ("SystemClock", "VirtualClock"),
    "streamactors.dsl.flow": ("Flow",),
    "streamactors.dsl.graph_dsl": ("GraphDSL",),
    "streamactors.dsl.component": ("BidiFlow",),
    "streamactors.dsl.keep": ("Keep",),
    "streamactors.dsl.kill_switches": ("KillSwitches", "SharedKillSwitch"),
    "streamactors.dsl.restarts": ("RestartFlow", "RestartSettings", "RestartSink", "RestartSource"),
    "streamactors.dsl.runnable": ("RunnableGraph",),
    "streamactors.dsl.sink": ("Sink",),
    "streamactors.dsl.source": ("Source",),
    "streamactors.dsl.with_context": ("FlowWithContext", "SourceWithContext"),
    "streamactors.engine.element": ("GraphStageLogic",),
    "streamactors.engine.stage": ("ChunkLogic", "GraphStage", "NotUsed", "Stage"),
    "streamactors.engine.supervision": ("Directive",),
    "streamactors.errors": (
        "AbruptTermination",
        "BufferOverflow",
        "BuildError",
        "NoSuchElement",
        "ProtocolError",
        "RateExceeded",
        "StageFailed",
        "StreamActorsError",
        "StreamError",
        "StreamLimitReached",
        "StreamTimeout",
    ),
    "streamactors.stages.fan_in": ("Concat", "Interleave", "Merge", "MergePreferred", "OrElse"),
    "streamactors.stages.fan_out": ("Balance", "Broadcast", "Partition", "WireTap"),
    "streamactors.stages.actor_ref": ("StreamCompleted", "StreamFailed"),
    "streamactors.stages.queue_results": ("DROPPED", "ENQUEUED", "QUEUE_CLOSED", "QueueOfferResult"),
    "streamactors.stages.strategies": ("OverflowStrategy", "ThrottleMode"),
    "streamactors.stages.zipping": ("Unzip", "UnzipWith", "Zip", "ZipLatest", "ZipN", "ZipWith"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'streamactors' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
