"""A controller without a vote asks the leader for one again and again, if controller.quorum.auto.join.enable is set (KIP-1186).

Owner: the controller's `OwnReplica`, on the controller's thread. Source: Apache Kafka's KafkaRaftClient. A node that follows a leader asks after each
fetch timeout. A voter that has the id of this node and another folder is removed first: the disk of this node was replaced."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.voter_set import Voter, VoterSet

if TYPE_CHECKING:
    from streamactors.actors.dispatching.real_time import Timers
    from streamactors.actors.dispatching.timing_wheel import Timer
    from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer

_log = logging.getLogger("streamactors.broker.quorum")

ADD: Final = (80, 1)
REMOVE: Final = (81, 0)


class Wish(NamedTuple):
    """What a node asks the leader for: the vote of `voter` is to be added or removed."""

    api: tuple[int, int]
    voter: Voter

    def body(self, cluster_id: str, timeout_ms: float) -> Mapping[str, Any]:
        """Return the body of the request. The leader answers before the commit, which may need the new vote."""
        voter = self.voter
        of_voter = {
            "cluster_id": cluster_id,
            "voter_id": voter.node_id,
            "voter_directory_id": voter.directory_id,
        }
        if self.api == REMOVE:
            return of_voter
        listeners = [{"name": each.name, "host": each.host, "port": each.port} for each in voter.endpoints]
        return {**of_voter, "timeout_ms": int(timeout_ms), "listeners": listeners, "ack_when_committed": False}


def wish(voters: VoterSet | None, own: Voter) -> Wish | None:
    """Return what a node asks for; None if it is a voter, or if the settings name the voters."""
    if voters is None:
        return None
    known = voters.voter(own.node_id)
    if known is None:
        return Wish(ADD, own)
    return None if known.directory_id == own.directory_id else Wish(REMOVE, known)


class AutoJoin:
    """Asks after each `period_ms` in which this node follows a leader and has no vote.

    `wish` says what to ask for, `ask` sends it to the leader and calls back with the answer."""

    def __init__(
        self,
        timers: Timers,
        period_ms: float,
        wish: Callable[[], Wish | None],
        ask: Callable[[Wish, Callable[[ChannelAnswer], object]], object],
    ) -> None:
        self._timers = timers
        self._period_ms = period_ms
        self._wish = wish
        self._ask = ask
        self._timer: Timer | None = None
        self._asking = False
        self._told: str | None = None  # the last refusal in the log

    def leader_changed(self, *, follows: bool) -> None:
        """This node follows another leader from now on, or none."""
        self.stop()
        if follows:
            self._wait()

    def stop(self) -> None:
        """Ask no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self.stop()
        self._timer = self._timers.call_later(self._period_ms, self._look)

    def _look(self) -> None:
        wanted = None if self._asking else self._wish()
        if wanted is not None:
            self._asking = True
            self._ask(wanted, self._answered)
        self._wait()

    def _answered(self, answer: ChannelAnswer) -> None:
        self._asking = False
        if self._timer is not None:
            self._wait()
        if answer.error is not None:
            self._tell(str(answer.error))
        elif answer.value.error_code:
            self._tell(answer.value.error_message or ErrorCode(answer.value.error_code).name)

    def _tell(self, why: str) -> None:
        if why != self._told:
            self._told = why
            _log.info("this controller has no vote yet, and asks the leader again: %s", why)
