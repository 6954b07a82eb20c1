"""The checks of a graph before it runs: it is complete, its progress can be followed, its brokers answer, have its topics, and let it read
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamactors.cli.texts import counted
from streamactors.dsl.runnable import RunnableGraph
from streamactors.engine.planning.plan import plan_of
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.diagnosis.rights import Right
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.settings import ClientSettings, ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription


def preflight(graph: RunnableGraph[Any]) -> Iterator[str]:
    """Yield a line for each check that passed.

    Raises BuildError for a graph that cannot run, NoBroker and TopicNotFound for a missing broker or topic, KafkaError for rights: it names
    all that the stages of the graph lack. A topic that is written is known only when its records come."""
    plan = plan_of(graph.module)
    yield f"{counted(len(plan.nodes), 'stage')} in {counted(len(plan.islands), 'island')}"
    missing: dict[str, None] = {}
    for label, settings, subscription in kafka_clients(graph):
        admin = Admin(settings)
        admin.topics()  # raises NoBroker
        topics = _topics(subscription)
        try:
            admin.check_rights(_rights(settings, topics))
        except KafkaError as error:
            missing[str(error)] = None
            continue
        counts = [f"{topic} ({counted(len(admin.partitions_of(topic)), 'partition')})" for topic in topics]
        yield f"{label}: {settings.bootstrap_servers} answers" + (f", has {', '.join(counts)}" if counts else "")
    if missing:
        raise KafkaError("; ".join(missing))


def kafka_clients(graph: RunnableGraph[Any]) -> Iterator[tuple[str, ClientSettings, Any]]:
    """Yield the label, the settings and the subscription (None: it writes) of each stage that has a Kafka client."""
    for node in plan_of(graph.module).nodes:
        client = getattr(node.stage, "plan", node.stage)  # what a Kafka source reads is in its plan
        settings = getattr(client, "settings", None)
        if isinstance(settings, ClientSettings):
            yield node.label, settings, getattr(client, "subscription", None)


def _rights(settings: ClientSettings, topics: tuple[str, ...]) -> list[Right]:
    group = settings.group_id if isinstance(settings, ConsumerSettings) else None
    return [Right("READ", "TOPIC", topic) for topic in topics] + ([Right("READ", "GROUP", group)] if group else [])


def _topics(subscription: Any) -> tuple[str, ...]:
    if isinstance(subscription, AutoSubscription):
        return subscription.topics
    if isinstance(subscription, ManualSubscription):
        return tuple(dict.fromkeys(key.topic for key in subscription.partitions))
    return ()
