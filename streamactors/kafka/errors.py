"""What goes wrong between a client and a broker.

KafkaError
├── NoBroker          nobody answers at the address
├── TopicNotFound     the topic does not exist
├── TopicError        a topic cannot be created, changed or deleted; the broker says why
├── RecordError       a record could not be delivered or read
├── ConsumerFailed    a consumer cannot go on
├── ProducerFailed    a producer cannot go on
├── CommitFailed      offsets cannot be committed, and trying again will not help
├── CommitTimeout     offsets could not be committed in time
├── GroupInUse        a group that must have no members has some
└── RecordsGone       a position that is to be gone on from is not there any more
"""

from __future__ import annotations

from streamactors.errors import StreamActorsError


class KafkaError(StreamActorsError):
    """Base of the errors of Kafka clients."""


class NoBroker(KafkaError):
    """Nobody answers where the broker should be."""


class TopicNotFound(KafkaError):
    """A topic that does not exist."""


class TopicError(KafkaError):
    """The broker refused to create, change or delete a topic."""


class RecordError(KafkaError):
    """A record could not be delivered or read."""


class ConsumerFailed(KafkaError):
    """A consumer cannot go on; the message names the partition and the reason."""


class ProducerFailed(KafkaError):
    """A producer cannot go on: it was fenced, or a transaction cannot be committed."""


class CommitFailed(KafkaError):
    """Offsets could not be committed, and trying again will not help."""


class CommitTimeout(KafkaError):
    """Offsets could not be committed in time."""


class GroupInUse(KafkaError):
    """A group that must have no members has some."""


class RecordsGone(KafkaError):
    """Records that are to be read are not there any more; the message names the offsets."""
