"""Follows the metadata log without a vote: asks the leader for records and snapshots, and stores them.

Owner: the thread of one dispatcher. The rules are in `observer_state`; it writes the log through `MetadataCopy`. One request is under way
at any time."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.errors import BrokerError, ErrorCode, StorageError, StorageShortage
from streamactors.broker.network.buffers import Buffers
from streamactors.broker.network.outgoing.channel import Channel
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer
from streamactors.broker.network.outgoing.channel_maker import ChannelMaker
from streamactors.broker.network.outgoing.opening import Address
from streamactors.broker.quorum.observer_state import (
    Append,
    Commit,
    EndOfLog,
    Fetch,
    Fetched,
    FetchSnapshot,
    LeaderChanged,
    ObserverState,
    Refused,
    Truncate,
    Wait,
)
from streamactors.broker.quorum.raft import raft_messages
from streamactors.broker.quorum.raft.raft_wire import FETCH, FETCH_SNAPSHOT, Sender, fetch_body, snapshot_body

if TYPE_CHECKING:
    from streamactors.broker.membership.member import Member
    from streamactors.broker.membership.metadata_copy import MetadataCopy

_log = logging.getLogger("streamactors.broker.quorum")

MAX_WAIT_MS: Final = 500
MAX_SNAPSHOT_BYTES: Final = 1 << 30
FETCH_TIMEOUT_MS: Final = 2_000.0
DAMAGE_RETRY_MS: Final = 1_000.0
SHORTAGE_RETRY_MS: Final = 1_000.0


class Observer:
    """An observer of one quorum."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        log: MetadataCopy,
        owner: Member,
        bootstrap: Sequence[Address],
        *,
        node_id: int,
        cluster_id: str,
        directory_id: uuid.UUID | None,
        buffers: Buffers,
        to_controllers: ChannelMaker,
    ) -> None:
        self._dispatcher = dispatcher
        self._copy = log
        self._owner = owner
        self._sender = Sender(node_id, cluster_id, directory_id)
        self._buffers = buffers
        self._to_controllers = to_controllers
        self._state = ObserverState(bootstrap, max(log.end().last_epoch, 0))
        self._channel: Channel | None = None
        self._timer: Timer | None = None
        self._stopped = False
        self._committed = self._reported = -1

    def start(self) -> None:
        """Begin to follow. On the dispatcher's thread."""
        self._ask()

    def stop(self) -> None:
        """Stop following. On the dispatcher's thread."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._channel is not None:
            self._channel.close("this node stops")

    # --- the log ---

    def _ask(self) -> None:
        if self._stopped:
            return
        log = self._copy.end()
        fetch = self._state.next_fetch(log)
        asked = raft_messages.Fetch(
            fetch.leader_epoch,
            self._sender.node_id,
            fetch.offset,
            fetch.last_epoch,
            fetch.high_watermark,
            MAX_WAIT_MS,
        )
        body = fetch_body(asked, self._sender)
        self._channel_to(fetch.address).request(*FETCH, body, partial(self._fetched, fetch, log), FETCH_TIMEOUT_MS)

    def _fetched(self, asked: Fetch, log: EndOfLog, answer: ChannelAnswer) -> None:
        if self._stopped:
            return
        if answer.error is not None:
            _log.debug("the metadata log cannot be fetched: %s", answer.error)
            self._carry_out(self._state.failed())
            return
        fetched = _fetched_of(answer.value)
        self._carry_out(self._state.answered(asked, fetched, log))

    def _carry_out(self, effects: Sequence[object]) -> None:
        delay_ms = 0.0
        try:
            for effect in effects:
                match effect:
                    case Append(records):
                        self._copy.append(records)
                    case Truncate(epoch, end_offset):
                        self._copy.truncate(epoch, end_offset)
                    case Commit(high_watermark):
                        self._committed = high_watermark
                    case LeaderChanged(leader_id, epoch, address):
                        self._owner.leader_changed(leader_id, epoch, address)
                    case FetchSnapshot():
                        self._ask_snapshot(effect, bytearray())
                        return
                    case Refused(error):
                        self._stopped = True
                        self._owner.refused(error)
                        return
                    case Wait(ms):
                        delay_ms = ms
            self._tell_committed()
        except StorageShortage:
            delay_ms = SHORTAGE_RETRY_MS  # the data folder has said so
        except StorageError as error:
            self._halt(error)
            return
        except BrokerError as error:  # a damaged batch: ask again, in case it was damaged on the way
            _log.error("the metadata log cannot be followed: %s", error)
            delay_ms = DAMAGE_RETRY_MS
        self._ask_after(delay_ms)

    def _tell_committed(self) -> None:
        """Tell the owner what is committed, when the log has all of it."""
        # A log that lacks many records grows by several answers. By the metadata of the first ones a starting broker would take topics for deleted, and remove
        # their logs.
        if self._reported < self._committed <= self._copy.end().end_offset:
            self._reported = self._committed
            self._owner.committed(self._committed)

    def _halt(self, error: StorageError) -> None:
        """Stop: a log that has failed takes no further records until a restart."""
        _log.error("the metadata log cannot be stored: %s", error)
        self.stop()
        self._owner.halted(error)

    def _ask_after(self, delay_ms: float) -> None:
        if not self._stopped:
            self._timer = self._dispatcher.call_later(delay_ms, self._ask)

    # --- snapshots ---

    def _ask_snapshot(self, wanted: FetchSnapshot, content: bytearray) -> None:
        snapshot = (wanted.epoch, wanted.end_offset)
        asked = raft_messages.FetchSnapshot(wanted.leader_epoch, self._sender.node_id, snapshot, len(content))
        body = snapshot_body(asked, self._sender)
        channel = self._channel_to(wanted.address)
        channel.request(*FETCH_SNAPSHOT, body, partial(self._got_piece, wanted, content), FETCH_TIMEOUT_MS)

    def _got_piece(self, wanted: FetchSnapshot, content: bytearray, answer: ChannelAnswer) -> None:
        if self._stopped:
            return
        if answer.error is not None or answer.value.error_code or not answer.value.topics:
            self._carry_out(self._state.failed())
            return
        piece = answer.value.topics[0].partitions[0]
        if piece.error_code or piece.position != len(content) or not 0 < piece.size <= MAX_SNAPSHOT_BYTES:
            # The leader has a newer snapshot by now, or another node leads: fetch says which.
            self._carry_out(self._state.failed())
            return
        content += piece.unaligned_records
        if len(content) < piece.size and len(piece.unaligned_records):
            self._ask_snapshot(wanted, content)
            return
        try:
            self._copy.install(wanted.epoch, wanted.end_offset, content)
        except StorageShortage:
            self._ask_after(SHORTAGE_RETRY_MS)
            return
        except StorageError as error:
            self._halt(error)
            return
        except BrokerError as error:
            _log.error("the snapshot of %s cannot be used: %s", self._channel, error)
            self._ask_after(DAMAGE_RETRY_MS)
            return
        self._ask()

    def _channel_to(self, address: Address) -> Channel:
        if self._channel is None or self._channel.address != address:
            if self._channel is not None:
                self._channel.close("another node leads")
            name = f"broker-{self._sender.node_id}-raft"
            self._channel = self._to_controllers.channel(
                self._dispatcher, address, name, self._buffers, timeout_ms=FETCH_TIMEOUT_MS
            )
        return self._channel


def _fetched_of(answer: Any) -> Fetched:
    endpoints = {each.node_id: (each.host, each.port) for each in getattr(answer, "node_endpoints", ())}
    if answer.error_code or not answer.responses:
        return Fetched(ErrorCode(answer.error_code), -1, -1, endpoints)
    partition = answer.responses[0].partitions[0]
    leader, diverging, snapshot = partition.current_leader, partition.diverging_epoch, partition.snapshot_id
    return Fetched(
        ErrorCode(partition.error_code),
        leader.leader_id,
        leader.leader_epoch,
        endpoints,
        partition.high_watermark,
        partition.records or b"",
        (diverging.epoch, diverging.end_offset),
        (snapshot.epoch, snapshot.end_offset),
    )
