"""Program: what one task does with one range of a partition. Made in the driver, run on executors; it knows nothing of Spark.

    records [a, b) ──► steps ──► window task ──► steps ──► results
                                  ▲ state a         │ └──► late rows
                                  └──── state b ◄───┘

The results are a function of the partition and the range alone: nothing in here asks for the time or for the latest offset. The state of
`b` is written when everything that precedes it was given out, so a task that ends early writes none, and the next one computes it from
an older state and the topic."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from streamactors.engine.supervision import Decider, Directive, log_skipped
from streamactors.engine.user_code import blame
from streamactors.kafka.client.runs import wrapped
from streamactors.kafka.record import PASSING
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.errors import CheckpointError
from streamactors.spark.executors.in_time_order import ORDER, JointInput, PartitionRange
from streamactors.spark.executors.ranges import At, Range
from streamactors.spark.executors.states import State, States, fresh
from streamactors.spark.shipping.chain import ChainSegment, Diverted
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.operators.windowed import late_rows
from streamactors.windows.record import LateRecord
from streamactors.windows.stage.partition_tasks import PartitionTasks
from streamactors.windows.state.store_log import Change, TaskIdentity
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.window_task import WindowTask

Read = Callable[[TopicPartition, int, int], Iterable[list[Any]]]
"""From a partition, a position and an end to the chunks of librdkafka's messages between."""

MOST_TASKS: Final = 64
"""Tasks with their states that a worker process keeps from batch to batch."""


class Output(NamedTuple):
    """Results of a range, in order. `late`: they are of late rows. `diverted`: they are of elements that left the chain (dead letters)."""

    rows: list[Any]
    late: bool = False
    diverted: bool = False


class Side(NamedTuple):
    """Elements that leave the chain, and the steps that they take."""

    leaving: Diverted
    steps: ChainSegment


@dataclass
class Windows:
    """The window stage of a program. `application` and `partitions` name the owner of the state."""

    factory: TaskFactory
    decider: Decider | None
    application: str
    partitions: int
    name: str = "windows"

    def task(self, partition: int, entries: Iterable[Change]) -> WindowTask:
        """Return the task of a partition, restored from the entries of its state. Raises RestoreError."""
        factory = replace(self.factory, changelog=True, on_failure=self._skips)
        return factory.restored(TaskIdentity(self.application, partition, self.partitions), entries)

    def _skips(self, failure: OperatorFailed) -> bool:
        cause = failure.__cause__ or failure
        blame(cause, self.name, failure.element, None)
        directive = Directive.STOP if self.decider is None else self.decider(cause)
        if directive is not Directive.STOP:
            log_skipped(None, cause)
        return directive is not Directive.STOP


