"""Which rule serves which command. Pure: the same facts and command give the same plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streamactors.broker.controller.command import (
    PRODUCER_IDS_PER_BLOCK,
    AllocateProducerIds,
    AlterConfigs,
    AutoCreate,
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Facts,
    Plan,
    ProducerIdBlock,
)
from streamactors.broker.controller.config_rules import alter_configs
from streamactors.broker.controller.internal_topics import auto_create
from streamactors.broker.controller.metadata_record import ProducerIds
from streamactors.broker.controller.topic_rules import create_partitions, create_topics, delete_topics


def allocate_producer_ids(facts: Facts, command: AllocateProducerIds) -> Plan:
    """Reserve the ids after the last block."""
    first = facts.image.next_producer_id
    record = ProducerIds(facts.broker_id, facts.broker_epoch, first + PRODUCER_IDS_PER_BLOCK)
    return Plan([record], ProducerIdBlock(first))


_RULES: Final[dict[type, Callable[[Facts, Any], Plan]]] = {
    CreateTopics: create_topics,
    AutoCreate: auto_create,
    DeleteTopics: delete_topics,
    CreatePartitions: create_partitions,
    AlterConfigs: alter_configs,
    AllocateProducerIds: allocate_producer_ids,
}


def plan(facts: Facts, command: Command) -> Plan:
    """Return what must be written for a command to come true, and the answer to it."""
    return _RULES[type(command)](facts, command)
