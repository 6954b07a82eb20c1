"""What the leader of a partition knows of its followers during one leader epoch: their log ends, the ISR, and how far the high
watermark may go. Pure.

Owner: the hosted partition, on the data plane. Rules: Apache Kafka's cluster.Partition (KIP-497, KIP-841, KIP-903, KIP-966).

The ISR is the controller's. The leader proposes a change, and until it is answered counts the *maximal* ISR: the committed members
and the proposed ones. So a record below the high watermark is on every replica that the controller may elect, whichever of the two
lists it has. A proposal whose outcome is unknown stays in the maximal ISR until newer metadata comes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

UNKNOWN: Final = -1
_NEVER: Final = float("-inf")


@dataclass(slots=True)
class Remote:
    """A follower as its leader sees it."""

    end_offset: int = UNKNOWN  # of its log: the offset of its last fetch
    caught_up_ms: float = _NEVER  # when it last had everything that the leader had
    leader_end: int = 0  # the leader's log end at the follower's last fetch, and when that was
    fetched_ms: float = _NEVER
    broker_epoch: int = UNKNOWN


class Proposal(NamedTuple):
    """A change of the ISR to ask the controller for."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    broker_epochs: tuple[int, ...]
    """The broker epoch of each member's last fetch; UNKNOWN for the leader, and for a member that has not fetched.

    A member that registers again may have lost records, so the proposal keeps the old epoch when it is sent again."""


Eligible = Callable[[int, int], bool]
"""Whether a replica with a broker epoch may be in the ISR: registered under this epoch, not fenced, not in shutdown."""


class LeaderState:
    """The followers of one partition, in one leader epoch."""

    def __init__(
        self,
        me: int,
        *,
        epoch: int,
        start_offset: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        partition_epoch: int,
        now_ms: float,
    ) -> None:
        self.me: Final = me
        self.epoch: Final = epoch
        self.start_offset: Final = start_offset  # of this leader epoch: the log end at the election
        self.began_ms: Final = now_ms
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.partition_epoch = partition_epoch
        self.proposed: Proposal | None = None
        self.in_flight = False  # the proposal has been sent, and is neither accepted nor refused
        # Members of the ISR are given the full lag time to send their first fetch to this leader.
        self.remotes = {each: Remote(caught_up_ms=now_ms if each in isr else _NEVER) for each in replicas if each != me}

    # --- from the metadata ---

    def learn(self, replicas: Sequence[int], isr: Sequence[int], partition_epoch: int) -> None:
        """Take over the committed state of the partition, from the metadata or from the answer to a proposal.

        An older state than the known one changes nothing: answers and metadata come in any order."""
        if partition_epoch <= self.partition_epoch:
            return
        self.replicas, self.isr, self.partition_epoch = tuple(replicas), tuple(isr), partition_epoch
        self.proposed = None
        self.in_flight = False
        for each in replicas:
            if each != self.me and each not in self.remotes:
                self.remotes[each] = Remote()
        for each in self.remotes.keys() - set(replicas):
            del self.remotes[each]

    # --- from followers ---

    def fetched(self, replica: int, broker_epoch: int, offset: int, end_offset: int, now_ms: float) -> bool:
        """Note a fetch: the follower has everything below `offset`; the leader's log ends at `end_offset`.

        Return False, and change nothing, if it is not a replica of this partition."""
        remote = self.remotes.get(replica)
        if remote is None:
            return False
        if offset >= end_offset:
            remote.caught_up_ms = max(remote.caught_up_ms, now_ms)
        elif offset >= remote.leader_end:
            # It has what the leader had at its previous fetch: it was caught up then.
            remote.caught_up_ms = max(remote.caught_up_ms, remote.fetched_ms)
        remote.end_offset = offset
        remote.broker_epoch = broker_epoch
        remote.leader_end = end_offset
        remote.fetched_ms = now_ms
        return True

    def heard(self, replica: int, at_ms: float) -> None:
        """The leader's log is about to grow. Note that the follower has asked for its last offset until `at_ms`: a fetch of a session does not
        name a partition again whose offset is the same (KIP-227)."""
        remote = self.remotes.get(replica)
        if remote is not None and at_ms > remote.fetched_ms:
            remote.fetched_ms = at_ms
            if remote.end_offset >= remote.leader_end:
                remote.caught_up_ms = max(remote.caught_up_ms, at_ms)

    # --- the high watermark ---

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The replicas that the controller may elect now or after the proposal."""
        members = frozenset(self.isr)
        return members if self.proposed is None else members.union(self.proposed.isr)

    def high_watermark(self, limit: int, *, now_ms: float, lag_ms: float, min_isr: int, eligible: Eligible) -> int:
        """Return how far the high watermark may go; at most `limit`, which is how far the leader's own copy counts.

        UNKNOWN if it must stay: fewer replicas are in sync than the topic asks for, or a member has not fetched yet. A replica
        that is caught up and about to join is waited for, so that it does not fall back while it joins."""
        if len(self.isr) < min_isr:
            return UNKNOWN
        members = self.maximal_isr
        for replica, remote in self.remotes.items():
            if remote.end_offset < limit and (
                replica in members
                or (now_ms - remote.caught_up_ms <= lag_ms and eligible(replica, remote.broker_epoch))
            ):
                limit = remote.end_offset
        return limit

    # --- the ISR ---

    def growth(self, replica: int, high_watermark: int, eligible: Eligible) -> Proposal | None:
        """Return the proposal to take a follower into the ISR, None if it must stay out or a proposal is not settled yet."""
        remote = self.remotes.get(replica)
        if remote is None or self.proposed is not None or replica in self.isr:
            return None
        if remote.end_offset < max(high_watermark, self.start_offset):
            return None
        if not eligible(replica, remote.broker_epoch):
            return None
        return self._proposal({*self.isr, replica})

    def shrinkage(self, end_offset: int, now_ms: float, lag_ms: float) -> Proposal | None:
        """Return the proposal to remove the members that have lagged for longer than `lag_ms`, None without such members.

        A member that has the whole log never lags, however long it is silent."""
        if self.proposed is not None:
            return None
        lagging = {
            replica
            for replica, remote in self.remotes.items()
            if replica in self.isr and remote.end_offset != end_offset and now_ms - remote.caught_up_ms > lag_ms
        }
        return self._proposal(set(self.isr) - lagging) if lagging else None

    def _proposal(self, members: Collection[int]) -> Proposal:
        isr = tuple(each for each in self.replicas if each in members)
        epochs = tuple(UNKNOWN if each == self.me else self.remotes[each].broker_epoch for each in isr)
        return Proposal(isr, self.epoch, self.partition_epoch, epochs)

    def propose(self, proposal: Proposal) -> None:
        """A proposal is about to be sent: its replicas count towards the ISR from now on."""
        self.proposed = proposal
        self.in_flight = True

    def refused(self, proposal: Proposal, *, certain: bool) -> None:
        """The controller has not carried out a proposal. `certain`: it surely has not, also not at an earlier attempt whose
        answer was lost. Otherwise the proposal counts until newer metadata comes."""
        if self.proposed != proposal:
            return
        self.in_flight = False
        if certain:
            self.proposed = None
