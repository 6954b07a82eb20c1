"""The end of a task: its processors hear of it, whatever ends it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.actors.system import ActorSystem
from streamactors.engine.marks.marks import Assigned, Revoked
from streamactors.windows import OperatorFailed, Processor, ProcessorContext, Record, RecordContext
from streamactors.windows.stage.stage import WindowStage
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics
from tests.stages.harness import Bench


class TopicPartition(tuple[str, int]):
    topic = property(lambda self: self[0])
    partition = property(lambda self: self[1])


class Ending(Processor):
    """Notes its end, and may fail of it."""

    def __init__(self, ended: list[int], error: Exception | None = None) -> None:
        self._ended, self._error = ended, error

    def init(self, context: ProcessorContext) -> None:
        self._partition = context.partition

    def process(self, record: Record) -> None:
        """Nothing comes of it."""

    def close(self) -> None:
        self._ended.append(self._partition)
        if self._error is not None:
            raise self._error


def running(system: ActorSystem, *of_processor: Any) -> Bench:
    """A stage with the tasks of two partitions, which have had a row each."""
    topics = TopologyTopics()
    topics.stream("in").process(lambda: Ending(*of_processor), name="p").to("out")
    bench = Bench(system, WindowStage(TaskFactory(topics.topology)))
    bench.request(10)
    for partition in (0, 1):
        bench.put(Assigned(("source", TopicPartition(("in", partition)))))
        bench.send(Record("k", 1, 1, RecordContext("in", partition, 0)))
    return bench


def test_a_task_that_is_revoked_closes_its_processors(timeless: ActorSystem) -> None:
    ended: list[int] = []
    with running(timeless, ended) as bench:
        bench.put(Revoked(("source", TopicPartition(("in", 0)))))
        assert ended == [0]
        bench.cancel()
    assert ended == [0, 1]


@pytest.mark.expects_log("raised in on_stop")
def test_a_processor_that_fails_of_its_end_keeps_no_other_one_from_hearing_of_it(timeless: ActorSystem) -> None:
    """A close that raised also left the changelog of the stage open: its threads, the lock of its folder and its part of the transaction stayed."""
    ended: list[int] = []
    closed: list[Any] = []
    with running(timeless, ended, RuntimeError("this end is bad")) as bench:
        bench.logic.keeper = SimpleNamespace(close=closed.append)
        bench.cancel()
    assert sorted(ended) == [0, 1]
    assert closed == [None]


class FailsBehindResults(Processor):
    """Forwards three records for a row, and fails of it; the wall clock calls it, too."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        context.schedule("1s", lambda now: None, "wall")

    def process(self, record: Record) -> None:
        for _ in range(3):
            self._context.forward(record)
        raise RuntimeError("this row is bad")


def test_the_error_of_a_row_is_told_though_the_wall_clock_calls_while_its_results_wait(timeless: ActorSystem) -> None:
    """A row fails -> the results before it wait for demand -> the wall clock called the dead task, and its error took the place of the row's."""
    topics = TopologyTopics()
    topics.stream("in").process(FailsBehindResults, name="p").to("out")
    with Bench(timeless, WindowStage(TaskFactory(topics.topology))) as bench:
        bench.request(1)
        bench.put(Assigned(("source", TopicPartition(("in", 0)))))
        bench.send(Record("k", 1, 1, RecordContext("in", 0, 0)))
        assert bench.end is None
        bench.advance("5s")
        bench.request(10)
        assert isinstance(bench.end, OperatorFailed)