@dataclass
class Program:
    """What a task computes. `before` and `behind` are the steps before and after the windows; `late` those of late rows."""

    before: ChainSegment
    windows: Windows | None = None
    behind: ChainSegment = field(default_factory=lambda: ChainSegment(()))
    late: ChainSegment | None = None
    sides: tuple[Side, ...] = ()
    whole: Callable[[list[Any]], Any] | None = None
    """Makes one element of a chunk of messages (`Consumer.arrow_batches`); None: an element per record."""

    def run(self, what: Range, read: Read, states: States | None, kept: KeptTasks) -> Iterator[Output]:
        """Yield the results of a range. `states` is needed where there are windows.

        Raises the error of the user's function after the results before it; RecordsGone, CheckpointError."""
        if self.windows is None:
            self._forget_diverted()
            for rows in self._stepped(read(what.key, what.start.position, what.end.position)):
                yield Output(rows)
                yield from self._diverted()
            yield from self._diverted()
            return
        assert states is not None
        task, state = kept.take(what) or self._restored(self.windows, what, read, states)
        joint = self._joint(what, state, read, what.start, what.end)
        self._forget_diverted()
        late: list[LateRecord] = []
        results = self._windowed(self.windows, task, what, joint or self._read(what, read), late)
        for rows in self.behind.chunks(results):
            yield Output(rows)
            yield from self._late_rows(late)
            yield from self._diverted()
        yield from self._late_rows(late)
        yield from self._diverted()
        changes = [*task.changes(), *(() if joint is None else joint.changes())]
        state = states.write(str(what.key), what.start, what.end, changes, state, task.idle_due_ms())
        kept.keep(what, task, state)

    def _late_rows(self, late: list[LateRecord]) -> Iterator[Output]:
        if self.late is not None and late:
            found = late.copy()
            late.clear()
            for rows in self.late.chunks([found]):
                yield Output(rows, late=True)

    def _diverted(self) -> Iterator[Output]:
        for side in self.sides:
            found = side.leaving.take()
            if found:
                for rows in side.steps.chunks([found]):
                    yield Output(rows, diverted=True)

    def _forget_diverted(self) -> None:
        """Drop the elements that a failed attempt, or the computation of a lost state, diverted."""
        for side in self.sides:
            side.leaving.take()

    def _stepped(self, chunks: Iterable[list[Any]]) -> Iterator[list[Any]]:
        """Return the elements that the steps before the windows make of messages."""
        whole = self.whole
        if whole is not None:
            return self.before.chunks([whole(messages)] for messages in chunks)
        if self.before.fused:
            return self.before.chunks(chunks, refilled=PASSING)
        return self.before.chunks(wrapped(messages) for messages in chunks)

    def _read(self, what: Range, read: Read) -> Iterator[list[Any]]:
        return self._stepped(read(what.key, what.start.position, what.end.position))

    def _joint(self, what: Range, state: State, read: Read, start: At, end: At) -> JointInput | None:
        """Return the rows of a task over several topics from one place to another; None for a task of one partition."""
        beside = what.beside
        if beside is None:
            return None
        done = beside.done if end == what.end else beside.done_before
        keys = (what.key, *beside.keys)
        parts = [PartitionRange(*each) for each in zip(keys, start.positions, end.positions, done, strict=True)]
        return JointInput(parts, state.entries, lambda key, first, last: self._stepped(read(key, first, last)))

    def _windowed(
        self, windows: Windows, task: WindowTask, what: Range, rows: Iterable[list[Any]], late: list[LateRecord]
    ) -> Iterator[list[Any]]:
        task.process_chunk(())  # silence is counted from the stream time at the start of the range
        for results in self._processed(windows, task, what.key, rows):
            late += task.take_late()
            if results:
                yield results
        closed = task.idle(what.idle_ms + (self._idle_after_ms or 0)) if what.idle_ms else []
        if what.end.ended:
            closed += task.end_of_input()
        if closed:
            yield closed

    @property
    def _idle_after_ms(self) -> int | None:
        return None if self.windows is None else self.windows.factory.idle_after_ms

    def _processed(
        self, windows: Windows, task: WindowTask, key: TopicPartition, chunks: Iterable[list[Any]]
    ) -> Iterator[list[Any]]:
        tasks = PartitionTasks(windows.factory, windows.application, windows.partitions)
        tasks.install(key.partition, task)
        for rows in chunks:
            results: list[Any] = []
            try:
                tasks.process_into(rows, results)
            except Exception:
                yield results  # the results before the failing row
                raise
            yield results

    def _restored(self, windows: Windows, what: Range, read: Read, states: States) -> tuple[WindowTask, State]:
        """Return the task at the start of a range: from its state, or from an older one and the topic."""
        partition = str(what.key)
        state = states.load(partition, what.start)
        if state is None and what.start == what.begin:
            state = self._begun(partition, what, states)
        if state is not None:
            return windows.task(what.key.partition, _changes(state)), state
        place, state = self._older(partition, what, states)
        task = windows.task(what.key.partition, _changes(state))
        quiet = late_rows.log.level
        late_rows.log.setLevel(logging.CRITICAL)  # these rows were reported when they were late for the first time
        try:
            task.process_chunk(())
            joint = self._joint(what, state, read, place, what.start)
            chunks = joint or self._stepped(read(what.key, place.position, what.start.position))
            for _ in self._processed(windows, task, what.key, chunks):
                task.take_late()
            if what.start.happened:
                again = replace(
                    what,
                    start=place
                    if place.positions == what.start.positions
                    else replace(what.start, idle_ms=0, ended=False),
                    end=what.start,
                )
                if again.idle_ms:
                    task.idle(again.idle_ms + (self._idle_after_ms or 0))
                if what.start.ended:
                    task.end_of_input()
            task.take_late()
        finally:
            late_rows.log.setLevel(quiet)
        entries = state.entries
        for change in [*task.changes(), *(() if joint is None else joint.changes())]:
            if change.value is None:
                entries.pop((change.store, change.key), None)
            else:
                entries[change.store, change.key] = change.value
        if what.start.ended:  # after an end a task continues from its state, as in a run of its own
            task = windows.task(what.key.partition, _changes(state))
        return task, State(entries, 0, 0, 0)  # so the next state is written whole

    def _older(self, partition: str, what: Range, states: States) -> tuple[At, State]:
        first = what.begin
        for place in states.before(partition, what.start):
            if place <= first or (what.event is not None and place < what.event):
                break
            state = states.load(partition, place)
            if state is not None:
                return place, state
        if what.event is not None:
            why = (
                f"the input ended, or was silent, at {what.event}"
                if what.event.happened
                else "the order of the rows of several topics depends on when they came"
            )
            raise CheckpointError(
                f"the state of {partition} at {what.start} is missing, and it cannot be computed from the topic alone: {why}; "
                "restore the folder of states from a copy, or begin with a new checkpoint"
            )
        state = states.load(partition, first)
        return first, self._begun(partition, what, states) if state is None else state

    @staticmethod
    def _begun(partition: str, what: Range, states: States) -> State:
        """Return the empty state with which a task begins. Raises CheckpointError if it began with another one."""
        if states.begins_empty(partition):
            return fresh()
        raise CheckpointError(
            f"the state of {partition} at {what.begin}, which was carried from its changelogs, is missing; restore the folder of states from "
            "a copy, or begin with a new checkpoint and the group where it was"
        )


def _changes(state: State) -> Iterator[Change]:
    return (Change(store, key, value) for (store, key), value in state.entries.items() if store != ORDER)


class KeptTasks:
    """The tasks that this process has run, with their states: each is valid at exactly one place. Not for two threads."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[TopicPartition, tuple[At, WindowTask, State]] = OrderedDict()

    def take(self, what: Range) -> tuple[WindowTask, State] | None:
        """Return and forget the task of a range if it is at the start of the range: a range that fails or is left early keeps none."""
        found = self._tasks.pop(what.key, None)
        return None if found is None or found[0] != what.start else found[1:]

    def keep(self, what: Range, task: WindowTask, state: State) -> None:
        """Keep the task of a range that was run to its end. After the end of the input a task continues from its state."""
        if what.end.ended:
            return
        self._tasks[what.key] = (what.end, task, state)
        if len(self._tasks) > MOST_TASKS:
            self._tasks.popitem(last=False)
