"""The end of a task: its processors hear of it, whatever ends it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streamactors.actors.system import ActorSystem
from streamactors.engine.marks.marks import Assigned, Revoked
from streamactors.windows import Processor, ProcessorContext, Record, RecordContext
from streamactors.windows.stage.stage import WindowStage
from streamactors.windows.topology.topics import TopologyTopics, topology_factory
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
    bench = Bench(system, WindowStage(topology_factory(topics.topology)))
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


def test_a_processor_that_fails_of_its_end_keeps_no_other_one_from_hearing_of_it(timeless: ActorSystem) -> None:
    """A close that raised also left the changelog of the stage open: its threads, the lock of its folder and its part of the transaction stayed."""
    ended: list[int] = []
    closed: list[Any] = []
    with running(timeless, ended, RuntimeError("this end is bad")) as bench:
        bench.logic._keeper = SimpleNamespace(close=closed.append, is_restoring=False)
        bench.cancel()
    assert sorted(ended) == [0, 1]
    assert closed == [None]
