"""FetchSnapshot and DescribeCluster at a controller: what is asked of the quorum, and what each version of an answer has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.controller_apis import api59_fetch_snapshot, api60_describe_cluster
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_messages import FetchSnapshot, SnapshotPiece
from streamactors.broker.requests.api import LATER
from tests.broker.controller_apis.fake_request import FakeRequest

LOG = "__cluster_metadata"
WANTED = FetchSnapshot(4, 7, (3, 40), 4)


def fetch(version: int = 1, *, cluster: str | None = "c", max_bytes: int = 100, topics: Any = None) -> Any:
    """Return a FetchSnapshot."""
    partition = SimpleNamespace(current_leader_epoch=4, position=4, snapshot_id=SimpleNamespace(epoch=3, end_offset=40))
    return FakeRequest(
        version,
        cluster_id=cluster,
        replica_id=7,
        max_bytes=max_bytes,
        topics=[SimpleNamespace(name=LOG, partitions=[partition])] if topics is None else topics,
    )


def answer_to(asked: Any, piece: SnapshotPiece) -> Any:
    assert api59_fetch_snapshot.handle(asked) is LATER
    ((command, reply),) = asked.submitted
    assert (command.request, command.directory_id) == (WANTED, None)
    reply(piece)
    return asked.answers[0]


@pytest.mark.parametrize("version", [0, 1])
def test_a_piece_has_its_place_and_from_version_1_on_the_address_of_the_leader(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api59_fetch_snapshot, "node_endpoints", lambda node, leader: f"addresses of {leader}")
    answer = answer_to(fetch(version), SnapshotPiece(ErrorCode.NONE, 4, 1, WANTED, 6, b"ef"))
    assert answer["error_code"] == ErrorCode.NONE
    assert answer["topics"] == [
        {
            "name": LOG,
            "partitions": [
                {
                    "index": 0,
                    "error_code": ErrorCode.NONE,
                    "snapshot_id": {"end_offset": 40, "epoch": 3},
                    "current_leader": {"leader_id": 1, "leader_epoch": 4},
                    "size": 6,
                    "position": 4,
                    "unaligned_records": b"ef",
                }
            ],
        }
    ]
    assert answer.get("node_endpoints") == ("addresses of 1" if version else None)


@pytest.mark.parametrize(("max_bytes", "content"), [(2, b"ab"), (3, b"abc"), (9, b"abc"), (0, b""), (-1, b"")])
def test_a_piece_has_no_more_bytes_than_were_asked_for(max_bytes: int, content: bytes) -> None:
    answer = answer_to(fetch(0, max_bytes=max_bytes), SnapshotPiece(ErrorCode.NONE, 4, 1, WANTED, 7, b"abc"))
    assert answer["topics"][0]["partitions"][0]["unaligned_records"] == content


def test_a_replica_that_knows_no_leader_says_so() -> None:
    answer = answer_to(fetch(0), SnapshotPiece(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, None, WANTED))
    partition = answer["topics"][0]["partitions"][0]
    assert partition["current_leader"] == {"leader_id": -1, "leader_epoch": 5}
    assert (partition["error_code"], partition["size"]) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (fetch(cluster="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (fetch(topics=[]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch(topics=[SimpleNamespace(name="a", partitions=[None])]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch(topics=[SimpleNamespace(name=LOG, partitions=[])]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetch(topics=[SimpleNamespace(name=LOG, partitions=[None])] * 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_not_for_this_log_is_refused(asked: Any, error: ErrorCode) -> None:
    assert api59_fetch_snapshot.handle(asked) == {"throttle_time_ms": 0, "error_code": error, "topics": ()}
    assert asked.submitted == []
    assert api59_fetch_snapshot.handle(fetch(cluster=None)) is LATER


def describe(version: int, endpoint_type: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(
        api60_describe_cluster,
        "node_endpoints",
        lambda node, *ids: [{"node_id": each, "host": f"h{each}", "port": 9} for each in ids],
    )
    node = SimpleNamespace(cluster_id="c", leader_id=2, node_id=3, controllers=[2, 1])
    request: Any = SimpleNamespace(version=version, message=SimpleNamespace(endpoint_type=endpoint_type), node=node)
    return api60_describe_cluster.handle(request)


@pytest.mark.parametrize(("version", "endpoint_type"), [(0, 1), (1, 2), (2, 2)])
def test_a_controller_describes_the_controllers(
    version: int, endpoint_type: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = describe(version, endpoint_type, monkeypatch)
    assert (answer["error_code"], answer["endpoint_type"], answer["cluster_id"]) == (ErrorCode.NONE, 2, "c")
    assert answer["controller_id"] == 2
    assert answer["brokers"] == [{"broker_id": n, "host": f"h{n}", "port": 9, "rack": None} for n in (1, 2, 3)]


@pytest.mark.parametrize("version", [1, 2])
def test_brokers_are_not_described_at_a_controller(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe(version, 1, monkeypatch)["error_code"] == ErrorCode.MISMATCHED_ENDPOINT_TYPE
