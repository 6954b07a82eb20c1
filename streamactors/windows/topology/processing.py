"""The steps of a stream that run code with state of its own: process, process_values and keyed.

Owner: TopologyStream, which inherits them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from streamactors.durations import EventSpan
from streamactors.windows.definitions.windowing import Semantics
from streamactors.windows.processors.definitions import Processor, keyed_definition, processor_definition
from streamactors.windows.processors.store_definitions import StoreDefinition
from streamactors.windows.record import Record
from streamactors.windows.topology.model import TopologyNode
from streamactors.windows.topology.nodes.processor_nodes import ProcessorNode
from streamactors.windows.topology.steps import Part, step

S = TypeVar("S", bound="ProcessSteps[Any]")


class ProcessSteps(Part, ABC, Generic[S]):
    """Processors and functions with a state for each key. S: the stream of their results."""

    node: TopologyNode
    key_changed: bool

    @abstractmethod
    def _as_records(self) -> S:
        """Return the stream with Records in the place of WindowedRecords."""

    @abstractmethod
    def _ready_for(self, base: str, *, needs_key: bool) -> S:
        """Return the stream with equal keys in one partition."""

    @abstractmethod
    def _results_of(self, node: TopologyNode, *, key_changed: bool) -> S:
        """Return the stream of a node's results."""

    def process(
        self,
        make: Callable[[], Processor],
        *,
        stores: Sequence[StoreDefinition | str] = (),
        name: str | None = None,
        semantics: Semantics | None = None,
    ) -> S:
        """Every record goes to a Processor, one at a time; the stream of what it forwards.

        `make`: the class, or a function that returns a processor; each task has its own. `stores`: definitions, and names of stores and
        tables of other steps. The key may change."""
        return self._process("process", make, stores, name, semantics, keeps_key=False)

    def process_values(
        self,
        make: Callable[[], Processor],
        *,
        stores: Sequence[StoreDefinition | str] = (),
        name: str | None = None,
        semantics: Semantics | None = None,
    ) -> S:
        """As `process`, for a processor that keeps the key of each record, so that nothing is repartitioned after it. `make`: the class, or a function
        that returns a processor."""
        return self._process("process_values", make, stores, name, semantics, keeps_key=True)

    @step
    def keyed(
        self,
        fn: Callable[[Any, Record], tuple[Any, Iterable[Any]]],
        *,
        initial: Any = None,
        ttl: EventSpan | None = None,
        name: str | None = None,
    ) -> S:
        """`fn(state, record)` returns (state, results) for each record; each key has a state of its own, which lasts.

        `initial`: the first state of a key, or a function that returns it. A state of None deletes. A state that was not written for `ttl`
        of stream time is forgotten. A result that is not a Record gets key, time and context of the record. Records whose key is None are
        dropped and counted."""
        node_name = self.topology.named(name, "keyed")
        definition = keyed_definition(node_name, node_name, fn, initial, ttl)
        stream = self._as_records()._ready_for(node_name, needs_key=True)
        node = self.topology.add(ProcessorNode(definition, self.topology), stream.node)
        return self._results_of(node, key_changed=True)

    @step
    def _process(
        self,
        where: str,
        make: object,
        stores: Sequence[StoreDefinition | str],
        name: str | None,
        semantics: Semantics | None,
        *,
        keeps_key: bool,
    ) -> S:
        node_name = self.topology.named(name, where.replace("_", "-"))
        kind = "kafka" if self.topology.is_kafka(where, semantics) else "strict"
        definition = processor_definition(where, node_name, make, stores, keeps_key=keeps_key, semantics=kind)
        stream = self._as_records()
        node = self.topology.add(ProcessorNode(definition, self.topology), stream.node)
        return self._results_of(node, key_changed=stream.key_changed or not keeps_key)
