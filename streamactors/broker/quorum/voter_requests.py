"""Requests to change the voters of the quorum: each is checked, carried out by the leader, and answered when the change is committed.

Owner: the controller's `OwnReplica`, on the controller's thread. Which change is allowed now is decided by the pure rules in `voter_changes`.
Source: KIP-853; errors and messages: Apache Kafka 4.4."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.quorum.quorum import Quorum
from streamactors.broker.quorum.raft.raft_effects import AppendVoters
from streamactors.broker.quorum.raft.roles import Role
from streamactors.broker.quorum.voter_changes import add_voter, remove_voter, update_voter
from streamactors.broker.quorum.voter_set import KRAFT_VERSIONS, KraftVersions, Voter, VoterSet, voter_set

if TYPE_CHECKING:
    from streamactors.actors.dispatching.real_time import Timers

_log = logging.getLogger("streamactors.broker.quorum")

MOST_WAIT_MS: Final = 30_000.0


class Changed(NamedTuple):
    """The result of a request."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


Reply = Callable[[Changed], object]
AskLevels = Callable[[Voter, Callable[[KraftVersions | None], object]], object]
"""Asks a node for the levels of kraft.version that it supports; None if it does not answer."""


@dataclass(frozen=True, slots=True)
class Add:
    """Add a voter."""

    voter: Voter
    timeout_ms: float = MOST_WAIT_MS
    when_committed: bool = True
    """Answer when the new set of voters is committed; else when the leader has it in its log (KIP-1186)."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a voter with this folder."""

    node_id: int
    directory_id: uuid.UUID | None


@dataclass(frozen=True, slots=True)
class Update:
    """A voter has other addresses, or supports other levels. `epoch` is that of the leader that it knows."""

    voter: Voter
    epoch: int


Request = Add | Remove | Update


class _Pending(NamedTuple):
    offset: int
    reply: Reply
    timer: Timer


