"""The writes of groups of one kind that the log has not acknowledged yet.

Owner: `ConsumerKind`, `ShareKind`, `StreamsKind`. A group changes when its coordinator decides, so the next request sees the decision. Answers wait
until the log has the records of everything they depend on. If the log refuses a batch, the group is again what it was before, with the timers of a
group that was just loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from streamactors.broker.coordinator.coordinator_log import KeyValue, Refuse, client_error
from streamactors.broker.coordinator.coordinator_messages import WriteCallbackFailed
from streamactors.broker.coordinator.unwritten import Outcome, StateBehindLog, Unwritten, Write
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_kind import CoordinatedGroup

if TYPE_CHECKING:
    from streamactors.broker.group.group_shard import GroupShard


class GroupWrites:
    """Writes in progress, by group."""

    def __init__(self, shard: GroupShard, fold: Callable[..., Any], encode: Callable[..., KeyValue]) -> None:
        """`fold` makes a group from one before and records, None for a group that is gone; `encode` makes the bytes of a record."""
        self._shard = shard
        self._fold = fold
        self._encode = encode
        self._unwritten: Unwritten[str, CoordinatedGroup] = Unwritten()
        self._waiting: dict[Write[CoordinatedGroup], list[Callable[[ErrorCode], object]]] = {}

    def write(
        self,
        group_id: str,
        base: CoordinatedGroup,
        records: Sequence[Any],
        then: Callable[[ErrorCode], object],
        refuse: Refuse | None = None,
        first: Sequence[KeyValue] = (),
    ) -> None:
        """Make the group the fold of these records, and append `first` and them; call `then` when the log has answered, at once without records."""
        if not records and not first:
            self.when_written(group_id, then)
            return
        groups = self._shard.groups
        before = groups.get(group_id)
        after = self._fold(base, records)
        if after is None:
            groups.pop(group_id, None)
        else:
            groups[group_id] = after
        self._append(group_id, before, [*first, *(self._encode(record) for record in records)], then, refuse)

    def replace(
        self,
        group_id: str,
        group: CoordinatedGroup | None,
        records: Sequence[KeyValue],
        then: Callable[[ErrorCode], object],
    ) -> None:
        """Put a group of another kind in the place of a group, or none, and append these records."""
        before = self._shard.groups.pop(group_id, None)
        if group is not None:
            self._shard.groups[group_id] = group
        self._append(group_id, before, records, then, None)

    def _append(
        self,
        group_id: str,
        before: CoordinatedGroup | None,
        records: Sequence[KeyValue],
        then: Callable[[ErrorCode], object],
        refuse: Refuse | None,
    ) -> None:
        write = self._unwritten.begin(group_id, before)
        self._waiting[write] = [then]
        self._shard.log.write(records, lambda error, _offset: self._written(group_id, write, error), refuse)

    def when_written(self, group_id: str, then: Callable[[ErrorCode], object]) -> None:
        """Call `then` when every write of the group so far is acknowledged."""
        last = self._unwritten.last(group_id)
        if last is None:
            then(ErrorCode.NONE)
        else:
            self._waiting[last].append(then)

    def _written(self, group_id: str, write: Write[CoordinatedGroup], error: ErrorCode) -> None:
        waiting = self._waiting.pop(write)
        outcome = self._unwritten.ended(group_id, write, error)
        if outcome is Outcome.UNDONE:
            self._undo(group_id, write.before)
        for then in waiting:
            then(client_error(error))
        if outcome is Outcome.DOUBTFUL:
            self._shard.tell(WriteCallbackFailed(self._shard.log, StateBehindLog(f"group {group_id}")))

    def _undo(self, group_id: str, before: CoordinatedGroup | None) -> None:
        if before is None:
            self._shard.groups.pop(group_id, None)
            return
        self._shard.groups[group_id] = before
        # The decision has cancelled timers of members who are there again: a client may never ask once more to leave.
        self._shard.kind_of(before).loaded(group_id)
