"""A flow as a chain of stages, and how Spark's workers run it: in one generated loop, or on the engine where a stage needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.graph import Flat, StageNode
from streamactors.engine.blueprint.modules import AsyncBoundary, Joined, Module, StageModule
from streamactors.engine.fusing.loop import NEVER_STOP, FusedLoop, Op, Refilled
from streamactors.engine.stage import NOT_USED, GraphStage
from streamactors.errors import BuildError
from streamactors.spark.rows import has_arrow
from streamactors.stages.bases.passing import Identity
from streamactors.stages.rate.throttle import Throttle
from streamactors.stages.transform.mapping import Filter

if TYPE_CHECKING:
    pass


class Diverted:
    """The predicate of a stage that diverts: it keeps the elements that leave the chain, for `take`."""

    def __init__(self, leaves: Callable[[Any], Any]) -> None:
        self._leaves = leaves
        self._rows: list[Any] = []

    def __call__(self, element: Any) -> bool:
        if self._leaves(element):
            self._rows.append(element)
            return False
        return True

    def take(self) -> list[Any]:
        """Return the elements that have left the chain since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {"_leaves": self._leaves, "_rows": []}


class Link(NamedTuple):
    """A stage of a chain with its attributes."""

    stage: GraphStage
    attributes: Attributes

    @property
    def label(self) -> str:
        """The stage's name in errors."""
        return self.attributes.name or self.stage.label

    @property
    def op(self) -> Op | None:
        """The stage as a step of a generated loop; None if it cannot be one."""
        make: Callable[[Attributes], Op] | None = getattr(self.stage, "op", None)
        return None if make is None else make(self.attributes)


GATHERED: Final = 1_000
"""As many elements as a chunk of records that is read."""


def line_of(flat: Flat, first: int, who: str) -> list[int]:
    """Return the nodes from `first` to the end of its only way. Raises BuildError at a junction."""
    following = {source: target for (source, _), (target, _) in flat.edges}
    found: list[int] = []
    here: int | None = first
    while here is not None:
        shape = flat.nodes[here].stage.shape
        if max(len(shape.inlets), len(shape.outlets)) > 1:
            raise _forks(flat.nodes[here], who)
        found.append(here)
        here = following.get(here)
    return found


def _forks(node: StageNode, who: str) -> BuildError:
    return BuildError(
        f"{who} runs a chain of stages, and stage '{node.label}' joins or splits streams; put it into a graph of its own, "
        "with a topic or a DataFrame between the two"
    )


def links_of(
    nodes: Iterable[StageNode], who: str, *, may_remember: bool = False, keeps_order: bool = False
) -> list[Link]:
    """Return the stages that a worker runs, without the identity and async boundaries, which change no element.

    Raises BuildError for a stage whose result would depend on how Spark cuts the elements into tasks; with `may_remember` only for
    stages that are wrong in every task; with `keeps_order` also for stages that may change the order of elements."""
    found = []
    for node in nodes:
        stage = node.stage
        if isinstance(stage, (Identity, AsyncBoundary)):
            continue
        if isinstance(stage, Filter) and isinstance(stage.fn, Diverted):
            found.append(Link(stage, node.attributes))
            continue
        _, value = stage.create(node.attributes)
        if value is not NOT_USED:
            raise BuildError(
                f"{who}: stage '{node.label}' materializes a {type(value).__name__} for this process, and the stage runs in others; "
                "stop the query by its own handle, and take results out of Spark or a topic"
            )
        if isinstance(stage, Throttle):
            raise BuildError(
                f"{who}: stage '{node.label}' would limit the rate of each task by itself, not of the stream; "
                "limit it in the source (max_rows of a batch), or where the results are used"
            )
        if stage.handling.remembers and not may_remember:
            raise BuildError(
                f"{who}: stage '{node.label}' remembers earlier elements (or does not declare that it does not), and Spark cuts the "
                "elements into tasks that remember nothing of each other; "
                "use windows or a table by key, or put a topic between two graphs"
            )
        if keeps_order and not stage.handling.exact:
            raise BuildError(
                f"{who}: stage '{node.label}' does not keep the order of elements, so a task that runs twice could give two results; "
                "use map_async for map_async_unordered, or put a topic between two graphs"
            )
        found.append(Link(stage, node.attributes))
    return found


