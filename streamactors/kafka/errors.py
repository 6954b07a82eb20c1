"""What goes wrong between a client and a broker.

KafkaError
├── NoBroker          no broker answers at the address
├── TopicNotFound     the topic does not exist
├── TopicError        a topic cannot be created, changed or deleted; the broker says why
├── RecordError       a record could not be delivered or read
├── ConsumerFailed    a consumer cannot continue
│   └── OffsetsGone   the broker does not have the offset or the partition
├── ProducerFailed    a producer cannot continue
├── CommitFailed      offsets cannot be committed, and a retry does not help
├── CommitTimeout     offsets could not be committed in time
├── NoShareGroups     the cluster has no share groups
├── GroupInUse        a group that must have no members has some
├── GroupNotFound     the consumer group does not exist
├── RecordsGone       a position to continue from does not exist any more
└── StaleAnswer       a broker that is cut off has given an old answer
"""

from __future__ import annotations

from streamactors.errors import StreamActorsError


class KafkaError(StreamActorsError):
    """Base of the errors of Kafka clients."""


class NoBroker(KafkaError):
    """No broker answers at the address."""


class TopicNotFound(KafkaError):
    """A topic that does not exist."""


class TopicError(KafkaError):
    """The broker refused to create, change or delete a topic."""


class RecordError(KafkaError):
    """A record could not be delivered or read."""


class ConsumerFailed(KafkaError):
    """A consumer cannot continue; the message names the partition and the reason."""


class OffsetsGone(ConsumerFailed):
    """The broker does not have the offset to read from, or the partition: it was deleted, or a broker that is cut off has answered."""


class ProducerFailed(KafkaError):
    """A producer cannot continue: it was fenced, or a transaction cannot be committed."""


class CommitFailed(KafkaError):
    """Offsets could not be committed, and a retry does not help."""


class CommitTimeout(KafkaError):
    """Offsets could not be committed in time."""


class NoShareGroups(KafkaError):
    """The cluster has no share groups: it is too old, or the feature share.version is off."""


class GroupInUse(KafkaError):
    """A group that must have no members has some."""


class GroupNotFound(KafkaError):
    """A consumer group that does not exist."""


class RecordsGone(KafkaError):
    """Records to read do not exist any more; the message names the offsets."""


class StaleAnswer(KafkaError):
    """A broker answered with older facts of a partition than the client has: the broker may be cut off from its cluster. Ask again later."""
