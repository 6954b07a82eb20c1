"""ShareFetch: a member of a share group acquires records, and acknowledges others (KIP-932).

Versions: 1-2 (2 acquire mode KIP-1206, renewal KIP-1222).   Authorised: READ GROUP; READ each TOPIC.
Errors: UNSUPPORTED_VERSION (share.version is 0), INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED, SHARE_SESSION_NOT_FOUND,
INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED; by partition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED,
NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, errors of the share coordinator; for acknowledgements those of ShareAcknowledge.
Differs from Apache Kafka: records are read when the fetch ends; a helper thread reads what is not in the page cache, and only
then the other fetches of the group wait. A first request on an older connection than that of the member's session comes too late, and is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from streamactors.broker.apis.share_requests import (
    Outcomes,
    acknowledge_all,
    by_topic,
    leader_of,
    places_of,
    refusals,
    session_key,
)
from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import BrokerError, ErrorCode, Refusal
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.network.connection import ServerConnection
from streamactors.broker.protocol.share_fetch import encode_share_fetch_response
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import each
from streamactors.broker.share.fetching.batch_walk import warm_up_to
from streamactors.broker.share.fetching.delayed_share_fetch import DelayedShareFetch
from streamactors.broker.share.fetching.led_share_partition import LedSharePartition, Outcome
from streamactors.broker.share.fetching.share_partitions import SharePartitions
from streamactors.broker.share.fetching.share_reading import (
    Cold,
    ShareLimitsOfFetch,
    ShareRead,
    ShareReader,
    acquirable,
)
from streamactors.broker.share.fetching.share_sessions import CLOSES, OPENS, Place, ShareSession
from streamactors.broker.share.partition.acquiring import Want
from streamactors.broker.share.state.share_state import ShareKey
from streamactors.log_limit import alike, log_limited

_log = logging.getLogger("streamactors.broker.share")

_HELPS: Final = 3
"""How often a fetch has a helper thread read for it. Pages that have gone again by then are waited for."""
_RECORD_LIMIT: Final = 1
"""The acquire mode that never gives more records than were asked for."""


class _Asked(NamedTuple):
    """A request with its session. `first`: it has opened the session."""

    request: Request
    session: ShareSession
    named: Mapping[Place, Any]
    first: bool

    @property
    def renews(self) -> bool:
        return self.request.version >= 2 and bool(self.request.message.is_renew_ack)

    @property
    def closes(self) -> bool:
        return bool(self.request.message.share_session_epoch == CLOSES)


class _Guard:
    """Ends a session when its connection closes."""

    def __init__(self, connection: ServerConnection, partitions: SharePartitions, session: ShareSession) -> None:
        self.connection_id = connection.id
        self._connection = connection
        self._partitions = partitions
        self._session = session
        session.guard = self
        connection.unfinished.add(self)

    def force_complete(self) -> bool:
        self.detach()
        self._partitions.leave(self._session)
        return True

    def detach(self) -> None:
        self._connection.unfinished.discard(self)


def handle(request: Request) -> Body | Later:
    try:
        asked = _enter(request)
    except Refusal as refusal:
        body: Body = {"error_code": refusal.code, "error_message": refusal.message}
        if refusal.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return body
        # Clients ask again at once.
        reply = request.answer_with(lambda: body)
        request.node.client_timers.call_later(max(request.message.max_wait_ms, 0), reply)
        return LATER

    @request.answer_with
    def answered(found: list[Any]) -> Body:
        return _answer(asked, *found)

    gather([partial(_fetch, asked), partial(_acknowledge, asked)], answered)
    return LATER


def _enter(request: Request) -> _Asked:
    message, partitions = request.message, request.node.share_partitions
    key = session_key(request)
    named = places_of(message.topics)
    epoch = message.share_session_epoch
    if request.version >= 2 and message.is_renew_ack:
        _check_renewal(message)
    if epoch != OPENS:
        session = partitions.sessions.enter(key, epoch)
        if epoch != CLOSES:
            forgotten = [Place(t.topic_id, each) for t in message.forgotten_topics_data for each in t.partitions]
            session.update(named, forgotten)
        return _Asked(request, session, named, False)
    if any(each.acknowledgement_batches for each in named.values()):
        raise Refusal(ErrorCode.INVALID_REQUEST)
    before = partitions.sessions.get(key)
    if before is not None and before.guard is not None and request.connection.id < before.guard.connection_id:
        # The member left this connection for a newer one. Its end would release what the member holds by now.
        raise Refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "the member has a session on a newer connection")
    session = partitions.sessions.open(key, named)
    _Guard(request.connection, partitions, session)
    return _Asked(request, session, named, True)


def _check_renewal(message: Any) -> None:
    """A request that renews locks fetches nothing."""
    wrong = [
        f"{name} must be set to 0, "
        for name, value in (
            ("maxBytes", message.max_bytes),
            ("minBytes", message.min_bytes),
            ("maxRecords", message.max_records),
            ("maxWaitMs", message.max_wait_ms),
        )
        if value
    ]
    if wrong:
        raise Refusal(ErrorCode.INVALID_REQUEST, "".join(wrong) + "if isRenewAck is true.")


def _acknowledge(asked: _Asked, then: Callable[[Outcomes], object]) -> None:
    acknowledge_all(asked.request, asked.session.key, asked.named, then)


def _fetch(asked: _Asked, then: Callable[[Mapping[Place, ShareRead]], object]) -> None:
    """Acquire records of the session's partitions, when there are some or the time is over."""
    request, session = asked.request, asked.session
    message, node = request.message, request.node
    places = [] if asked.closes or asked.renews else session.in_turn(message.share_session_epoch)
    found = {place: ShareRead(why.error, why.message) for place, why in refusals(request, places).items()}
    led: dict[Place, LedSharePartition] = {}
    for place in places if message.max_records > 0 and message.max_bytes > 0 else ():
        if place not in found:
            one = node.share_partitions.led(ShareKey(session.key.group_id, *place))
            if isinstance(one, ErrorCode):
                found[place] = ShareRead(one)
            else:
                led[place] = one
    if not led:
        then(found)
        return
    limits = _limits(asked)
    _wait(asked, led, limits, _Read(asked, led, found, limits, then))


