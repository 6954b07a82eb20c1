"""The checks of a graph before it runs: it is complete, its progress can be followed, its brokers answer, have its topics, and let it read
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamactors.cli.texts import counted
from streamactors.dsl.runnable import RunnableGraph
from streamactors.engine.planning.plan import flat_of, plan_of
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.diagnosis.rights import Right
from streamactors.kafka.errors import KafkaError
from streamactors.kafka.serdes.topic_types import types_of
from streamactors.kafka.settings import ClientSettings, ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription


def preflight(graph: RunnableGraph[Any]) -> Iterator[str]:
    """Yield a line for each check that passed, and for each topic that is written and is not there.

    Raises BuildError for a graph that cannot run, NoBroker and TopicNotFound for a missing broker or topic, KafkaError for rights: it names
    all that the stages of the graph lack. A topic that the run creates may be missing. A topic that is written is known where the graph names
    it; others are known only when their records come."""
    plan = plan_of(graph.module)
    yield f"{counted(len(plan.nodes), 'stage')} in {counted(len(plan.islands), 'island')}"
    refused: dict[str, None] = {}
    there: set[str] = set()
    created: set[str] = set()
    for label, settings, subscription, creates in _clients(graph):
        admin = Admin(settings)
        there |= {found.name for found in admin.topics()}  # raises NoBroker
        made = [topic for topic in topics_read(subscription) if topic in creates and topic not in there]
        created.update(made)
        topics = tuple(topic for topic in topics_read(subscription) if topic not in made)
        try:
            admin.check_rights(_rights(settings, topics))
        except KafkaError as error:
            refused[str(error)] = None
            continue
        counts = [f"{topic} ({counted(len(admin.partitions_of(topic)), 'partition')})" for topic in topics]
        yield f"{label}: {settings.bootstrap_servers} answers" + (f", has {', '.join(counts)}" if counts else "")
        yield from (f"{label}: {topic} will be created" for topic in made)
    if refused:
        raise KafkaError("; ".join(refused))
    for topic, title in topics_written(graph).items():
        if there and topic not in there | created:
            yield (
                f"{title or 'records'}: no topic {topic} yet; create it with `streamactors topics create {topic}`, unless your brokers create "
                "topics that are written (auto.create.topics.enable)"
            )


def topics_written(graph: RunnableGraph[Any]) -> dict[str, str]:
    """Return the topics that the graph names as written, with what it calls their records."""
    known = [each for node in flat_of(graph.module).nodes for each in types_of(node.stage)]
    return {each.topic: each.title for each in known if each.action == "send" and each.topic is not None}


def kafka_clients(graph: RunnableGraph[Any]) -> Iterator[tuple[str, ClientSettings, Any]]:
    """Yield the label, the settings and the subscription (None: it writes) of each stage that has a Kafka client."""
    return ((label, settings, subscription) for label, settings, subscription, _ in _clients(graph))


def _clients(graph: RunnableGraph[Any]) -> Iterator[tuple[str, ClientSettings, Any, frozenset[str]]]:
    """Yield as kafka_clients, with the topics of the subscription that the run creates."""
    for node in plan_of(graph.module).nodes:
        client = getattr(node.stage, "plan", node.stage)  # what a Kafka source reads is in its plan
        settings = getattr(client, "settings", None)
        if isinstance(settings, ClientSettings):
            creates: frozenset[str] = getattr(client, "creates", frozenset())
            yield node.label, settings, getattr(client, "subscription", None), creates


def _rights(settings: ClientSettings, topics: tuple[str, ...]) -> list[Right]:
    group = settings.group_id if isinstance(settings, ConsumerSettings) else None
    return [Right("READ", "TOPIC", topic) for topic in topics] + ([Right("READ", "GROUP", group)] if group else [])


def topics_read(subscription: Any) -> tuple[str, ...]:
    """Return the topics that a subscription names; none for a pattern."""
    if isinstance(subscription, AutoSubscription):
        return subscription.topics
    if isinstance(subscription, ManualSubscription):
        return tuple(dict.fromkeys(key.topic for key in subscription.partitions))
    return ()
