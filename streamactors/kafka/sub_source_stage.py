"""The stage of a sub-source: emits the records of one partition, with a mark behind each chunk.

Inside the run of its partitioned source (flat_map_merge) its marks bear that source's name; in a run of its own they bear their own, and
what is done there counts just the same."""

from __future__ import annotations

from copy import copy
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.attributes import Attributes
from streamactors.engine.causes import NonFailureCancellation
from streamactors.engine.connection import Connection
from streamactors.engine.fused_loop import FusedLoop, Op
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.marks import Assigned, EndOfInput, Handling, Idle, Needs, Revoked
from streamactors.engine.run import Run
from streamactors.engine.stage import NOT_USED, SOURCE, GraphStage
from streamactors.errors import BuildError
from streamactors.kafka.commit_routes import routes_of
from streamactors.kafka.committable import Origin
from streamactors.kafka.consumer_messages import CommitNow, Commits, RequestRecords
from streamactors.kafka.consumer_state import Delivery
from streamactors.kafka.partition_feed import PartitionFeed
from streamactors.kafka.received_runs import columns, offset_of, wrapped
from streamactors.kafka.source_logic import AHEAD
from streamactors.kafka.source_steps import SourceSteps
from streamactors.kafka.sub_source import SubSource
from streamactors.kafka.transaction import transaction_of


class SubSourceStage(GraphStage):
    """Emit the records of one partition.

    Emits when: records are there and downstream has demand.   Completes when: the partition is revoked, the partitioned source is
    stopped, or a bounded read has reached its end.   Fails when: the consumer fails.
    """

    shape = SOURCE
    emits_marks = True

    def __init__(self, sub: SubSource) -> None:
        self.sub = sub
        self.loop: FusedLoop | None = None
        self.name = str(sub.key)
        self.reads_marks = sub.commits is Commits.MARKS
        self.needs = Needs("Consumer.partitioned_source, which commits what is done,") if self.reads_marks else None

    def known_as(self, run: Run) -> tuple[Any, Any] | None:
        parent = self.sub.parent
        return (parent.source, self.sub.key) if run is parent.run and parent.source is not None else None

    def with_steps(self, ops: tuple[Op, ...], handling: Handling, name: str | None) -> SubSourceStage:
        """Return this source, known by a name, with the maps, filters and scans behind it inside."""
        fused = copy(self)
        fused.name = "+".join([name or self.label, *(op.attributes.name or op.label for op in ops)])
        fused.loop, fused.steps = FusedLoop(ops), handling
        return fused

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        if not self.sub.take():
            raise BuildError(
                f"the source of {self.sub.key} has been run already; a partition's source can be run once: "
                "put a broadcast behind it, or use Consumer.source"
            )
        return _SubSourceLogic(self, attributes.max_chunk), NOT_USED


