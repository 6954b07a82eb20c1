"""What can be known of a graph before it runs: it is whole, progress can be followed, its brokers answer and have its topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamactors.dsl.runnable import RunnableGraph
from streamactors.engine.plan import plan_of
from streamactors.kafka.metadata_client import MetadataClient
from streamactors.kafka.settings import ClientSettings, ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription


def preflight(graph: RunnableGraph[Any]) -> Iterator[str]:
    """Yield a line for each thing that was looked at and is fine.

    Raises BuildError for a graph that cannot run, NoBroker and TopicNotFound for what is not there."""
    plan = plan_of(graph.module)
    yield f"{len(plan.nodes)} stages in {len(plan.islands)} {'island' if len(plan.islands) == 1 else 'islands'}"
    for node in plan.nodes:
        settings = getattr(node.stage, "settings", None)
        if isinstance(settings, ClientSettings):
            yield _broker(node.label, settings, getattr(node.stage, "subscription", None))


def _broker(stage: str, settings: ClientSettings, subscription: Any) -> str:
    consumer = settings if isinstance(settings, ConsumerSettings) else _reading(settings)
    with MetadataClient(consumer) as client:
        topics = _topics(subscription)
        counts = [f"{topic} ({len(client.partitions_for(topic))} partitions)" for topic in topics]
    return f"{stage}: {settings.bootstrap_servers} answers" + (f", has {', '.join(counts)}" if counts else "")


def _reading(settings: ClientSettings) -> ConsumerSettings:
    """Return settings that reach the same broker."""
    return ConsumerSettings(settings.bootstrap_servers, properties=settings.security())


def _topics(subscription: Any) -> tuple[str, ...]:
    if isinstance(subscription, AutoSubscription):
        return subscription.topics
    if isinstance(subscription, ManualSubscription):
        return tuple(dict.fromkeys(key.topic for key in subscription.partitions))
    return ()
