"""Committer: flows and sinks that commit the offsets of committable sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.context.with_context import FlowWithContext
from streamactors.dsl.flow import Flow
from streamactors.dsl.sink import Sink
from streamactors.engine.blueprint.modules import Joined, StageModule, keep_right
from streamactors.engine.stage import NotUsed
from streamactors.errors import BuildError
from streamactors.kafka.committable import CommittableOffsetBatch
from streamactors.kafka.committing.committer_stage import CommitterStage
from streamactors.kafka.settings import CommitterSettings
from streamactors.stages.checks import plain_function
from streamactors.stages.sinks.values import Ignore

OffsetOf = Callable[[Any], Any]
"""A function from an element to its CommittableOffset, several, a batch of them, or None for nothing to commit."""


class Committer:
    """Factories. `offset` says where in an element the offset is; without it the elements are offsets, batches, or lists of them."""

    @staticmethod
    def flow(
        settings: CommitterSettings | None = None, *, offset: OffsetOf | None = None
    ) -> Flow[Any, CommittableOffsetBatch, NotUsed]:
        """Commit in batches; emit each batch when the broker has it."""
        return Flow(StageModule(_stage("Committer.flow", settings, offset)))

    @staticmethod
    def sink(
        settings: CommitterSettings | None = None, *, offset: OffsetOf | None = None
    ) -> Sink[Any, StreamFuture[None]]:
        """Commit in batches. Materializes a future that is done when the stream has ended and all is committed."""
        stage = StageModule(_stage("Committer.sink", settings, offset))
        return Sink(Joined(stage, StageModule(Ignore()), keep_right))

    @staticmethod
    def flow_with_offset_context(
        settings: CommitterSettings | None = None,
    ) -> FlowWithContext[Any, Any, None, CommittableOffsetBatch, NotUsed]:
        """Commit the contexts of a stream with offsets as contexts; the batch becomes the context."""
        stage = _stage("Committer.flow_with_offset_context", settings, _context)
        flow: Flow[tuple[Any, Any], CommittableOffsetBatch, NotUsed] = Flow(StageModule(stage))
        return FlowWithContext.from_pairs(flow.map(lambda batch: (None, batch)))

    @staticmethod
    def sink_with_offset_context(
        settings: CommitterSettings | None = None,
    ) -> Sink[tuple[Any, Any], StreamFuture[None]]:
        """As `sink`, for pairs (element, offset) or (elements, offsets)."""
        stage = StageModule(_stage("Committer.sink_with_offset_context", settings, _context))
        return Sink(Joined(stage, StageModule(Ignore()), keep_right))


def _context(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def _stage(name: str, settings: CommitterSettings | None, offset: OffsetOf | None) -> CommitterStage:
    settings = CommitterSettings() if settings is None else settings
    if not isinstance(settings, CommitterSettings):
        raise BuildError(f"{name} expects CommitterSettings, got {type(settings).__name__}")
    return CommitterStage(name, settings, None if offset is None else plain_function(f"{name}: offset", offset))
