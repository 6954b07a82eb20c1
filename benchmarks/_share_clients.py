"""Loads of share groups for a broker: a member of single requests, and Apache Kafka's own share consumer."""

from __future__ import annotations

import re
import time
import uuid
from typing import Any

from benchmarks._apache_kafka import run_tool
from benchmarks._group_clients import FIND_COORDINATOR, Raw, fresh_name

SHARE_FETCH, INITIALIZE_STATE, METADATA, ALTER_CONFIGS = 78, 83, 3, 44
GROUP_RESOURCE = 32
ACCEPT = 1
RECORD_LIMIT = 1
POLL = 500
"""Records of one request: the default of max.poll.records."""
_ACQUIRE_MODES = {"whole batches": 0, "record limit": RECORD_LIMIT}


class Member:
    """A share group of one member, which begins at the first record of partition 0. Each request acknowledges what the one before has acquired."""

    def __init__(self, servers: str, topic: str, mode: str) -> None:
        self._raw = Raw(servers)
        self._group = fresh_name("share")
        self._mode = _ACQUIRE_MODES[mode]
        self._epoch = 0
        self._held: list[tuple[int, int]] = []
        (found,) = self._raw.call(METADATA, 12, {"topics": [{"topic_id": None, "name": topic}]}).topics
        self._topic_id: uuid.UUID = found.topic_id
        self._begin()

    def _begin(self) -> None:
        partition = {"partition": 0, "state_epoch": 1, "start_offset": 0}
        state = {"group_id": self._group, "topics": [{"topic_id": self._topic_id, "partitions": [partition]}]}
        key = {"key_type": 2, "coordinator_keys": [f"{self._group}:AAAAAAAAAAAAAAAAAAAAAA:0"]}
        give_up = time.monotonic() + 60
        while (
            self._raw.call(FIND_COORDINATOR, 6, key).coordinators[0].error_code
            or self._raw.call(INITIALIZE_STATE, 0, state).results[0].partitions[0].error_code
        ):
            assert time.monotonic() < give_up, "the share partition cannot be begun"
            time.sleep(0.1)

    def fetch(self, max_records: int = POLL) -> int:
        """Acknowledge what is held, and acquire more; return the number of records that were acknowledged."""
        done = sum(last - first + 1 for first, last in self._held)
        batches = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": [ACCEPT]} for first, last in self._held
        ]
        partition = {"partition_index": 0, "acknowledgement_batches": batches}
        body: dict[str, Any] = {
            "group_id": self._group,
            "member_id": "member",
            "share_session_epoch": self._epoch,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 50 << 20,
            "max_records": max_records,
            "batch_size": max_records,
            "share_acquire_mode": self._mode,
            "is_renew_ack": False,
            "topics": [{"topic_id": self._topic_id, "partitions": [partition]}],
            "forgotten_topics_data": [],
        }
        answer = self._raw.call(SHARE_FETCH, 2, body)
        self._epoch += 1
        self._held = []
        for part in (part for topic in answer.responses for part in topic.partitions):
            if answer.error_code or part.error_code or part.acknowledge_error_code:
                raise RuntimeError(f"{answer.error_code} {part.error_message} {part.acknowledge_error_message}")
            self._held += [(each.first_offset, each.last_offset) for each in part.acquired_records]
        return done

    def close(self) -> None:
        self._raw.close()


def share_rate(servers: str, topic: str, count: int, mode: str) -> float:
    """Fetch and acknowledge `count` records; return records per second."""
    member = Member(servers, topic, mode)
    while not member._held:
        member.fetch()
    done = 0
    begin = time.perf_counter()
    while done < count:
        done += member.fetch()
    took = time.perf_counter() - begin
    member.close()
    return done / took


def java_share_rate(servers: str, topic: str, count: int) -> float:
    """Read `count` records with Apache Kafka's share consumer, which acknowledges what a poll has returned; return records per second."""
    group = fresh_name("java")
    raw = Raw(servers)
    configs = [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": configs}
    raw.call(ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    raw.close()
    printed = run_tool(
        "org.apache.kafka.tools.ShareConsumerPerformance",
        *("--bootstrap-server", servers, "--topic", topic, "--group", group),
        *("--num-records", str(count), "--timeout", "60000"),
    )
    return float(re.split(r",\s*", printed.strip().splitlines()[-1])[4])
