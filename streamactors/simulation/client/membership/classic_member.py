"""A member of a classic group, as librdkafka runs it: join, sync, heartbeats, rebalances, and the timeouts of both sides.

Owner: the consumer. It works in steps of its own; what the application must hear waits for a poll. An eager member gives everything back before it
joins again. A cooperative one keeps what it has, gives back what the new assignment lacks, and joins once more if there was something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import JoinAnswer, SyncAnswer
from streamactors.broker.group.consumer.embedded_protocol import decode_subscription
from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.errors import answered, kafka_error
from streamactors.simulation.client.link import Link
from streamactors.simulation.client.membership.assignors import ASSIGNORS, Candidate
from streamactors.simulation.client.membership.member import Identity
from streamactors.simulation.client.membership.rebalances import Rebalance, Rebalances
from streamactors.simulation.client.membership.topics import resolved
from streamactors.simulation.client.membership.wire import assigned, assignment, subscription
from streamactors.simulation.client.properties import ClientProperties
from streamactors.simulation.cluster.apis.groups import (
    Beat,
    Join,
    Leave,
    Sync,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)

_AGAIN_MS: Final = 100.0
_REFUSED_AGAIN_MS: Final = 1_000.0
_PASSING: Final = frozenset(
    {
        None,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


class Phase(Enum):
    """Where a member is."""

    OUT = "it is no member"
    JOINING = "it has asked to join, or for its assignment"
    CALLBACK = "a callback of a rebalance waits for a poll"
    STEADY = "it has its assignment"


class ClassicMember:
    """The membership of one consumer."""

    def __init__(
        self,
        link: Link,
        properties: ClientProperties,
        rebalances: Rebalances,
        failed: Callable[[Any], None],
    ) -> None:
        """`failed` gives the application an error in its next poll."""
        self._link = link
        self._rebalances = rebalances
        self._failed = failed
        self._group_id = properties.text("group.id")
        self._client_id = properties.text("client.id", "rdkafka")
        self._instance_id = properties.text("group.instance.id") or None
        self._session_ms = properties.count("session.timeout.ms", 45_000)
        self._heartbeat_ms = properties.number("heartbeat.interval.ms", 3_000)
        self._poll_ms = properties.count("max.poll.interval.ms", 300_000)
        self._refresh_ms = properties.number("topic.metadata.refresh.interval.ms", 300_000)
        names = properties.text("partition.assignment.strategy", "range,roundrobin").split(",")
        self._strategies = [name.strip() for name in names]
        self._cooperative = "cooperative-sticky" in self._strategies
        self._phase = Phase.OUT
        self._wanted: list[str] | None = None
        self._topics: list[str] = []
        self._counts: dict[str, int] = {}
        self._refreshed_ms = 0.0
        self.member_id = ""
        self._generation = -1
        self._protocol = ""
        self._attempt = 0  # answers to earlier attempts are of no interest
        self._beats = self._beating = False
        self._alive_ms = 0.0  # when the coordinator last answered a heartbeat
        self._polled_ms = link.world.now_ms()
        self._inside_poll = False
        self._expelled = False  # max.poll.interval.ms is over: it joins again at the next poll

    # --- what the consumer asks ---

    @property
    def is_subscribed(self) -> bool:
        """Whether it is a member, or wants to be one."""
        return self._wanted is not None

    @property
    def has_left(self) -> bool:
        """Whether it has given everything back and left."""
        return self._phase is Phase.OUT and not self.member_id

    def identity(self) -> Identity:
        """Return who commits."""
        return Identity(self.member_id, self._instance_id if self.member_id else None, self._generation)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join, or join again with other topics."""
        self._wanted = list(topics)
        if self._phase is Phase.OUT:
            self._join()
        elif self._phase is Phase.STEADY:
            self._rejoin()
        if not self._beats:
            self._beats = True
            self._alive_ms = self._link.world.now_ms()
            self._link.later(self._heartbeat_ms, self._beat, "heartbeat")

    def unsubscribe(self) -> None:
        """Give everything back at the next poll, and leave."""
        if self._wanted is not None:
            self._wanted = None
            self._attempt += 1
            self._give_back(self._leave)

    def polled(self, *, inside: bool) -> None:
        """The application polls."""
        self._polled_ms, self._inside_poll = self._link.world.now_ms(), inside
        if self._expelled:
            self._expelled = False
            if self._phase is Phase.OUT:
                self._join()

    # --- joining ---

    def _known_topics(self) -> dict[str, int]:
        counts = self._link.cluster.topics.counts
        return {topic: counts[topic] for topic in resolved(self._wanted or (), counts)}

    def _join(self) -> None:
        """Ask to join. Not called while a callback waits."""
        if self._wanted is None or self._expelled:
            self._phase = Phase.OUT
            return
        self._phase = Phase.JOINING
        self._attempt += 1
        self._counts = self._known_topics()
        self._refreshed_ms = self._link.world.now_ms()
        self._topics = sorted({*self._counts, *(each for each in self._wanted if not each.startswith("^"))})
        owned = sorted(self._rebalances.assigned) if self._cooperative else []
        told = subscription(self._topics, owned, self._generation if owned else -1)
        asked = Join(
            self._group_id, self.member_id, self._instance_id, self._client_id, self._session_ms, self._poll_ms,
            tuple((name, told) for name in self._strategies),
        )  # fmt: skip
        self._ask(join_group, asked, self._joined)

    def _ask(self, api: Any, asked: Any, then: Callable[[ErrorCode | None, Any], None]) -> None:
        attempt = self._attempt

        def due(error: ErrorCode | None, answer: Any) -> None:
            if attempt == self._attempt:
                then(error, answer)

        self._link.ask(api, self._link.cluster.group_coordinator(self._group_id), asked, due)

    def _joined(self, error: ErrorCode | None, answer: JoinAnswer | None) -> None:
        if error is ErrorCode.NONE and answer is not None:
            self.member_id, self._generation = answer.member_id, answer.generation
            self._protocol = answer.protocol or ""
            self._alive_ms = self._link.world.now_ms()
            made = self._made(answer) if answer.leader == self.member_id else ()
            asked = Sync(
                self._group_id, self.member_id, self._instance_id, self._generation, self._protocol, tuple(made)
            )
            self._ask(sync_group, asked, self._synced)
        elif error is ErrorCode.MEMBER_ID_REQUIRED and answer is not None:
            self.member_id = answer.member_id
            self._join()
        else:
            self._not_joined(error)

    def _made(self, answer: JoinAnswer) -> list[tuple[str, bytes]]:
        """Return the assignments of the members, as their leader."""
        told = {member_id: metadata for member_id, _, metadata in answer.members}
        candidates = []
        for member_id, instance_id, metadata in answer.members:
            wants = decode_subscription(metadata)
            owned = [(each.topic, partition) for each in wants.owned for partition in each.partitions]
            candidates.append(Candidate(member_id, instance_id, frozenset(wants.topics), owned, wants.generation))
        topics = {topic for each in candidates for topic in each.topics}
        counts = {topic: count for topic, count in self._link.cluster.topics.counts.items() if topic in topics}
        found = ASSIGNORS[self._protocol](candidates, counts)
        return [(member_id, assignment(keys, told[member_id])) for member_id, keys in found.items()]

    def _not_joined(self, error: ErrorCode | None) -> None:
        if error in _PASSING:
            self._link.later(_AGAIN_MS, self._retry(), "join again")
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._forget()
            self._give_back(self._join, lost=True)
        else:
            fatal = error is ErrorCode.FENCED_INSTANCE_ID
            text = f"JoinGroup failed: {ck.KafkaError(answered(error)).str()}"
            self._failed(kafka_error(answered(error), text, fatal=fatal))
            if not fatal:
                self._link.later(_REFUSED_AGAIN_MS, self._retry(), "join again")

    def _retry(self) -> Callable[[], None]:
        attempt = self._attempt

        def due() -> None:
            if attempt == self._attempt and self._phase is Phase.JOINING:
                self._join()

        return due

    def _forget(self) -> None:
        self.member_id, self._generation = "", -1

    # --- assignments ---

    def _synced(self, error: ErrorCode | None, answer: SyncAnswer | None) -> None:
        if error is not ErrorCode.NONE or answer is None:
            self._not_joined(error)
            return
        given = assigned(answer.assignment)
        if not self._cooperative:
            self._call(Rebalance(True, given, self._steady))
            return
        has = self._rebalances.assigned
        more = [key for key in given if key not in has]
        less = sorted(has - set(given))
        if less:
            # What is new comes when the old is given back; then the group has to hear that it is free.
            after = Rebalance(True, more, self._join, step_by_step=True)
            self._call(Rebalance(False, less, lambda: self._call(after), step_by_step=True))
        else:
            self._call(Rebalance(True, more, self._steady, step_by_step=True))

    def _steady(self) -> None:
        self._phase = Phase.STEADY
        if self._wanted is not None and self._known_topics() != self._counts:
            self._rejoin()

    def _call(self, rebalance: Rebalance) -> None:
        self._phase = Phase.CALLBACK

        def then() -> None:
            if self._wanted is None and rebalance.assigns:
                self._give_back(self._leave)  # it has unsubscribed since
            else:
                rebalance.then()

        self._rebalances.put(rebalance._replace(then=then))

    def _rejoin(self) -> None:
        """Take part in a rebalance."""
        if self._cooperative:
            self._join()
        else:
            self._give_back(self._join)

    def _give_back(self, then: Callable[[], None], *, lost: bool = False) -> None:
        """Give back all partitions, then go on. While a callback waits already, that one is first."""
        if self._phase is Phase.CALLBACK:
            return
        keys = sorted(self._rebalances.assigned)
        if keys:
            self._call(Rebalance(False, keys, then, lost, step_by_step=self._cooperative))
        else:
            then()

    # --- time ---

    def _beat(self) -> None:
        if self._wanted is None and self.has_left:
            self._beats = False
            return
        self._link.later(self._heartbeat_ms, self._beat, "heartbeat")
        now_ms = self._link.world.now_ms()
        if self._too_long_since_poll(now_ms) or self._session_over(now_ms):
            return
        refresh = now_ms - self._refreshed_ms >= self._refresh_ms
        if refresh and self._phase is Phase.STEADY and self._wanted is not None:
            self._refreshed_ms = now_ms
            if self._known_topics() != self._counts:
                self._rejoin()
                return
        if self._phase in (Phase.STEADY, Phase.CALLBACK) and self.member_id and not self._beating:
            self._beating = True
            asked = Beat(self._group_id, self.member_id, self._instance_id, self._generation)
            about = (self.member_id, self._generation)
            self._link.ask(
                heartbeat, self._link.cluster.group_coordinator(self._group_id), asked,
                lambda error, _: self._beaten(error, about),
            )  # fmt: skip

    def _beaten(self, error: ErrorCode | None, about: tuple[str, int]) -> None:
        self._beating = False
        if about != (self.member_id, self._generation):
            return
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._alive_ms = self._link.world.now_ms()
        if self._phase is not Phase.STEADY:
            return
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin()
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self._forget()
            self._generation = -1
            self._give_back(self._join, lost=True)
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            text = "Broker: Static consumer fenced by other consumer with same group.instance.id"
            self._failed(kafka_error(int(error), text, fatal=True))

    def _session_over(self, now_ms: float) -> bool:
        """Whether the coordinator has been silent for so long that it has removed this member."""
        if self._phase is not Phase.STEADY or now_ms - self._alive_ms < self._session_ms:
            return False
        self._alive_ms = now_ms
        self._forget()
        self._give_back(self._join, lost=True)
        return True

    def _too_long_since_poll(self, now_ms: float) -> bool:
        """Whether the application has not polled for max.poll.interval.ms: the member leaves until it does."""
        over_ms = now_ms - self._polled_ms - self._poll_ms
        if self._inside_poll or over_ms < 0 or self._expelled or self._wanted is None:
            return False
        text = f"Application maximum poll interval ({self._poll_ms}ms) exceeded by {int(over_ms)}ms"
        self._failed(kafka_error(ck.KafkaError._MAX_POLL_EXCEEDED, text))
        self._attempt += 1
        self._expelled = True
        self._leave_group()
        if self._phase is Phase.JOINING:
            self._phase = Phase.OUT
        self._give_back(self._join, lost=True)
        return True

    # --- leaving ---

    def _leave(self) -> None:
        self._leave_group()
        self._phase = Phase.OUT
        if self._wanted is not None:
            self._join()

    def _leave_group(self) -> None:
        """Tell the coordinator, unless it is a static member, which keeps its place."""
        if self.member_id and self._instance_id is None:
            asked = Leave(self._group_id, self.member_id)
            coordinator = self._link.cluster.group_coordinator(self._group_id)
            self._link.ask(leave_group, coordinator, asked, lambda *_: None)
        self._forget()
