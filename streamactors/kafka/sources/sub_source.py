"""The source of one partition, which a partitioned source hands out: its handle, its stage and the stage's logic.

Inside the run of the partitioned source (flat_map_merge) its marks carry that source's id. In a separate run they carry their own id,
and records that are done there count in the same way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.fusing.loop import FusedLoop
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.run import Run
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.marks.marks import Assigned, Needs, Revoked
from streamactors.engine.stage import NOT_USED
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BuildError
from streamactors.kafka.reading.feed import PartitionFeed
from streamactors.kafka.sources.lane import AHEAD, Lane, LaneStage
from streamactors.kafka.sources.read_plan import ReadPlan
from streamactors.kafka.subscriptions import TopicPartition

if TYPE_CHECKING:
    from streamactors.kafka.sources.partitioned_logic import PartitionedSourceLogic


class SubSource:
    """The handle of a sub-source, held by the partitioned source and by the stage. The sub-source can be run once. Any thread."""

    def __init__(self, parent: PartitionedSourceLogic, feed: PartitionFeed, plan: ReadPlan) -> None:
        self.parent = parent
        self.feed = feed
        self.plan = plan
        self.finished = False
        """It has reached its own end: a bounded read, a revoked partition, a stopped source."""
        self.failure: BaseException | None = None
        """The error with which a step inside it, or its downstream, failed."""
        self._lock = threading.Lock()
        self._logic: _SubSourceLogic | None = None
        self._closed: tuple[BaseException | None] | None = None
        self._taken = False

    @property
    def key(self) -> TopicPartition:
        return self.feed.key

    def take(self) -> bool:
        """Return True for the first caller, who may run it."""
        with self._lock:
            taken, self._taken = self._taken, True
            return not taken

    def started(self, logic: _SubSourceLogic) -> tuple[BaseException | None] | None:
        """Note that the stage runs. If the partition was closed before, return a tuple of the error, or of None."""
        with self._lock:
            self._logic = logic
            return self._closed

    def switch(self, feed: PartitionFeed) -> None:
        """Continue with a new assignment: the partition was revoked and assigned again at once."""
        with self._lock:
            self.feed = feed
            logic = self._logic
        _post(logic, _SubSourceLogic.read, feed)

    def close(self, error: BaseException | None = None) -> None:
        """Complete the sub-source, or fail it with an error."""
        with self._lock:
            self._closed = (error,)
            logic = self._logic
        _post(logic, _SubSourceLogic.close, error)

    def revoked(self, epoch: int) -> None:
        """The assignment of this epoch is over."""
        _post(self._logic, _SubSourceLogic.on_revoked, epoch)

    def idle(self, silent_ms: float) -> None:
        """Every record of the partition has been delivered."""
        _post(self._logic, _SubSourceLogic.on_idle, silent_ms)


class SubSourceStage(LaneStage):
    """Emit the records of one partition.

    Emits when: records are there and downstream has demand.   Completes when: the partition is revoked, the partitioned source is
    stopped, or a bounded read has reached its end.   Fails when: the consumer fails.
    """

    def __init__(self, sub: SubSource) -> None:
        self.sub = sub
        self.name = str(sub.key)
        self.traits = StageTraits(
            emits_marks=True,
            sampled=True,
            emitted_by=self._emitted_by,
            reads_marks=sub.plan.commits_done,
            needs=Needs("Consumer.partitioned_source, which commits what is done,") if sub.plan.commits_done else None,
        )

    def _emitted_by(self, run: Run) -> tuple[Any, Any] | None:
        parent = self.sub.parent
        return (parent.source, self.sub.key) if run is parent.run and parent.source is not None else None

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        if not self.sub.take():
            raise BuildError(
                f"the source of {self.sub.key} has been run already; a partition's source can be run once: "
                "put a broadcast downstream of it, or use Consumer.source"
            )
        return _SubSourceLogic(self, self.loop, attributes.max_chunk), NOT_USED


class _SubSourceLogic(SourceLogic):
    def __init__(self, stage: SubSourceStage, loop: FusedLoop | None, max_chunk: int | None) -> None:
        self._stage = stage
        self._sub = sub = stage.sub
        self._consumer = sub.parent.consumer
        self._feed = sub.feed
        self._lane = Lane(self, self._consumer, sub.feed, sub.plan.convert, loop, max_chunk)
        self._look_posted = False
        self._in_transaction = False

    def common_name(self) -> str:
        return f"{self._sub.parent.name}: partitions"

    def on_start(self) -> None:
        if not self._lane.begin():
            return
        sub, run = self._sub, self.interpreter.island.run
        closed = sub.started(self)
        if closed is not None:
            self.close(closed[0])
            return
        known = self._stage.traits.emitter_in(run)
        if known is not None:
            self._lane.source = known[0]  # the partitioned source listens
        else:
            self._lane.source = run.source_id(self)
            self._in_transaction = sub.plan.services.listen(run, self._lane.source, self._consumer)
        self._consumer.keep_until_ended(run)
        self.read(sub.feed)

    def read(self, feed: PartitionFeed) -> None:
        """Emit the records of this assignment from now on."""
        self._feed.when_changed(None)
        self._feed = self._lane.feed = feed
        if self._in_transaction and self._consumer.tracker is not None:
            self._consumer.tracker.commits_in_transaction(feed.key, feed.epoch)
        feed.when_changed(self._look_soon)
        self._lane.mark(Assigned, feed.key, feed.epoch)
        self.on_pull(self.out)

    def _look_soon(self) -> None:
        """The feed has changed; any thread."""
        if not self._look_posted:
            self._look_posted = True
            self.interpreter.post(self, self._look, None)

    def _look(self, _: None) -> None:
        self._look_posted = False
        self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        feed = self._feed
        self._lane.push()
        if feed.revoked:
            return
        if feed.end is not None and self._lane.drained and not self._sub.finished:
            self._lane.mark_end(feed.key, feed.epoch, feed.end)
            self.close(None)
        elif out.asked:
            # flat_map_merge asks each source for a few: records that lie ready in the feed make the messages fewer
            self._lane.ask(min(AHEAD, max(self._lane.asked, self._sub.parent.share(feed.record_bytes))))

    def on_revoked(self, epoch: int) -> None:
        self._lane.mark(Revoked, self._feed.key, epoch)

    def on_idle(self, silent_ms: float) -> None:
        self._lane.mark_idle(self._feed.key, silent_ms)

    def close(self, error: BaseException | None) -> None:
        """Complete the stage, or fail it."""
        if self._sub.finished:
            return
        self._sub.finished = True
        if error is None:
            self.complete_stage()
        else:
            self.fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if not isinstance(cause, NonFailureCancellation):
            self._sub.failure = cause
        super().on_cancel(out, cause)

    def on_stop(self) -> None:
        self._feed.when_changed(None)
        if self.failure is not None and not self._sub.finished:
            self._sub.failure = self.failure  # a step inside has failed: nothing downstream cancels with its error
        self._sub.parent.sub_source_ended(self._sub)

    def snapshot_state(self) -> str:
        return f"{self._feed.key}; asked for {self._feed.asked}"


def _post(logic: _SubSourceLogic | None, handler: Callable[[_SubSourceLogic, Any], None], argument: Any) -> None:
    """Have a handler run on the island of the stage, if the stage runs already."""
    if logic is not None:
        logic.interpreter.post(logic, lambda given: handler(logic, given), argument)
