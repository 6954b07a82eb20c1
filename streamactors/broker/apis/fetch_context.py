"""What one Fetch request is about: the partitions that it names, or those of its session that have to be looked at.

Owner: the handler of Fetch, on the data plane. Rules: Apache Kafka's FetchContext (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.partition.log_read import LogSlice
from streamactors.broker.protocol.fetch import FetchRequest, FetchResponse, TopicFetched
from streamactors.broker.replication.follower_reads import is_stale
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.read_replica import STAY
from streamactors.broker.replication.reading import Reading, ReadLimits, Wanted, WantedTopic
from streamactors.broker.replication.sessions.fetch_session import Cached, FetchSession
from streamactors.broker.replication.sessions.session_cache import OPENS
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import AllowAll, Operation, ResourceType, cluster_action

SWEEP_MS: Final = 500.0
"""How often all partitions of a session are checked for a log start that has moved, a disk that has failed, or a lease that has lapsed."""


class WholeFetch:
    """A request that names all its partitions. With session epoch 0 its answer opens a session."""

    session: FetchSession | None = None
    is_current = True

    def __init__(self, request: Request) -> None:
        self._request = request
        self._message: FetchRequest = request.message
        self.is_empty = not self._message.topics

    def wanted(self) -> list[WantedTopic]:
        """Return what to read."""
        readers = _Readers(self._request)
        topics = []
        for topic in self._message.topics:
            _, hosted, error = readers.find(topic.name, topic.topic_id)
            wanted = WantedTopic(topic.name, topic.topic_id)
            for asked in topic.partitions:
                partition = hosted.get(asked.partition)
                wanted.partitions.append(Wanted(asked, partition, ErrorCode.NONE if partition is not None else error))
            topics.append(wanted)
        return topics

    def settle(self, topics: Iterable[WantedTopic], reading: Reading, limits: ReadLimits) -> None:
        """Note that the answer has these reads. Without a session there is nothing to update."""

    def answer(self, response: FetchResponse[LogSlice]) -> FetchResponse[LogSlice]:
        """Return the answer to send."""
        message, node = self._message, self._request.node
        if message.session_epoch != OPENS or self._request.version < 7:
            return response
        session = node.fetch_sessions.open(message, self._request.version, node.clock.now_ms())
        if session is None:
            return response
        for topic in response.topics:
            name = topic.name if topic.topic_id is None else topic.topic_id
            for each in topic.partitions:
                session.has_news(session.entries[name, each.partition], each)
        # The next request looks at every partition again: it may have changed since it was read.
        return response._replace(session_id=session.id)


class SessionFetch:
    """A request that names what has changed in its session."""

    def __init__(self, request: Request, session: FetchSession) -> None:
        self._request = request
        self._epoch: Final = session.epoch
        self.session: Final = session
        self.is_empty = False

    @property
    def is_current(self) -> bool:
        """Whether the session waits for the answer to this request."""
        return self.session.epoch == self._epoch and bool(self.session.entries)

    def wanted(self) -> list[WantedTopic]:
        """Return what to read: the partitions that were touched since their last answer without news."""
        session, request = self.session, self._request
        self._sweep()
        readers = _Readers(request)
        topics: dict[Any, tuple[WantedTopic, Mapping[int, HostedPartition], ErrorCode]] = {}
        for cached in session.in_turn():
            name, index = cached.key
            found = topics.get(name)
            if found is None:
                asked_name, topic_id = ("", name) if isinstance(name, bytes) else (name, None)
                _, hosted, error = readers.find(asked_name, topic_id)
                found = topics[name] = (WantedTopic(asked_name, topic_id), hosted, error)
            topic, hosted, error = found
            topic.partitions.append(_resolved(session, cached, hosted.get(index), error))
        return [topic for topic, _, _ in topics.values()]

    def _sweep(self) -> None:
        session, request = self.session, self._request
        message: FetchRequest = request.message
        rights = _rights(request, session)
        stale = message.replica_id >= 0 and is_stale(request.node, message.replica_id, message.replica_epoch)
        if rights != session.rights or stale or message.rack_id:
            session.rights = rights
            session.touch_all()
        now_ms = request.node.clock.now_ms()
        if now_ms - session.swept_ms >= SWEEP_MS:
            session.swept_ms = now_ms
            for cached in session.entries.values():
                partition = cached.wanted.partition if cached.wanted is not None else None
                if partition is not None:
                    log = partition.log
                    if (
                        log.log_start_offset != cached.log_start_offset
                        or log.offline is not None
                        or (message.replica_id < 0 and partition.is_leader and not partition.has_lease)
                    ):
                        session.touch(cached)

    def settle(self, topics: Iterable[WantedTopic], reading: Reading, limits: ReadLimits) -> None:
        """Note that the answer has these reads. The next answer leaves out each partition without news."""
        self.session.take()
        for topic, answers in zip(topics, reading.response.topics, strict=True):
            for wanted, answer in zip(topic.partitions, answers.partitions, strict=True):
                if wanted.cached is not None and not _is_quiet(wanted, answer, limits):
                    self.session.give_back(wanted.cached)
                    if answer.records != b"":
                        self.session.served(wanted.cached)

    def answer(self, response: FetchResponse[LogSlice]) -> FetchResponse[LogSlice]:
        """Return the answer to send: what has changed for the client."""
        session = self.session
        if not self.is_current:  # the client has sent its next request without waiting for this answer
            release_all(response)
            return FetchResponse([], ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id)
        topics = []
        for topic in response.topics:
            name = topic.name if topic.topic_id is None else topic.topic_id
            news = [
                each
                for each in topic.partitions
                if (cached := session.entries.get((name, each.partition))) is not None
                and session.has_news(cached, each)
            ]
            if news:
                topics.append(TopicFetched(topic.name, topic.topic_id, news))
        return response._replace(topics=topics, session_id=session.id)


def context_of(request: Request) -> WholeFetch | SessionFetch | ErrorCode:
    """Return the context of a request, or the error of its session."""
    node = request.node
    session = node.fetch_sessions.enter(request.message, request.version, node.clock.now_ms())
    if isinstance(session, FetchSession):
        return SessionFetch(request, session)
    return WholeFetch(request) if session is None else session


def release_all(response: FetchResponse[Any]) -> None:
    """Release the records of an answer that is not sent."""
    for topic in response.topics:
        for partition in topic.partitions:
            if not isinstance(partition.records, (bytes, bytearray)):
                partition.records.release()


class _Readers:
    """The partitions of a topic, if the client of a request may read them."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._of_broker = request.message.replica_id >= 0
        self._is_broker = self._of_broker and cluster_action(request) is ErrorCode.NONE

    def find(self, name: str, topic_id: bytes | None) -> tuple[str, Mapping[int, HostedPartition], ErrorCode]:
        request = self._request
        name, hosted, error = request.node.partitions.find(name, topic_id)
        # the offsets that a follower fetches advance the high watermark, so READ is not enough to fetch as a replica
        reads = not self._of_broker and name and request.allowed(Operation.READ, ResourceType.TOPIC, name)
        if name and not self._is_broker and not reads:
            return name, {}, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return name, hosted, error


