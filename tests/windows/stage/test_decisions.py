"""What the state machine of the windowed stage decides where a stream once hung, or lost a result that stems from no row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from streamactors.actors.system import ActorSystem
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Assigned, PositionMark
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows import KeyValueStore, Processor, ProcessorContext, Record, RecordContext
from streamactors.windows.stage import stage_events as ev
from streamactors.windows.stage.stage import WindowStage
from streamactors.windows.stage.stage_state import Phase
from streamactors.windows.state.changelogs import MarksPass, changelogs_of
from streamactors.windows.state.store_log import TaskIdentity
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics
from tests.stages.harness import Bench
from tests.windows.stage.stage_world import SOURCE, StageWorld

# ── the end of a stream, where a stage downstream keeps elements until its input ends ─────────────────────────────────


@pytest.mark.parametrize("marks_pass", [MarksPass.EVERY, MarksPass.STOPS])
@pytest.mark.parametrize("by_itself", [False, True])
def test_the_end_waits_for_no_element_that_is_kept_until_the_end(marks_pass: MarksPass, by_itself: bool) -> None:
    """A row closes a window -> `grouped(2)` keeps the result -> the stage has stopped, and its entries wait until the sink has it -> the stream is
    stopped: the stage waited for its entries, and `grouped(2)` for the end of the stage."""
    world = StageWorld(marks_pass, keeps=2)
    world.restore()
    world.ask(100)
    world.send(world.keys[0], ["keeps", "closes"])
    world.cut()
    assert world.entries
    assert not world.commit()
    world.end(by_itself=by_itself)
    assert (world.state.phase, world.outlets_complete) == (Phase.WRITING, 0)
    assert list(world.timers) == [ev.Timer.PATIENCE]
    world.fire()
    assert (world.state.phase, world.outlets_complete) == (Phase.APART, 1)
    assert world.commit()
    assert world.commit() or marks_pass is MarksPass.STOPS
    assert (world.state.phase, world.completed) == (Phase.OVER, 1)


@pytest.mark.parametrize("marks_pass", [MarksPass.EVERY, MarksPass.STOPS])
def test_where_nothing_is_kept_the_entries_are_written_before_the_outlets_complete(marks_pass: MarksPass) -> None:
    """A system that is shut down when its sinks have ended would cut the last entries off."""
    world = StageWorld(marks_pass)
    world.restore()
    world.ask(100)
    world.send(world.keys[0], ["closes"])
    world.end(by_itself=True)
    if marks_pass is MarksPass.EVERY:
        assert (world.state.phase, world.outlets_complete) == (Phase.WRITING, 0)
        assert world.commit()
    assert (world.state.phase, world.completed, world.last_written) == (Phase.OVER, 1, True)


def test_an_empty_mark_passes_too() -> None:
    """Windows before these have stopped before their first row. Their commit waits until these windows stop there, too."""
    world = StageWorld(MarksPass.STOPS)
    world.restore()
    assert world.state.stops is not None
    world.state.stops.part_state.follows = True
    world.put({})
    assert [each.at for each in world.entries] == [{}]


# ── results that stem from no row, beside a transaction ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gives", [StageWorld.wall, lambda world: world.silence(world.keys[0])])
@pytest.mark.parametrize("marks_pass", [MarksPass.EVERY, MarksPass.STOPS])
def test_the_state_says_that_a_window_is_closed_when_the_sink_has_its_result(
    marks_pass: MarksPass, gives: Callable[[StageWorld], None]
) -> None:
    """The sink has done every position -> silence closes the window, and its result waits -> a commit at the same position would say that it is closed."""
    world = StageWorld(marks_pass, keeps=1)
    world.restore()
    world.ask(100)
    world.send(world.keys[0], ["keeps"])
    world.cut()
    assert world.commit()
    gives(world)
    world.cut()
    assert world.entries
    assert not world.commit()
    world.send(world.keys[0], ["closes"])  # its result pushes the other one out
    assert world.commit()


class Alarms(Processor):
    """Forwards what its store has, once, when it starts."""

    def init(self, context: ProcessorContext) -> None:
        self._keys = context.store("keys")
        for key, timestamp in list(self._keys.items()):
            self._keys.delete(key)
            context.forward(Record(key, "alarm", timestamp))

    def process(self, record: Record) -> None:
        self._keys.put(record.key, record.timestamp)


class InTransaction:
    """A source's changelogs, and the changelog of the one stage: what is written, and whether results that stem from no row may be emitted."""

    application, several_topics, bounded = "app", False, False
    marks_pass = MarksPass.STOPS

    def __init__(self) -> None:
        self.may, self.stored, self.written = True, [], []  # type: ignore[var-annotated]

    def open(self, keeper: Any, topics: Mapping[str, str], tasks: Any) -> InTransaction:
        self.keeper, self.tasks = keeper, tasks
        return self

    def restore(self, partitions: Sequence[Any]) -> None:
        self.keeper.restored(
            {each.partition: self.tasks.restored(TaskIdentity("", 0, 1), self.stored) for each in partitions}
        )

    def write(self, changes: Sequence[tuple[Any, list[Any]]], at: PositionMark, ended: bool) -> None:
        self.written += [change for _, each in changes for change in each]

    def may_give(self, inputs: Mapping[Any, int], *, last: bool) -> bool:
        return self.may

    def gave_nothing(self) -> None:
        """Nothing was noted."""

    def forget(self, reader: Any) -> None:
        """No rows are held back."""

    def close(self, error: BaseException | None, finished: bool) -> None:
        """Nothing is open."""


class Kept(WindowStage):
    """A windowed stage whose source keeps its state."""

    def __init__(self, factory: TaskFactory, provider: Any) -> None:
        super().__init__(factory)
        self._provider = provider

    def logic(self) -> Logic:
        logic: Any = super().logic()
        bind, provider = logic.bind, self._provider

        def bound() -> None:
            logic.inlets[0].carries = frozenset((SOURCE,))
            bind()
            changelogs_of(logic.run).offer(SOURCE, provider)

        logic.bind = bound
        return logic  # type: ignore[no-any-return]


@pytest.fixture
def alarms(timeless: ActorSystem) -> Iterator[tuple[Bench, InTransaction]]:
    topics = TopologyTopics()
    topics.stream("in").process(Alarms, stores=[KeyValueStore("keys")], name="alarms").to("out")
    provider = InTransaction()
    with Bench(timeless, Kept(TaskFactory(topics.topology), provider)) as bench:
        bench.request(10)
        yield bench, provider
        bench.cancel()


def assigned(bench: Bench, partition: int) -> None:
    bench.put(Assigned((SOURCE, TopicPartition("in", partition)), 1, 0))


def test_processors_of_a_partition_that_is_being_revoked_are_started_by_its_next_owner(
    alarms: tuple[Bench, InTransaction],
) -> None:
    """A task is restored -> its partition is about to be revoked -> the start of its processor took the alarm out of the store, and the alarm was
    dropped; the commit of the revocation had the deletion, so the next owner found no alarm."""
    bench, provider = alarms
    task = provider.tasks.restored(TaskIdentity("", 0, 1), [])
    task.process_chunk([Record("a", 1, 5, RecordContext("in", 0, 0))])
    provider.stored = task.changes()
    assert provider.stored
    provider.may = False
    assigned(bench, 0)
    provider.keeper.cut({})
    bench.settle()
    assert bench.received == []
    assert [change for change in provider.written if change.value is None] == []
    provider.may = True
    bench.request(1)  # the revocation was for nothing: the partition stays
    assert [(output.record.key, output.record.value) for output in bench.received] == [("a", "alarm")]
