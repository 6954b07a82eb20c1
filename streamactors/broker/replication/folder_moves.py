"""Moves replicas of this broker from one of its data folders to another, as AlterReplicaLogDirs asks (KIP-113).

Owner: the data plane. The rules are in `folder_move_state`, the copy is `log.future_log`. Steps of a copy run on a helper thread, one at a time.
The replacement runs on the data plane, so that no append comes between: it copies and syncs the last records and renames two folders. All copies
together keep to replica.alter.log.dirs.io.max.bytes.per.second; the last records are copied at any rate. A move that a stop of the broker
interrupts begins anew at the next start."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.broker.errors import BrokerError
from streamactors.broker.helpers import HelperOutcome
from streamactors.broker.log.folders.future_log import FutureLog
from streamactors.broker.quotas.sampled_rate import SampledRate
from streamactors.broker.replication import folder_move_state as rules
from streamactors.broker.replication.folder_move_state import ENDED, Move, MovePhase
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.throttling import UNLIMITED, WINDOW_MS, WINDOWS

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

_log = logging.getLogger("streamactors.broker.replication")

STEP_BYTES: Final = 4 << 20
FLUSHES: Final = 10
"""After this number of flushes a copy replaces its log, even if much is written during each of them."""


class FolderMoves:
    """The moves that are under way. `on_moved` is called with each replica that is in another folder now."""

    def __init__(self, node: Runtime, on_moved: Callable[[HostedPartition], object] = lambda _: None) -> None:
        self._node = node
        self._on_moved = on_moved
        self._moves: dict[HostedPartition, Move] = {}
        self._futures: dict[HostedPartition, FutureLog] = {}
        self._waiting: deque[HostedPartition] = deque()
        self._copying = False
        self._stopped = False
        self._rate = SampledRate(WINDOWS, WINDOW_MS)
        self._pause: Timer | None = None

    def resume(self, partitions: Iterable[HostedPartition]) -> None:
        """Restart the moves that a stop of the broker interrupted."""
        moving = self._node.logs.moving
        for partition in partitions:
            folder = moving.pop((partition.topic, partition.index), None)
            if folder is not None:
                self.move(partition, folder.path)
        moving.clear()

    def move(self, partition: HostedPartition, target: Path) -> None:
        """Have a replica in a folder; in the one where it is: end its move."""
        self._step(partition, rules.FolderRequested(None if partition.log.directory.parent == target else target))
        self._drop_unwanted()

    def future_of(self, partition: HostedPartition) -> FutureLog | None:
        """Return the copy of a replica that moves."""
        return self._futures.get(partition)

    def stop(self) -> None:
        """End the copies where they are. On the data plane's thread."""
        self._stopped = True
        self._waiting.clear()
        if self._pause is not None:
            self._pause.cancel()
        for future in self._futures.values():
            future.log.abandon()

    def _step(self, partition: HostedPartition, event: rules.Event) -> None:
        if self._stopped:
            return
        move, effects = rules.step(self._moves.get(partition, ENDED), event)
        self._moves[partition] = move
        for effect in effects:
            if not self._carry_out(partition, effect):
                move = ENDED
                self._moves[partition] = move
                break
        if move.phase is MovePhase.ENDED:
            self._moves.pop(partition, None)

    def _carry_out(self, partition: HostedPartition, effect: rules.Effect) -> bool:
        """Return whether the effects after this one are to be carried out, too."""
        match effect:
            case rules.Begin(target):
                return self._begin(partition, target)
            case rules.Copy():
                self._waiting.append(partition)
                self._copy_next()
            case rules.Replace():
                self._replace(partition, self._futures.pop(partition))
            case rules.Discard():
                self._futures.pop(partition).discard()
        return True

    def _begin(self, partition: HostedPartition, target: Path) -> bool:
        logs = self._node.logs
        folder = logs.folders.of_path(target)
        if folder is None or folder.failure is not None or partition.lost or partition.deleted:
            return False
        try:
            self._futures[partition] = logs.begin_future(partition.log, folder)
        except BrokerError as error:
            _log.error("%s", error)
            return False
        _log.info("%s moves to %s", partition, target)
        return True

    def _copy_next(self) -> None:
        if self._copying or self._pause is not None or not self._waiting:
            return
        limit, clock = self._node.config.replica_alter_log_dirs_io_max_bytes_per_second, self._node.clock
        if limit != UNLIMITED and self._rate.per_second(clock.now_ms()) > limit:
            pause_ms = self._rate.throttle_ms(max(limit, 1), clock.now_ms())
            self._pause = self._node.data_plane.call_later(min(pause_ms, WINDOW_MS), self._go_on)
            return
        partition = self._waiting.popleft()
        future, most_bytes = self._futures[partition], max(min(STEP_BYTES, limit), 1)
        before = future.copied
        self._copying = True

        def copy() -> int:
            left = future.copy(most_bytes, clock.wall_ms())
            if left <= rules.CLOSE:
                after = future.flush()
                return after if future.flushes < FLUSHES else left
            return left

        def copied(outcome: HelperOutcome[int]) -> None:
            self._copying = False
            self._rate.record(future.copied - before, clock.now_ms())
            self._copied(partition, outcome)
            self._drop_unwanted()
            self._copy_next()

        self._node.helpers.run(copy, copied)

    def _go_on(self) -> None:
        """A pause is over. The rate is looked at again: it may have another limit by now."""
        self._pause = None
        self._copy_next()

    def _drop_unwanted(self) -> None:
        """Drop the copies that wait for their next step and are no longer wanted, or are in a folder that has failed."""
        unwanted = [
            each for each in self._waiting if self._moves[each].phase is MovePhase.ENDING or self._target_failed(each)
        ]
        for partition in unwanted:
            self._waiting.remove(partition)  # first all of them: a step may begin another copy
        for partition in unwanted:
            self._step(partition, rules.StepFailed())

    def _target_failed(self, partition: HostedPartition) -> bool:
        """Whether the folder with the copy has failed. The copy itself may not have had an error."""
        folder = self._node.logs.folders.of_path(self._futures[partition].folder)
        return folder is not None and folder.failure is not None

    def _copied(self, partition: HostedPartition, outcome: HelperOutcome[int]) -> None:
        if self._stopped:
            return
        error: object = outcome.error
        if isinstance(error, OSError) and not partition.deleted:
            partition.read_failed(error)
        if error is None and self._target_failed(partition):
            error = f"the data folder {self._futures[partition].folder} has failed"
        if error is None and not partition.deleted and not partition.lost:
            self._step(partition, rules.StepEnded(outcome.get()))
            return
        if error is not None and not partition.deleted:
            _log.error("%s does not move: %s", partition, error)
        self._step(partition, rules.StepFailed())

    def _replace(self, partition: HostedPartition, future: FutureLog) -> None:
        try:
            log = self._node.logs.replace(future)
        except BrokerError as error:
            _log.error("%s does not move: %s", partition, error)
            future.discard()
            return
        partition.moved(log)
        _log.info("%s has moved to %s", partition, future.folder)
        self._on_moved(partition)