def as_module(links: Sequence[Link]) -> Module:
    """Return the chain as a flow's blueprint."""
    parts: list[Module] = [StageModule(link.stage, link.attributes) for link in links] or [StageModule(Identity())]
    module = parts[0]
    for part in parts[1:]:
        module = Joined(module, part, lambda left, _: left)
    return module


@dataclass
class ChainSegment:
    """A chain of stages. Made in the driver, run in a worker.

    A chain of maps and filters is one generated loop. Any other chain runs on the engine, once for each chunk (0.3 ms); the caller's thread pulls
    the results. `remembers`: one run takes all chunks."""

    links: tuple[Link, ...]
    remembers: bool = False
    _loop: FusedLoop | None = None
    _refilling: FusedLoop | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"links": self.links, "remembers": self.remembers, "_loop": None, "_refilling": None}

    @property
    def empty(self) -> bool:
        """True for a chain without a stage."""
        return not self.links

    @property
    def fused(self) -> bool:
        """True if the whole chain is one generated loop."""
        return all((op := link.op) is not None and op.kind != "scan" for link in self.links)

    def chunks(self, chunks: Iterable[Sequence[Any]], refilled: Refilled | None = None) -> Iterator[list[Any]]:
        """Yield the results of chunks of elements, in order, as chunks without empty ones.

        `refilled`: the elements are raw messages to be wrapped. Raises the error of the user's function after the results before it."""
        if self.empty and refilled is None:
            yield from (list(chunk) for chunk in chunks if chunk)
        elif self.fused:
            yield from self._looped(chunks, refilled)
        else:
            parts: Iterable[Iterable[Sequence[Any]]] = [chunks] if self.remembers else ([chunk] for chunk in chunks)
            for part in parts:
                yield from self._on_engine(part)

    def _looped(self, chunks: Iterable[Sequence[Any]], refilled: Refilled | None) -> Iterator[list[Any]]:
        if self._loop is None:
            self._loop = FusedLoop(tuple(op for link in self.links if (op := link.op) is not None))
            self._refilling = None if refilled is None else self._loop.refilling(refilled)
        loop = self._loop if refilled is None else self._refilling
        assert loop is not None
        for chunk in chunks:
            out: list[Any] = []
            error = loop(iter(chunk), out, NEVER_STOP, [])
            if out:
                yield out
            if error is not None:
                raise error

    def _on_engine(self, chunks: Iterable[Sequence[Any]]) -> Iterator[list[Any]]:
        from streamactors.dsl.flow import Flow
        from streamactors.dsl.runnable import default_system
        from streamactors.dsl.source import Source

        elements = (element for chunk in chunks for element in chunk)
        flow: Flow[Any, Any, Any] = Flow(as_module(self.links))
        run = Source.from_iterable(elements).via(flow).map_chunks(lambda chunk: [list(chunk)])
        yield from gathered(run.run_iter(default_system(), buffer=16))


def gathered(chunks: Iterator[list[Any]]) -> Iterator[list[Any]]:
    """Yield small chunks as chunks of about GATHERED elements: what a task does with a chunk, as to write it to a topic, has a cost of its own.

    An error comes after the elements before it. Arrow data, which has many rows in one element, is not held."""
    held: list[Any] = []
    try:
        for chunk in chunks:
            held += chunk
            if len(held) >= GATHERED or has_arrow(chunk):
                out, held = held, []
                yield out
    except Exception:
        if held:
            yield held
        raise
    if held:
        yield held
