"""Operators on elements that carry a context (an offset, a trace id): functions see the element, the context travels beside it.

Here are only operators that keep the order and know which element a result stems from; where several elements become one, their
contexts become a list. Written once for SourceWithContext and FlowWithContext: `ContextOps[U, Ctx, Mat]` in a signature stands for whichever
it is called on, as `Ops` does in ops.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic

from streamactors.dsl.context_pairs import async_on_element, first_of, on_element
from streamactors.dsl.part import Part, joined, module_of
from streamactors.dsl.typevars import Ctx, K, Mat, Out, U, V
from streamactors.engine.blueprint import Module, StageModule, Wired
from streamactors.engine.stage import NOT_USED, GraphStage
from streamactors.stages.async_ import MapAsync, MapAsyncPartitioned
from streamactors.stages.checks import function, plain_function
from streamactors.stages.errors import MapError
from streamactors.stages.expanding import MapConcat
from streamactors.stages.fan_out import Broadcast
from streamactors.stages.grouping import Grouped, Sliding
from streamactors.stages.transform import Filter, FilterNot, Map

if TYPE_CHECKING:
    from streamactors.dsl.sink import Sink
    from streamactors.dsl.with_context import FlowWithContext


class ContextOps(Part[Mat], Generic[Out, Ctx, Mat]):
    """A part whose open outlet emits pairs (element, context)."""

    __slots__ = ()

    def _with(self, module: Module) -> ContextOps[Any, Any, Any]:
        return type(self)(module)

    def _via(self, stage: GraphStage) -> ContextOps[Any, Any, Mat]:
        return self._with(joined(self.module, StageModule(stage)))

    # ── one element, one result ───────────────────────────────────────────────────────────────────────────────────

    def map(self, fn: Callable[[Out], U]) -> ContextOps[U, Ctx, Mat]:
        """Apply `fn` to each element; its context stays with the result. As `Source.map` otherwise."""
        return self._via(Map(on_element(plain_function("map", fn, "map_async"))))

    def map_async(
        self, parallelism: int, fn: Callable[[Out], Awaitable[U]] | Callable[[Out], U]
    ) -> ContextOps[U, Ctx, Mat]:
        """Call `fn` with up to `parallelism` elements at a time; results come in order, with their contexts. As `Source.map_async`."""
        return self._via(MapAsync(parallelism, async_on_element(function("map_async", fn))))

    def map_async_partitioned(
        self,
        parallelism: int,
        key: Callable[[Out], K],
        fn: Callable[[Out], Awaitable[U]] | Callable[[Out], U],
        per_partition: int = 1,
    ) -> ContextOps[U, Ctx, Mat]:
        """As `map_async`, with at most `per_partition` calls per key at a time. As `Source.map_async_partitioned`."""
        key_of = first_of(plain_function("map_async_partitioned: key", key))
        calls = async_on_element(function("map_async_partitioned", fn))
        return self._via(MapAsyncPartitioned(parallelism, key_of, calls, per_partition))

    def map_context(self, fn: Callable[[Ctx], V]) -> ContextOps[Out, V, Mat]:
        """Apply `fn` to each context; the element stays."""
        checked = plain_function("map_context", fn)
        return self._via(Map(lambda pair: (pair[0], checked(pair[1]))))

    # ── fewer, or more ────────────────────────────────────────────────────────────────────────────────────────────

    def filter(self, predicate: Callable[[Out], Any] | None) -> ContextOps[Out, Ctx, Mat]:
        """Pass the elements for which `predicate` is true, with their contexts; with None, those that are true themselves."""
        return self._via(Filter(first_of(predicate if predicate is None else plain_function("filter", predicate))))

    def filter_not(self, predicate: Callable[[Out], Any] | None) -> ContextOps[Out, Ctx, Mat]:
        """Pass the elements for which `predicate` is false, with their contexts; with None, those that are false themselves."""
        return self._via(
            FilterNot(first_of(predicate if predicate is None else plain_function("filter_not", predicate)))
        )

    def map_concat(self, fn: Callable[[Out], Iterable[U]]) -> ContextOps[U, Ctx, Mat]:
        """Emit each element of the iterables that `fn` returns; all of one iterable have the context of its element."""
        checked = plain_function("map_concat", fn)
        return self._via(MapConcat(lambda pair: ((element, pair[1]) for element in checked(pair[0]))))

    def grouped(self, n: int) -> ContextOps[list[Out], list[Ctx], Mat]:
        """Emit lists of n elements, with the list of their contexts. As `Source.grouped`."""
        return self._via(Grouped(n))._via(Map(_unzipped))

    def sliding(self, n: int, step: int = 1) -> ContextOps[list[Out], list[Ctx], Mat]:
        """Emit windows of n elements, each `step` further, with the list of their contexts. As `Source.sliding`."""
        return self._via(Sliding(n, step))._via(Map(_unzipped))

    # ── errors and other parts ────────────────────────────────────────────────────────────────────────────────────

    def map_error(self, fn: Callable[[BaseException], BaseException]) -> ContextOps[Out, Ctx, Mat]:
        """Replace the error of a failing stream. As `Source.map_error`."""
        return self._via(MapError(fn))

    def also_to(self, sink: Sink[tuple[Out, Ctx], Any]) -> ContextOps[Out, Ctx, Mat]:
        """Give every pair (element, context) to `sink` as well. As `Source.also_to`."""
        fork = Wired(
            (StageModule(Broadcast(2, eager_cancel=True)), module_of("also_to", sink, (1, 0))),
            (((0, 1), (1, 0)),),
            ((0, 0),),
            ((0, 0),),
            lambda _: NOT_USED,
        )
        return self._with(joined(self.module, fork))

    def via(self, flow: FlowWithContext[Out, Ctx, U, V, Any]) -> ContextOps[U, V, Mat]:
        """Put a flow with context behind this part."""
        return self._with(joined(self.module, module_of("via", flow, (1, 1))))

    def async_boundary(self, buffer: int | None = None) -> ContextOps[Out, Ctx, Mat]:
        """Run what comes next in an actor of its own. As `Source.async_boundary`."""
        from streamactors.dsl.flow import Flow

        return self._with(joined(self.module, Flow.identity().async_boundary(buffer).module))


def _unzipped(pairs: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [element for element, _ in pairs], [context for _, context in pairs]
