"""The controller's duties towards the other brokers of its cluster: sessions, and the metadata log as they read it.

Owner: the controller, on its thread. The rules are in `sessions_state` and `metadata_feed`; a plan of theirs is carried out like that of
a command. Fetches that find nothing new wait here until the log grows, or until their time is over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from streamactors.actors.dispatcher import Dispatcher
from streamactors.actors.timing_wheel import Timer
from streamactors.broker.controller.cluster_command import Heartbeat, ProcessEnded, RegisterBroker
from streamactors.broker.controller.command import Command, Facts, Plan
from streamactors.broker.controller.metadata_feed import (
    Fed,
    FetchMetadata,
    FetchSnapshot,
    Leadership,
    Observer,
    Piece,
    feed,
    feed_snapshot,
)
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.controller.plan_partitions import allows_unclean
from streamactors.broker.controller.sessions_state import Sessions
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.quorum import Quorum

_log = logging.getLogger("streamactors.broker.controller")

MOST_WAIT_MS: Final = 30_000.0
CHECKS_PER_SESSION: Final = 10
SHORTEST_CHECK_MS: Final = 10.0
OBSERVED_MS: Final = 300_000
"""For so long after its last fetch a node is described as an observer, as by Apache Kafka."""

Reply = Callable[[Any], object]


class Writing(Protocol):
    """The part of the controller that carries out plans."""

    def facts(self) -> Facts: ...

    @property
    def writing(self) -> bool: ...

    def write(self, made: Plan, reply: Reply, command: Command | None = None) -> None: ...


class Duties:
    """See the module."""

    def __init__(
        self,
        controller: Writing,
        dispatcher: Dispatcher,
        metadata: MetadataLog,
        quorum: Quorum,
        *,
        own_id: int,
        cluster_id: str,
        session_ms: float,
    ) -> None:
        self._controller = controller
        self._dispatcher = dispatcher
        self._metadata = metadata
        self._quorum = quorum
        self._own_id = own_id
        self._sessions = Sessions(own_id, cluster_id, session_ms)
        self._check_ms = max(session_ms / CHECKS_PER_SESSION, SHORTEST_CHECK_MS)
        self._waiting: dict[int, tuple[FetchMetadata, Reply, Timer]] = {}
        self._number = 0
        self._observers: dict[int, Observer] = {}
        self._timer: Timer | None = None

    def start(self) -> None:
        """Give every known broker a session, and look for ended ones from now on."""
        self._sessions.start(self._controller.facts().image, self._now_ms())
        self._timer = self._dispatcher.call_later(self._check_ms, self._check)

    def stop(self) -> None:
        """End the timers; waiting fetches are dropped with their connections."""
        if self._timer is not None:
            self._timer.cancel()
        for _, _, timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()

    def read(self, command: object, reply: Reply) -> bool:
        """Answer a node that reads the metadata log. Return False, and do nothing, for any other command."""
        match command:
            case FetchMetadata():
                self._fetch(command, reply)
            case FetchSnapshot():
                quorum = self._quorum
                piece = Piece(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                if quorum.leads:
                    piece = feed_snapshot(self._metadata, quorum.epoch, command)
                reply(piece._replace(leader=self._leadership()))
            case _:
                return False
        return True

    def carry_out(self, command: object, reply: Reply) -> bool:
        """Carry out a command of another node. Return False, and do nothing, for any other command."""
        match command:
            case RegisterBroker():
                facts = self._controller.facts()
                end = self._metadata.end_offset
                made = self._sessions.register(facts.image, command, end, self._now_ms(), _unclean(facts))
                self._controller.write(made, reply, command)
            case Heartbeat():
                facts = self._controller.facts()
                end = self._metadata.end_offset
                made = self._sessions.heartbeat(facts.image, command, end, self._now_ms(), _unclean(facts))
                self._controller.write(made, reply, command)
            case ProcessEnded():
                facts = self._controller.facts()
                made = self._sessions.process_ended(facts.image, command, _unclean(facts))
                if made.records:
                    _log.warning("broker %d is fenced: its process has ended", command.broker_id)
                self._controller.write(made, reply, command)
            case _:
                return False
        return True

    def observers(self) -> tuple[Observer, ...]:
        """Return the nodes that have read the log lately."""
        oldest_ms = self._dispatcher.clock.wall_ms() - OBSERVED_MS
        return tuple(each for each in self._observers.values() if each.fetched_ms >= oldest_ms)

    def all_have_everything(self) -> bool:
        """Whether every live broker has read the whole log."""
        image, own = self._controller.facts().image, self._own_id
        live = [each for each in image.live_brokers() if each != own]
        asked = (self._observers[each].offset if each in self._observers else -1 for each in live)
        return all(offset >= self._metadata.end_offset for offset in asked)

    def grown(self) -> None:
        """Answer the fetches that wait: the log has new records, or another node leads it."""
        waiting, self._waiting = self._waiting, {}
        for fetch, reply, timer in waiting.values():
            timer.cancel()
            reply(self._fed(fetch, last_chance=True))

    def _fetch(self, fetch: FetchMetadata, reply: Reply) -> None:
        self._note(fetch)
        answer = self._fed(fetch)
        if answer is not None:
            reply(answer)
            return
        self._number += 1
        number = self._number
        wait_ms = min(fetch.max_wait_ms, MOST_WAIT_MS)
        timer = self._dispatcher.call_later(wait_ms, lambda: self._waited(number))
        self._waiting[number] = (fetch, reply, timer)

    def _note(self, fetch: FetchMetadata) -> None:
        now_ms = self._dispatcher.clock.wall_ms()
        before = self._observers.get(fetch.replica_id)
        caught_up_ms = -1 if before is None else before.caught_up_ms
        if fetch.offset >= self._metadata.end_offset:
            caught_up_ms = now_ms
        self._observers[fetch.replica_id] = Observer(
            fetch.replica_id, fetch.directory_id, fetch.offset, now_ms, caught_up_ms
        )

    def _waited(self, number: int) -> None:
        fetch, reply, _ = self._waiting.pop(number)
        reply(self._fed(fetch, last_chance=True))

    def _fed(self, fetch: FetchMetadata, *, last_chance: bool = False) -> Fed | None:
        quorum = self._quorum
        answer: Fed | None = Fed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if quorum.leads:
            answer = feed(self._metadata, quorum.epoch, quorum.high_watermark, fetch, last_chance=last_chance)
        return None if answer is None else answer._replace(leader=self._leadership())

    def _leadership(self) -> Leadership:
        leader = self._quorum.leader
        return Leadership(-1 if leader is None else leader, self._quorum.epoch)

    def _check(self) -> None:
        self._fence_the_silent()
        wait_ms, end_ms = self._check_ms, self._sessions.next_end_ms
        if end_ms is not None:
            wait_ms = min(wait_ms, max(end_ms - self._now_ms(), SHORTEST_CHECK_MS))
        self._timer = self._dispatcher.call_later(wait_ms, self._check)

    def _fence_the_silent(self) -> None:
        while not self._controller.writing:  # a change that is under way ends first; the next check is soon enough
            facts = self._controller.facts()
            ended = self._sessions.expire(facts.image, self._now_ms(), _unclean(facts))
            if ended is None:
                return
            broker_id, made = ended
            _log.warning("broker %d is fenced: no heartbeat within the session timeout", broker_id)
            self._controller.write(made, lambda _: None)

    def _now_ms(self) -> float:
        return self._dispatcher.clock.now_ms()


def _unclean(facts: Facts) -> Callable[[str], bool]:
    return lambda topic: allows_unclean(facts, topic)