class VoterRequests:
    """The requests to add, remove or correct a voter; the one that waits for its commit, and those that are checked first."""

    def __init__(self, quorum: Quorum, timers: Timers, ask_levels: AskLevels, *, has_channels: bool = True) -> None:
        """`has_channels`: this node was started as one that may have other voters beside it."""
        self._has_channels = has_channels
        self._quorum = quorum
        self._timers = timers
        self._ask_levels = ask_levels
        self._pending: _Pending | None = None
        self._announced: dict[int, Voter] = {}
        """What the voters of the settings (kraft.version 0) have reported to this leader: the log does not keep it."""

    def asked(self, request: Request, reply: Reply) -> None:
        """Serve a request."""
        if self._quorum.state.role is not Role.LEADER:
            reply(Changed(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        match request:
            case Add():
                self._add(request, reply)
            case Remove():
                self._remove(request, reply)
            case Update():
                self._update(request, reply)

    # --- what the quorum says ---

    def committed(self, high_watermark: int) -> None:
        """The records below this offset are committed."""
        pending = self._pending
        if pending is not None and pending.offset < high_watermark:
            self._end(pending, Changed())

    def leader_changed(self) -> None:
        """This node leads no longer, or another epoch: a change that is not committed may come true or not."""
        self._announced.clear()
        if self._pending is not None:
            self._end(self._pending, Changed(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def stop(self) -> None:
        """End the timer; who waits is dropped with its connection."""
        if self._pending is not None:
            self._pending.timer.cancel()
            self._pending = None

    def _end(self, pending: _Pending, changed: Changed) -> None:
        pending.timer.cancel()
        if self._pending is pending:
            self._pending = None
        pending.reply(changed)

    # --- from kraft.version 0 to 1 ---

    def obstacle(self, own: Voter | str) -> str | None:
        """Return why the log cannot name its voters from now on; None if it can, or does. `own` is this voter, or why it cannot be named."""
        if self._quorum.voter_set is not None:
            return None
        if isinstance(own, str):
            return own
        for node_id in sorted(self._quorum.state.voters - {own.node_id}):
            announced = self._announced.get(node_id)
            if announced is None:
                return f"controller {node_id} has not told the leader the id of its data folder"
            if not announced.kraft_versions.lowest <= KRAFT_VERSIONS[1] <= announced.kraft_versions.highest:
                return f"controller {node_id} supports kraft.version {announced.kraft_versions.highest} at most"
        return None

    def upgrade(self, own: Voter, reply: Reply) -> None:
        """Have the log name its voters from now on. There must be no obstacle."""
        judged = update_voter(self._quorum.state, own.node_id)
        if isinstance(judged, ErrorCode):
            why = "the leader has not committed a record of its epoch yet; ask again"
            reply(Changed(judged, why if judged is ErrorCode.REQUEST_TIMED_OUT else None))
            return
        told = {**self._announced, own.node_id: own}
        voters = voter_set(told[each] for each in self._quorum.state.voters)
        _log.info("kraft.version is 1: the metadata log names its voters %s", voters)
        self._append(judged, voters, MOST_WAIT_MS, reply)

    # --- the changes ---

    def _named(self) -> VoterSet | Changed:
        """Return the voters, or why they cannot change: the settings name them."""
        named = self._quorum.voter_set
        if named is None:
            why = "Cluster doesn't support adding voter because the kraft.version feature is 0"
            return Changed(ErrorCode.UNSUPPORTED_VERSION, why)
        if not self._has_channels:
            why = "This controller was alone when kraft.version became 1; start it again before adding voters"
            return Changed(ErrorCode.UNSUPPORTED_VERSION, why)
        return named

    def _add(self, request: Add, reply: Reply) -> None:
        voter, named = request.voter, self._named()
        if isinstance(named, Changed):
            reply(named)
            return
        judged = add_voter(self._quorum.state, voter.node_id, caught_up=True)
        if isinstance(judged, ErrorCode):
            reply(_refused(judged, voter.node_id, named))
            return

        def got(levels: KraftVersions | None) -> None:
            if levels is None:
                reply(Changed(ErrorCode.REQUEST_TIMED_OUT, f"New voter {voter} is not ready to receive requests"))
            elif not levels.lowest <= KRAFT_VERSIONS[1] <= levels.highest:
                why = f"Aborted add voter operation for {voter} since kraft.version 1 is not supported by it"
                reply(Changed(ErrorCode.INVALID_REQUEST, why))
            else:
                self._append_added(Voter(voter.node_id, voter.directory_id, voter.endpoints, levels), request, reply)

        self._ask_levels(voter, got)

    def _append_added(self, voter: Voter, request: Add, reply: Reply) -> None:
        named = self._named()
        if isinstance(named, Changed):
            reply(named)
            return
        judged = add_voter(self._quorum.state, voter.node_id)
        if isinstance(judged, ErrorCode):
            reply(_refused(judged, voter.node_id, named))
            return
        _log.info("controller %d becomes a voter: %s", voter.node_id, voter)
        answer = _first_of(reply)
        self._append(judged, named.with_voter(voter), request.timeout_ms, answer)
        if (
            not request.when_committed
        ):  # a node that adds itself needs its vote for the commit, and waits for this answer
            answer(Changed())

    def _remove(self, request: Remove, reply: Reply) -> None:
        named = self._named()
        if isinstance(named, Changed):
            reply(named._replace(message=(named.message or "").replace("adding", "removing")))
            return
        known = named.directory_of(request.node_id)
        judged = remove_voter(self._quorum.state, request.node_id)
        if judged is not ErrorCode.NOT_LEADER_OR_FOLLOWER and (known is None or known != request.directory_id):
            judged = ErrorCode.VOTER_NOT_FOUND
        if isinstance(judged, ErrorCode):
            reply(_refused(judged, request.node_id, named))
            return
        _log.info("controller %d is not a voter any more", request.node_id)
        self._append(judged, named.without(request.node_id), MOST_WAIT_MS, reply)

    def _update(self, request: Update, reply: Reply) -> None:
        named, voter = self._named(), request.voter
        if request.epoch != self._quorum.epoch:
            old = request.epoch < self._quorum.epoch
            reply(Changed(ErrorCode.FENCED_LEADER_EPOCH if old else ErrorCode.UNKNOWN_LEADER_EPOCH))
            return
        if isinstance(named, Changed):
            is_voter = voter.node_id in self._quorum.state.voters
            if is_voter:
                self._announced[voter.node_id] = voter
            reply(Changed() if is_voter else Changed(ErrorCode.VOTER_NOT_FOUND))
            return
        judged = update_voter(self._quorum.state, voter.node_id)
        if judged is not ErrorCode.NOT_LEADER_OR_FOLLOWER and named.directory_of(voter.node_id) != voter.directory_id:
            judged = ErrorCode.VOTER_NOT_FOUND
        if isinstance(judged, ErrorCode):
            reply(_refused(judged, voter.node_id, named))
        elif named.voter(voter.node_id) == voter:
            reply(Changed())
        elif not voter.kraft_versions.lowest <= KRAFT_VERSIONS[1] <= voter.kraft_versions.highest:
            reply(Changed(ErrorCode.INVALID_REQUEST))
        else:
            _log.info("controller %d has new addresses: %s", voter.node_id, voter)
            self._append(judged, named.with_voter(voter), MOST_WAIT_MS, reply)

    def _append(self, judged: AppendVoters, voters: VoterSet, timeout_ms: float, reply: Reply) -> None:
        assert judged.voters == voters.ids
        assert self._pending is None
        late = Changed(
            ErrorCode.REQUEST_TIMED_OUT, "The change of the voters is not committed yet; describe the quorum"
        )
        offset = self._quorum.end_offset
        timer = self._timers.call_later(min(max(timeout_ms, 0.0), MOST_WAIT_MS), partial(self._late, late))
        self._pending = _Pending(offset, reply, timer)
        try:
            self._quorum.append_voters(voters)  # in a quorum of one the change is committed before this returns
        except BrokerError as error:
            if self._pending is not None:
                self._end(self._pending, Changed(error.code, str(error)))

    def _late(self, late: Changed) -> None:
        if self._pending is not None:
            self._end(self._pending, late)


def _first_of(reply: Reply) -> Reply:
    """Return a reply function of which only the first call counts."""
    answers: list[Changed] = []

    def answer(changed: Changed) -> None:
        answers.append(changed)
        if len(answers) == 1:
            reply(changed)

    return answer


def _refused(code: ErrorCode, node_id: int, named: VoterSet) -> Changed:
    """Return the answer to a request that cannot be carried out, with the reason."""
    reasons = {
        ErrorCode.DUPLICATE_VOTER: f"The voter id {node_id} is already in the set of voters {named}.",
        ErrorCode.VOTER_NOT_FOUND: f"The set of voters {named} has no voter {node_id} with this directory.",
        ErrorCode.INVALID_REQUEST: f"Cannot remove voter {node_id} because it is the last one",
        ErrorCode.REQUEST_TIMED_OUT: f"Cannot change voter {node_id} now: another change is not committed, or the new voter has "
        "not read the whole log yet; ask again",
    }
    return Changed(code, reasons.get(code))