def _resolved(session: FetchSession, cached: Cached, partition: HostedPartition | None, error: ErrorCode) -> Wanted:
    """Return what to read for a partition of a session, which follows the hosted partition from now on."""
    wanted: Wanted | None = cached.wanted
    if wanted is None or wanted.partition is not partition:
        if wanted is not None and wanted.partition is not None:
            wanted.partition.sessions.pop(session, None)
        wanted = cached.wanted = Wanted(cached.asked, partition, cached=cached)
    if partition is not None:
        partition.sessions[session] = cached
    wanted.asked = cached.asked
    wanted.error = ErrorCode.NONE if partition is not None else error
    wanted.is_throttled = wanted.is_held = False
    return wanted


def _is_quiet(wanted: Wanted, answer: Any, limits: ReadLimits) -> bool:
    """Whether a partition has no news until it is touched."""
    partition = wanted.partition
    if partition is None or answer.error_code or answer.diverging is not None or answer.preferred_replica != STAY:
        return False
    records = answer.records
    if wanted.is_held or not isinstance(records, (bytes, bytearray)) or records:
        return False
    if limits.replica_id >= 0 and limits.replica_id not in partition.isr:
        return False  # each of its fetches may bring it into the ISR
    return wanted.asked.offset >= limits.bound(partition)


def _rights(request: Request, session: FetchSession) -> Any:
    """Return which partitions the client of this request may read. The answer to a session depends on it."""
    if isinstance(request.node.authoriser, AllowAll):
        return None
    if request.message.replica_id >= 0:
        return cluster_action(request)
    partitions = request.node.partitions
    names = dict.fromkeys(name for name, _ in session.entries)
    found = (partitions.find("", name)[0] if isinstance(name, bytes) else name for name in names)
    return [name for name in found if name and request.allowed(Operation.READ, ResourceType.TOPIC, name)]
