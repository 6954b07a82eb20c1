"""Requests of other nodes to a node with a vote on the metadata log, and its answers. Pure values.

Owner: the controller's `Duties`. The rules of the answers are those of the quorum: `quorum.raft_state`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from streamactors.broker.controller.command import Outcome
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_messages import Answer, Request
from streamactors.broker.quorum.voter_requests import Changed
from streamactors.broker.quorum.voter_requests import Request as VoterRequest

if TYPE_CHECKING:
    from streamactors.broker.quorum.quorum import Quorum
    from streamactors.broker.quorum.voter_set import VoterSet


class Leadership(NamedTuple):
    """Who leads the log, -1 if no leader is known, and in which epoch."""

    leader_id: int = -1
    epoch: int = -1


NOBODY: Final = Leadership()
OBSERVED_MS: Final = 300_000
"""For this time after its last fetch a node without a vote is described as an observer, as by Apache Kafka."""


class AskQuorum(NamedTuple):
    """Another node asks this replica of the log. Answer: that of `Quorum`, of the request's kind."""

    request: Request
    directory_id: uuid.UUID | None = None

    def refused(self, outcome: Outcome) -> Answer:
        return Answer(outcome.code, -1, None)


class Replica(NamedTuple):
    """A node that reads the log. Times are of the wall clock."""

    replica_id: int
    directory_id: uuid.UUID | None
    offset: int  # that it asked for last
    fetched_ms: int
    caught_up_ms: int  # when it last asked for the end of the log, -1 if never


class QuorumView(NamedTuple):
    """What the leader knows of the quorum of the log. The leader is -1 if none is known."""

    error: ErrorCode
    leader: Leadership = NOBODY
    high_watermark: int = -1
    voters: tuple[Replica, ...] = ()
    observers: tuple[Replica, ...] = ()


class DescribeQuorum(NamedTuple):
    """Who leads the log, who votes, and who reads it? Answer: QuorumView."""

    def refused(self, outcome: Outcome) -> QuorumView:
        return QuorumView(outcome.code)


class ChangeVoters(NamedTuple):
    """Add a voter, remove one, or correct its addresses. Answer: Changed."""

    request: VoterRequest

    def refused(self, outcome: Outcome) -> Changed:
        return Changed(outcome.code, outcome.message)


def view_of(quorum: Quorum, own: Replica, others: Mapping[int, Replica], named: VoterSet | None = None) -> QuorumView:
    """Return the leader's view of the quorum: `own` is its own replica, `others` are the replicas that have read its log.

    `named` are the voters in the log. The log knows the folder of a voter that has not fetched yet."""
    leader = Leadership(-1 if quorum.leader is None else quorum.leader, quorum.epoch)
    if leader.leader_id != own.replica_id:
        return QuorumView(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader)
    known = {**others, own.replica_id: own}
    silent = {
        each: Replica(each, None if named is None else named.directory_of(each), -1, -1, -1) for each in quorum.voters
    }
    voters = tuple(known.get(each, silent[each]) for each in sorted(quorum.voters))
    oldest_ms = own.fetched_ms - OBSERVED_MS
    observers = tuple(e for e in others.values() if e.fetched_ms >= oldest_ms and e.replica_id not in quorum.voters)
    return QuorumView(ErrorCode.NONE, leader, quorum.known_high_watermark, voters, observers)
