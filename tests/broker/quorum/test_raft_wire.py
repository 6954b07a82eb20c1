"""Every request between voters and every answer survive the wire, in every version that both sides serve."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.protocol.messages import decode_request, decode_response, encode_request, encode_response
from streamactors.broker.quorum.raft import raft_messages as said
from streamactors.broker.quorum.raft.raft_wire import TOPIC, TOPIC_ID, Sender, decode, encode

DIRECTORY = uuid.UUID(int=500)
FOLDERS = {2: uuid.UUID(int=502), 3: uuid.UUID(int=503)}
SENDER = Sender(1, "cluster", DIRECTORY, ("CONTROLLER", "127.0.0.1", 9093))
REQUESTS: list[tuple[said.Request, int, int]] = [  # with the lowest and the highest version
    (said.Vote(5, 1, 4, 77, pre_vote=True), 0, 2),
    (said.BeginEpoch(5, 1), 0, 1),
    (said.EndEpoch(5, 1, (3, 2)), 0, 1),
    (said.Fetch(5, 1, 77, 4, 70, 500.0), 13, 18),
    (said.FetchSnapshot(5, 1, (4, 60), 300), 0, 1),
]


def decoded(request: said.Request, version: int) -> Any:
    (key, _), body = encode(request, 2, SENDER, FOLDERS)
    return decode_request(key, version, memoryview(encode_request(key, version, body)))


@pytest.mark.parametrize(
    ("request_", "version"), [(each, v) for each, low, high in REQUESTS for v in range(low, high + 1)]
)
def test_every_request_can_be_read_in_every_version(request_: said.Request, version: int) -> None:
    message = decoded(request_, version)
    assert message.cluster_id == "cluster"
    assert len(message.topics[0].partitions) == 1


def test_the_newest_version_has_every_field() -> None:
    vote = decoded(REQUESTS[0][0], 2)
    partition = vote.topics[0].partitions[0]
    assert (vote.voter_id, partition.replica_id, partition.replica_epoch) == (2, 1, 5)
    assert (partition.last_offset_epoch, partition.last_offset, partition.pre_vote) == (4, 77, True)
    assert partition.replica_directory_id == DIRECTORY
    assert partition.voter_directory_id == FOLDERS[2]
    begin = decoded(REQUESTS[1][0], 1)
    assert begin.topics[0].partitions[0].voter_directory_id == FOLDERS[2]
    assert (begin.voter_id, begin.leader_endpoints[0].port) == (2, 9093)
    end = decoded(REQUESTS[2][0], 1).topics[0].partitions[0]
    assert [each.candidate_id for each in end.preferred_candidates] == [3, 2]
    assert [each.candidate_directory_id for each in end.preferred_candidates] == [FOLDERS[3], FOLDERS[2]]
    assert tuple(decoded(REQUESTS[2][0], 0).topics[0].partitions[0].preferred_successors) == (3, 2)
    fetch = decoded(REQUESTS[3][0], 18)
    asked = fetch.topics[0].partitions[0]
    assert (fetch.replica_state.replica_id, fetch.max_wait_ms) == (1, 500)
    assert (asked.current_leader_epoch, asked.fetch_offset, asked.last_fetched_epoch, asked.high_watermark) == (
        *(5, 77, 4),
        70,
    )
    snapshot = decoded(REQUESTS[4][0], 1).topics[0].partitions[0]
    assert (snapshot.snapshot_id.end_offset, snapshot.snapshot_id.epoch, snapshot.position) == (60, 4, 300)


def test_a_request_to_a_voter_whose_folder_the_log_does_not_name_names_none() -> None:
    for request in (REQUESTS[0][0], REQUESTS[1][0]):
        (key, version), body = encode(request, 2, SENDER, {})
        message = decode_request(key, version, memoryview(encode_request(key, version, body)))
        assert message.topics[0].partitions[0].voter_directory_id is None


def test_a_vote_of_a_version_without_folders_names_no_candidates_folder() -> None:
    partition = decoded(REQUESTS[0][0], 0).topics[0].partitions[0]
    assert (partition.replica_directory_id, partition.voter_directory_id) == (None, None)


def answered(request: said.Request, partition: dict[str, Any], version: int, **top: Any) -> said.Answer | None:
    (key, _), _ = encode(request, 2, SENDER, FOLDERS)
    body: dict[str, Any] = {"error_code": 0, "topics": [{"topic_name": TOPIC, "partitions": [partition]}], **top}
    if isinstance(request, said.Fetch):
        body = {
            "throttle_time_ms": 0,
            "error_code": 0,
            "responses": [{"topic_id": TOPIC_ID, "partitions": [partition]}],
            **top,
        }
    elif isinstance(request, said.FetchSnapshot):
        body = {
            "throttle_time_ms": 0,
            "error_code": 0,
            "topics": [{"name": TOPIC, "partitions": [partition]}],
            **top,
        }
    return decode(request, decode_response(key, version, memoryview(encode_response(key, version, body))))


def test_answers_say_who_leads_and_what_was_asked() -> None:
    known = {"partition_index": 0, "error_code": 0, "leader_id": 3, "leader_epoch": 6}
    vote, begin, _, fetch, snapshot = (each for each, _, _ in REQUESTS)
    assert answered(vote, {**known, "vote_granted": True}, 2) == said.VoteAnswer(
        ErrorCode.NONE, 6, 3, granted=True, pre_vote=True
    )
    assert answered(begin, {**known, "leader_id": -1}, 1) == said.Answer(ErrorCode.NONE, 6, None)
    current = {"current_leader": {"leader_id": 3, "leader_epoch": 6}}
    fetched = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 70,
        "last_stable_offset": -1,
        "log_start_offset": 10,
        "aborted_transactions": None,
        "records": b"batch",
        **current,
    }
    assert isinstance(fetch, said.Fetch)
    assert answered(fetch, fetched, 18) == said.FetchAnswer(ErrorCode.NONE, 6, 3, fetch, 70, None, [b"batch"], None, 10)
    other = {**fetched, "records": b"", "diverging_epoch": {"epoch": 2, "end_offset": 9}}
    assert answered(fetch, other, 18) == said.FetchAnswer(ErrorCode.NONE, 6, 3, fetch, 70, (2, 9), (), None, 10)
    older = {**fetched, "records": b"", "snapshot_id": {"epoch": 4, "end_offset": 60}}
    assert answered(fetch, older, 18) == said.FetchAnswer(ErrorCode.NONE, 6, 3, fetch, 70, None, (), (4, 60), 10)
    piece = {
        "index": 0,
        "error_code": 0,
        "snapshot_id": {"epoch": 4, "end_offset": 60},
        "size": 900,
        "position": 300,
        "unaligned_records": b"piece",
        **current,
    }
    assert isinstance(snapshot, said.FetchSnapshot)
    assert answered(snapshot, piece, 1) == said.SnapshotPiece(ErrorCode.NONE, 6, 3, snapshot, 900, b"piece")
    wrong = answered(snapshot, {**piece, "position": 0}, 1)
    assert wrong is not None
    assert wrong.error is ErrorCode.POSITION_OUT_OF_RANGE


def test_a_node_of_another_cluster_gives_no_answer() -> None:
    (key, version), _ = encode(REQUESTS[0][0], 2, SENDER, FOLDERS)
    frame = encode_response(key, version, {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID, "topics": ()})
    assert decode(REQUESTS[0][0], decode_response(key, version, memoryview(frame))) is None