def _limits(asked: _Asked) -> ShareLimitsOfFetch:
    request = asked.request
    message, node = request.message, request.node
    max_bytes = min(message.max_bytes, node.config.fetch_max_bytes)
    if node.charging is not None:
        max_bytes = node.charging.most_bytes(request, max_bytes)
    strict = request.version >= 2 and message.share_acquire_mode == _RECORD_LIMIT
    want = Want(message.max_records, max(message.batch_size, 1), strict)
    committed = node.share_partitions.config_of(asked.session.key.group_id).read_committed
    return ShareLimitsOfFetch(min(message.min_bytes, max_bytes), max_bytes, want, committed)


def _wait(
    asked: _Asked, led: Mapping[Place, LedSharePartition], limits: ShareLimitsOfFetch, done: Callable[[], object]
) -> None:
    unfinished = asked.request.connection.unfinished

    def completed() -> None:
        unfinished.discard(delayed)
        done()

    delayed = DelayedShareFetch(tuple(led.values()), limits, asked.request.message.max_wait_ms, completed)
    unfinished.add(delayed)
    delayed.wait(asked.request.node)


class _Read:
    """Reads the share partitions of one fetch, if need be with a helper thread between, and calls `then` with what was found."""

    def __init__(
        self,
        asked: _Asked,
        led: Mapping[Place, LedSharePartition],
        found: dict[Place, ShareRead],
        limits: ShareLimitsOfFetch,
        then: Callable[[Mapping[Place, ShareRead]], object],
    ) -> None:
        self._asked = asked
        self._led = led
        self._found = found
        self._limits = limits
        self._then = then
        self._helped = 0

    def __call__(self) -> None:
        self._reader = ShareReader(len(acquirable(self._led.values())), self._asked.session.key.member_id, self._limits)
        self._go_on(self._led.values())

    def _go_on(self, partitions: Iterable[LedSharePartition]) -> None:
        reader, now_ms = self._reader, self._asked.request.node.share_partitions.now_ms()
        if not self._is_wanted():
            reader.release()
            self._then({})
            return
        cold = reader.read(partitions, now_ms, wait=self._helped >= _HELPS)
        if cold:
            self._warm(cold)
            return
        for place, led in self._led.items():
            if led in reader.found:
                self._found[place] = reader.found[led]
            elif led.failure.error:
                self._found[place] = ShareRead(led.failure.error, led.failure.message)
        self._then(self._found)

    def _is_wanted(self) -> bool:
        """Whether the client is still there. One that has gone would hold locks for nothing."""
        asked = self._asked
        sessions = asked.request.node.share_partitions.sessions
        return not asked.request.connection.closed and sessions.get(asked.session.key) is asked.session

    def _warm(self, cold: Sequence[Cold]) -> None:
        self._helped += 1
        for one in cold:
            one.led.is_being_read = True

        def warm() -> None:
            for one in cold:
                warm_up_to(one.piece, one.up_to)

        def warmed(outcome: HelperOutcome[None]) -> None:
            for one in cold:
                one.piece.release()
                one.led.is_being_read = False
            try:
                if outcome.error is not None:
                    self._failed(cold, outcome.error)
                self._go_on([one.led for one in cold] if outcome.error is None else ())
            finally:
                for one in cold:
                    if not one.led.is_being_read:
                        one.led.read_ended()

        self._asked.request.node.helpers.run(warm, warmed)

    def _failed(self, cold: Sequence[Cold], error: BaseException) -> None:
        log_limited(
            _log, logging.ERROR, alike(error),
            "%r: reading %d share partitions failed: %s", self._asked.request, len(cold), error,
        )  # fmt: skip
        code = error.code if isinstance(error, BrokerError) else ErrorCode.KAFKA_STORAGE_ERROR
        self._reader.found.update({one.led: ShareRead(code) for one in cold})


