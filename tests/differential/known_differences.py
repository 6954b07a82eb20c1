"""Where this broker answers otherwise than Apache Kafka 4.1.1, and why. Every other answer of the script is the same."""

from __future__ import annotations

from typing import Any

_NO_TIERED = "there is no tiered storage; only the wording differs"
_NONE_ABORTED = "no aborted transactions are null, as the protocol allows; Apache Kafka tells an empty list"
_SAYS_WHY = "the error message says what is wrong; Apache Kafka's is empty"

DIFFERENCES: dict[str, str] = {
    "create with {'compression_type': 'gzip'}": "recompression by the broker is refused by name for now",
    "create with {'preallocate': 'TRUE'}": "segments are not preallocated; asking for it is refused by name",
    "create with {'remote_storage_enable': 'true'}": _NO_TIERED,
    "create with {'leader_replication_throttled_replicas': '0:1'}": "there is no replication to throttle; refused by name",
    "produce a broken CRC": _SAYS_WHY,
    "produce half a batch": _SAYS_WHY,
    "produce no bytes": _SAYS_WHY,
    "produce null": "answered INVALID_RECORD; Apache Kafka fails inside and never answers",
    "produce two batches at once": _SAYS_WHY,
    "produce idempotent again": "a duplicate's log append time is -1 for a topic with create time; Kafka gives its timestamp",
    "produce idempotent with a gap": _SAYS_WHY,
    "produce idempotent, fenced": _SAYS_WHY,
    "fetch an unknown topic": _NONE_ABORTED,
    "fetch an unknown partition": _NONE_ABORTED,
    "alter an unknown operation": "INVALID_REQUEST with the number, instead of UNKNOWN_SERVER_ERROR",
    "alter a broker's unknown setting": "unknown settings are refused by name; Apache Kafka keeps them",
    "grow to 20000": "POLICY_VIOLATION as in CreateTopics, instead of UNKNOWN_SERVER_ERROR",
    "metadata of neither name nor id": "INVALID_REQUEST for that topic, instead of UNKNOWN_SERVER_ERROR for everything",
    "quorum": "the epoch of the only voter is 1; Apache Kafka's counts its elections",
}


def without_general_differences(value: Any) -> Any:
    """Take out what differs wherever a topic's settings are told.

    `record.validation` is a setting that Apache Kafka does not have. `min.insync.replicas` has a dynamic default there since
    eligible leader replicas (KIP-966), and a plain one here.
    """
    if isinstance(value, list):
        return [
            without_general_differences(each)
            for each in value
            if not (isinstance(each, dict) and each.get("name") == "record.validation")
        ]
    if isinstance(value, dict):
        if value.get("name") == "min.insync.replicas" and value.get("config_source") == 3:
            value = {**value, "config_source": 5}
        return {name: without_general_differences(each) for name, each in value.items()}
    return value
