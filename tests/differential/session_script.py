"""The steps of fetch sessions (KIP-227), for this broker and for Apache Kafka's: what each answer says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.broker.live_broker import batch, produce_body
from tests.broker.wire import WireClient

TOPIC = "sessions"
PARTITIONS = 4
Said = dict[int, tuple[int, int, int, bool]]
"""By partition: error, high watermark, log start, whether there are records."""


class Conversation:
    """The fetches of one client about one topic, by name (version 12)."""

    def __init__(self, client: WireClient, topic: str = TOPIC) -> None:
        self.client = client
        self.topic = topic
        self.id = 0

    def fetch(
        self,
        epoch: int,
        offsets: dict[int, int] | None = None,
        forgotten: tuple[int, ...] = (),
        *,
        session_id: int | None = None,
        version: int = 12,
        max_bytes: int = 1 << 20,
    ) -> tuple[int, str, Said]:
        """Return the error, which session the answer names, and what it says."""
        asked = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
            for index, offset in (offsets or {}).items()
        ]
        body = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": max_bytes,
            "session_id": self.id if session_id is None else session_id,
            "session_epoch": epoch,
            "topics": [{"topic": self.topic, "partitions": asked}] if asked else [],
            "forgotten_topics_data": [{"topic": self.topic, "partitions": list(forgotten)}] if forgotten else [],
        }
        if version > 12:
            body["topics"] = body["forgotten_topics_data"] = []
        answer: Any = self.client.call(1, version, body)
        before, named = self.id, answer.session_id
        if epoch == 0 and named:
            self.id = named
        which = "none" if not named else "a new one" if named != before else "the same"
        said = {
            each.partition_index: (each.error_code, each.high_watermark, each.log_start_offset, bool(each.records))
            for topic in answer.responses
            for each in topic.partitions
        }
        return answer.error_code, which, said

    def produce(self, index: int, *values: bytes) -> None:
        answer: Any = self.client.call(0, 9, produce_body(batch(*values), self.topic, index))
        assert answer.responses[0].partition_responses[0].error_code == 0

    def delete_before(self, index: int, offset: int) -> None:
        partition = {"partition_index": index, "offset": offset}
        body = {"topics": [{"name": self.topic, "partitions": [partition]}], "timeout_ms": 10_000}
        assert self.client.call(21, 2, body).topics[0].partitions[0].error_code == 0

    def play(self) -> Iterator[tuple[str, Any]]:
        """Yield each step's name and answer. The topic is there, with four empty partitions."""
        yield "a session that is not there", self.fetch(3, {0: 0}, session_id=77)
        yield "an epoch without a session", self.fetch(1, {0: 0}, session_id=0)
        yield "none, closing one that is not there", self.fetch(-1, {0: 0}, session_id=77)
        yield "open", self.fetch(0, {0: 0, 1: 0, 2: 0})
        yield "nothing is new", self.fetch(1)
        self.produce(1, b"a", b"b")
        yield "records", self.fetch(2)
        yield "the same records again", self.fetch(3)
        yield "the client has them", self.fetch(4, {1: 2})
        yield "nothing is new again", self.fetch(5)
        yield "a partition more", self.fetch(6, {3: 0})
        self.produce(0, b"c")
        self.produce(3, b"d")
        yield "two of four", self.fetch(7)
        yield "one is forgotten", self.fetch(8, {0: 1}, forgotten=(3,))
        self.produce(3, b"e")
        yield "the forgotten one says nothing", self.fetch(9)
        yield "an unknown one is forgotten", self.fetch(10, forgotten=(9,))
        yield "out of range", self.fetch(11, {2: 5})
        yield "still out of range", self.fetch(12)
        yield "in range again", self.fetch(13, {2: 0})
        yield "quiet after the error", self.fetch(14)
        yield "a partition that is not there", self.fetch(15, {8: 0})
        yield "which is said each time", self.fetch(16)
        yield "until it is forgotten", self.fetch(17, forgotten=(8,))
        yield "an epoch again", self.fetch(17)
        yield "an epoch too far", self.fetch(30)
        yield "the epoch that is due", self.fetch(18)
        yield "with topic ids", self.fetch(19, version=13)
        yield "the session is still there", self.fetch(19)
        self.produce(0, b"x" * 500)
        self.produce(1, b"y" * 500)
        yield "one at a time, the first", self.fetch(20, max_bytes=10)
        yield "one at a time, the second", self.fetch(21, max_bytes=10)
        yield "and both are known now", self.fetch(22, {0: 2, 1: 3})
        yield "end all", self.fetch(23, forgotten=(0, 1, 2))
        yield "it has ended", self.fetch(24)
        yield "open again", self.fetch(0, {0: 2, 1: 3}, session_id=0)
        yield "replace it", self.fetch(0, {0: 2})
        yield "the other partition is not in it", self.fetch(1)
        yield "close it", self.fetch(-1, {0: 2})
        yield "it is closed", self.fetch(2)
