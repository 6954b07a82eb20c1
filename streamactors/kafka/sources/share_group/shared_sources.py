"""Makes the source of `Consumer.shared_source` of checked arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamactors.dsl.source import Source
from streamactors.engine.blueprint.modules import StageModule
from streamactors.errors import BuildError
from streamactors.kafka.controls.control import Control
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.sources.share_group.share_settings import SharedSourceSettings
from streamactors.kafka.sources.share_group.shared_record import SharedRecord
from streamactors.kafka.sources.share_group.source_stage import SharedSourceStage
from streamactors.kafka.subscriptions import AutoSubscription, Subscription


def shared_source(
    name: str, settings: Any, topics: str | Sequence[str] | Subscription
) -> Source[SharedRecord, Control]:
    """Return the source. Raises BuildError naming the argument that is wrong."""
    if isinstance(settings, ConsumerSettings):
        settings = of_consumer(settings)
    if not isinstance(settings, SharedSourceSettings):
        raise BuildError(f"{name} expects SharedSourceSettings, got {type(settings).__name__}")
    if isinstance(topics, AutoSubscription) and topics.pattern is None and topics.handler is None:
        topics = topics.topics
    if not isinstance(topics, str | Sequence):
        raise BuildError(f"{name} expects names of topics, got {topics!r}")
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names or not all(isinstance(each, str) and each for each in names):
        raise BuildError(f"{name} expects names of topics, got {topics!r}")
    return Source(StageModule(SharedSourceStage(name, settings, names)))


def of_consumer(settings: ConsumerSettings) -> SharedSourceSettings:
    """Return the settings of a share group for the same cluster, user and group id. Where the group begins is its own setting, unless they say earliest."""
    return SharedSourceSettings(
        settings.bootstrap_servers,
        settings.group_id or "",
        properties=settings.security(),
        discover=settings.discover,
        preflight_timeout_ms=settings.preflight_timeout_ms,
        close_timeout_ms=settings.close_timeout_ms,
        auto_offset_reset="earliest" if settings.auto_offset_reset == "earliest" else None,
    )
