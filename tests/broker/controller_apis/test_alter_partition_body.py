"""AlterPartition: the command of each version of a request, and the answer to it."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

from streamactors.broker.controller_apis.api56_alter_partition import body_of, command_of
from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.isr_requests import AlterPartition, IsrOutcome, IsrProposal, PartitionsAltered

A, B = uuid.UUID(int=1), uuid.UUID(int=2)


def partition(index: int) -> Any:
    return SimpleNamespace(
        partition_index=index,
        leader_epoch=4,
        partition_epoch=5,
        leader_recovery_state=1,
        new_isr=[1, 2],
        new_isr_with_epochs=[
            SimpleNamespace(broker_id=1, broker_epoch=10),
            SimpleNamespace(broker_id=2, broker_epoch=20),
        ],
    )


MESSAGE: Any = SimpleNamespace(
    broker_id=7,
    broker_epoch=70,
    topics=[
        SimpleNamespace(topic_id=A, partitions=[partition(0), partition(3)]),
        SimpleNamespace(topic_id=B, partitions=[partition(1)]),
    ],
)


def test_members_have_their_epochs_from_version_3_on() -> None:
    for version, isr in ((2, ((1, -1), (2, -1))), (3, ((1, 10), (2, 20)))):
        assert command_of(MESSAGE, version) == AlterPartition(
            7, 70, tuple(IsrProposal(topic, index, 4, 5, isr, 1) for topic, index in ((A, 0), (A, 3), (B, 1)))
        )


def test_each_partition_has_its_outcome_in_order() -> None:
    outcomes = [
        IsrOutcome(ErrorCode.NONE, 1, 4, (1, 2), 6, 1),
        IsrOutcome(ErrorCode.INVALID_UPDATE_VERSION),
        IsrOutcome(ErrorCode.NONE, 2, 9, (2,), 8, 0),
    ]
    assert body_of(MESSAGE, PartitionsAltered(ErrorCode.NONE, tuple(outcomes))) == {
        "throttle_time_ms": 0,
        "error_code": ErrorCode.NONE,
        "topics": [
            {"topic_id": A, "partitions": [answer(0, outcomes[0]), answer(3, outcomes[1])]},
            {"topic_id": B, "partitions": [answer(1, outcomes[2])]},
        ],
    }


def answer(index: int, outcome: IsrOutcome) -> dict[str, Any]:
    names = ("error_code", "leader_id", "leader_epoch", "isr", "partition_epoch", "leader_recovery_state")
    return {"partition_index": index, **dict(zip(names, outcome, strict=True))}


def test_an_error_of_the_whole_request_has_no_partitions() -> None:
    assert body_of(MESSAGE, PartitionsAltered(ErrorCode.STALE_BROKER_EPOCH)) == {
        "throttle_time_ms": 0,
        "error_code": ErrorCode.STALE_BROKER_EPOCH,
        "topics": (),
    }
