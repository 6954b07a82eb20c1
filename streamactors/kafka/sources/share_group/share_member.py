"""ShareMember: a member of a share group: one thread for the membership, one for each broker that leads an assigned partition.

The rules are in `queue_state.py` and `group_state.py`, which are used under one lock. A thread leaves the lock while it waits for an answer.
Owner: the logic of a shared source."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from streamactors.kafka.client.share.protocol import ErrorCode, Shard, ShareRequest
from streamactors.kafka.client.share.share_records import TooManyAcquired
from streamactors.kafka.client.share.share_requests import Layout, ShareBroker, ShareCoordinator
from streamactors.kafka.errors import KafkaError, NoBroker, TopicNotFound
from streamactors.kafka.sources.share_group.group_state import Event, GroupMember, HeartbeatAnswer
from streamactors.kafka.sources.share_group.problems import Problems
from streamactors.kafka.sources.share_group.queue_state import Outcome, ShareQueue
from streamactors.kafka.sources.share_group.refusals import refusal, reset_refused
from streamactors.kafka.sources.share_group.share_settings import SharedSourceSettings
from streamactors.kafka.sources.share_group.shared_record import SharedRecord

_log = logging.getLogger("streamactors.kafka")
LOOK_UP_MS: Final = 200
"""The pause between two look-ups of the leaders."""
RETRY_S: Final = 0.1


def _now_ms() -> float:
    return time.monotonic() * 1_000


class ShareMember:
    """Reads topics as a member of a share group. Its methods may be called from any thread.

    `deliver` is called with records in the order of their indexes, `failed` with the error that ends the member, `closed` when it has left,
    `started` when each broker has begun its partitions for the group: a later record is not before their beginning."""

    def __init__(
        self,
        settings: SharedSourceSettings,
        topics: Sequence[str],
        deliver: Callable[[list[SharedRecord]], None],
        failed: Callable[[BaseException], None],
        closed: Callable[[BaseException | None], None],
        started: Callable[[], object] = lambda: None,
    ) -> None:
        self._settings = settings
        self._topics = tuple(topics)
        self._deliver, self._fail, self._closed, self._started = deliver, failed, closed, started
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        """Wakes the brokers' threads: there may be something to send."""
        self._due = threading.Condition(lock)
        """Wakes the membership's thread."""
        self._group = GroupMember(topics, lambda: str(uuid.uuid4()))
        self._queue = ShareQueue(self._group.member_id, settings.max_in_flight, settings.delivery_limit)
        self._layout = Layout({}, {}, {})
        self._version = 0
        self._look_up_at_ms: float | None = None
        self._ending = False
        self._error: BaseException | None = None
        self._brokers: dict[int, tuple[threading.Thread, ShareBroker]] = {}
        self._problems = Problems(settings.group_id)
        self._limit = 0
        # Written by the source's threads without the lock, for every record; the broker's threads read them under it.
        self._emitted_to = self._done_to = 0
        self._waiting = 0  # brokers' threads that look for a request, or wait for one

    def start(self) -> None:
        """Join the group."""
        name = f"share group {self._settings.group_id}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    # ── from the source ───────────────────────────────────────────────────────────────────────────────────────────

    def demand(self, limit: int) -> None:
        """Downstream asks for the records before index `limit`."""
        with self._changed:
            if limit > self._limit:
                self._limit = limit
                self._queue.demand(limit)
                self._changed.notify_all()

    def emitted(self, end: int) -> None:
        """The records before index `end` were emitted. Called on the source's island."""
        self._emitted_to = end

    def done(self, end: int) -> None:
        """The records before index `end` are done at every sink of the run; never two calls at once."""
        self._done_to = end
        # A thread counts itself before it reads `_done_to`: either it reads this one, or it is woken.
        if self._waiting:
            with self._changed:
                self._changed.notify_all()

    def _catch_up(self) -> None:
        """Tell the queue what was emitted and done. Under the lock."""
        self._queue.leases.emitted(self._emitted_to)
        self._queue.done(self._done_to, _now_ms())

    def stop(self) -> None:
        """Fetch no more: nothing more will be emitted."""
        with self._changed:
            self._catch_up()
            self._queue.stop()

    def end(self) -> None:
        """Release what was emitted and is not done, send what is to be acknowledged, leave the group. Idempotent."""
        with self._changed:
            if not self._ending:
                self._ending = True
                self._catch_up()
                self._queue.close(_now_ms())
                self._changed.notify_all()
                self._due.notify_all()

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data."""
        with self._changed:
            self._catch_up()
            counts = self._queue.counts
            return {
                "joined": self._group.joined,
                "member_id": self._group.member_id,
                "assigned": sorted(
                    f"{self._layout.ids.get(each.topic_id, each.topic_id)}-{each.partition}"
                    for each in self._group.assignment
                ),
                "demand": max(0, self._limit - self._queue.leases.next_index),
                "locked": self._queue.locked,
                "requested": self._queue.requested,
                "lock_ms": self._queue.lock_ms,
                "records": counts.acquired,
                **{name: getattr(counts, name) for name in counts.__slots__},
            }

    # ── the membership ────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            properties = self._settings.client_properties()
            with ShareCoordinator(self._settings.bootstrap_servers, properties, self._settings.group_id) as coordinator:
                try:
                    if self._prepare(coordinator):
                        while not self._ending:
                            self._step(coordinator)
                except BaseException as error:  # noqa: BLE001  # whatever it is, the stream fails with it
                    self._failed_with(error)
                self.end()
                self._close_sessions()
                self._leave(coordinator)
        except BaseException as error:  # noqa: BLE001  # as above: properties that cannot be used
            self._failed_with(error)
            self.end()
        self._closed(self._error)

    def _failed_with(self, error: BaseException) -> None:
        """Fail the stream, before the sessions are closed: that may take a while."""
        self._error = self._error or error
        self._fail(self._error)

    def _prepare(self, coordinator: ShareCoordinator) -> bool:
        """Find the cluster and the topics, for `preflight_timeout_ms` at most; return False if the source has ended meanwhile."""
        give_up = _now_ms() + self._settings.preflight_timeout_ms
        while not self._ending:
            try:
                self._version = coordinator.share_version()
                layout = coordinator.layout(self._topics)
                self._set_reset(coordinator)
                with self._changed:
                    self._layout = layout
                    self._queue.can_renew = self._version > 1
                return True
            except (NoBroker, TopicNotFound):
                if _now_ms() > give_up:
                    raise
            with self._due:
                self._due.wait(RETRY_S)
        return False

    def _set_reset(self, coordinator: ShareCoordinator) -> None:
        reset = self._settings.auto_offset_reset
        code, message = coordinator.set_reset(reset) if reset is not None else (0, "")
        if code and reset is not None:
            raise reset_refused(self._settings, reset, code, message)

    def _step(self, coordinator: ShareCoordinator) -> None:
        """Do what is due: a look-up, a heartbeat; else wait for it."""
        with self._changed:
            if self._error is not None:
                raise self._error
            now = _now_ms()
            looks = self._look_up_at_ms is not None and self._look_up_at_ms <= now
            if looks:
                self._look_up_at_ms = None
            elif self._group.due_ms > now:
                due = min(each for each in (self._group.due_ms, self._look_up_at_ms) if each is not None)
                self._due.wait((due - now) / 1_000)
                return
        if looks:
            self._look_up(coordinator)
        else:
            self._beat(coordinator)

    def _beat(self, coordinator: ShareCoordinator) -> None:
        beat = self._group.heartbeat()
        try:
            said = coordinator.heartbeat(beat.member_id, beat.epoch, beat.topics)
        except KafkaError as error:
            self._problems.tell(f"the coordinator does not answer: {error}")
            with self._changed:
                self._group.failed(_now_ms())
            return
        if said.error_code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_AUTHORIZATION_FAILED):
            raise refusal(self._settings, self._topics, said.error_code, said.error_message)
        with self._changed:
            event = self._group.answered(_heartbeat_answer(said), _now_ms())
            if event is Event.FENCED:
                self._queue.fenced(self._group.member_id)
                self._problems.tell("the group has put this member out: its records in work are delivered again")
            if event in (Event.FENCED, Event.ASSIGNED):
                self._assign()
                self._changed.notify_all()
        if event is Event.MOVED:
            coordinator.moved()
        elif event is Event.REFUSED:
            raise refusal(self._settings, self._topics, said.error_code, said.error_message)

    def _assign(self) -> None:
        """Tell the queue which partitions it has, and where. Under the lock."""
        leaders = {}
        for shard in self._group.assignment:
            leader = self._layout.leaders.get(shard)
            if leader is None or leader not in self._layout.addresses:
                self._look_up_soon()
            else:
                leaders[shard] = leader
        self._queue.assigned(leaders)
        self._look_started()
        for broker in set(leaders.values()) - self._brokers.keys():
            self._begin(broker)

    def _look_started(self) -> None:
        if self._group.assignment and self._group.assignment <= self._queue.fetched:  # the first one is often empty
            self._started()

    def _look_up_soon(self) -> None:
        if self._look_up_at_ms is None:
            self._look_up_at_ms = _now_ms() + LOOK_UP_MS
            self._due.notify_all()

    def _look_up(self, coordinator: ShareCoordinator) -> None:
        try:
            layout = coordinator.layout(self._topics)
        except KafkaError as error:
            self._problems.tell(str(error))
            with self._changed:
                self._look_up_soon()
            return
        with self._changed:
            self._layout = layout
            self._assign()
            self._changed.notify_all()

    def _leave(self, coordinator: ShareCoordinator) -> None:
        if self._group.epoch <= 0:
            return
        beat = self._group.leave()
        with suppress(KafkaError):  # the session of a member that could not say so ends by itself
            coordinator.heartbeat(beat.member_id, beat.epoch, None)

    def _close_sessions(self) -> None:
        """Wait until every session has ended, `close_timeout_ms` at most."""
        give_up = _now_ms() + self._settings.close_timeout_ms
        for thread, connection in list(self._brokers.values()):
            thread.join(max(0.0, give_up - _now_ms()) / 1_000)
            if thread.is_alive():
                self._problems.tell(
                    f"a broker has not answered within {self._settings.close_timeout_ms:g} ms at the end: what it has locked is "
                    "delivered again after its lock"
                )
                connection.abort()

    # ── a broker ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, broker: int) -> None:
        connection = ShareBroker(
            self._settings.bootstrap_servers,
            self._settings.client_properties(),
            self._settings.group_id,
            self._version,
            self._settings.max_bytes,
            self._topic_of,
        )
        name = f"share group {self._settings.group_id}, broker {broker}"
        thread = threading.Thread(target=self._serve, args=(broker, connection), name=name, daemon=True)
        self._brokers[broker] = thread, connection
        thread.start()

    def _topic_of(self, topic_id: UUID) -> str:
        return self._layout.ids.get(topic_id) or str(topic_id)

    def _serve(self, broker: int, connection: ShareBroker) -> None:
        """Send the requests of one broker, until the member ends and its session is closed."""
        try:
            with connection:
                while self._serve_one(broker, connection):
                    pass
        except BaseException as error:  # noqa: BLE001  # the membership's thread ends the member with it
            with self._changed:
                self._error = self._error or error
                self._due.notify_all()

    def _serve_one(self, broker: int, connection: ShareBroker) -> bool:
        """Wait for a request, send it, take its answer in; return False at the end."""
        with self._changed:
            self._waiting += 1
            request = self._await_request(broker)
            self._waiting -= 1
            if request is None:
                return False
            address = self._layout.addresses.get(broker)
        try:
            if address is None:
                raise NoBroker(f"broker {broker} is not in the cluster any more")
            answer = connection.ask(address, request)
        except (NoBroker, TooManyAcquired) as error:
            connection.abort()
            with self._changed:
                if not self._ending:
                    self._problems.tell(str(error))
                self._queue.failed(broker, _now_ms())
                self._look_up_soon()
                self._changed.notify_all()
            return True
        with self._changed:
            self._catch_up()
            outcome = self._queue.answered(broker, answer, _now_ms())
            self._carry_out(outcome)
            self._look_started()
            self._changed.notify_all()
        return True

    def _await_request(self, broker: int) -> ShareRequest | None:
        """Wait until there is a request for the broker; return None at the end. Under the lock."""
        while True:
            self._catch_up()
            now = _now_ms()
            request = self._queue.next_request(broker, now)
            if request is not None:
                return request
            if self._queue.closing and not self._queue.sessions[broker].is_open:
                return None
            self._warn_of_locks(now)
            due = self._queue.next_time_ms(broker, now)
            self._changed.wait(None if due is None else (due - now) / 1_000)

    def _warn_of_locks(self, now_ms: float) -> None:
        if self._queue.expired(now_ms):
            self._problems.tell(
                f"a record is in work for longer than its lock of {self._queue.lock_ms} ms, which this broker cannot renew: it is "
                "delivered again; raise group.share.record.lock.duration.ms, or use Apache Kafka 4.2 or newer"
            )

    def _carry_out(self, outcome: Outcome) -> None:
        """Under the lock, so that records of two brokers are delivered in the order of their indexes."""
        for each in outcome.problems:
            self._problems.tell(each)
        if outcome.refused:
            self._error = self._error or refusal(self._settings, self._topics, outcome.refused, None)
            self._due.notify_all()
        if outcome.look_up:
            self._look_up_soon()
        if outcome.deliveries and not self._ending:
            self._deliver(
                [
                    SharedRecord(self._topic_of(each.lease.shard.topic_id), each.lease, each.record.data)
                    for each in outcome.deliveries
                    if each.record.data is not None
                ]
            )


def _heartbeat_answer(said: Any) -> HeartbeatAnswer:
    assigned = said.assignment
    return HeartbeatAnswer(
        said.error_code,
        said.error_message or "",
        said.member_epoch,
        said.heartbeat_interval_ms,
        None
        if assigned is None
        else frozenset(Shard(topic.topic_id, each) for topic in assigned.topic_partitions for each in topic.partitions),
    )
