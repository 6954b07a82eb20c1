"""A member of a share group by single requests: it fetches from one broker and acknowledges."""

from __future__ import annotations

import uuid
from typing import Any

from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.batch import iter_batches
from tests.broker.wire import WireClient, wait_until

E = ErrorCode
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def begin_share_partitions(
    client: WireClient, topic_id: uuid.UUID, *, partitions: int = 1, start: int = 0, group: str = "g"
) -> None:
    """Begin the share partitions of a topic, as the group coordinator does. Its first request makes the topic of the states."""
    client.call(10, 6, {"key_type": 2, "coordinator_keys": [f"{group}:{'A' * 22}:0"]})
    parts = [{"partition": each, "state_epoch": 1, "start_offset": start} for each in range(partitions)]
    asked = {"group_id": group, "topics": [{"topic_id": topic_id, "partitions": parts}]}
    wait_until(lambda: not any(each.error_code for each in client.call(83, 0, asked).results[0].partitions))


def stored_state(client: WireClient, topic_id: uuid.UUID) -> Any:
    """Return what the share coordinator has of partition 0 of group g."""
    asked = {"group_id": "g", "topics": [{"topic_id": topic_id, "partitions": [{"partition": 0, "leader_epoch": 0}]}]}
    (part,) = client.call(84, 0, asked).results[0].partitions
    return part


class ShareMember:
    """Fetches the partitions of one topic."""

    def __init__(
        self,
        client: WireClient,
        topic_id: uuid.UUID,
        name: str = "m1",
        group: str = "g",
        partitions: tuple[int, ...] = (0,),
    ) -> None:
        self.client = client
        self.topic_id = topic_id
        self.name = name
        self.group = group
        self.partitions = partitions
        self.epoch = 0

    def fetch(
        self,
        *,
        max_records: int = 500,
        wait_ms: int = 0,
        strict: bool = False,
        acks: dict[int, list[dict[str, Any]]] | None = None,
        renew: bool = False,
        **fields: Any,
    ) -> Any:
        """Send one ShareFetch, and return the answer."""
        acks = acks or {}
        named = self.partitions if self.epoch == 0 else tuple(acks)
        topics = [{"partition_index": each, "acknowledgement_batches": acks.get(each, [])} for each in named]
        body = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "max_wait_ms": wait_ms,
            "min_bytes": 0 if renew else 1,
            "max_bytes": 0 if renew else 1 << 20,
            "max_records": 0 if renew else max_records,
            "batch_size": max_records,
            "share_acquire_mode": 1 if strict else 0,
            "is_renew_ack": renew,
            "topics": [{"topic_id": self.topic_id, "partitions": topics}] if topics else [],
            "forgotten_topics_data": [],
            **fields,
        }
        answer = self.client.call(78, 2, body)
        if not answer.error_code and self.epoch >= 0:
            self.epoch += 1
        return answer

    def take(self, *, wait_ms: int = 500, **fields: Any) -> list[tuple[int, int, int]]:
        """Fetch until something is acquired from partition 0; return (first, last, deliveries)."""
        for _ in range(50):
            answer = self.fetch(wait_ms=wait_ms, **fields)
            assert answer.error_code == E.NONE, answer
            for part in self.parts(answer):
                assert part.error_code in (E.NONE, E.COORDINATOR_NOT_AVAILABLE), part
                if part.acquired_records:
                    return [
                        (each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records
                    ]
        raise AssertionError("nothing was acquired")

    def acknowledge(self, *batches: tuple[int, int, int], version: int = 2, renew: bool = False) -> Any:
        """Acknowledge (first, last, type) of partition 0; return the answer of the partition, or of the request for an error."""
        acks = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]} for first, last, kind in batches
        ]
        partition = {"partition_index": 0, "acknowledgement_batches": acks}
        body: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "topics": [{"topic_id": self.topic_id, "partitions": [partition]}] if batches else [],
        }
        if version >= 2:
            body["is_renew_ack"] = renew
        answer = self.client.call(79, version, body)
        if answer.error_code:
            return answer
        if self.epoch >= 0:
            self.epoch += 1
        return self.parts(answer)[0] if answer.responses else answer

    def close(self) -> None:
        """End the session."""
        self.epoch = -1
        assert self.acknowledge().error_code == E.NONE

    @staticmethod
    def parts(answer: Any) -> list[Any]:
        """Return the answers of the partitions."""
        return [each for topic in answer.responses for each in topic.partitions]

    @staticmethod
    def values(answer: Any) -> list[bytes]:
        """Return the values of the records of all partitions."""
        return [
            record.value or b""
            for part in ShareMember.parts(answer)
            if part.records
            for batch in iter_batches(bytearray(part.records))
            for record in batch.records()
        ]
