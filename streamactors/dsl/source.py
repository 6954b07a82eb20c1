"""Source: a part with one open outlet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, overload

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.operators.all_operators import SourceOps
from streamactors.dsl.part import checked_combine, joined, labels, module_of, not_used, one_by_one
from streamactors.dsl.runnable import RunnableGraph, started
from streamactors.dsl.sources.all_sources import SourceConstructors
from streamactors.dsl.suggestions import SourceSuggestions
from streamactors.dsl.typevars import M2, M3, Mat, Out, T
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import (
    Attributed,
    MatMapped,
    Module,
    StageModule,
    Wired,
    keep_both,
    keep_right,
)
from streamactors.engine.stage import GraphStage, NotUsed
from streamactors.engine.user_code import shortened
from streamactors.errors import BuildError
from streamactors.stages.checks import at_least, plain_function

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.dsl.sink import Sink


class Source(SourceOps[Out, Mat], SourceConstructors, SourceSuggestions):
    """The beginning of a stream. Made by `Source.from_iterable(…)`, `Source.range(…)`, `Source.queue(…)` and so on."""

    __slots__ = ()
    ports = (0, 1)

    @classmethod
    def from_stage(cls, stage: GraphStage) -> Source[Any, Any]:
        """Return the source of a stage of your own; it materializes what the stage's `create` returns."""
        return Source(module_of("Source.from_stage", stage, (0, 1)))

    @overload
    @classmethod
    def combine(
        cls, sources: Iterable[Source[T, Any]], /, strategy: Callable[[int], GraphStage] | None = None
    ) -> Source[T, NotUsed]: ...

    @overload
    @classmethod
    def combine(
        cls, *sources: Source[T, Any], strategy: Callable[[int], GraphStage] | None = None
    ) -> Source[T, NotUsed]: ...

    @classmethod
    def combine(cls, *sources: Any, strategy: Any = None) -> Source[Any, NotUsed]:
        """Join several sources, given one by one or as a list, in a junction that `strategy(number of sources)` makes: Merge (the
        default), Concat, or your own.

        Emits, completes and fails when the junction does.
        """
        from streamactors.stages.junctions.fan_in import Merge

        several, strategy = one_by_one(sources, strategy)
        modules = [module_of("Source.combine", one, (0, 1)) for one in several]
        if not modules:
            raise BuildError("Source.combine expects at least one source")
        junction = StageModule((strategy or Merge)(len(modules)))
        if (len(junction.shape.inlets), len(junction.shape.outlets)) != (len(modules), 1):
            raise BuildError(f"Source.combine: the strategy must give a junction of {len(modules)} inlets and 1 outlet")
        wires = tuple(((i + 1, 0), (0, i)) for i in range(len(modules)))
        return Source(Wired((junction, *modules), wires, (), ((0, 0),), not_used))

    # ── with a sink ───────────────────────────────────────────────────────────────────────────────────────────────

    def to(self, sink: Sink[Out, Any]) -> RunnableGraph[Mat]:
        """Return this source feeding `sink`, ready to run; keep this source's materialized value."""
        return RunnableGraph(joined(self.module, module_of("to", sink, (1, 0))))

    def to_mat(self, sink: Sink[Out, M2], combine: Callable[[Mat, M2], M3]) -> RunnableGraph[M3]:
        """As `to`; the materialized value is `combine(this source's, the sink's)`, for example Keep.both."""
        return RunnableGraph(joined(self.module, module_of("to_mat", sink, (1, 0)), checked_combine("to_mat", combine)))

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def run_with(self, sink: Sink[Out, M2], system: ActorSystem | None = None) -> M2:
        """Run this source into `sink` and return the sink's materialized value, for most sinks a future.

        Without `system` it runs in the default system, which ends with the process."""
        return RunnableGraph[M2](self._into(module_of("run_with", sink, (1, 0)))).run(system)

    def run(self, system: ActorSystem | None = None) -> StreamFuture[None]:
        """Run this source, drop its elements, and return a future that ends with the stream."""
        from streamactors.stages.sinks.values import Ignore

        ended: StreamFuture[None] = started(self._into(StageModule(Ignore())), system)
        return ended

    def as_observable(self, system: ActorSystem | None = None) -> Any:
        """Return an RxPY observable: each subscription runs this source and calls the observer on the stream's thread.

        Demand follows the observer: the next element is asked for when `on_next` has returned, so nothing is buffered. Disposing the
        subscription cancels the stream. A failure goes to `on_error`; without one RxPY raises it."""
        from streamactors.stages.rx.to_observer import as_observable

        return as_observable(lambda sink: started(joined(self.module, StageModule(sink), keep_right), system))

    def run_iter(self, system: ActorSystem | None = None, *, buffer: int | None = None) -> Iterator[Out]:
        """Iterate over the elements of this source; the run starts at the first `next`.

        The stream is at most `buffer` elements ahead (default: a number that follows the reader, from 16 to 4,096). Leaving the loop
        cancels the stream; a failure is raised in the loop. A mark is done when the loop asks for the element after it."""
        from streamactors.dsl.iterate import iterate
        from streamactors.engine.planning.plan import plan_of
        from streamactors.stages.sinks.pull import PullSink

        module = self._into(StageModule(PullSink("run_iter", buffer)))
        plan_of(module)  # a graph that cannot run raises here, not at the first element
        return iterate(lambda: started(module, system))

    def run_async_iter(self, system: ActorSystem | None = None, *, buffer: int | None = None) -> AsyncIterator[Out]:
        """As `run_iter`, for `async for` in any asyncio loop; `aclose()` or leaving the loop cancels the run."""
        from streamactors.dsl.iterate import AsyncElements
        from streamactors.engine.planning.plan import plan_of
        from streamactors.stages.sinks.pull import PullSink

        module = self._into(StageModule(PullSink("run_async_iter", buffer)))
        plan_of(module)
        return AsyncElements(lambda: started(module, system))

    def _into(self, sink: Module) -> Module:
        return joined(self.module, sink, keep_right)

    # ── other forms of it ─────────────────────────────────────────────────────────────────────────────────────────

    def pre_materialize(self, system: ActorSystem | None = None) -> tuple[Mat, Source[Out, NotUsed]]:
        """Run this source now; return its materialized value and a source of its elements, which can be run once, on any system.

        Nothing is lost: the source waits until it is read, a buffer ahead. A mark is done when it is read."""
        from streamactors.stages.sinks.pull import PullSink
        from streamactors.stages.sources.hand_over import HandOver

        graph = joined(self.module, StageModule(PullSink("pre_materialize", None)), keep_both)
        value, reader = started(graph, system)
        return value, Source(StageModule(HandOver(reader)))

    def materialize_into_source(self, sink: Sink[Out, Future[T]]) -> Source[T, NotUsed]:
        """Return a source that, when it is run, runs this source into `sink` and emits the result of the sink's future.

        Completes when: it has emitted.   Fails when: the future fails.   Cancels when: downstream does; the inner run continues."""
        from streamactors.stages.sources.deferred import FromMaterializerSource

        graph = joined(self.module, module_of("materialize_into_source", sink, (1, 0)), keep_right)

        def run(system: ActorSystem, _: Attributes) -> Source[T, NotUsed]:
            return Source.future(started(graph, system))

        return Source(MatMapped(StageModule(FromMaterializerSource(run)), not_used))

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
        file lines; BuildError for others. Positions are element indices from 0. A position mark travels after each chunk, and at each
        position in `marks_at`. `on_done(position)` is called, on any thread but one at a time, when everything before
        `position` is done at every sink of the run or was dropped on purpose."""
        return Source(_replayed(self.module, start, marks_at, on_done))


def _replayed(module: Module, start: int, marks_at: Iterable[int], on_done: Callable[[int], Any] | None) -> Module:
    """Return `module` with its source started at `start`. Raises BuildError when there is not exactly one replayable source in it."""
    from streamactors.engine.marks.replay import Replay
    from streamactors.engine.planning.plan import plan_of

    at_least("with_replay", "start", start, 0)
    if not isinstance(marks_at, Iterable):
        raise BuildError(f"with_replay: marks_at must be positions, got {shortened(marks_at, 60)}")
    positions = [at_least("with_replay", "marks_at", position, 0) for position in marks_at]
    if on_done is not None:
        plain_function("with_replay: on_done", on_done)
    sources = [node for node in plan_of(module).nodes if node.stage.traits.emits_marks]
    if len(sources) != 1:
        have = "none here" if not sources else " and ".join(node.label for node in sources)
        raise BuildError(
            f"with_replay needs one source that can be read again (a range, a list, a re-iterable, from_lines), found {have}: "
            f"{labels(module, 60)}; give each source its own, before they are joined"
        )
    return Attributed(module, Attributes(replay=Replay.of(start, positions, on_done)))
