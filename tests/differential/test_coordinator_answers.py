"""The same requests to the coordinators of Apache Kafka 4.4.0 and of this broker: every answer is the same, but for those listed and explained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from tests.differential import group_script, transaction_script
from tests.differential.apache_kafka import broker as apache
from tests.differential.coordinator_steps import AnswerTo, Step, comparable, play
from tests.differential.group_requests import CREATE_TOPICS

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

SCRIPT = [*group_script.SCRIPT, *transaction_script.SCRIPT]
COMPARED = [
    step.name
    for step in SCRIPT
    if isinstance(step, AnswerTo) or (isinstance(step, Step) and not step.parked and step.key != CREATE_TOPICS)
]
SETTINGS: Mapping[str, str | int | bool] = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}

_SAYS_WHY = "the error message says what is wrong; Apache Kafka's is empty"
DIFFERENCES = {
    "join under an instance id and somebody's id": "UNKNOWN_MEMBER_ID; Apache Kafka fails inside: UNKNOWN_SERVER_ERROR",
    "init with an id too long": "answered INVALID_REQUEST; Apache Kafka closes the connection",
    "add offsets of no group": "an empty group id is refused here, and not at TxnOffsetCommit only",
    "produce of a stranger": _SAYS_WHY,
    "produce of nobody": _SAYS_WHY,
    "produce before it is added v11": _SAYS_WHY,
    "produce a first batch again": "a duplicate's log append time is -1 for a topic with create time",
    "produce with a gap": _SAYS_WHY,
    "produce with an older epoch": _SAYS_WHY,
    "produce outside the transaction": _SAYS_WHY,
    "produce of the fenced": _SAYS_WHY,
    "mark of an older epoch": "INVALID_PRODUCER_EPOCH; Apache Kafka fails inside: UNKNOWN_SERVER_ERROR",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Apache Kafka's answers and ours."""
    kafka = apache.ApacheKafka(Path(tmp_path_factory.mktemp("kafka")) / "data")
    kafka.start()
    try:
        theirs = play(kafka.address, SCRIPT)
    finally:
        kafka.kill()
    with Cluster(process=True, listen="127.0.0.1:0", config=SETTINGS) as cluster:
        ours = play(cluster.bootstrap_servers, SCRIPT)
    return comparable(theirs), comparable(ours)


def in_order(value: Any) -> Any:
    """Sort every list: Apache Kafka tells most of its lists in the order of a hash table."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted(map(in_order, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


@pytest.mark.parametrize("name", COMPARED)
def test_the_answer_is_apache_kafkas(answers: tuple[dict[str, Any], dict[str, Any]], name: str) -> None:
    theirs, ours = (in_order(each[name]) for each in answers)
    if name in DIFFERENCES:
        assert ours != theirs, f"it is the same by now: take {name!r} off the list of differences"
    else:
        assert ours == theirs


def test_every_request_has_a_name_of_its_own_and_every_difference_a_request() -> None:
    assert len(COMPARED) == len(set(COMPARED))
    assert DIFFERENCES.keys() <= set(COMPARED)
