"""The model of a topology: nodes in the order in which they were built, and the names they took.

Owner: the fluent classes, while a topology is built. A node is a definition and has no state; `operator` makes its operator
for one task. The children of a node receive its rows in the order in which they were added."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Final, TypeVar

from streamactors.durations import Duration, whole_ms
from streamactors.errors import BuildError
from streamactors.windows.definitions.names import checked_name
from streamactors.windows.definitions.windowing import Semantics
from streamactors.windows.operators.buffered import Buffering
from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.operators.stream_steps import PassOn
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.record import Record, WindowedRecord
from streamactors.windows.state.store_log import Stateful
from streamactors.windows.state.stores import Stores
from streamactors.windows.topology.edges import Outbox, TaskEntrance

ANY_TOPIC: Final = ""
"""The name of the topic of a chain's input: its rows may have any topic, or none."""


class TopologyNode(ABC):
    """One step of a topology. `name` is unique in it; `store`: the name of its store, None if it has none.

    `reads`: the tables whose state its operator reads while it processes a row. `by_row`: its operator must see a row only
    when the row before has passed the whole topology. `keeps_time`: its operator needs the time of the task, after each row of any
    of the task's topics. `goes_round`: its rows return by a repartition topic. `shown_as`: the view whose values readers from outside see
    under this node's name, where the node's own values are a state."""

    store: str | None = None
    by_row: bool = False
    keeps_time: bool = False
    goes_round: bool = False
    shown_as: TopologyNode | None = None
    keeps_rows: bool = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: list[TopologyNode] = []
        self.parents: list[TopologyNode] = []
        self.reads: list[TopologyNode] = []

    @property
    def shares_rows(self) -> bool:
        """Whether another step may still change keys and values of this node's rows: some step above has other children, or is a processor, which may
        keep what it forwards."""
        above, seen = list(self.parents), set[TopologyNode]()
        while above:
            node = above.pop()
            if len(node.children) > 1 or node.keeps_rows:
                return True
            if node not in seen:
                seen.add(node)
                above += node.parents
        return False

    @abstractmethod
    def operator(self, build: Build) -> Operator:
        """Return the operator of this node for the task that `build` makes."""

    def carrier(self, build: Build) -> TopologyNode:
        """Return the node whose operator does the work of this one: a node above, or this one."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


N = TypeVar("N", bound=TopologyNode)


class SourceNode(TopologyNode):
    """A topic whose rows enter the topology. `internal`: a repartition topic of this topology.

    `key`, `value`, `timestamp`: how the topic's bytes become rows, as in Consumer.records; the operators do not see them."""

    def __init__(
        self,
        name: str,
        topic: str,
        *,
        internal: bool = False,
        key: Any = None,
        value: Any = None,
        timestamp: Any = None,
    ) -> None:
        super().__init__(name)
        self.topic = topic
        self.internal = internal
        self.partitioned = True
        self.key = key
        self.value = value
        self.timestamp = timestamp

    def operator(self, build: Build) -> Operator:
        time = build.time_of(self) if build.keeps_time else None
        if self.topic != ANY_TOPIC:
            return TaskEntrance(self.name, build.env, None if self.internal else frozenset({Record}), time)
        if time is None:  # the steps after it check the rows
            return PassOn(self.name, build.env)
        return TaskEntrance(self.name, build.env, frozenset({Record, WindowedRecord}), time)


class Topology:
    """The nodes of one topology. `semantics`: that of the steps that are not given one.

    `is_open`: steps add nodes to it, not to a copy (steps.py)."""

    is_open: bool = True

    def __init__(self, semantics: Semantics = "strict") -> None:
        self.semantics: Semantics = semantics_of("semantics", semantics)
        self.nodes: list[TopologyNode] = []
        self.sources: dict[str, SourceNode] = {}
        self.stores: dict[str, TopologyNode] = {}
        self.co_partitioned: list[tuple[str, frozenset[str]]] = []
        """(name of a join, the topics that must have equal numbers of partitions)."""
        self.prefix = ""
        """Begins the names of the repartition topics."""
        self.late: Any = None
        """The sink given as `late=`, or None."""
        self.idle_after_ms: int | None = None
        """Silence after which the wall clock moves stream time; None: it never does."""
        self._names: set[str] = set()
        self._numbers = 0

    def add(self, node: N, *parents: TopologyNode) -> N:
        """Add a node after its parents; a node with two equal parents receives each row twice."""
        self.nodes.append(node)
        for parent in parents:
            parent.children.append(node)
            node.parents.append(parent)
        if node.store is not None:
            self.keep(node.store, node)
        return node

    def keep(self, store: str, node: TopologyNode) -> None:
        """Register a store of a node. Raises BuildError if the name is taken."""
        if store in self.stores:
            raise BuildError(f"the name {store!r} is used by two stores of a topology; give one of them another name")
        self.stores[store] = node

    def named(self, name: str | None, kind: str) -> str:
        """Return a name for a node: `name`, or a generated one of its kind with a running number.

        A new step shifts all later numbers, so a step whose state must survive such a change needs a name."""
        if name is None:
            name = f"{kind}-{self._numbers:010d}"
            self._numbers += 1
        else:
            checked_name(kind, name)
        if name in self._names:
            raise BuildError(f"{kind}: the name {name!r} is used by another step; names must differ")
        self._names.add(name)
        return name

    def stored(self, name: str | None, kind: str) -> tuple[str, str]:
        """Return names for a node and its store."""
        node = self.named(name, kind)
        return node, f"{node}-store" if kind == "suppress" else node

    def ended(self, stream: Any) -> Any:
        """Return what a user continues with after a stream of results: the stream."""
        return stream

    @property
    def reads_tables(self) -> bool:
        """Whether a step may read the table of another step while rows pass, as a join does."""
        return True

    def repartitions(self, *, key_changed: bool) -> bool:
        """Whether rows whose key may have changed go through a topic, so that equal keys are in one partition."""
        return key_changed

    def old_is_initial(self, *, kafka: bool) -> bool:
        """Whether the first update of a window has the initial value as its old value, as in Kafka Streams; else it has none."""
        return kafka

    @property
    def changes_keys(self) -> bool:
        """Whether rows meet by a key that did not choose their partition, without a topic in between."""
        return False

    def idle_after(self, span: Duration | None) -> None:
        """Advance stream time with the wall clock once the input has been silent for this time (seconds, a timedelta or a string)."""
        if span is not None:
            ms = whole_ms(span, "idle_after", minimum=1)
            if self.idle_after_ms not in (None, ms):
                raise BuildError(
                    f"idle_after is {self.idle_after_ms} ms already, now {ms} ms: an input has one idle timeout"
                )
            self.idle_after_ms = ms

    def late_to(self, sink: Any) -> None:
        """Send the late rows of all steps to one sink. Raises BuildError if another sink was given."""
        if sink is not None:
            if self.late not in (None, sink):
                raise BuildError(
                    "late: this topology sends late rows to another sink already; give all steps the same one"
                )
            self.late = sink

    def is_kafka(self, where: str, semantics: Semantics | None) -> bool:
        """True if a step follows Kafka Streams exactly: `semantics`, or the topology's."""
        return (self.semantics if semantics is None else semantics_of(where, semantics)) == "kafka"


