"""What the controller can be asked, and what it answers.

Owner: the handlers in apis/ make commands, the rules beside this file turn them into a `Plan`. All are immutable: they go from
the data plane's thread to the controller's and back.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.controller.image import MetadataImage
from streamactors.broker.controller.metadata_record import MetadataRecord
from streamactors.broker.errors import ErrorCode
from streamactors.errors import StreamActorsError

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
PRODUCER_IDS_PER_BLOCK: Final = 1000


class Refusal(StreamActorsError):
    """The controller will not do it: `code` and the text go to the client."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class Facts(NamedTuple):
    """Everything a rule may look at."""

    image: MetadataImage
    config: BrokerConfig
    broker_id: int
    broker_epoch: int
    new_topic_id: Callable[[], uuid.UUID]
    placement_start: int  # where round-robin placement begins


class Plan(NamedTuple):
    """The records that make a command come true, as one atomic batch, and the answer once they are durable."""

    records: list[MetadataRecord]
    answer: Any


class Outcome(NamedTuple):
    """How one item of a command ended."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 asks for the broker's default; with an assignment both counts must be -1."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: tuple[tuple[int, tuple[int, ...]], ...] = ()  # (partition, replicas), as the client sent it
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Create topics, each on its own: one that is refused leaves the others alone. Answer: name -> TopicCreated."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AutoCreate:
    """Create the topics that are not there yet, with the broker's defaults. Answer: name -> TopicCreated."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """One topic of a CreateTopics; the counts and settings are those it got."""

    outcome: Outcome
    topic_id: uuid.UUID | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Delete topics by name or by id. Answer: one TopicDeleted per topic asked, in order."""

    topics: tuple[str | uuid.UUID, ...]


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """One topic of a DeleteTopics."""

    name: str | None
    topic_id: uuid.UUID | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic to grow to `count` partitions in all; `assignment` has the replicas of each new one."""

    name: str
    count: int
    assignment: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Grow topics, each on its own. Answer: name -> Outcome."""

    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One setting of one resource."""

    name: str
    value: str | None
    operation: int = ConfigOperation.SET


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """The changes of one resource; `replace` drops what is set and not named (the older AlterConfigs)."""

    resource_type: int
    resource_name: str
    changes: tuple[ConfigChange, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Change settings, each resource on its own. Answer: one Outcome per resource, in order."""

    resources: tuple[ResourceChange, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """Reserve the next block of producer ids. Answer: ProducerIdBlock."""


class ProducerIdBlock(NamedTuple):
    """Ids `first` to `first + size - 1`, never given out before or again."""

    first: int
    size: int = PRODUCER_IDS_PER_BLOCK


Command = CreateTopics | AutoCreate | DeleteTopics | CreatePartitions | AlterConfigs | AllocateProducerIds
