"""A member of a consumer group (KIP-848), as librdkafka runs it: one heartbeat does everything.

Owner: the consumer. The coordinator names the partitions that the member should have. The member gives back what it should not have, takes what is new, each
by a callback inside a poll, and tells the coordinator what it has then. Changes are always of single partitions, never of all."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.consumer.consumer_events import MemberAnswer, MemberHeartbeat
from streamactors.broker.group.consumer.consumer_group import LEFT, STATIC_LEFT
from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.errors import answered, kafka_error
from streamactors.simulation.client.link import Link
from streamactors.simulation.client.membership.member import Identity
from streamactors.simulation.client.membership.rebalances import Rebalance, Rebalances
from streamactors.simulation.client.membership.wire import by_topic
from streamactors.simulation.client.properties import ClientProperties
from streamactors.simulation.cluster.apis.groups import ConsumerBeat, consumer_group_heartbeat

_JOIN: Final = 0
_FIRST_INTERVAL_MS: Final = 3_000.0
_AGAIN_MS: Final = 100.0
_COMMIT_VERSION: Final = 9
"""The first version of OffsetCommit in which a member names its epoch."""
_GONE: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_PASSING: Final = frozenset(
    {
        None,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
Key = tuple[str, int]


class ConsumerMember:
    """The membership of one consumer."""

    def __init__(
        self, link: Link, properties: ClientProperties, rebalances: Rebalances, failed: Callable[[Any], None]
    ) -> None:
        """`failed` gives the application an error in its next poll."""
        self._link = link
        self._rebalances = rebalances
        self._failed = failed
        self._group_id = properties.text("group.id")
        self._client_id = properties.text("client.id", "rdkafka")
        self._instance_id = properties.text("group.instance.id") or None
        self._assignor = properties.text("group.remote.assignor") or None
        self._poll_ms = properties.count("max.poll.interval.ms", 300_000)
        self._interval_ms = _FIRST_INTERVAL_MS
        self._cancel_tick: Callable[[], None] = lambda: None
        self._wanted: list[str] | None = None
        self.member_id = str(link.cluster.topics.new_id())
        self._epoch = _JOIN
        self._is_in = False
        self._target: frozenset[Key] | None = None
        self._told: frozenset[Key] | None = None  # what the coordinator knows that the member has
        self._attempt = 0
        self._beating = self._beats = False
        self._changed = True  # the subscription is not told yet
        self._polled_ms = link.world.now_ms()
        self._inside_poll = self._expelled = self._ended = False

    # --- what the consumer asks ---

    @property
    def is_subscribed(self) -> bool:
        """Whether it is a member, or wants to be one."""
        return self._wanted is not None

    @property
    def has_left(self) -> bool:
        """Whether it has given everything back and left."""
        return self._wanted is None and not self._is_in and not self._rebalances.waiting

    def identity(self) -> Identity:
        """Return who commits."""
        if not self._is_in:
            return Identity()
        return Identity(self.member_id, self._instance_id, self._epoch, _COMMIT_VERSION)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join, or read other topics."""
        self._wanted, self._changed = list(topics), True
        if not self._beats:
            self._beats = True
            self._tick()
        else:
            self._beat()

    def unsubscribe(self) -> None:
        """Give everything back at the next poll, and leave."""
        if self._wanted is not None:
            self._wanted = None
            if not self._rebalances.waiting:
                self._give_back(self._leave)

    def polled(self, *, inside: bool) -> None:
        """The application polls."""
        self._polled_ms, self._inside_poll = self._link.world.now_ms(), inside
        if self._expelled and not self._rebalances.waiting:
            self._expelled = False
            self._rejoin()

    # --- heartbeats ---

    def _tick(self) -> None:
        if self._wanted is None and self.has_left:
            self._beats = False
            return
        self._cancel_tick = self._link.later(self._interval_ms, self._tick, "heartbeat")
        over_ms = self._link.world.now_ms() - self._polled_ms - self._poll_ms
        if not self._inside_poll and over_ms >= 0 and not self._expelled and self._wanted is not None:
            self._expel(int(over_ms))
        else:
            self._beat()

    def _expel(self, over_ms: int) -> None:
        text = f"Application maximum poll interval ({self._poll_ms}ms) exceeded by {over_ms}ms"
        self._failed(kafka_error(ck.KafkaError._MAX_POLL_EXCEEDED, text))
        self._expelled = True
        self._send_leave()
        if not self._rebalances.waiting:
            self._give_back(lambda: None, lost=True)

    def _beat(self) -> None:
        """Send a heartbeat, unless one is on its way: its answer sends the next one if there is news."""
        if self._beating or self._wanted is None or self._expelled or self._ended:
            return
        self._beating = True
        self._attempt += 1
        attempt, asked = self._attempt, self._heartbeat()
        told = frozenset(self._rebalances.assigned)

        def then(error: ErrorCode | None, answer: Any) -> None:
            if attempt == self._attempt:
                self._beating = False
                self._beaten(error, answer, told)

        self._changed = False
        coordinator = self._link.cluster.group_coordinator(self._group_id)
        self._link.ask(consumer_group_heartbeat, coordinator, ConsumerBeat(self._group_id, asked), then)

    def _heartbeat(self) -> MemberHeartbeat:
        joins = self._epoch == _JOIN
        tells = joins or self._changed
        names = [each for each in self._wanted or () if not each.startswith("^")]
        patterns = [each for each in self._wanted or () if each.startswith("^")]
        owned = frozenset(self._rebalances.assigned)
        return MemberHeartbeat(
            member_id=self.member_id,
            epoch=self._epoch,
            instance_id=self._instance_id,
            rebalance_timeout_ms=self._poll_ms if tells else -1,
            topics=tuple(sorted(names)) if tells else None,
            regex="|".join(patterns) if tells else None,
            assignor=self._assignor if tells else None,
            owned=[] if joins else self._by_id(owned) if owned != self._told else None,
            client_id=self._client_id,
            client_host="/127.0.0.1",
        )

    def _by_id(self, keys: Iterable[Key]) -> list[tuple[uuid.UUID, tuple[int, ...]]]:
        topics = self._link.cluster.topics.image.topics
        return [(topics[name].topic_id, tuple(found)) for name, found in by_topic(keys).items() if name in topics]

    def _beaten(self, error: ErrorCode | None, answer: Any, told: frozenset[Key]) -> None:
        if error is ErrorCode.NONE:
            self._accepted(answer[0], told)
        elif error in _PASSING:
            # The lost answer may have had an assignment. It comes again to a member that tells everything.
            self._changed, self._told = True, None
            self._link.later(_AGAIN_MS, self._beat, "heartbeat again")
        elif error in _GONE:
            self._is_in, self._epoch, self._told, self._target = False, _JOIN, None, None
            if not self._rebalances.waiting:
                self._give_back(self._rejoin, lost=True)
        else:
            self._ended = error is not ErrorCode.UNRELEASED_INSTANCE_ID
            text = f"ConsumerGroupHeartbeat fatal error: {ck.KafkaError(answered(error)).str()}"
            self._failed(kafka_error(answered(error), text, fatal=True))

    def _accepted(self, answer: MemberAnswer, told: frozenset[Key]) -> None:
        self._is_in, self._epoch, self._told = True, answer.epoch, told
        interval_ms = float(answer.heartbeat_interval_ms or self._interval_ms)
        if interval_ms != self._interval_ms:
            self._interval_ms = interval_ms
            self._cancel_tick()
            self._cancel_tick = self._link.later(interval_ms, self._tick, "heartbeat")
        if answer.assigned is not None:
            names = self._link.cluster.topics.image.topics_by_id
            self._target = frozenset(
                (names[topic_id].name, partition)
                for topic_id, partitions in answer.assigned.items()
                if topic_id in names
                for partition in partitions
            )
        self._reconcile()
        if self._changed or frozenset(self._rebalances.assigned) != self._told:
            self._beat()

    # --- what it has and what it should have ---

    def _reconcile(self) -> None:
        if self._rebalances.waiting or self._target is None or self._wanted is None:
            return
        has = self._rebalances.assigned
        less, more = sorted(has - self._target), sorted(self._target - has)
        if less:
            self._call(Rebalance(False, less, self._settled, step_by_step=True))
        elif more:
            self._call(Rebalance(True, more, self._settled, step_by_step=True))

    def _settled(self) -> None:
        self._reconcile()
        self._beat()

    def _call(self, rebalance: Rebalance) -> None:
        def then() -> None:
            if self._wanted is None and rebalance.then != self._leave:
                self._give_back(self._leave)  # it has unsubscribed since
            elif not self._is_in and not rebalance.lost and self._wanted is not None:
                self._give_back(self._rejoin, lost=True)  # it was removed since
            else:
                rebalance.then()

        self._rebalances.put(rebalance._replace(then=then))

    def _give_back(self, then: Callable[[], None], *, lost: bool = False) -> None:
        keys = sorted(self._rebalances.assigned)
        if keys:
            self._call(Rebalance(False, keys, then, lost, step_by_step=True))
        else:
            then()

    def _rejoin(self) -> None:
        if self._wanted is not None and not self._is_in:
            self._epoch, self._told, self._changed = _JOIN, None, True
            self._beat()

    # --- leaving ---

    def _leave(self) -> None:
        self._send_leave()
        if self._wanted is not None:
            self._rejoin()

    def _send_leave(self) -> None:
        self._attempt += 1
        self._beating = False
        if self._is_in:
            epoch = LEFT if self._instance_id is None else STATIC_LEFT
            beat = MemberHeartbeat(member_id=self.member_id, epoch=epoch, instance_id=self._instance_id)
            coordinator = self._link.cluster.group_coordinator(self._group_id)
            self._link.ask(consumer_group_heartbeat, coordinator, ConsumerBeat(self._group_id, beat), lambda *_: None)
        self._is_in, self._epoch, self._told, self._target = False, _JOIN, None, None
