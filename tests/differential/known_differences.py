"""Where this broker answers otherwise than Apache Kafka 4.4.0, and why. Every other answer of the script is the same."""

from __future__ import annotations

from typing import Any

_NO_TIERED = "there is no tiered storage; only the wording differs"
_WORDS = "only the wording differs"
_NEGATIVE = "a negative size is taken for none at all, so one batch comes; UNKNOWN_SERVER_ERROR there"
_ISOLATION = "an isolation level that is none reads uncommitted records; UNKNOWN_SERVER_ERROR there"
_KINDS = "settings of loggers and groups are not there; refused by name"
_SAYS_WHY = "the error message says what is wrong; Apache Kafka's is empty or about something else"

_OF_OTHER_KINDS = (
    *(("describe", kind) for kind in ("a logger", "a group")),
    ("alter", "a logger"),
)
DIFFERENCES: dict[str, str] = {
    "create with {'preallocate': 'TRUE'}": "segments are not preallocated; asking for it is refused by name",
    "create with {'remote_storage_enable': 'true'}": _NO_TIERED,
    "produce a broken CRC": _SAYS_WHY,
    "produce half a batch": _SAYS_WHY,
    "produce no bytes": _SAYS_WHY,
    "produce null": "answered INVALID_RECORD; Apache Kafka fails inside and never answers",
    "produce two batches at once": _SAYS_WHY,
    "produce idempotent again": "a duplicate's log append time is -1 for a topic with create time; Kafka gives its timestamp",
    "produce idempotent with a gap": _SAYS_WHY,
    "produce idempotent, fenced": _SAYS_WHY,
    "alter an unknown operation": "INVALID_REQUEST with the number, instead of UNKNOWN_SERVER_ERROR",
    "grow to 20000": "POLICY_VIOLATION as in CreateTopics, instead of UNKNOWN_SERVER_ERROR",
    "metadata of neither name nor id": "INVALID_REQUEST for that topic, instead of UNKNOWN_SERVER_ERROR for everything",
    "new producer the first": "Apache Kafka says COORDINATOR_LOAD_IN_PROGRESS while it gets its first block of producer ids",
    "quorum v0": "the epoch of the only voter is 1; Apache Kafka's counts its elections",
    "produce to a topic without partitions": "the topic is in the answer; Apache Kafka leaves it out",
    "produce to one partition twice": "both batches are appended and answered; Apache Kafka forgets the first of them",
    "produce with attributes 5": "UNSUPPORTED_COMPRESSION_TYPE for a codec that is none, instead of UNKNOWN_SERVER_ERROR",
    "produce with attributes 7": "UNSUPPORTED_COMPRESSION_TYPE for a codec that is none, instead of UNKNOWN_SERVER_ERROR",
    "produce with attributes 8": "INVALID_TIMESTAMP for a producer that claims log append time; Apache Kafka takes the claim out",
    "produce of length 49": "INVALID_RECORD, as for two batches; Apache Kafka looks at the CRC of the first one before",
    "produce of length 2147483647": "CORRUPT_MESSAGE, as for other lengths that lie, instead of UNKNOWN_SERVER_ERROR",
    "produce gzip with a wrong codec": "records are not looked into (record.validation=header); UNKNOWN_SERVER_ERROR there",
    "produce from the far future": _WORDS,
    "fetch at most -1": _NEGATIVE,
    "fetch at most -1 of a partition": _NEGATIVE,
    "fetch at isolation 2": _ISOLATION,
    "fetch at isolation -1": _ISOLATION,
    "offsets at isolation 2": _ISOLATION,
    "describe no kind": _SAYS_WHY,
    "describe an unknown kind": _SAYS_WHY,
    **dict.fromkeys(
        (
            *(f"produce of format {number}" for number in (1, 3)),
            *(f"produce with attributes {bits}" for bits in (16, 32, 48)),
            *(f"produce of length {size}" for size in (0, -1, 48)),
            *(f"produce with last delta {delta}" for delta in (0, 2, -1, 2**31 - 1)),
            *(f"produce of {count} records" for count in (0, 1, 3, -1, 2**31 - 1)),
            "produce with a base offset",
            "produce of producer 5 epoch 0 from -1",
            "produce a batch of nothing",
            "produce more than a message may be",
        ),
        _SAYS_WHY,
    ),
    **dict.fromkeys((f"edges: {verb} {kind}" for verb, kind in _OF_OTHER_KINDS), _KINDS),
    "edges: alter append nothing": _WORDS,
    "produce one without a key to a compacted topic v9": _WORDS,
    "produce nothing to a compacted topic": _SAYS_WHY,
    "produce too much for a small topic": _SAYS_WHY,
    "produce what is too old": _WORDS,
    "produce what is too young": _WORDS,
    "edges: offsets of one twice": "each of the two is answered INVALID_REQUEST; Apache Kafka answers once",
    "edges: trim one twice": "each of the two is done and answered; Apache Kafka forgets the first of them",
    "quorum": "the epoch of the only voter is 1; Apache Kafka's counts its elections",
}


ONLY_WORDS = frozenset(name for name, why in DIFFERENCES.items() if why in (_WORDS, _SAYS_WHY, _NO_TIERED))
"""Where everything but the text of the error is the same."""


def without_words(value: Any) -> Any:
    """Take out the texts of errors."""
    if isinstance(value, list):
        return [without_words(each) for each in value]
    if isinstance(value, dict):
        return {name: without_words(each) for name, each in value.items() if "error_message" not in name}
    return value


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
            if "synonyms" in value:
                value["synonyms"] = [each for each in value["synonyms"] if each["source"] != 3]
        return {name: without_general_differences(each) for name, each in value.items()}
    return value
