"""The source of a share group: emits the records that are locked for it, and has each acknowledged when its mark is done.

A mark of this source counts records in the order in which they were emitted: it has one partition, and the position of a record is its index."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.marks.marks import Needs, PositionMark, next_epoch
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.gauges import Gauge
from streamactors.kafka.controls.control import RUNNING
from streamactors.kafka.reading.messages import TakeSnapshot
from streamactors.kafka.reading.snapshot import snapshot_without_consumer
from streamactors.kafka.sources.share_group.share_member import ShareMember
from streamactors.kafka.sources.share_group.share_settings import SharedSourceSettings
from streamactors.kafka.sources.share_group.shared_control import SharedControl
from streamactors.kafka.sources.share_group.shared_record import SharedRecord

READER = "Consumer.shared_source, which acknowledges what is done,"


class SharedSourceStage(GraphStage):
    """Emit records of a share group.

    Emits when: records are locked for this source and downstream has demand.   Completes when: the control is stopped.
    Fails when: the group or its topics cannot be read.
    """

    shape = SOURCE
    traits = StageTraits(
        emits_marks=True,
        endless=True,
        reads_marks=True,
        needs=Needs(READER),
        owns_positions="the acknowledgement of each record",
        no_replay="has records that other members may have taken",
    )

    def __init__(self, name: str, settings: SharedSourceSettings, topics: tuple[str, ...]) -> None:
        self.name = name
        self.settings = settings
        self.topics = topics

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = SharedSourceLogic(self)
        logic.control.graph = attributes.graph or attributes.name or self.name
        logic.control.group = self.settings.group_id
        return logic, logic.control


class SharedSourceLogic(SourceLogic):
    """Pushes what the member delivers, with a mark after each record."""

    stage: SharedSourceStage

    def __init__(self, stage: SharedSourceStage) -> None:
        super().__init__(stage)
        self.control = SharedControl()
        self._member = ShareMember(
            stage.settings,
            stage.topics,
            lambda records: self.interpreter.post(self, self._on_records, records),
            lambda error: self.interpreter.post(self, self._on_failed, error),
            self._on_closed,
            lambda: self.control.started.try_complete(None),
        )
        self._waiting: deque[SharedRecord] = deque()
        self._gauge = Gauge(
            f"share group {stage.settings.group_id}: records before they are emitted",
            bounded_by="downstream's demand when they were asked for, and the batches of a broker that counts batches",
        )
        self._emitted = 0
        self._epoch = 0

    def bind(self) -> None:
        """Called when the run is built."""
        self.control.run = weakref.ref(self.interpreter.island.run)

    def on_start(self) -> None:
        run = self.interpreter.island.run
        source = run.source_id(self)
        self._key, self._epoch = (source, 0), next_epoch()
        run.progress.listen(source, self._on_done)
        run.when_ended(self._member.end)
        self.control.attach(self._tell, lambda: self.interpreter.post(self, self._complete, None))
        RUNNING.add(self.control)
        self._member.start()

    # ── any thread ────────────────────────────────────────────────────────────────────────────────────────────────

    def _tell(self, message: Any) -> None:
        if isinstance(message, TakeSnapshot):
            message.reply.try_complete(self._snapshot())

    def _snapshot(self) -> dict[str, Any]:
        return {**snapshot_without_consumer(), **self._member.snapshot(), "delivered": self._emitted}

    def _on_done(self, moved: PositionMark) -> None:
        for epoch, position in moved.values():
            if epoch == self._epoch:
                self._member.done(position)

    def _on_closed(self, error: BaseException | None) -> None:
        self.control.closed(self._snapshot())
        if error is None:
            self.control.is_shutdown.try_complete(None)
        else:
            self.control.is_shutdown.try_fail(error)

    # ── the island ────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_records(self, records: list[SharedRecord]) -> None:
        self._waiting.extend(records)
        self._gauge.reached(len(self._waiting))
        self._push()

    def _on_failed(self, error: BaseException) -> None:
        self.fail_stage(error)

    def _complete(self, _: None) -> None:
        self.complete_stage()

    def on_pull(self, out: Connection) -> None:
        self._push()
        if not out.out_closed:
            self._member.demand(self._emitted + out.asked)

    def _push(self) -> None:
        out, waiting, before = self.out, self._waiting, self._emitted
        while waiting and out.asked and not out.out_closed:
            self._emitted += 1
            self._member.emitted(self._emitted)
            out.push([waiting.popleft()])
            out.mark({self._key: (self._epoch, self._emitted)})
        if self._emitted > before and not out.out_closed:
            self._member.demand(self._emitted + out.asked)

    def on_stop(self) -> None:
        self._waiting.clear()
        self._member.stop()
        if self.failure is not None or self.inside:
            self._member.end()

    def snapshot_state(self) -> str:
        return f"share group {self.stage.settings.group_id}; {self._emitted} records emitted"
