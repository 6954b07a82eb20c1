"""The node of a processor, and the stores that processors share."""

from __future__ import annotations

from typing import Any

from streamactors.errors import BuildError
from streamactors.windows.operators.operator import Operator
from streamactors.windows.processors.definitions import ProcessorDefinition
from streamactors.windows.processors.key_value import KeyValues
from streamactors.windows.processors.operator import ProcessorOperator
from streamactors.windows.processors.session import SessionValues
from streamactors.windows.processors.state_store import StateStore
from streamactors.windows.processors.store_definitions import (
    KeyValueStore,
    SessionStore,
    StoreDefinition,
    VersionedStore,
    WindowStore,
)
from streamactors.windows.processors.timers import Timers
from streamactors.windows.processors.versioned import VersionedValues
from streamactors.windows.processors.window import WindowValues
from streamactors.windows.topology.model import Build, Topology, TopologyNode
from streamactors.windows.topology.nodes.table_nodes import TableNode
from streamactors.windows.topology.reading import view_of

KINDS: dict[type[StoreDefinition], type[StateStore[Any]]] = {
    KeyValueStore: KeyValues,
    WindowStore: WindowValues,
    SessionStore: SessionValues,
    VersionedStore: VersionedValues,
}


class ProcessorNode(TopologyNode):
    """process, process_values and keyed. `tables`: the tables whose stores the processor reads, by name."""

    by_row = True
    keeps_rows = True
    keeps_time = True

    def __init__(self, definition: ProcessorDefinition, topology: Topology) -> None:
        super().__init__(definition.node)
        self.definition = definition
        self.store_nodes: dict[str, ProcessorNode] = {}
        self.tables: dict[str, TableNode] = {}
        for store in definition.stores:
            known = topology.stores.get(store.name)
            if known is None:
                topology.keep(store.name, self)
                self.store_nodes[store.name] = self
            elif isinstance(known, ProcessorNode) and store in known.definition.stores:
                self.store_nodes[store.name] = known
            else:
                raise BuildError(
                    f"{definition.node}: the name {store.name!r} is used by another store; names must differ"
                )
        topology.keep(definition.timer_store, self)
        for name in definition.reads:
            self._use(name, topology)
        self.reads = [*self.tables.values(), *(node for node in self.store_nodes.values() if node is not self)]

    def _use(self, name: str, topology: Topology) -> None:
        known = topology.stores.get(name)
        table = next((node for node in topology.nodes if node.name == name and isinstance(node, TableNode)), None)
        if isinstance(known, ProcessorNode):
            self.store_nodes[name] = known
        elif table is not None:
            table.materialize()
            self.tables[name] = table
        else:
            raise BuildError(
                f"{self.definition.node}: there is no store or table {name!r} yet; there are {sorted(topology.stores)}: give the "
                "definition, for example KeyValueStore(name), or build the table first"
            )

    def operator(self, build: Build) -> Operator:
        time = build.time_of(self)
        stores: dict[str, Any] = {name: _store(build, node, name) for name, node in self.store_nodes.items()}
        for name, table in self.tables.items():
            stores[name] = view_of(build.of(table), build.env.serdes)
        timers = Timers(self.definition.timer_store, self.name, build.env, time, build.stores)
        build.keep(timers)
        return ProcessorOperator(self.definition, build.env, time, timers, stores, build.partition)


def _store(build: Build, node: ProcessorNode, name: str) -> StateStore[Any]:
    """Return the store that a node defines, the same for all processors of the task."""

    def make() -> StateStore[Any]:
        definition = next(each for each in node.definition.stores if each.name == name)
        store = KINDS[type(definition)](definition, node.name, build.env, build.time_of(node), build.stores)
        if isinstance(store, VersionedValues):
            store.kafka = node.definition.semantics == "kafka"
        build.keep(store)
        return store

    found: StateStore[Any] = build.shared(("store", name), make)
    return found
