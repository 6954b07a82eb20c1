"""What is written to a topic is the value at that step: a step beside it that changes the value later changes no record.

Rows become bytes after the chunk, so `to` had the values that steps beside it changed in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors.windows import Processor, Record, RecordContext, TaskIdentity
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics


def mark(record: Record) -> None:
    record.value["seen"].append("changed")
    record.value["changed"] = True


class Repeats(Processor):
    """Forwards a value, changes it, and forwards it again."""

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        self.context.forward(record)
        mark(record)
        self.context.forward(record)


def beside(topics: TopologyTopics) -> None:
    rows = topics.stream("s")
    rows.to("a")
    rows.peek(mark).to("b")


def beside_a_step_above(topics: TopologyTopics) -> None:
    rows = topics.stream("s")
    rows.filter(lambda record: True).to("a")
    rows.peek(mark).to("b")


def repeated(topics: TopologyTopics) -> None:
    topics.stream("s").process(Repeats).to("a")


BUILDS: dict[str, Callable[[TopologyTopics], None]] = {
    "beside": beside,
    "beside a step above": beside_a_step_above,
    "repeated": repeated,
}


@pytest.mark.parametrize("name", BUILDS)
def test_a_topic_gets_the_value_at_its_step(name: str) -> None:
    topics = TopologyTopics()
    BUILDS[name](topics)
    task = TaskFactory(topics.topology).restored(TaskIdentity("written"), ())
    given = [Record("k", {"seen": [n]}, n, RecordContext("s", 0, n)) for n in range(2)]
    outputs = task.process_chunk(given)
    unchanged = [{"seen": [0]}, {"seen": [1]}]
    changed = [{"seen": [n, "changed"], "changed": True} for n in range(2)]
    written = {topic: [each.record.value for each in outputs if each.topic == topic] for topic in "ab"}
    if name == "repeated":
        assert written["a"] == [unchanged[0], changed[0], unchanged[1], changed[1]]
    else:
        assert written == {"a": unchanged, "b": changed}


def test_a_topic_without_other_steps_gets_the_row_itself() -> None:
    topics = TopologyTopics()
    topics.stream("s").map_values(lambda value: value).to("a")
    task = TaskFactory(topics.topology).restored(TaskIdentity("written"), ())
    value = {"seen": [1]}
    [output] = task.process_chunk([Record("k", value, 1, RecordContext("s", 0, 0))])
    assert output.record.value is value  # no copy
