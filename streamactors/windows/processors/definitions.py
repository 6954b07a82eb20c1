"""Processor: the class that users derive from, and the definitions that `process` and `keyed` make of their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from streamactors.durations import EventSpan
from streamactors.errors import BuildError
from streamactors.stages.checks import no_coroutine_function
from streamactors.windows.processors.context import ProcessorContext
from streamactors.windows.processors.store_definitions import KeyValueStore, StoreDefinition
from streamactors.windows.record import Record
from streamactors.windows.values import snapshot

Semantics = Literal["strict", "kafka"]


class Processor:
    """Sees every row of its task, one at a time. Derive from it; each task has an instance of its own.

    An exception out of any method fails the row: it is not done, and a restart reads it again."""

    def init(self, context: ProcessorContext) -> None:
        """Called once, before the first row, after the stores were restored."""

    def process(self, record: Record) -> None:
        """Called for each row; key and value may be None."""
        raise NotImplementedError(f"{type(self).__name__} needs a method process(record)")

    def on_timer(self, key: Any, at: int) -> None:
        """Called when stream time has reached a timer of `context.timer(key, at)`."""

    def close(self) -> None:
        """Called when the task ends. Nothing can be forwarded any more."""


@dataclass(frozen=True, slots=True)
class ProcessorDefinition:
    """One `process`, `process_values` or `keyed` step: `make` returns the processor of a task."""

    node: str
    make: Callable[[], Processor]
    stores: tuple[StoreDefinition, ...]
    reads: tuple[str, ...]
    """The names of the stores and tables of other steps that the processor uses."""
    keeps_key: bool
    semantics: Semantics
    timer_store: str


def processor_definition(
    where: str,
    node: str,
    make: object,
    stores: Sequence[StoreDefinition | str],
    *,
    keeps_key: bool,
    semantics: object = "strict",
) -> ProcessorDefinition:
    """Check the parameters of a step. Raises BuildError."""
    if isinstance(make, Processor):
        raise BuildError(
            f"{where}: {make!r} is one processor, and each task needs its own; give the class, or a function that returns one"
        )
    if not callable(make):
        raise BuildError(
            f"{where}: {make!r} is not a processor; give a class derived from Processor, or a function that returns one"
        )
    no_coroutine_function(where, make)
    needed = _needed_parameters(make)
    if needed:
        raise BuildError(
            f"{where}: {make!r} is called without arguments, once for each task, and needs {', '.join(needed)}; give a class derived from "
            "Processor, or a function that returns one. A function of one record belongs into map, of state and record into keyed"
        )
    if semantics not in ("strict", "kafka"):
        raise BuildError(f'{where}: semantics is {semantics!r}; choose "strict" or "kafka"')
    if isinstance(stores, str | StoreDefinition):
        raise BuildError(f"{where}: stores is {stores!r}; give a list")
    own: dict[str, StoreDefinition] = {}
    reads: list[str] = []
    for store in stores:
        if isinstance(store, str):
            reads.append(store)
        elif not isinstance(store, StoreDefinition):
            raise BuildError(
                f"{where}: {store!r} is not a store; give KeyValueStore, WindowStore, SessionStore or VersionedStore, or the name of one"
            )
        elif own.setdefault(store.name, store) != store:
            raise BuildError(f"{where}: two stores have the name {store.name!r}; names must differ")
    kind: Any = "kafka" if semantics == "kafka" else "strict"
    return ProcessorDefinition(node, make, tuple(own.values()), tuple(reads), keeps_key, kind, f"{node}-timers")


def _needed_parameters(make: Callable[..., Any]) -> list[str]:
    """Return the parameters without a default value; none if the signature is not known."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return []
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in free]


STATE: Final = "state"


class KeyedFunction(Processor):
    """`keyed`: calls `fn(state, record)`, which returns the new state and the results; a state of None deletes the key's entry.

    A result that is not a Record gets the key, timestamp and context of the row."""

    def __init__(self, fn: Callable[[Any, Record], Any], initial: Callable[[], Any], store: str, name: str) -> None:
        self._fn = fn
        self._initial = initial
        self._store = store
        self._name = name

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._states = context.store(self._store)

    def process(self, record: Record) -> None:
        if record.key is None:
            self._context.drop(record)
            return
        key = snapshot(record.key)  # `fn` may change the record's
        state = self._states.get(key)
        answer = self._fn(self._initial() if state is None else state, record)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(f"{self._name}: the function returned {answer!r}; return (state, results)")
        state, results = answer
        if isinstance(results, str | bytes | dict) or not hasattr(results, "__iter__"):
            raise TypeError(f"{self._name}: the results are {results!r}; return (state, [result, …]), with [] for none")
        self._states.put(key, state)
        for result in results:
            if isinstance(result, Record):
                self._context.forward(result)
            else:
                self._context.forward(Record(snapshot(key), result, record.timestamp, record.context))


def keyed_definition(
    node: str,
    store: str,
    fn: object,
    initial: object,
    ttl: EventSpan | None,
) -> ProcessorDefinition:
    """Check the parameters of `keyed`. `initial`: a value that cannot change, or a function that returns a new state. Raises BuildError."""
    if not callable(fn):
        raise BuildError(f"keyed: {fn!r} is not callable; give a function of state and record")
    no_coroutine_function("keyed", fn)
    if not callable(initial) and isinstance(initial, list | dict | set | bytearray):
        raise BuildError(
            f"keyed: initial is {initial!r}, which all keys would share; give a function: initial={type(initial).__name__}"
        )
    begin: Callable[[], Any] = initial if callable(initial) else lambda: snapshot(initial)
    function: Callable[[Any, Record], Any] = fn
    stores = [KeyValueStore(store, ttl)]
    return processor_definition(
        "keyed", node, lambda: KeyedFunction(function, begin, store, node), stores, keeps_key=False
    )
