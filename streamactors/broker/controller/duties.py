"""The controller's duties towards the other brokers of its cluster: sessions, and the metadata log as they read it.

Owner: the controller, on its thread. The rules are in `sessions_state`, and a plan of theirs is carried out like that of a command. What
other nodes ask about the metadata log goes to the `Quorum`."""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.controller.cluster_command import Heartbeat, ProcessEnded, RegisterBroker
from streamactors.broker.controller.command import Facts, Outcome, PlannedChange
from streamactors.broker.controller.metadata_feed import AskQuorum, Replica
from streamactors.broker.controller.metadata_log import MetadataLog
from streamactors.broker.controller.rules.plan_partitions import allows_unclean, balance_leaders
from streamactors.broker.controller.sessions_state import Sessions
from streamactors.broker.errors import BrokerError, ErrorCode, StorageShortage
from streamactors.broker.metadata.metadata_record import BrokerRegistration, NoOp
from streamactors.broker.quorum.quorum import Quorum
from streamactors.broker.quorum.raft.raft_messages import Fetch
from streamactors.broker.quorum.voters_history import other_folder
from streamactors.log_limit import log_limited

if TYPE_CHECKING:
    from streamactors.broker.controller.controller import Controller

_log = logging.getLogger("streamactors.broker.controller")

CHECKS_PER_SESSION: Final = 10
SHORTEST_CHECK_MS: Final = 10.0
MOST_REPLICAS: Final = 10_000

Reply = Callable[[Any], object]


