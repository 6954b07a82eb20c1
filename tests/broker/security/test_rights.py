"""The numbers of operations, resources and patterns beside those of kafka-python and librdkafka, and the checks that name one right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import kafka.admin
import pytest
from confluent_kafka import admin

from streamactors.broker.errors import ErrorCode
from streamactors.broker.security import rights
from streamactors.broker.security.rights import Operation, ResourceType


def test_operations_resources_and_patterns_have_kafkas_numbers() -> None:
    theirs = {each.name: each.value for table in (admin.AclOperation, kafka.admin.ACLOperation) for each in table}
    ours = {each.name: each.value for each in Operation}
    assert {name: theirs.get(name, code) for name, code in ours.items()} == ours
    assert ours.keys() - theirs.keys() <= {"CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"}
    kinds = {each.name: each.value for each in kafka.admin.ResourceType}
    assert {each.name: each.value for each in ResourceType} == kinds
    patterns = {each.name: each.value for each in kafka.admin.ACLResourcePatternType}
    ours = {
        "ANY": rights.ANY_PATTERN,
        "MATCH": rights.MATCHING_PATTERN,
        "LITERAL": rights.LITERAL,
        "PREFIXED": rights.PREFIXED,
    }
    assert ours == {name: patterns[name] for name in ours}


@pytest.mark.parametrize(
    ("check", "operation", "kind", "name", "denied"),
    [
        (rights.read_group, Operation.READ, ResourceType.GROUP, "g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (rights.delete_group, Operation.DELETE, ResourceType.GROUP, "g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (
            rights.write_transactional_id,
            Operation.WRITE,
            ResourceType.TRANSACTIONAL_ID,
            "t",
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        *(
            (check, operation, ResourceType.CLUSTER, "kafka-cluster", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            for check, operation in (
                (rights.describe_cluster, Operation.DESCRIBE),
                (rights.describe_cluster_configs, Operation.DESCRIBE_CONFIGS),
                (rights.alter_cluster, Operation.ALTER),
                (rights.alter_cluster_configs, Operation.ALTER_CONFIGS),
                (rights.cluster_action, Operation.CLUSTER_ACTION),
            )
        ),
    ],
)
def test_a_check_asks_for_one_right_and_says_what_is_denied(
    check: Any, operation: Operation, kind: ResourceType, name: str, denied: ErrorCode
) -> None:
    for answer in (True, False):
        asked: list[Any] = []

        def allowed(*right: Any, answer: bool = answer, asked: list[Any] = asked) -> bool:
            asked.append(right)
            return answer

        request = SimpleNamespace(message=SimpleNamespace(group_id="g", transactional_id="t"), allowed=allowed)
        assert check(request) is (ErrorCode.NONE if answer else denied)
        assert asked == [(operation, kind, name)]


def test_without_an_authoriser_every_right_is_granted() -> None:
    everything = rights.AllowAll()
    assert everything.allowed(rights.ANONYMOUS, "1.2.3.4", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    assert everything.allowed_on_any(rights.ANONYMOUS, "1.2.3.4", Operation.READ, ResourceType.TOPIC)
    assert rights.each(SimpleNamespace(message=None)) is ErrorCode.NONE  # type: ignore[arg-type]