class Build:
    """Makes the operators of one task; `of` returns the operator of a node, the same at each call."""

    def __init__(
        self,
        topology: Topology,
        env: TaskEnvironment,
        stores: Stores,
        outbox: Outbox,
        detailed: bool = False,
        *,
        partition: int = 0,
        now_ms: Callable[[], int] = lambda: 0,
        start_coroutine: Callable[[Any], Any] | None = None,
    ) -> None:
        """`now_ms`: the wall clock. `start_coroutine`: runs a coroutine on the actor system's loop and returns a Future; None: there is no system."""
        self.topology = topology
        self.globals: Mapping[str, Operator] = {}
        """The global tables that are filled from outside the task, by topic."""
        self.env = env
        self.stores = stores
        self.outbox = outbox
        self.partition = partition
        self.detailed = detailed
        self.stateful: list[Stateful] = []
        self.buffers: list[Buffering] = []
        self.times: list[TaskTime] = []
        self.now_ms = now_ms
        self.start_coroutine = start_coroutine
        self._time_numbers: dict[TopologyNode, int] | None = None
        self._operators: dict[TopologyNode, Operator] = {}
        self._shared: dict[Any, Any] = {}

    def of(self, node: TopologyNode) -> Operator:
        """Return the operator of a node."""
        node = node.carrier(self)
        operator = self._operators.get(node)
        if operator is None:
            operator = self._operators[node] = node.operator(self)
            if operator.store is not None:
                self.stateful.append(operator)
        return operator

    def shared(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what several operators share, made by the first that asks for it."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    @property
    def keeps_time(self) -> bool:
        """True if a step needs the time of the task."""
        return any(node.keeps_time for node in self.topology.nodes)

    def time_of(self, node: TopologyNode) -> TaskTime:
        """Return the time of the nodes that are connected with `node` without a repartition topic."""
        if self._time_numbers is None:
            self._time_numbers = connected(self.topology)
            kafka = self.topology.semantics == "kafka"
            self.times = [TaskTime(self.now_ms, kafka=kafka) for _ in set(self._time_numbers.values())]
        return self.times[self._time_numbers[node]]

    def keep(self, stateful: Stateful) -> None:
        """Register a store that is not an operator's own."""
        self.stateful.append(stateful)


def connected(topology: Topology, without: Container[TopologyNode] = ()) -> dict[TopologyNode, int]:
    """Return a number for each node, equal for nodes that are connected without a repartition topic, or by a state that they share.

    The nodes of `without` connect no others."""
    beside: dict[TopologyNode, list[TopologyNode]] = {
        node: [*node.children, *node.parents, *node.reads] for node in topology.nodes
    }
    for node in topology.nodes:
        for read in node.reads:
            beside[read].append(node)
    numbers: dict[TopologyNode, int] = {}
    count = 0
    for first in topology.nodes:
        if first in numbers:
            continue
        waiting = [first]
        while waiting:
            node = waiting.pop()
            if node not in numbers:
                numbers[node] = count
                waiting += [] if node in without else [each for each in beside[node] if each not in without]
        count += 1
    return numbers


def semantics_of(where: str, semantics: object) -> Semantics:
    """Check the parameter `semantics`."""
    if semantics == "kafka":
        return "kafka"
    if semantics != "strict":
        raise BuildError(f'{where}: semantics is {semantics!r}; choose "strict" or "kafka"')
    return "strict"


def above(node: TopologyNode) -> Iterator[TopologyNode]:
    """Yield a node and everything from which rows reach it, each once."""
    seen: set[TopologyNode] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            yield each
            waiting.extend(each.parents)
