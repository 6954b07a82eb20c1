"""Chains: the topologies of one input. `Source.group_by_key()` begins one; `to_stream()` of its table ends it. `Source.keyed(fn)` is one of a
single step.

The rows of a chain come in whole chunks, whatever their topic, and equal keys are in one task already: nothing is repartitioned. Nothing joins
the table of a chain, so an aggregation itself emits the final results of a suppression that comes right after it. The names of nodes and stores, and the old
values of updates, are those of Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streamactors.durations import Duration, EventSpan
from streamactors.errors import BuildError
from streamactors.stages.checks import no_coroutine_function
from streamactors.windows.definitions.intake import Intake, intake
from streamactors.windows.topology.arguments import takes_arguments
from streamactors.windows.topology.grouped import GroupedStream
from streamactors.windows.topology.model import ANY_TOPIC, SourceNode, Topology, TopologyNode
from streamactors.windows.topology.nodes.record_nodes import OPERATORS, RecordNode, RepartitionNode, ResultNode
from streamactors.windows.topology.steps import step
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.table import TopologyTable
from streamactors.windows.topology.task_factory import TaskFactory

_UNNUMBERED: Final = {
    **{kind: kind for kind in OPERATORS},
    "select-key": "key-by",
    "as-records": "group-by-key",
    "to-stream": "to-stream",
}
"""The names of steps without a state, by their kinds; they do not shift the running numbers of others."""


class Chain(Topology):
    """The topology of one input. `end`: makes what a user continues with of the chain's results; None: the chain continues."""

    is_open = False

    def __init__(self, end: Callable[[Chain, TopologyStream], Any] | None = None, intake: Intake = Intake()) -> None:
        super().__init__()
        self.intake = intake
        self._end = end
        self.sources[ANY_TOPIC] = self.add(SourceNode("input", ANY_TOPIC))

    def named(self, name: str | None, kind: str) -> str:
        return _UNNUMBERED[kind] if name is None and kind in _UNNUMBERED else super().named(name, kind)

    def stored(self, name: str | None, kind: str) -> tuple[str, str]:
        """Return names for a node and its store. Without a name both take a running number."""
        node = self.named(name, kind)
        if name is not None:
            return node, f"{name}-store"
        self._numbers += 1
        return node, f"{kind}-store-{self._numbers - 1:010d}"

    def ended(self, stream: TopologyStream) -> Any:
        """Return what a user continues with after a stream of results."""
        return stream if self._end is None else self._end(self, stream)

    @property
    def reads_tables(self) -> bool:
        """Nothing joins the table of a chain."""
        return False

    def repartitions(self, *, key_changed: bool) -> bool:
        """Equal keys are in one task already."""
        return False

    def old_is_initial(self, *, kafka: bool) -> bool:
        """The old values are those of Kafka Streams."""
        return True

    @property
    def changes_keys(self) -> bool:
        """Whether rows meet by a key that did not choose their partition."""
        return any(
            isinstance(node, RepartitionNode) or (isinstance(node, RecordNode) and node.kind == "select-key")
            for node in self.nodes
        )

    @property
    def first_state(self) -> TopologyNode:
        """The first step that keeps a state."""
        return next(node for node in self.nodes if node.store is not None or node.keeps_rows)

    def tasks(self, last: TopologyNode, **options: Any) -> TaskFactory:
        """Return the factory of tasks that give the rows of a node; `options` are TaskFactory's fields."""
        self.add(ResultNode("results"), last)
        return TaskFactory(self, self.intake, **options)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what belongs to this process: the stream around the chain, and the sink of late rows."""
        return self.__dict__ | {"_end": None, "late": None}


class Records(TopologyStream):
    """The stream of Records that begins a chain."""

    def __init__(self, end: Callable[[Chain, TopologyStream], Any] | None = None, read: Intake = Intake()) -> None:
        chain = Chain(end, read)
        super().__init__(chain, chain.sources[ANY_TOPIC], windowed=True)  # rows may be results of other windows
        self.end = end
        self.again = lambda: Records(end, read)

    def group_by_key(self, *, changelog: bool = True, max_task_idle: Duration | None = 0) -> GroupedStream[Any, Any]:
        """As Source.group_by_key."""
        return self.reading("group_by_key", changelog, max_task_idle).group_by_key()

    def key_by(
        self, fn: Callable[[Any], Any], *, name: str | None = None, changelog: bool = True
    ) -> GroupedStream[Any, Any]:
        """As Source.key_by."""
        callable_key(fn)
        return self.reading("key_by", changelog, 0).key_by(fn, name=name)

    def to_table(
        self,
        *,
        name: str | None = None,
        history: EventSpan | None = None,
        changelog: bool = True,
        max_task_idle: Duration | None = 0,
    ) -> TopologyTable[Any]:
        """As Source.to_table."""
        return self.reading("to_table", changelog, max_task_idle).to_table(name=name, history=history)

    def reading(self, where: str, changelog: bool, max_task_idle: Duration | None) -> TopologyStream:
        """Return the stream that is read in this way."""
        read = intake(where, changelog, max_task_idle)

        def again() -> TopologyStream:
            chain = Chain(self.end, read)
            stream = TopologyStream(chain, chain.sources[ANY_TOPIC], windowed=True)
            stream.again = again
            return stream

        return again()


@step
def ended(results: TopologyStream) -> Any:
    """Return what a user continues with after a stream of results."""
    return results.topology.ended(results)


def tasks_of(results: TopologyStream, **options: Any) -> TaskFactory:
    """Return the factory of tasks for a stream of a chain that has no end; `options` are TaskFactory's fields."""
    copy = results.again()
    factory: TaskFactory = copy.topology.tasks(copy.node, **options)
    return factory


def callable_key(fn: object) -> None:
    """Check the parameter of key_by."""
    if not callable(fn):
        raise BuildError(f"key_by: {fn!r} is not callable; give a function of a record")
    no_coroutine_function("key_by", fn)
    takes_arguments("key_by", fn, "record")
