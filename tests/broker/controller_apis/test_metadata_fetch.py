"""Fetch of the metadata log: what each version of a request says, what each version of an answer has, and what is refused."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.controller.metadata_log import TOPIC_ID
from streamactors.broker.controller_apis import api01_fetch
from streamactors.broker.controller_apis.api01_fetch import handle, refuse
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_messages import NOT_TOLD, Fetch, FetchAnswer
from streamactors.broker.requests.api import LATER
from tests.broker.controller_apis.fake_request import FakeRequest

DIRECTORY = uuid.UUID(int=9)
FETCH = Fetch(4, 7, 10, 3)


def fetch(version: int, *, cluster: str | None = "c", topics: Any = None) -> Any:
    """Return a Fetch of the metadata log."""
    partition = SimpleNamespace(
        current_leader_epoch=4, fetch_offset=10, last_fetched_epoch=3, high_watermark=8, replica_directory_id=DIRECTORY
    )
    return FakeRequest(
        version,
        cluster_id=cluster,
        topics=[SimpleNamespace(topic_id=TOPIC_ID, partitions=[partition])] if topics is None else topics,
        replica_state=SimpleNamespace(replica_id=7),
        replica_id=5,
        max_wait_ms=500,
    )


@pytest.mark.parametrize(
    ("version", "replica", "directory", "high_watermark"),
    [
        (13, 5, None, NOT_TOLD),
        (14, 5, None, NOT_TOLD),
        (15, 7, None, NOT_TOLD),
        (16, 7, None, NOT_TOLD),
        (17, 7, DIRECTORY, NOT_TOLD),
        (18, 7, DIRECTORY, 8),
    ],
)
def test_a_version_says_what_it_has(version: int, replica: int, directory: Any, high_watermark: int) -> None:
    asked = fetch(version)
    assert handle(asked) is LATER
    ((command, _),) = asked.submitted
    assert command.request == Fetch(4, replica, 10, 3, high_watermark, 500)
    assert command.directory_id == directory


@pytest.mark.parametrize("version", [15, 16])
def test_an_answer_has_the_leader_and_from_version_16_on_its_address(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api01_fetch, "node_endpoints", lambda node, leader: f"addresses of {leader}")
    asked = fetch(version)
    handle(asked)
    ((_, reply),) = asked.submitted
    reply(FetchAnswer(ErrorCode.NONE, 4, 1, FETCH, batches=(b"ab", b"c"), high_watermark=9, log_start=2))
    reply(FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 5, None, FETCH, diverging=(2, 6), snapshot=(3, 7)))
    first, second = asked.answers
    partition = first["responses"][0]["partitions"][0]
    assert (first["error_code"], first["responses"][0]["topic_id"]) == (ErrorCode.NONE, TOPIC_ID)
    assert partition["records"] == b"abc"
    assert (partition["high_watermark"], partition["log_start_offset"]) == (9, 2)
    assert partition["current_leader"] == {"leader_id": 1, "leader_epoch": 4}
    assert not {"diverging_epoch", "snapshot_id"} & partition.keys()
    assert first.get("node_endpoints") == ("addresses of 1" if version >= 16 else None)
    partition = second["responses"][0]["partitions"][0]
    assert partition["error_code"] == ErrorCode.FENCED_LEADER_EPOCH
    assert partition["current_leader"] == {"leader_id": -1, "leader_epoch": 5}
    assert partition["diverging_epoch"] == {"epoch": 2, "end_offset": 6}
    assert partition["snapshot_id"] == {"epoch": 3, "end_offset": 7}


def test_a_node_of_another_cluster_is_refused_and_one_that_names_none_is_not() -> None:
    asked = fetch(17, cluster="other")
    assert handle(asked)["error_code"] == ErrorCode.INCONSISTENT_CLUSTER_ID  # type: ignore[call-overload,index]
    assert handle(fetch(17, cluster=None)) is LATER
    assert refuse(asked, ErrorCode.INVALID_REQUEST)["error_code"] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [SimpleNamespace(topic_id=uuid.UUID(int=2), partitions=[None])],
        [SimpleNamespace(topic_id=TOPIC_ID, partitions=[])],
        [SimpleNamespace(topic_id=TOPIC_ID, partitions=[None, None])],
        [SimpleNamespace(topic_id=TOPIC_ID, partitions=[None])] * 2,
    ],
)
def test_anything_but_the_one_partition_of_the_log_is_refused(topics: Any) -> None:
    asked = fetch(17, topics=topics)
    assert handle(asked)["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID  # type: ignore[call-overload,index]
    assert asked.submitted == []
