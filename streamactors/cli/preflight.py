"""The checks of a graph before it runs: it is complete, its progress can be followed, its brokers answer and have its topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamactors.dsl.runnable import RunnableGraph
from streamactors.engine.blueprint.plan import plan_of
from streamactors.kafka.metadata_client import MetadataClient
from streamactors.kafka.settings import ClientSettings, ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription


def preflight(graph: RunnableGraph[Any]) -> Iterator[str]:
    """Yield a line for each check that passed.

    Raises BuildError for a graph that cannot run, NoBroker and TopicNotFound for a missing broker or topic."""
    plan = plan_of(graph.module)
    yield f"{len(plan.nodes)} stages in {len(plan.islands)} {'island' if len(plan.islands) == 1 else 'islands'}"
    for label, settings, subscription in kafka_clients(graph):
        yield _broker(label, settings, subscription)


def kafka_clients(graph: RunnableGraph[Any]) -> Iterator[tuple[str, ClientSettings, Any]]:
    """Yield the label, the settings and the subscription (None: it writes) of each stage that has a Kafka client."""
    for node in plan_of(graph.module).nodes:
        client = getattr(node.stage, "plan", node.stage)  # what a Kafka source reads is in its plan
        settings = getattr(client, "settings", None)
        if isinstance(settings, ClientSettings):
            yield node.label, settings, getattr(client, "subscription", None)


def _broker(stage: str, settings: ClientSettings, subscription: Any) -> str:
    consumer = settings if isinstance(settings, ConsumerSettings) else settings.as_consumer()
    with MetadataClient(consumer) as client:
        topics = _topics(subscription)
        counts = [f"{topic} ({len(client.partitions_for(topic))} partitions)" for topic in topics]
    return f"{stage}: {settings.bootstrap_servers} answers" + (f", has {', '.join(counts)}" if counts else "")


def _topics(subscription: Any) -> tuple[str, ...]:
    if isinstance(subscription, AutoSubscription):
        return subscription.topics
    if isinstance(subscription, ManualSubscription):
        return tuple(dict.fromkeys(key.topic for key in subscription.partitions))
    return ()
