"""The answers that refuse a whole command, when the metadata log cannot be written."""

from __future__ import annotations

import uuid
from typing import Any

from streamactors.broker.controller.command import (
    AlterConfigs,
    AutoCreate,
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Outcome,
    TopicCreated,
    TopicDeleted,
)


def refused(command: Command, outcome: Outcome) -> Any:
    """Return the answer to `command` that gives one outcome for everything asked."""
    match command:
        case CreateTopics(topics=topics):
            return {topic.name: TopicCreated(outcome) for topic in topics}
        case AutoCreate(names=names):
            return {name: TopicCreated(outcome) for name in names}
        case DeleteTopics(topics=asked):
            return [
                TopicDeleted(None, topic, outcome)
                if isinstance(topic, uuid.UUID)
                else TopicDeleted(topic, None, outcome)
                for topic in asked
            ]
        case CreatePartitions(topics=grown):
            return {topic.name: outcome for topic in grown}
        case AlterConfigs(resources=resources):
            return [outcome for _ in resources]
        case _:
            return outcome
