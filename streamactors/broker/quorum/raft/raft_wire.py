"""The requests of a replica of the metadata log as messages of the Kafka protocol, and the answers to them. Pure.

Owner: `Observer` and `RaftChannels`, which send them. Every request names the cluster, so that a node of another one refuses it.
Source: KIP-595, KIP-630, KIP-853, KIP-996."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_messages import (
    Answer,
    BeginEpoch,
    EndEpoch,
    EpochEnd,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Request,
    SnapshotPiece,
    Vote,
    VoteAnswer,
)

FETCH: Final = (1, 18)
VOTE: Final = (52, 2)
BEGIN_EPOCH: Final = (53, 1)
END_EPOCH: Final = (54, 1)
FETCH_SNAPSHOT: Final = (59, 1)
TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = uuid.UUID(int=1)
MAX_BYTES: Final = 8 << 20
PIECE_BYTES: Final = 1 << 20
_NOBODY: Final = -1
_NO_ID: Final = uuid.UUID(int=0)

Body = Mapping[str, Any]
Endpoint = tuple[str, str, int]
"""The name of a listener, its host and its port."""


class Sender(NamedTuple):
    """The replica that asks."""

    node_id: int
    cluster_id: str
    directory_id: uuid.UUID | None = None
    endpoint: Endpoint | None = None  # of a voter


def encode(
    request: Request, target: int, sender: Sender, folders: Mapping[int, uuid.UUID]
) -> tuple[tuple[int, int], Body]:
    """Return the key and version of a request to a voter, and its body. `folders` are those of the voters that the log names."""
    match request:
        case Vote():
            return VOTE, _vote(request, target, sender, folders)
        case BeginEpoch(epoch, leader):
            folder = folders.get(target, _NO_ID)
            partition = {"voter_directory_id": folder, "leader_id": leader, "leader_epoch": epoch}
            return BEGIN_EPOCH, {"voter_id": target, **_epoch_body(partition, sender)}
        case EndEpoch(epoch, leader, successors):
            partition = {
                "leader_id": leader,
                "leader_epoch": epoch,
                "preferred_successors": successors,
                "preferred_candidates": [
                    {"candidate_id": each, "candidate_directory_id": folders.get(each, _NO_ID)} for each in successors
                ],
            }
            return END_EPOCH, _epoch_body(partition, sender)
        case Fetch():
            return FETCH, fetch_body(request, sender)
        case FetchSnapshot():
            return FETCH_SNAPSHOT, snapshot_body(request, sender)


def _vote(vote: Vote, target: int, sender: Sender, folders: Mapping[int, uuid.UUID]) -> Body:
    partition = {
        "partition_index": 0,
        "replica_epoch": vote.epoch,
        "replica_id": vote.candidate,
        "replica_directory_id": sender.directory_id,
        "voter_directory_id": folders.get(target, _NO_ID),
        "last_offset_epoch": vote.last_epoch,
        "last_offset": vote.end_offset,
        "pre_vote": vote.pre_vote,
    }
    return {
        "cluster_id": sender.cluster_id,
        "voter_id": target,
        "topics": [{"topic_name": TOPIC, "partitions": [partition]}],
    }


def _epoch_body(partition: Body, sender: Sender) -> Body:
    endpoint = sender.endpoint
    return {
        "cluster_id": sender.cluster_id,
        "topics": [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, **partition}]}],
        "leader_endpoints": []
        if endpoint is None
        else [{"name": endpoint[0], "host": endpoint[1], "port": endpoint[2]}],
    }


def fetch_body(fetch: Fetch, sender: Sender) -> Body:
    """Return the body of a Fetch of the metadata log."""
    partition = {
        "partition": 0,
        "current_leader_epoch": fetch.epoch,
        "fetch_offset": fetch.offset,
        "last_fetched_epoch": fetch.last_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": MAX_BYTES,
        "replica_directory_id": sender.directory_id,
        "high_watermark": fetch.high_watermark,
    }
    return {
        "cluster_id": sender.cluster_id,
        "replica_state": {"replica_id": fetch.replica, "replica_epoch": -1},
        "max_wait_ms": int(fetch.max_wait_ms),
        "min_bytes": 0,
        "max_bytes": MAX_BYTES,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": TOPIC, "topic_id": TOPIC_ID, "partitions": [partition]}],
    }


def snapshot_body(asked: FetchSnapshot, sender: Sender) -> Body:
    """Return the body of a FetchSnapshot."""
    epoch, end_offset = asked.snapshot
    partition = {
        "partition": 0,
        "current_leader_epoch": asked.epoch,
        "snapshot_id": {"end_offset": end_offset, "epoch": epoch},
        "position": asked.position,
        "replica_directory_id": sender.directory_id,
    }
    return {
        "cluster_id": sender.cluster_id,
        "replica_id": asked.replica,
        "max_bytes": PIECE_BYTES,
        "topics": [{"name": TOPIC, "partitions": [partition]}],
    }


def decode(request: Request, answer: Any) -> Answer | None:
    """Return the answer to a request. None if the node refuses the whole request, because it is of another cluster for instance."""
    topics = answer.responses if isinstance(request, Fetch) else answer.topics
    if answer.error_code or not topics or not topics[0].partitions:
        return None
    partition = topics[0].partitions[0]
    error = ErrorCode(partition.error_code)
    match request:
        case Vote():
            leader, epoch = _leader(partition.leader_id), partition.leader_epoch
            return VoteAnswer(error, epoch, leader, partition.vote_granted, request.pre_vote)
        case Fetch():
            known = partition.current_leader
            return FetchAnswer(
                error,
                known.leader_epoch,
                _leader(known.leader_id),
                request,
                partition.high_watermark,
                _end(partition.diverging_epoch),
                [bytes(partition.records)] if partition.records else (),
                _end(partition.snapshot_id),
                partition.log_start_offset,
            )
        case FetchSnapshot():
            known = partition.current_leader
            right = partition.position == request.position
            return SnapshotPiece(
                error if right else ErrorCode.POSITION_OUT_OF_RANGE,
                known.leader_epoch,
                _leader(known.leader_id),
                request,
                partition.size,
                bytes(partition.unaligned_records),
            )
        case _:
            return Answer(error, partition.leader_epoch, _leader(partition.leader_id))


def _leader(leader_id: int) -> int | None:
    return None if leader_id == _NOBODY else leader_id


def _end(end: Any) -> EpochEnd | None:
    return (end.epoch, end.end_offset) if end.end_offset >= 0 else None
