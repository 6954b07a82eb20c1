"""The share partitions of one partition of `__share_group_state`: decides by the rules, writes, and answers when it is written.

Owner: the partition's coordinator actor. A change counts for the next request at once, as in Apache Kafka. If it cannot be written, the
share partition is as it was before (`coordinator/unwritten.py`)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from streamactors.broker.coordinator.coordinator_actor import Tell
from streamactors.broker.coordinator.coordinator_log import CoordinatorLog, client_error
from streamactors.broker.coordinator.coordinator_messages import WriteCallbackFailed
from streamactors.broker.coordinator.unwritten import Outcome, StateBehindLog, Unwritten, Write
from streamactors.broker.errors import ErrorCode
from streamactors.broker.share.state.share_asks import (
    PruneSweep,
    Reply,
    SnapshotSweep,
    StateAnswer,
    TopicsGone,
    ToShareState,
)
from streamactors.broker.share.state.share_state import ShareKey, Stored
from streamactors.broker.share.state.share_state_record import LoadedStates, tombstone
from streamactors.broker.share.state.share_state_rules import Decision, Known, decide, snapshot_of


@dataclass(frozen=True, slots=True)
class ShareStateRules:
    """The broker's settings for the share coordinator."""

    updates_per_snapshot: int = 500
    snapshot_interval_ms: int = 300_000


class ShareStateShard:
    """Share partitions of one partition of the topic."""

    def __init__(
        self,
        name: str,
        log: CoordinatorLog,
        wall_ms: Callable[[], int],
        rules: ShareStateRules,
        partitions_of: Callable[[uuid.UUID], int],
        trim: Callable[[int], object],
        tell: Tell,
    ) -> None:
        """`partitions_of` returns the number of partitions of a topic, 0 if there is no such topic. `trim` deletes the records of this
        partition below an offset."""
        self.name = name
        self.log = log
        self.states: dict[ShareKey, Stored] = {}
        self._unwritten: Unwritten[ShareKey, Stored] = Unwritten()
        self._snapshots: dict[ShareKey, int] = {}
        """The offset of the last snapshot of each share partition: the records before the lowest are not needed."""
        self._wall_ms = wall_ms
        self._rules = rules
        self._partitions_of = partitions_of
        self._trim = trim
        self._trimmed = 0
        self._newest = 0  # offset of the last record that this shard has written
        self._tell = tell
        self.serves: Final[Mapping[type, Callable[[Any], object]]] = {
            ToShareState: self._serve,
            SnapshotSweep: self._snapshot_old,
            PruneSweep: self._prune,
            TopicsGone: self._forget_topics,
        }

    def take_over(self, loaded: LoadedStates) -> None:
        """Take over the states of the log."""
        self.states, self._snapshots = loaded

    def close(self) -> None:
        """A request that waits for the log is answered when the log reports."""

    def _serve(self, message: ToShareState) -> None:
        key = message.key
        exists = key.partition < self._partitions_of(key.topic_id)
        known = Known(exists, self._wall_ms(), self._rules.updates_per_snapshot)
        decision = decide(key, self.states.get(key), message.ask, known)
        if decision.record is None:
            message.reply_to(decision.answer)
        else:
            self._write(key, decision, message.reply_to)

    def _write(self, key: ShareKey, decision: Decision, reply: Reply | None = None) -> None:
        assert decision.record is not None
        write = self._unwritten.begin(key, self.states.get(key))
        self._put(key, decision.after)
        refuse = None if reply is None else lambda error: reply(StateAnswer(error, error.name))
        self.log.write([decision.record], partial(self._written, key, decision, write, reply), refuse)

    def _put(self, key: ShareKey, state: Stored | None) -> None:
        if state is None:
            self.states.pop(key, None)
        else:
            self.states[key] = state

    def _written(
        self,
        key: ShareKey,
        decision: Decision,
        write: Write[Stored],
        reply: Reply | None,
        error: ErrorCode,
        offset: int,
    ) -> None:
        outcome = self._unwritten.ended(key, write, error)
        if outcome is Outcome.UNDONE:
            self._put(key, write.before)
        elif outcome is Outcome.DOUBTFUL:
            self._tell(WriteCallbackFailed(self.log, StateBehindLog(key.coordinator_key)))
        if error is not ErrorCode.NONE:
            told = client_error(error)
            if reply is not None:
                reply(StateAnswer(told, told.name))
            return
        self._newest = offset
        if decision.after is None:
            self._snapshots.pop(key, None)
        elif decision.is_snapshot and key in self.states:
            self._snapshots[key] = offset
        if reply is not None:
            reply(decision.answer)

    def _snapshot_old(self, _: SnapshotSweep) -> None:
        # A share partition that nobody uses holds the whole log back. It gets one such snapshot after its last regular one.
        if all(each.state.created_ms != each.state.written_ms for each in self.states.values()):
            return
        now_ms = self._wall_ms()
        for key, stored in tuple(self.states.items()):
            if now_ms - stored.state.written_ms >= self._rules.snapshot_interval_ms:
                self._write(key, snapshot_of(key, stored, now_ms))

    def _prune(self, _: PruneSweep) -> None:
        oldest = min(self._snapshots.values(), default=self._newest)
        if oldest > self._trimmed:
            self._trimmed = oldest
            self._trim(oldest)

    def _forget_topics(self, gone: TopicsGone) -> None:
        for key in [each for each in self.states if each.topic_id in gone.topic_ids]:
            self._write(key, Decision(StateAnswer(), tombstone(key)))
