"""The commands of the controller, and its answers.

The handlers in `apis/` make commands, and the rules beside this file turn them into a `PlannedChange`. All are immutable, because they
pass between the data plane's thread and the controller's. `refused` returns the answer with one outcome for everything asked.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.metadata.security_record import AccessControlEntry, DelegationToken
from streamactors.broker.quotas.mutations import Spend, spend_freely

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
PRODUCER_IDS_PER_BLOCK: Final = 1000


class Facts(NamedTuple):
    """The input of a rule, beside the command."""

    image: MetadataImage
    config: BrokerConfig
    broker_id: int
    broker_epoch: int
    new_topic_id: Callable[[], uuid.UUID]
    placement_start: int  # the broker at which round-robin placement begins
    kraft_version: int = 0
    kraft_obstacle: Callable[[], str | None] = lambda: None  # why the log cannot name its voters


class PlannedChange(NamedTuple):
    """The records of a command, which are one atomic batch, and the answer when they are durable."""

    records: list[MetadataRecord]
    answer: Any


class Outcome(NamedTuple):
    """The result of one item of a command."""

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
    """Create topics, each independently of the others. Answer: name -> TopicCreated."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    spend: Spend = spend_freely

    def refused(self, outcome: Outcome) -> dict[str, TopicCreated]:
        return {topic.name: TopicCreated(outcome) for topic in self.topics}


@dataclass(frozen=True, slots=True)
class AutoCreate:
    """Create the missing topics with the broker's defaults, and with `configs`. Answer: name -> TopicCreated."""

    names: tuple[str, ...]
    configs: tuple[tuple[str, str | None], ...] = ()

    def refused(self, outcome: Outcome) -> dict[str, TopicCreated]:
        return {name: TopicCreated(outcome) for name in self.names}


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """The result of creating one topic, with its actual counts and settings."""

    outcome: Outcome
    topic_id: uuid.UUID | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Delete topics by name or by id. Answer: one TopicDeleted per topic asked, in order."""

    topics: tuple[str | uuid.UUID, ...]
    spend: Spend = spend_freely

    def refused(self, outcome: Outcome) -> list[TopicDeleted]:
        return [
            TopicDeleted(None, topic, outcome) if isinstance(topic, uuid.UUID) else TopicDeleted(topic, None, outcome)
            for topic in self.topics
        ]


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """The result of deleting one topic."""

    name: str | None
    topic_id: uuid.UUID | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic to grow to `count` partitions in total; `assignment` has the replicas of each new partition."""

    name: str
    count: int
    assignment: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Grow topics, each independently of the others. Answer: name -> Outcome."""

    topics: tuple[MorePartitions, ...]
    validate_only: bool = False
    spend: Spend = spend_freely

    def refused(self, outcome: Outcome) -> dict[str, Outcome]:
        return {topic.name: outcome for topic in self.topics}


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs."""

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
    """The changes of one resource; `replace` removes the settings that are not named (the older AlterConfigs)."""

    resource_type: int
    resource_name: str
    changes: tuple[ConfigChange, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Change settings, each resource independently of the others. Answer: one Outcome per resource, in order."""

    resources: tuple[ResourceChange, ...]
    validate_only: bool = False
    asked_broker: int | None = None  # a broker takes changes of its own settings only; None if the controller was asked

    def refused(self, outcome: Outcome) -> list[Outcome]:
        return [outcome for _ in self.resources]


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """Reserve the next block of producer ids. Answer: ProducerIdBlock, or the Outcome of a refusal.

    `broker` is the (id, epoch) of another broker that asks; without it the controller's own does."""

    broker: tuple[int, int] | None = None

    def refused(self, outcome: Outcome) -> Outcome:
        return outcome


@dataclass(frozen=True, slots=True)
class CreateAcls:
    """Add access control entries, each independently of the others. Answer: one Outcome per entry, in order."""

    entries: tuple[AccessControlEntry, ...]

    def refused(self, outcome: Outcome) -> list[Outcome]:
        return [outcome for _ in self.entries]


class AclFilter(NamedTuple):
    """Which entries are meant: codes of CreateAcls, 1 for any; None for any string. Pattern 2 means those that hold for the name."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int


class AclsDeleted(NamedTuple):
    """The result of one filter."""

    outcome: Outcome
    entries: tuple[AccessControlEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    """Remove the entries that match. Answer: one AclsDeleted per filter, in order."""

    filters: tuple[AclFilter, ...]

    def refused(self, outcome: Outcome) -> list[AclsDeleted]:
        return [AclsDeleted(outcome) for _ in self.filters]


@dataclass(frozen=True, slots=True)
class ScramUpsert:
    """A credential to set."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A credential to remove."""

    name: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class AlterScram:
    """Set and remove SCRAM credentials. Answer: user -> Outcome. `salt_secret` becomes that of a cluster that has none yet."""

    salt_secret: str = field(repr=False)
    deletions: tuple[ScramDeletion, ...] = ()
    upserts: tuple[ScramUpsert, ...] = ()

    def refused(self, outcome: Outcome) -> dict[str, Outcome]:
        return {change.name: outcome for change in self.changes}

    @property
    def changes(self) -> list[ScramUpsert | ScramDeletion]:
        """All changes; those that set come first, as in Kafka."""
        return [*self.upserts, *self.deletions]


class QuotaAlteration(NamedTuple):
    """The changes of one entity: type -> name, None for the default; (quota, value), None to remove it. `resolved`: an address of the
    entity can be resolved."""

    entity: Mapping[str, str | None]
    values: tuple[tuple[str, float | None], ...]
    resolved: bool = True


@dataclass(frozen=True, slots=True)
class AlterQuotas:
    """Change client quotas, each entity independently of the others. Answer: one Outcome per alteration, in order."""

    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool = False

    def refused(self, outcome: Outcome) -> list[Outcome]:
        return [outcome for _ in self.alterations]


class TokenChanged(NamedTuple):
    """The result of a command about a delegation token."""

    code: ErrorCode
    token: DelegationToken | None = None


@dataclass(frozen=True, slots=True)
class CreateToken:
    """Add a delegation token. Answer: TokenChanged. `max_lifetime_ms` 0 or less: the longest that is allowed."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int
    now_ms: int

    def refused(self, outcome: Outcome) -> TokenChanged:
        return TokenChanged(outcome.code)


@dataclass(frozen=True, slots=True)
class ChangeToken:
    """Renew a delegation token, or let it expire. Answer: TokenChanged. `period_ms` below 0: the usual period, or at once."""

    token_id: str
    principal: str
    period_ms: int
    now_ms: int
    renew: bool

    def refused(self, outcome: Outcome) -> TokenChanged:
        return TokenChanged(outcome.code)


class ProducerIdBlock(NamedTuple):
    """The ids `first` to `first + size - 1`, reserved for this broker."""

    first: int
    size: int = PRODUCER_IDS_PER_BLOCK


class Command(Protocol):
    """Any command: those above, and those of other nodes in `cluster_command` and `metadata_feed`."""

    def refused(self, outcome: Outcome) -> Any: ...
