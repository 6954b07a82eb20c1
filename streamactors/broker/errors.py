"""Kafka's protocol error codes, and the exceptions of the broker that carry them.

Each exception has one error code of a response, and its message is the response's error message. Numbers and names are those
of the Kafka protocol ("Error Codes" in the protocol guide).

BrokerError
├── CorruptMessage, MessageTooLarge, RecordListTooLarge, InvalidRecord, InvalidTimestamp, NotOneBatch   a produced batch is wrong
├── UnsupportedCompressionType, UnsupportedForMessageFormat
├── OutOfOrderSequence, InvalidProducerEpoch, InvalidTransactionState                   the producer's state forbids it
├── TransactionCoordinatorFenced
├── OffsetOutOfRange                                                                         a read beyond the log
├── FencedLeaderEpoch                                                                        the leader has changed
├── StorageError                                                                             the disk failed
└── InvalidRequest, PolicyViolation                                                          the request itself
BrokerStartError                         the broker cannot start: one line, exit code 2
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, NamedTuple

from streamactors.errors import StreamActorsError


class ErrorCode(IntEnum):
    """An error code of the Kafka protocol."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        """Accept error codes of newer brokers that this one does not know."""
        return cls.UNKNOWN_SERVER_ERROR if isinstance(value, int) else None


class BrokerError(StreamActorsError):
    """An error that a response reports with `code`; its message is the response's error message."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


class Refusal(BrokerError):
    """A request, or one item of a request, is refused with `code`. `message` is None if the code says everything."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code.name if message is None else message)
        self.code = code
        self.message = message


class OffsetOutOfRange(BrokerError):
    """The offset lies before the log's start or after its end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptMessage(BrokerError):
    """A batch whose size, format version or CRC is wrong."""

    code = ErrorCode.CORRUPT_MESSAGE


class MessageTooLarge(BrokerError):
    """A batch larger than max.message.bytes."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class RecordListTooLarge(BrokerError):
    """A batch larger than a whole segment may be."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class UnsupportedForMessageFormat(BrokerError):
    """The batch's format version does not support the request."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class UnsupportedCompressionType(BrokerError):
    """A compression codec that does not exist, or that the request's version must not use."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class RecordError(NamedTuple):
    """One refused record: its position in the batch, from 0, and the reason."""

    batch_index: int
    message: str


class InvalidRecord(BrokerError):
    """A batch, or some of its records, is illegal. `record_errors` names single records."""

    code = ErrorCode.INVALID_RECORD

    def __init__(self, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class NotOneBatch(InvalidRecord):
    """The data for a partition is not exactly one batch of the current format. Raised before the log is read."""


class InvalidTimestamp(InvalidRecord):
    """Timestamps outside the bounds of the topic, or of the wrong type."""

    code = ErrorCode.INVALID_TIMESTAMP


class OutOfOrderSequence(BrokerError):
    """An idempotent producer's batch does not follow its last one."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(BrokerError):
    """A producer wrote with an epoch that a newer one has replaced."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTransactionState(BrokerError):
    """A write that does not fit the producer's open transaction."""

    code = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFenced(BrokerError):
    """A transaction marker from a coordinator that a newer one has replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class FencedLeaderEpoch(BrokerError):
    """A leader acted with an epoch that a newer one has replaced."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class StorageError(BrokerError):
    """The disk failed, or the partition is offline because of an earlier failure."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class StorageShortage(StorageError):
    """No descriptor is free, or the disk is full. Nothing has changed, and the same call can succeed later."""


class InvalidRequest(BrokerError):
    """The request contradicts itself."""

    code = ErrorCode.INVALID_REQUEST


class PolicyViolation(BrokerError):
    """The topic's configuration forbids the request."""

    code = ErrorCode.POLICY_VIOLATION


class BrokerStartError(StreamActorsError):
    """The broker cannot start. One line names the thing, the value and the way out; the command exits with 2."""

    exit_code: ClassVar[int] = 2