class _SubSourceLogic(SourceLogic):
    def __init__(self, stage: SubSourceStage, max_chunk: int | None) -> None:
        self._stage = stage
        self._steps = None if stage.loop is None else SourceSteps(stage.loop, max_chunk)
        self._sub = stage.sub
        self._feed = stage.sub.feed
        self._source: Any = None
        self._origin: Origin | None = None
        self._told = False
        self._in_transaction = False

    def on_start(self) -> None:
        error = None if self._steps is None else self._steps.begin(self.interpreter)
        if error is not None:
            self.fail_stage(error)
            return
        sub, run = self._sub, self.interpreter.island.run
        closed = sub.started(self)
        if closed is not None:
            self._close(closed[0])
            return
        known = self._stage.known_as(run)
        if known is not None:
            self._source = known[0]  # the partitioned source listens
        else:
            self._source = run.source_id(self)
            self._listen(run)
        if run is not sub.parent.run:
            sub.parent.wait_for(run)
        self._read(sub.feed)

    def _listen(self, run: Run) -> None:
        tracker = self._sub.parent.tracker
        if tracker is None or self._source is None:
            return

        if self._sub.commits is Commits.OFFSETS:
            routes_of(run).source(self._source, tracker, tracker.done_everywhere, self._commit)
            return
        transaction = transaction_of(run)
        if transaction.commits_any(frozenset((self._source,))):
            self._in_transaction = True  # of the sinks it reaches: positions and results together
            parent = self._sub.parent
            transaction.source(self._source, tracker, parent.group_metadata, parent.renew_membership)
        run.progress.listen(self._source, tracker.done_everywhere)

    def _read(self, feed: PartitionFeed) -> None:
        self._feed.read_by(None)
        self._feed = feed
        self._origin = None
        tracker = self._sub.parent.tracker
        if self._in_transaction and tracker is not None:
            tracker.commits_in_transaction(feed.key, feed.epoch)
        feed.read_by(self)
        if self._source is not None:
            self.out.mark(Assigned((self._source, feed.key), feed.epoch))
        self._push()
        self._ask()

    # ── any thread ────────────────────────────────────────────────────────────────────────────────────────────────

    def look(self) -> None:
        if not self._told:
            self._told = True
            self.interpreter.post(self, self._on_look, None)

    def switch(self, feed: PartitionFeed) -> None:
        self.interpreter.post(self, self._read, feed)

    def close(self, error: BaseException | None) -> None:
        self.interpreter.post(self, self._close, error)

    def revoked(self, epoch: int) -> None:
        self.interpreter.post(self, self._on_revoked, epoch)

    def idle(self, silent_ms: float) -> None:
        self.interpreter.post(self, self._on_idle, silent_ms)

    def _commit(self, reply: StreamFuture[None]) -> None:
        self._sub.parent.tell(CommitNow(reply))

    # ── on the island ─────────────────────────────────────────────────────────────────────────────────────────────

    def _on_look(self, _: None) -> None:
        self._told = False
        self._push()
        self._ask()

    def on_pull(self, out: Connection) -> None:
        self._push()
        self._ask()

    def _ask(self) -> None:
        feed = self._feed
        if not self.out.asked or feed.revoked:
            return
        # flat_map_merge asks each source for a small share: what lies ahead in the feed makes the messages few
        ahead = min(AHEAD, max(self.out.asked, self._sub.parent.ahead(feed.record_bytes)))
        if self._steps is not None:
            ahead = min(ahead, self._steps.pace.window)
        wanted = ahead - feed.asked
        if wanted > 0 and wanted * 2 >= ahead:
            feed.asked += wanted
            self._sub.parent.tell(RequestRecords(feed, wanted))

    def _push(self) -> None:
        out, feed = self.out, self._feed
        tracker, convert = self._sub.parent.tracker, self._sub.convert
        steps = self._steps
        if steps is not None and steps.first and not steps.push_first(out):
            return
        while out.can_push:
            delivery = feed.take(out.asked if steps is None else steps.room(out.asked))
            if delivery is None:
                break
            records, end = delivery.records, delivery.end
            if tracker is not None and not tracker.delivered(delivery.key, delivery.epoch, end, offset_of(records[0])):
                continue  # its revocation has begun: the next owner reads it
            if steps is not None:
                end = self._run_steps(steps, delivery)
                if out.out_closed:
                    return  # a step has failed
            elif convert is None:
                out.push(wrapped(records))
            else:
                out.push(list(convert(*columns(records), self._origin_of(delivery))))
            if self._source is not None:
                out.mark({(self._source, delivery.key): (delivery.epoch, end)})
            if steps is not None:
                if out.can_push and feed.filled:
                    out.again()  # after the others had their turn
                break
        self._end_when_read(feed)

    def _run_steps(self, steps: SourceSteps, delivery: Delivery) -> int:
        """Run the steps over records and push what they make; return the position behind the last that was taken."""
        records, tracker = delivery.records, self._sub.parent.tracker
        counter = iter(records)
        convert = self._sub.convert
        if convert is None:
            results, left, error = steps.run_records(records, counter)
        else:
            made = convert(*columns(records, counter), self._origin_of(delivery))
            results, left, error = steps.run(made, counter, len(records))
        end = delivery.end
        if left and error is None:
            rest = records[len(records) - left :]
            end = offset_of(rest[0])
            self._feed.give_back(delivery._replace(records=rest))
            if tracker is not None:
                tracker.taken_back(delivery.key, delivery.epoch, end)
        if results:
            self.out.push(results)
        if error is not None:
            self.fail_stage(error)
        return end

    def _end_when_read(self, feed: PartitionFeed) -> None:
        end = feed.end
        if end is None or (self._steps is not None and self._steps.first) or feed.revoked or self._sub.finished:
            return
        tracker = self._sub.parent.tracker
        if self._source is not None and (tracker is None or tracker.delivered(feed.key, feed.epoch, end)):
            self.out.mark({(self._source, feed.key): (feed.epoch, end)})
            self.out.mark(EndOfInput((self._source, feed.key)))
        self._close(None)

    def _origin_of(self, delivery: Delivery) -> Origin:
        if self._origin is None:
            tracker = self._sub.parent.tracker
            assert tracker is not None
            self._origin = Origin(delivery.key, delivery.epoch, tracker, self._commit)
        return self._origin

    def _on_revoked(self, epoch: int) -> None:
        if self._source is not None:
            self.out.mark(Revoked((self._source, self._feed.key), epoch))

    def _on_idle(self, silent_ms: float) -> None:
        if self._source is not None and self.out.asked:
            wall_ms = self.interpreter.island.run.system.clock.wall_ms()
            self.out.mark(Idle((self._source, self._feed.key), int(silent_ms), wall_ms))

    def _close(self, error: BaseException | None) -> None:
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
        self._feed.read_by(None)
        self._sub.parent.sub_ended(self._sub)

    def snapshot_state(self) -> str:
        return f"{self._feed.key}; asked for {self._feed.asked}"
