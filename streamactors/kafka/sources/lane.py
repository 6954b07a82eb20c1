"""Lane: the way of records from a feed to the outlet of one source stage. Every Kafka source pushes its records through a lane.

    consumer actor ◄── RequestRecords ── ask ◄── downstream's demand
    consumer actor ──► feed ──► push: cut to the demand, fused steps, wrapped once, then a position mark ──► outlet

Owner: the logic of the source stage, on its island."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from streamactors.actors.futures import StreamFuture
from streamactors.engine.fusing.loop import FusedLoop, Op
from streamactors.engine.island.connection import MAX_ASKED
from streamactors.engine.island.run import Run
from streamactors.engine.logic import SourceLogic
from streamactors.engine.marks.marks import EndOfInput, EndPosition, Handling, Idle, Signal
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.kafka.client.runs import columns, made_at_ms, wrapped
from streamactors.kafka.committable import Convert, GatheredOffsets, Origin, committable
from streamactors.kafka.reading.delivery import Delivery
from streamactors.kafka.reading.feed import Feed
from streamactors.kafka.reading.messages import Commits, RequestRecords
from streamactors.kafka.sources.consumer_link import ConsumerLink
from streamactors.kafka.sources.fused_steps import FusedSteps
from streamactors.kafka.sources.lane_stamps import LaneStamps
from streamactors.kafka.subscriptions import TopicPartition

if TYPE_CHECKING:
    from streamactors.kafka.sources.lane_trace import LaneTrace

AHEAD = 2_048
"""The most records that are requested from the consumer, so that the next chunk is on its way while this one is processed."""


class LaneStage(GraphStage):
    """A source stage whose logic pushes through a lane. `loop` holds the maps, filters and scans that were fused into the stage."""

    shape = SOURCE
    traits = StageTraits(emits_marks=True, sampled=True)
    loop: FusedLoop | None = None

    @property
    def takes_steps(self) -> bool:
        """True if the steps downstream of the source may run inside."""
        return True

    def with_steps(self, ops: tuple[Op, ...], handling: Handling, name: str | None) -> Self:
        """Return this source, known by a name, with the maps, filters and scans downstream of it inside."""
        fused = copy(self)
        fused.name = "+".join([name or self.label, *(op.attributes.name or op.label for op in ops)])
        fused.loop, fused.traits = FusedLoop(ops), replace(self.traits, steps=handling)
        return fused


class Lane:
    """Pushes the records of a feed downstream, each chunk followed by its mark. `source` names the source in marks; None where no stage of the run reads marks."""

    source: Any = None
    _run: Run

    def __init__(
        self,
        logic: SourceLogic,
        consumer: ConsumerLink,
        feed: Feed,
        convert: Convert | None,
        loop: FusedLoop | None,
        max_chunk: int | None,
        whole: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self._logic = logic
        self._consumer = consumer
        self._tracker = consumer.tracker
        self._convert = convert
        self._whole = whole
        self._steps = None if loop is None else FusedSteps(loop, max_chunk)
        self._max_chunk = MAX_ASKED if max_chunk is None or whole is not None else max_chunk
        self._origins: dict[TopicPartition, Origin] = {}
        self._commits_first = consumer.commits is Commits.BEFORE
        self._committing = False  # a chunk waits for its commit before it is pushed
        self._committed: Delivery | None = None  # committed before delivery, and not pushed yet
        self._trace: LaneTrace | None = None  # where traces are installed
        self._gathers = False  # downstream is a Committer, which takes the offsets of a chunk as one element
        self._stamps: LaneStamps | None = None
        self.feed = feed

    def begin(self) -> bool:
        """Prepare the fused steps when the stage starts; return False if one of them has failed the stage."""
        self._run = self._logic.interpreter.island.run
        trace = self._run.trace
        if trace is not None:
            from streamactors.kafka.sources.lane_trace import LaneTrace

            self._trace = LaneTrace(trace, self._logic, self._consumer, self._steps, whole=self._whole is not None)
        steps = self._steps
        error = None if steps is None else steps.begin(self._logic.interpreter)
        if error is not None:
            self._logic.fail_stage(error)
        if steps is not None and steps.can_gather and self._convert is committable:
            gather: Callable[[], bool] | None = getattr(self._logic.out.consumer, "gather", None)  # a Committer's
            self._gathers = gather is not None and gather()
        return error is None

    @property
    def objects_each(self) -> int:
        """Objects that live with a record until the next stage has it: librdkafka's message, and ours where one is made and no step has dropped it."""
        if self._whole is not None:
            return 1
        return 1 if self._steps is not None and (self._gathers or self._convert is None) else 2

    # ── demand ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def asked(self) -> int:
        """The demand of downstream in records. Where a chunk of records is one element, any demand is for a chunk."""
        asked = self._logic.out.asked
        return MAX_ASKED if asked and (self._gathers or self._whole is not None) else asked

    def ask(self, ahead: int) -> None:
        """Ask the consumer for more records when less than half of `ahead` is outstanding."""
        if self._steps is not None:
            ahead = min(ahead, self._steps.pace.window)
        feed = self.feed
        wanted = ahead - feed.asked
        if wanted > 0 and wanted * 2 >= ahead and self._consumer.started:
            feed.asked += wanted
            self._consumer.tell(RequestRecords(feed, wanted))

    # ── records ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def drained(self) -> bool:
        """True when everything that has come from the consumer was pushed."""
        waits = self.feed.filled or self._committing or self._committed is not None
        return not waits and not (self._steps is not None and self._steps.first)

    def push(self) -> None:
        """Push the records of the feed, as far as downstream asks."""
        out, steps, feed = self._logic.out, self._steps, self.feed
        if steps is not None and steps.first and not steps.push_first(out):
            return
        while not self._committing and not out.out_closed:
            delivery = self._committed
            self._committed = None
            if delivery is None:
                delivery = feed.take(min(self.asked, self._max_chunk) if steps is None else steps.room(self.asked))
                if delivery is None:
                    return
                if not delivery.records:
                    self._pass_end(delivery)
                    continue
                if self._trace is not None:
                    delivery = self._trace.cut(delivery, feed)
                if not self._delivers(delivery):
                    continue
            taken_ms = self._stamped() if self._run.sampled and self.source is not None else None
            if self._trace is None:
                end = self._push_chunk(delivery)
            else:
                end = self._trace.push(delivery, self.source, self._push_chunk)
            if out.out_closed:
                return  # a step has failed
            if taken_ms is not None:
                assert self._stamps is not None
                out.mark(self._stamps.stamp(delivery, end, taken_ms))
            self.mark_position(delivery.key, delivery.epoch, end)
            if steps is not None and not (self._trace is not None and self._trace.has_cut):
                if feed.filled and out.asked:
                    out.again()  # the other stages of the island take their turn first
                return

    def _delivers(self, delivery: Delivery) -> bool:
        """Note that records are delivered; return False if they must not be pushed, or not before they are committed."""
        tracker = self._tracker
        if tracker is None:
            return True
        key, epoch, records, end = delivery.key, delivery.epoch, delivery.records, delivery.end
        if not tracker.delivered(key, epoch, end, records[0].offset(), made_at_ms(records[0])):
            return False  # poll returns -> partition revoked -> this chunk arrives: the next owner reads it
        if not self._commits_first:
            return True
        tracker.done(key, epoch, end)
        self._committing = True
        reply: StreamFuture[None] = StreamFuture("commit before delivery")
        reply.add_done_callback(
            lambda future: self._logic.interpreter.post(
                self._logic, lambda error: self._on_committed(delivery, error), future.exception()
            )
        )
        self._consumer.commit(reply)
        return False

    def _pass_end(self, delivery: Delivery) -> None:
        """Pass the end of a partition, where only offsets without records are left. It is in flight like a record where a mark commits it."""
        tracker, (key, epoch, end) = self._tracker, (delivery.key, delivery.epoch, delivery.end)
        if tracker is not None:
            by_mark = self.source is not None and (self._consumer.commits is not Commits.OFFSETS or tracker.gap_aware)
            noted = by_mark or self._commits_first
            if not (tracker.delivered(key, epoch, end) if noted else tracker.deliverable(key, epoch)):
                return  # the next owner reaches the end
            if self._commits_first:
                tracker.done(key, epoch, end)
                reply: StreamFuture[None] = StreamFuture("commit of the end")
                reply.add_done_callback(lambda future: self._end_committed(future.exception()))
                self._consumer.commit(reply)
        if self.source is not None:
            after = None if delivery.after is None else (epoch, delivery.after)
            self._logic.out.mark({(self.source, key): EndPosition((epoch, end), after)})

    def _end_committed(self, error: BaseException | None) -> None:
        if error is not None:
            self._logic.interpreter.post(self._logic, self._logic.fail_stage, error)

    def _on_committed(self, delivery: Delivery, error: BaseException | None) -> None:
        self._committing = False
        if error is not None:
            self._logic.fail_stage(error)
        elif not self._logic.out.out_closed:
            self._committed = delivery
            self._logic.on_pull(self._logic.out)

    def _push_chunk(self, delivery: Delivery) -> int:
        """Push what records become; return the position after the last record that was taken."""
        out, records, convert = self._logic.out, delivery.records, self._convert
        if self._whole is not None:
            out.push([self._whole(records)])
            return delivery.end
        if self._steps is None:
            if convert is None:
                out.push(wrapped(records))
            else:
                out.push(list(convert(*columns(records), self._origin_of(delivery))))
            return delivery.end
        if self._gathers:
            found = GatheredOffsets(self._origin_of(delivery))
            left, error = self._steps.gather(records, found)
            return self._pushed(delivery, [found] if found else [], left, error)
        if convert is None:
            made = None
        else:
            origin = self._origin_of(delivery)

            def made(values: Any, messages: Any) -> Any:
                return convert(values, messages, origin)

        return self._pushed(delivery, *self._steps.run(records, made))

    def _pushed(self, delivery: Delivery, results: list[Any], left: int, error: BaseException | None) -> int:
        """Push the results of the steps; return the position after the last record that was taken."""
        out = self._logic.out
        if results:
            out.push(results)
        if error is not None:
            self._logic.fail_stage(error)
        elif left:
            taken, rest = delivery.cut(len(delivery.records) - left)
            self._give_back(rest, taken.end)
            return taken.end
        return delivery.end

    def _give_back(self, rest: Delivery, position: int) -> None:
        if self._commits_first:
            self._committed = rest
            return
        self.feed.give_back(rest)
        if self._tracker is not None:
            self._tracker.taken_back(rest.key, rest.epoch, position)

    def _origin_of(self, delivery: Delivery) -> Origin:
        origin = self._origins.get(delivery.key)
        if origin is None or origin.epoch != delivery.epoch:
            assert self._tracker is not None
            origin = Origin(delivery.key, delivery.epoch, self._tracker, self._consumer.commit)
            self._origins[delivery.key] = origin
        return origin

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def mark(self, make: type[Signal], key: TopicPartition, *more: Any) -> None:
        """Emit a lifecycle mark of a partition. Traces need none."""
        if self.source is not None and not self._logic.interpreter.island.run.only_traced:
            self._logic.out.mark(make((self.source, key), *more))

    def mark_position(self, key: TopicPartition, epoch: int, position: int) -> None:
        """Emit the mark that says that everything before `position` was pushed."""
        if self.source is not None:
            self._logic.out.mark({(self.source, key): (epoch, position)})

    def _stamped(self) -> float | None:
        """Return the time if the chunk that is pushed now gets a stamp, else None."""
        if self._stamps is None:
            self._stamps = LaneStamps(self._logic, self._run, self.source, self._consumer)
        return self._stamps.due()

    def mark_idle(self, key: TopicPartition, silent_ms: float) -> None:
        """Emit the mark that says that a partition has no record now, though downstream asks for some."""
        waits = self._committing or self._committed is not None or self.feed.holds(key)
        if self._logic.out.asked and not waits:
            wall_ms = self._logic.interpreter.island.run.system.clock.wall_ms()
            self.mark(Idle, key, int(silent_ms), wall_ms)

    def mark_end(self, key: TopicPartition, epoch: int, position: int) -> None:
        """Emit the marks of a partition that a bounded read has read to its end."""
        if self._tracker is None or self._tracker.delivered(key, epoch, position):
            self.mark_position(key, epoch, position)
            self.mark(EndOfInput, key)