def _answer(asked: _Asked, found: Mapping[Place, ShareRead], outcomes: Outcomes) -> Body:
    request, session = asked.request, asked.session
    partitions = request.node.share_partitions
    if asked.closes:
        partitions.leave(session)
    nodes: dict[int, dict[str, Any]] = {}
    answers: dict[Place, dict[str, Any]] = {}
    for place, read in found.items():
        if asked.first or read.records or read.error or place in session.named:
            session.named.discard(place)
            if read.error:
                session.named.add(place)
            answers[place] = _partition(request, place, read, outcomes.get(place), nodes)
    for place, outcome in outcomes.items():
        if place not in answers:
            answers[place] = _partition(request, place, ShareRead(), outcome, nodes)
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "acquisition_lock_timeout_ms": partitions.config_of(session.key.group_id).limits.lock_ms,
        "responses": by_topic(answers),
        "node_endpoints": list(nodes.values()),
    }


def _partition(
    request: Request, place: Place, read: ShareRead, acknowledged: Outcome | None, nodes: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    outcome = Outcome() if acknowledged is None else acknowledged
    return {
        "partition_index": place.partition,
        "error_code": read.error,
        "error_message": read.message,
        "acknowledge_error_code": outcome.error,
        "acknowledge_error_message": outcome.message,
        "current_leader": leader_of(request, place, read.error or outcome.error, nodes),
        "records": read.records,
        "acquired_records": read.acquired,
    }


API: Final = Api(
    key=78,
    versions=(1, 2),
    authorise=each,
    handle=handle,
    refuse=lambda _, code: {"error_code": code},
    encode=encode_share_fetch_response,
)
