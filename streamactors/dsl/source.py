"""Source: a part with one open outlet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.compose import compose
from streamactors.dsl.iterate import AsyncElements, iterate
from streamactors.dsl.operators import SourceOps
from streamactors.dsl.part import checked_combine, joined, module_of, not_used, one_by_one
from streamactors.dsl.replay import replayed
from streamactors.dsl.runnable import RunnableGraph, default_system
from streamactors.dsl.sources_computed import ComputedSources
from streamactors.dsl.sources_fed import FedSources
from streamactors.dsl.sources_finite import FiniteSources
from streamactors.dsl.typevars import M2, M3, Mat, Out, T, U
from streamactors.engine.blueprint import Module, StageModule, Wired, keep_both, keep_right
from streamactors.engine.plan import plan_of
from streamactors.engine.run import materialize
from streamactors.engine.stage import GraphStage, NotUsed
from streamactors.errors import BuildError
from streamactors.stages.checks import plain_function
from streamactors.stages.fan_in import Merge
from streamactors.stages.hand_over import HandOver
from streamactors.stages.pull import PullSink
from streamactors.stages.sinks import Ignore
from streamactors.stages.transform import Map

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.sink import Sink
    from streamactors.dsl.with_context import SourceWithContext


class Source(SourceOps[Out, Mat], FiniteSources, ComputedSources, FedSources):
    """Where elements begin. Made by `Source.from_iterable(…)`, `Source.range(…)`, `Source.queue(…)` and so on."""

    __slots__ = ()
    ports = (0, 1)

    @classmethod
    def from_stage(cls, stage: GraphStage) -> Source[Any, Any]:
        """Return the source of a stage of your own; it materializes what the stage's `create` returns."""
        return Source(module_of("Source.from_stage", stage, (0, 1)))

    @overload
    @classmethod
    def combine(
        cls, sources: Iterable[Source[T, Any]], /, strategy: Callable[[int], GraphStage] = Merge
    ) -> Source[T, NotUsed]: ...

    @overload
    @classmethod
    def combine(cls, *sources: Source[T, Any], strategy: Callable[[int], GraphStage] = Merge) -> Source[T, NotUsed]: ...

    @classmethod
    def combine(cls, *sources: Any, strategy: Any = Merge) -> Source[Any, NotUsed]:
        """Join several sources, given one by one or as a list, in a junction that `strategy(number of sources)` makes: Merge,
        Concat, or your own.

        Emits, completes and fails when the junction does.
        """
        several, strategy = one_by_one(sources, strategy)
        modules = [module_of("Source.combine", one, (0, 1)) for one in several]
        if not modules:
            raise BuildError("Source.combine expects at least one source")
        junction = StageModule(strategy(len(modules)))
        if (len(junction.shape.inlets), len(junction.shape.outlets)) != (len(modules), 1):
            raise BuildError(f"Source.combine: the strategy must give a junction of {len(modules)} inlets and 1 outlet")
        wires = tuple(((i + 1, 0), (0, i)) for i in range(len(modules)))
        return Source(Wired((junction, *modules), wires, (), ((0, 0),), not_used))

    # ── putting a sink behind it ──────────────────────────────────────────────────────────────────────────────────

    def to(self, sink: Sink[Out, Any]) -> RunnableGraph[Mat]:
        """Return this source feeding `sink`, ready to run; keep this source's materialized value."""
        return RunnableGraph(joined(self.module, module_of("to", sink, (1, 0))))

    def to_mat(self, sink: Sink[Out, M2], combine: Callable[[Mat, M2], M3]) -> RunnableGraph[M3]:
        """As `to`; the materialized value is `combine(this source's, the sink's)`, for instance Keep.both."""
        return RunnableGraph(joined(self.module, module_of("to_mat", sink, (1, 0)), checked_combine("to_mat", combine)))

    def __rshift__(self, other: Any) -> Any:
        """`source >> flow` is `via`, `source >> sink` is `to`; beside a port of a GraphDSL it wires."""
        return compose(self, other)

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def run_with(self, sink: Sink[Out, M2], system: ActorSystem | None = None) -> M2:
        """Run this source into `sink` and return what the sink materializes, for most a future.

        Without `system` it runs in a default one, which ends with the process."""
        return RunnableGraph[M2](self._into(module_of("run_with", sink, (1, 0)))).run(system)

    def run(self, system: ActorSystem | None = None) -> StreamFuture[None]:
        """Run this source for its effects and return a future that ends with it; elements are dropped."""
        ended: StreamFuture[None] = materialize(self._into(StageModule(Ignore())), system or default_system())
        return ended

    def as_observable(self, system: ActorSystem | None = None) -> Any:
        """Return an RxPY observable: each subscription runs this source and calls the observer on the stream's thread.

        Demand follows the observer: the next element is asked for when `on_next` has returned, so nothing is buffered. Disposing the
        subscription cancels the stream. A failure goes to `on_error`; without one RxPY raises it."""
        from streamactors.stages.rx.to_observer import as_observable

        return as_observable(
            lambda sink: materialize(joined(self.module, StageModule(sink), keep_right), system or default_system())
        )

    def run_iter(self, system: ActorSystem | None = None, *, buffer: int | None = None) -> Iterator[Out]:
        """Run this source when the first element is asked for, and iterate over its elements.

        The stream goes no further ahead than `buffer` elements (default: a number that follows the reader, from 16 to 4,096).
        Leaving the loop cancels it; its error is raised in the loop. A mark is done when the element behind it is asked for."""
        module = self._into(StageModule(PullSink("run_iter", buffer)))
        plan_of(module)  # what cannot run is an error here, not at the first element
        return iterate(lambda: materialize(module, system or default_system()))

    def run_async_iter(self, system: ActorSystem | None = None, *, buffer: int | None = None) -> AsyncIterator[Out]:
        """As `run_iter`, for `async for` in any asyncio loop; `aclose()` or leaving the loop cancels the run."""
        module = self._into(StageModule(PullSink("run_async_iter", buffer)))
        plan_of(module)
        return AsyncElements(lambda: materialize(module, system or default_system()))

    def _into(self, sink: Module) -> Module:
        return joined(self.module, sink, keep_right)

    # ── other forms of it ─────────────────────────────────────────────────────────────────────────────────────────

    def with_context(self, extract: Callable[[Out], U]) -> SourceWithContext[Out, U, Mat]:
        """Return this source with `extract(element)` as the context of each element, which then travels beside what becomes of it."""
        from streamactors.dsl.with_context import SourceWithContext

        context_of = plain_function("with_context", extract)
        return SourceWithContext(joined(self.module, StageModule(Map(lambda element: (element, context_of(element))))))

    def pre_materialize(self, system: ActorSystem | None = None) -> tuple[Mat, Source[Out, NotUsed]]:
        """Run this source now; return its materialized value and a source of its elements, which can be run once, on any system.

        Nothing is lost: the source waits until it is read, a buffer ahead. A mark is done when it is read."""
        graph = joined(self.module, StageModule(PullSink("pre_materialize", None)), keep_both)
        value, reader = materialize(graph, system or default_system())
        return value, Source(StageModule(HandOver(reader)))

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def with_replay(
        self,
        start: int = 0,
        *,
        marks_at: Iterable[int] = (),
        on_done: Callable[[int], object] | None = None,
    ) -> Source[Out, Mat]:
        """Start a replayable source at the element with index `start`, and follow how far its elements have come.

        For sources that can be read again: ranges, re-iterables (a list, a tuple, an object whose `__iter__` gives a new iterator) and
        file lines; BuildError for others. Positions are element indices from 0. A position mark travels behind each chunk, and at each
        position in `marks_at`. `on_done(position)` is called, on any thread but one at a time, when everything before
        `position` is done at every sink of the run or was dropped on purpose."""
        return Source(replayed(self.module, start, marks_at, on_done))