class Duties:
    """The sessions of the brokers, the balance of leaders, and the nodes that read the metadata log."""

    def __init__(
        self,
        controller: Controller,
        dispatcher: Dispatcher,
        metadata: MetadataLog,
        quorum: Quorum,
        *,
        own_id: int,
        cluster_id: str,
        session_ms: float,
        balance_ms: float | None = None,
        idle_ms: float = 0.0,
        look_at: Callable[[BrokerRegistration], object] = lambda _: None,
    ) -> None:
        """`balance_ms`: how often the leaders are balanced; None: never. `idle_ms`: how often an idle log gets a no-op record; 0: never. `look_at` finds
        out whether the process of a broker has ended."""
        self._controller = controller
        self._dispatcher = dispatcher
        self._metadata = metadata
        self._quorum = quorum
        self._own_id = own_id
        self._sessions = Sessions(own_id, cluster_id, session_ms)
        self._check_ms = max(session_ms / CHECKS_PER_SESSION, SHORTEST_CHECK_MS)
        self._replicas: dict[int, Replica] = {}
        self._timer: Timer | None = None
        self._check_at_ms = math.inf
        self._waited = False
        self._balance_ms = balance_ms
        self._balance_at_ms = math.inf
        self._idle_ms = idle_ms
        self._idle_timer: Timer | None = None
        self._look_at = look_at

    def start(self) -> None:
        """Give every known broker a session, and look for ended ones from now on."""
        image = self._controller.facts().image
        for broker_id in self._sessions.start(image, self._now_ms()):
            # The broker may have died with the controller before: no heartbeat connection to this node tells of it.
            self._look_at(image.brokers[broker_id])
        if self._balance_ms is not None:
            self._balance_at_ms = self._now_ms() + self._balance_ms
        self._waited = False
        self._check_in(self._check_ms)
        self._look_again(self._metadata.end_offset)

    def stop(self) -> None:
        """End the timers."""
        for timer in (self._timer, self._idle_timer):
            if timer is not None:
                timer.cancel()

    def read(self, command: object, reply: Reply) -> bool:
        """Answer a node that asks this replica of the metadata log. Return False, and do nothing, for any other command."""
        if not isinstance(command, AskQuorum):
            return False
        request = command.request
        if isinstance(request, Fetch):
            self._note(request, command.directory_id)
            named = self._metadata.voter_set
            own = None if named is None else named.directory_of(request.replica)
            if own is not None and command.directory_id is not None and own != command.directory_id:
                request = replace(
                    request, replica=other_folder(request.replica)
                )  # its disk was replaced: it has no vote
        self._quorum.asked(request, reply)
        return True

    def carry_out(self, command: object, reply: Reply) -> bool:
        """Carry out a command of another node. Return False, and do nothing, for any other command."""
        match command:
            case RegisterBroker():
                facts = self._controller.facts()
                end = self._metadata.end_offset
                made = self._sessions.register(facts.image, command, end, self._now_ms(), _unclean(facts))
                self._controller.write(made, reply, command)
            case Heartbeat() if not self._quorum.in_touch:
                # The broker would take the answer for a lease, while another controller gives its partitions other leaders.
                refused = command.refused(Outcome(ErrorCode.NOT_CONTROLLER))
                self._controller.write(PlannedChange([], refused), reply, command)
            case Heartbeat():
                facts = self._controller.facts()
                end = self._metadata.end_offset
                made = self._sessions.heartbeat(facts.image, command, end, self._now_ms(), _unclean(facts))
                self._controller.write(made, reply, command)
            case ProcessEnded():
                facts = self._controller.facts()
                made = self._sessions.process_ended(facts.image, command, _unclean(facts))
                if made.records:
                    log_limited(
                        _log, logging.WARNING, (command.broker_id, "ended"),
                        "broker %d is fenced: its process has ended", command.broker_id,
                    )  # fmt: skip
                self._controller.write(made, reply, command)
            case _:
                return False
        return True

    @property
    def replicas(self) -> Mapping[int, Replica]:
        """The other nodes that have read the log, by id."""
        return self._replicas

    def all_have_everything(self) -> bool:
        """Whether every live broker has read the whole log."""
        image, own = self._controller.facts().image, self._own_id
        live = [each for each in image.live_brokers() if each != own]
        asked = (self._replicas[each].offset if each in self._replicas else -1 for each in live)
        return all(offset >= self._metadata.end_offset for offset in asked)

    def _note(self, fetch: Fetch, directory_id: uuid.UUID | None) -> None:
        now_ms = self._dispatcher.clock.wall_ms()
        before = self._replicas.get(fetch.replica)
        if before is None and len(self._replicas) >= MOST_REPLICAS:
            return
        caught_up_ms = -1 if before is None else before.caught_up_ms
        if fetch.offset >= self._metadata.end_offset:
            caught_up_ms = now_ms
        self._replicas[fetch.replica] = Replica(fetch.replica, directory_id, fetch.offset, now_ms, caught_up_ms)

    def _check_in(self, wait_ms: float) -> None:
        self._check_at_ms = self._now_ms() + wait_ms
        self._timer = self._dispatcher.call_later(wait_ms, self._check)

    def _check(self) -> None:
        # The disk or the process stood still for longer than a session -> this timer comes before the heartbeats that have arrived meanwhile.
        is_late = self._now_ms() - self._check_at_ms > self._check_ms
        if is_late and not self._waited:
            self._waited = True
            self._check_in(self._check_ms)
            return
        self._waited = False
        try:
            self._fence_the_silent()
            self._balance_leaders()
        except StorageShortage:
            pass  # the data folder has said so; the next check tries again
        except BrokerError as error:
            _log.warning("a change of sessions or leaders cannot be written: %s", error)  # the next check tries again
        wait_ms, end_ms = self._check_ms, self._sessions.next_end_ms
        if end_ms is not None:
            wait_ms = min(wait_ms, max(end_ms - self._now_ms(), SHORTEST_CHECK_MS))
        self._check_in(wait_ms)

    def _fence_the_silent(self) -> None:
        now_ms = self._now_ms()  # a record that fences takes its time on the disk, and heartbeats wait meanwhile
        while not self._controller.writing:  # a change that is under way ends first; the next check is soon enough
            facts = self._controller.facts()
            ended = self._sessions.expire(facts.image, now_ms, _unclean(facts))
            if ended is None:
                return
            broker_id, made = ended
            _log.warning("broker %d is fenced: no heartbeat within the session timeout", broker_id)
            self._controller.write(made, lambda _: None)

    def _look_again(self, end_offset: int) -> None:
        if self._idle_ms:
            self._idle_timer = self._dispatcher.call_later(self._idle_ms, partial(self._end_idleness, end_offset))

    def _end_idleness(self, end_offset: int) -> None:
        """Write a no-op record if the log has not grown since the last look. The record tells every reader that it is up to date."""
        if not self._controller.writing and self._metadata.end_offset == end_offset:
            try:
                self._controller.write(PlannedChange([NoOp()], None), lambda _: None)
            except StorageShortage:
                pass  # the next look tries again
            except BrokerError as error:
                _log.warning("no-op records are no longer written: %s", error)
                return
        self._look_again(self._metadata.end_offset)

    def _balance_leaders(self) -> None:
        if self._balance_ms is None or self._now_ms() < self._balance_at_ms or self._controller.writing:
            return
        self._balance_at_ms = self._now_ms() + self._balance_ms
        made = balance_leaders(self._controller.facts())
        if made.records:
            _log.info("%d partitions get their preferred leader, or any other", made.answer)
            self._controller.write(made, lambda _: None)

    def _now_ms(self) -> float:
        return self._dispatcher.clock.now_ms()


def _unclean(facts: Facts) -> Callable[[str], bool]:
    return lambda topic: allows_unclean(facts, topic)
