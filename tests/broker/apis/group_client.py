"""What a member of a consumer group asks, as single requests."""

from __future__ import annotations

from typing import Any

from streamactors.broker.errors import ErrorCode
from tests.broker.wire import WireClient

E = ErrorCode
RANGE = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"


def join(client: WireClient, group: str, version: int = 5, member_id: str = "", **fields: Any) -> Any:
    body = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": RANGE}],
        **fields,
    }
    answer = client.call(11, version, body)
    if answer.error_code == E.MEMBER_ID_REQUIRED and not member_id:
        return join(client, group, version, answer.member_id, **fields)
    return answer


def sync(client: WireClient, group: str, joined: Any, version: int = 5, **fields: Any) -> Any:
    body = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": joined.member_id, "assignment": b"mine"}],
        **fields,
    }
    return client.call(14, version, body)


def commit(client: WireClient, group: str, topic: str, version: int = 8, **fields: Any) -> list[int]:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": 3, "committed_metadata": "why"}
    body = {
        "group_id": group,
        "topics": [{"name": topic, "topic_id": fields.pop("topic_id", None), "partitions": [partition]}],
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        **fields,
    }
    return [p.error_code for t in client.call(8, version, body).topics for p in t.partitions]


def fetch(client: WireClient, group: str, topic: str, *partitions: int) -> list[tuple[int, int]]:
    body = {"group_id": group, "topics": [{"name": topic, "partition_indexes": partitions or (0,)}]}
    answer = client.call(9, 5, body)
    assert answer.error_code == 0
    return [(p.committed_offset, p.error_code) for t in answer.topics for p in t.partitions]
