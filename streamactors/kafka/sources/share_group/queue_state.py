"""ShareQueue: which request each broker is sent next, and what its answer means.

Records are asked for only within downstream's demand and `max_in_flight`; both count what is asked for already. A record is locked from its
answer until its acknowledgement is answered. Requests to several brokers share the room that is left; who has waited longest is first.

Owner: `share_member.py`, under its lock. Times are milliseconds of one clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streamactors.kafka.client.share.protocol import (
    Ack,
    Acquired,
    ErrorCode,
    Purpose,
    Shard,
    ShardAnswer,
    ShareAnswer,
    ShareRequest,
)
from streamactors.kafka.sources.share_group.leases_state import Lease, Leases
from streamactors.kafka.sources.share_group.session_state import Session

LONG_WAIT_MS: Final = 500
"""How long a broker may wait for records when nothing is being worked on."""
SHORT_WAIT_MS: Final = 50
"""How long it may wait when acknowledgements can become due, or other brokers wait for their turn."""
BACK_OFF_MS: Final = 100
MAX_BACK_OFF_MS: Final = 5_000
EMPTY_PAUSE_MS: Final = 5
"""The pause after an answer without records: a broker that answers at once must not be asked in a loop."""
GATHER_MS: Final = 10
"""How long acknowledgements are gathered while there is work in hand and little room: a request costs the broker a write."""
FETCH_AT_MOST: Final = 2_000
"""The most records of one request; the broker locks 2,000 of a partition by default."""

_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_STATE_EPOCH,
    }
)
"""Errors of a partition after which its leader is looked up again."""

_DENIED: Final = frozenset(
    {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION}
)


class Delivery(NamedTuple):
    """A record for the source to emit."""

    lease: Lease
    record: Acquired


@dataclass(slots=True)
class Counts:
    """What has happened so far, in records."""

    acquired: int = 0
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    renewed: int = 0
    gaps: int = 0
    unreadable: int = 0
    lost: int = 0
    """Records whose lock ended before they were acknowledged; the broker delivers them again."""
    sessions_lost: int = 0


@dataclass(slots=True)
class Outcome:
    """What an answer means for the owner."""

    deliveries: list[Delivery] = field(default_factory=list)
    look_up: bool = False
    """The leaders are to be looked up again."""
    problems: list[str] = field(default_factory=list)
    """Sentences for the log."""
    refused: int = 0
    """The error of rights that ends the source; 0: none."""


class ShareQueue:
    """The requests of one share consumer. `member_id` is that of the membership."""

    def __init__(
        self, member_id: str, max_in_flight: int, delivery_limit: int | None = None, *, can_renew: bool = True
    ) -> None:
        self.counts = Counts()
        self.leases = Leases()
        self.sessions: dict[int, Session] = {}
        self.can_renew = can_renew
        self.stopped = self.closing = False
        self.lock_ms = 0
        """How long a record is locked; 0: no broker has said it."""
        self._member_id = member_id
        self._max_in_flight = max_in_flight
        self._delivery_limit = delivery_limit
        self._limit = 0  # the records before this index are asked for by downstream
        self._fetches = 0
        self._warned_of_locks = False

    # ── what is known ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def locked(self) -> int:
        """The number of records that are locked for this member: in work, or done and not yet acknowledged."""
        return len(self.leases) + sum(each.acks.locked for each in self.sessions.values())

    @property
    def requested(self) -> int:
        """The number of records that are asked for and have not come."""
        return sum(each.request.max_records for each in self.sessions.values() if each.request is not None)

    @property
    def is_empty(self) -> bool:
        """True when every session is closed."""
        return not any(each.is_open or each.request is not None for each in self.sessions.values())

    def demand(self, limit: int) -> None:
        """Downstream asks for the records before index `limit`."""
        self._limit = max(self._limit, limit)

    def assigned(self, leaders: Mapping[Shard, int]) -> None:
        """These partitions are assigned to the member, with their leaders."""
        wanted: dict[int, set[Shard]] = {}
        for shard, broker in leaders.items():
            wanted.setdefault(broker, set()).add(shard)
        for broker in wanted:
            self.sessions.setdefault(broker, Session(broker, self._member_id))
        for broker, session in self.sessions.items():
            session.wanted = frozenset(wanted.get(broker, ()))

    @property
    def fetched(self) -> frozenset[Shard]:
        """The partitions that the brokers have answered a fetch for."""
        return frozenset().union(*(session.shards for session in self.sessions.values()))

    def fenced(self, member_id: str) -> None:
        """The group has put the member out: its sessions end, what is done is acknowledged, and it continues with another id."""
        self._member_id = member_id
        for session in self.sessions.values():
            session.wanted = frozenset()
            if session.is_open or session.request is not None:
                session.closing = True
            else:
                session.member_id = member_id
        self.counts.lost += len(self.leases.take(lambda _: True))

    # ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────

    def next_request(self, broker: int, now_ms: float) -> ShareRequest | None:
        """Return the request that the broker is to be sent now, None if there is none."""
        session = self.sessions.get(broker)
        if session is None or session.request is not None or now_ms < session.not_before_ms:
            return None
        self._renew(now_ms)
        if session.is_open:
            if session.closing or self.closing:
                return session.acknowledge() if session.acks.needs_several else session.close()
            if session.acks.renewing or session.acks.waits_outside(session.wanted):
                return session.acknowledge()
        room = self._room_of(session, now_ms)
        if now_ms < session.gather_until_ms and self.leases and not self.stopped and room * 2 < self._max_in_flight:
            return None
        if room > 0:
            self._fetches += 1
            return session.fetch(room, self._wait_of(session, room), self._fetches)
        if session.is_open:
            if session.acks.waiting:
                return session.acknowledge()
            if not session.wanted and not any(lease.broker == broker for lease in self.leases):
                return session.close()
        return None

    def next_time_ms(self, broker: int, now_ms: float) -> float | None:
        """Return when there may be a request for the broker without anything else happening: a renewal, or the end of a pause."""
        session = self.sessions.get(broker)
        if session is None or session.request is not None:
            return None
        due = self.leases.next_due_ms
        times = [session.not_before_ms, session.gather_until_ms, *([due] if due is not None else [])]
        return min((each for each in times if each > now_ms), default=None)

    def _room_of(self, session: Session, now_ms: float) -> int:
        """Return how many records the broker may be asked for now."""
        if self.stopped or session.closing or not session.wanted:
            return 0
        # The broker processes the acknowledgements of a fetch first, and refuses none of them while locks are renewed in time.
        carried = session.acks.sendable_finals(session.wanted) if session.is_open and self.can_renew else 0
        room = min(
            self._limit - self.leases.next_index - self.requested,
            self._max_in_flight - (self.locked - carried) - self.requested,
        )
        if room <= 0:
            return 0
        waiting = [
            each
            for each in self.sessions.values()
            if each.wanted and each.request is None and not each.closing and now_ms >= each.not_before_ms
        ]
        if room < len(waiting):
            waiting.sort(key=lambda each: each.last_fetch)
            return 1 if session in waiting[:room] else 0
        return min(-(-room // len(waiting)), FETCH_AT_MOST)

    def _wait_of(self, session: Session, room: int) -> int:
        """Return how long the broker may wait for records: a moment if records of it are in work, or if brokers take turns for one record."""
        works = any(lease.broker == session.broker for lease in self.leases)
        turns = room == 1 and sum(bool(each.wanted) for each in self.sessions.values()) > 1
        return SHORT_WAIT_MS if works or turns else LONG_WAIT_MS

    def _renew(self, now_ms: float) -> None:
        for lease in self.leases.due(now_ms):
            if self.can_renew:
                self.sessions[lease.broker].acks.add(lease.shard, lease.offset, Ack.RENEW)
            elif now_ms < lease.lock_until_ms:
                self.leases.look_again(lease, lease.lock_until_ms)  # then `expired` says it

    # ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def answered(self, broker: int, answer: ShareAnswer, now_ms: float) -> Outcome:
        """A broker has answered its request."""
        session = self.sessions[broker]
        request = session.request
        assert request is not None
        outcome = Outcome()
        if answer.error:
            self._session_error(session, answer, now_ms, outcome)
            return outcome
        if answer.lock_ms:
            self.lock_ms = answer.lock_ms
        refused = {each.shard: each.ack_error for each in answer.shards if each.ack_error}
        for shard in session.acks.in_request:
            self._settle(session, shard, refused.get(shard, 0), now_ms, outcome)
        session.succeeded()
        session.not_before_ms = 0.0
        session.gather_until_ms = now_ms + GATHER_MS
        for each in answer.shards:
            self._take_in(session, each, now_ms, outcome)
        if request.purpose is Purpose.CLOSE:
            self._reset(session)
        elif request.purpose is Purpose.FETCH and not request.acks and not outcome.deliveries:
            session.not_before_ms = max(session.not_before_ms, now_ms + EMPTY_PAUSE_MS)
        return outcome

    def failed(self, broker: int, now_ms: float) -> None:
        """The connection broke: the broker releases what the session had locked."""
        session = self.sessions[broker]
        self.counts.sessions_lost += session.is_open
        self._reset(session)
        self._back_off(session, now_ms)

    def _session_error(self, session: Session, answer: ShareAnswer, now_ms: float, outcome: Outcome) -> None:
        code = ErrorCode(answer.error)
        outcome.refused = code if code in _DENIED else 0
        if session.is_open:
            self.counts.sessions_lost += 1
            if code not in (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH):
                outcome.problems.append(
                    f"broker {session.broker} ended the share session: {answer.message or code.name}"
                )
        self._reset(session)
        self._back_off(session, now_ms)
        outcome.look_up = True

    def _back_off(self, session: Session, now_ms: float) -> None:
        session.failures += 1
        session.not_before_ms = now_ms + min(BACK_OFF_MS << min(session.failures - 1, 10), MAX_BACK_OFF_MS)

    def _reset(self, session: Session) -> None:
        lost = session.reset(self._member_id)
        lost += len(self.leases.take(lambda lease: lease.broker == session.broker))
        self.counts.lost += lost

    def _settle(self, session: Session, shard: Shard, error: int, now_ms: float, outcome: Outcome) -> None:
        """A partition's acknowledgements were processed or refused."""
        if error == ErrorCode.INVALID_RECORD_STATE:
            group = session.acks.refused(shard)
        else:
            group = session.acks.answered(shard)
        if error:
            outcome.look_up = outcome.look_up or error in _MOVED
            final = sum(ack not in (Ack.RENEW, Ack.GAP) for ack in group.values())
            renewals = [offset for offset, ack in group.items() if ack is Ack.RENEW]
            gone = self.leases.take(
                lambda lease: lease.broker == session.broker and lease.shard == shard and lease.offset in renewals
            )
            self.counts.lost += final + len(gone)
            return
        counts = self.counts
        for ack in group.values():
            counts.accepted += ack is Ack.ACCEPT
            counts.released += ack is Ack.RELEASE
            counts.rejected += ack is Ack.REJECT
            counts.renewed += ack is Ack.RENEW
        if any(ack is Ack.RENEW for ack in group.values()):
            for lease in self.leases:
                if lease.broker == session.broker and lease.shard == shard and lease.offset in group:
                    lease.lock_until_ms = now_ms + self.lock_ms
                    self.leases.look_again(lease, now_ms + self.lock_ms / 2)

    def _take_in(self, session: Session, of: ShardAnswer, now_ms: float, outcome: Outcome) -> None:
        """Take the records of a partition in; what is not to be emitted is acknowledged at once."""
        if of.error:
            outcome.look_up = outcome.look_up or of.error in _MOVED
            outcome.refused = outcome.refused or (of.error if of.error in _DENIED else 0)
            session.not_before_ms = max(session.not_before_ms, now_ms + BACK_OFF_MS)
            if of.error not in _MOVED:
                name = ErrorCode(of.error).name.replace("_", " ").lower()
                outcome.problems.append(f"partition {of.shard.partition} of broker {session.broker}: {name}")
            return
        if of.problem:
            outcome.problems.append(of.problem)
        for each in of.acquired:
            if each.data is None:
                self.counts.gaps += each.otherwise is Ack.GAP
                self.counts.unreadable += each.otherwise is not Ack.GAP
                session.acks.add(of.shard, each.offset, each.otherwise)
                continue
            if self.stopped:
                continue  # the end of the session releases it
            self.counts.acquired += 1
            if self._delivery_limit is not None and each.delivery_count > self._delivery_limit:
                session.acks.add(of.shard, each.offset, Ack.REJECT)
                outcome.problems.append(
                    f"offset {each.offset} of partition {of.shard.partition} was delivered {each.delivery_count - 1} times, "
                    f"as often as delivery_limit allows: it is rejected"
                )
                continue
            lease = Lease(session.broker, of.shard, each.offset, each.delivery_count, now_ms + self.lock_ms)
            self.leases.add(lease, now_ms + self.lock_ms / 2)
            outcome.deliveries.append(Delivery(lease, each))

    # ── from the source ───────────────────────────────────────────────────────────────────────────────────────────

    def done(self, end: int, now_ms: float) -> None:
        """The records before index `end` are done at every sink."""
        self._acknowledge(self.leases.done(end), lambda lease: lease.verdict, now_ms)

    def expired(self, now_ms: float) -> bool:
        """Return True once: when a record is in work for longer than its lock, which the broker cannot renew."""
        if self.can_renew or self._warned_of_locks:
            return False
        self._warned_of_locks = any(lease.lock_until_ms <= now_ms for lease in self.leases)
        return self._warned_of_locks

    def stop(self) -> None:
        """Fetch no more. What was not emitted stays locked until its session ends, which takes its delivery back; a release would count it."""
        self.stopped = True
        self.leases.take(lambda lease: not lease.emitted)

    def close(self, now_ms: float) -> None:
        """End: release what was emitted and is not done (reject it at its delivery limit); what was not emitted is released by the end of its session,
        which takes its delivery back."""
        self.closing = self.stopped = True
        self._acknowledge(self.leases.take(lambda lease: lease.emitted), self._verdict_at_end, now_ms)
        self.leases.take(lambda _: True)

    def _verdict_at_end(self, lease: Lease) -> Ack:
        if lease.verdict is Ack.REJECT:
            return Ack.REJECT
        limit = self._delivery_limit
        return Ack.REJECT if limit is not None and lease.delivery_count >= limit else Ack.RELEASE

    def _acknowledge(self, leases: list[Lease], verdict: Callable[[Lease], Ack], now_ms: float) -> None:
        for lease in leases:
            if self.lock_ms and lease.lock_until_ms < now_ms:
                self.counts.lost += (
                    1  # the broker has released it, and would refuse all acknowledgements beside this one
                )
            else:
                self.sessions[lease.broker].acks.add(lease.shard, lease.offset, verdict(lease))
