"""The numbers of Kafka's error codes beside two tables of other people: kafka-python's and librdkafka's."""

from __future__ import annotations

import confluent_kafka
import kafka.errors

from streamactors.broker.errors import ErrorCode

OTHER_WORDS = {
    "kafka-python": {
        "UNKNOWN_SERVER_ERROR": "UNKNOWN",
        "NONE": "NO_ERROR",
        "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",
        "MESSAGE_TOO_LARGE": "MESSAGE_SIZE_TOO_LARGE",
        "INVALID_TOPIC_EXCEPTION": "INVALID_TOPIC",
        "INVALID_REPLICA_ASSIGNMENT": "INVALID_REPLICATION_ASSIGNMENT",
    },
    "librdkafka": {
        "UNKNOWN_SERVER_ERROR": "UNKNOWN",
        "NONE": "NO_ERROR",
        "CORRUPT_MESSAGE": "INVALID_MSG",
        "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
        "INVALID_FETCH_SIZE": "INVALID_MSG_SIZE",
        "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",
        "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
        "STALE_CONTROLLER_EPOCH": "STALE_CTRL_EPOCH",
        "INVALID_TOPIC_EXCEPTION": "TOPIC_EXCEPTION",
    },
}


def kafka_python() -> dict[str, int]:
    classes = (each for each in vars(kafka.errors).values() if isinstance(each, type))
    return {
        each.message: each.errno
        for each in classes
        if isinstance(getattr(each, "errno", None), int) and isinstance(getattr(each, "message", None), str)
    }


def librdkafka() -> dict[str, int]:
    codes = vars(confluent_kafka.KafkaError).items()
    return {name: code for name, code in codes if name.isupper() and isinstance(code, int)}


def test_each_code_has_the_number_that_other_clients_know() -> None:
    checked = set()
    for client, table in (("kafka-python", kafka_python()), ("librdkafka", librdkafka())):
        for code in ErrorCode:
            theirs = table.get(OTHER_WORDS[client].get(code.name, code.name))
            if theirs is not None:
                assert theirs == code.value, (client, code)
                checked.add(code)
    assert {code.name for code in ErrorCode} - {code.name for code in checked} <= {
        "INVALID_REGULAR_EXPRESSION",  # both tables end with the codes of Apache Kafka 4.0
        "REBOOTSTRAP_REQUIRED",
        "STREAMS_INVALID_TOPOLOGY",
        "STREAMS_INVALID_TOPOLOGY_EPOCH",
        "STREAMS_TOPOLOGY_FENCED",
        "SHARE_SESSION_LIMIT_REACHED",
        "GROUP_DELETION_FAILED",  # of Apache Kafka 4.4
        "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
        "CONTROLLER_ID_NOT_REGISTERED",
    }


def test_the_codes_are_all_numbers_from_minus_one_on() -> None:
    assert sorted(ErrorCode) == list(range(-1, 137))
