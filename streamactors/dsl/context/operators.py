"""Operators on elements that carry a context (an offset, a trace id): functions see the element, the context travels beside it.

Only operators that keep the order, and whose results stem from known elements, have this form. When several elements become one result,
their contexts become a list."""

# Over 400 lines: each operator once, with its contract and its example.

from __future__ import annotations

import asyncio
import concurrent.futures
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Iterable
from logging import DEBUG, Logger
from typing import TYPE_CHECKING, Any

from streamactors.actors.messages import ActorAddress
from streamactors.dsl.context.base import ContextOps
from streamactors.dsl.part import checked_combine, joined, module_of
from streamactors.dsl.typevars import M2, M3, Ctx, K, Mat, Out, U, V
from streamactors.durations import Duration
from streamactors.engine.awaiting import can_be_awaited
from streamactors.engine.blueprint.modules import AsyncBoundary, MatMapped, Module, StageModule, Wired
from streamactors.engine.stage import NOT_USED
from streamactors.stages.checks import function, is_coroutine_function, plain_function, positive

if TYPE_CHECKING:
    from streamactors.dsl.kinds import Flow, FlowWithContext, Sink
    from streamactors.stages.asynchronous.circuit_breaker import CircuitBreaker
    from streamactors.stages.restart_settings import RestartSettings


class ContextOperators(ContextOps[Out, Ctx, Mat]):
    """The operators of SourceWithContext and FlowWithContext."""

    __slots__ = ()

    # ── one element, one result ───────────────────────────────────────────────────────────────────────────────────

    def map(self, fn: Callable[[Out], U]) -> ContextOps[U, Ctx, Mat]:
        """Apply `fn` to each element; its context stays with the result. As `Source.map` otherwise.

        Example:
            a -1--------2|
            a.with_context(lambda x: f'at {x}').map(lambda x: x * 10).as_source()
        """
        from streamactors.stages.transform.mapping import Map

        return self._via(Map(_on_element(plain_function("map", fn, "map_async"))))

    def map_async(
        self,
        parallelism: int,
        fn: Callable[[Out], Awaitable[U]] | Callable[[Out], U],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
        timeout: Duration | None = None,
    ) -> ContextOps[U, Ctx, Mat]:
        """Call `fn` with up to `parallelism` elements at a time; results come in order, with their contexts. As `Source.map_async`.

        Example:
            a -4-1|
            a.with_context(str).map_async(2, wait).as_source()
        """
        from streamactors.stages.asynchronous.map_async import MapAsync

        return self._via(
            MapAsync(parallelism, _async_on_element(function("map_async", fn)), loop, retry, breaker, timeout)
        )

    def map_async_partitioned(
        self,
        parallelism: int,
        key: Callable[[Out], K],
        fn: Callable[[Out], Awaitable[U]] | Callable[[Out], U],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
        timeout: Duration | None = None,
    ) -> ContextOps[U, Ctx, Mat]:
        """As `map_async`, with at most `per_partition` calls per key at a time. As `Source.map_async_partitioned`.

        Example:
            a -3-1-2|
            a.with_context(str).map_async_partitioned(3, lambda x: x % 2, wait).as_source()
        """
        from streamactors.stages.asynchronous.partitioned import MapAsyncPartitioned

        key_of = _first_of(plain_function("map_async_partitioned: key", key))
        calls = _async_on_element(function("map_async_partitioned", fn))
        return self._via(MapAsyncPartitioned(parallelism, key_of, calls, per_partition, loop, retry, breaker, timeout))

    def map_async_unordered(
        self,
        parallelism: int,
        fn: Callable[[Out], Awaitable[U]] | Callable[[Out], U],
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
        timeout: Duration | None = None,
    ) -> ContextOps[U, Ctx, Mat]:
        """As `map_async`; each result leaves as soon as its call has ended. As `Source.map_async_unordered`.

        Example:
            a -4-1|
            a.with_context(str).map_async_unordered(2, wait).as_source()
        """
        from streamactors.stages.asynchronous.map_async import MapAsyncUnordered

        calls = _async_on_element(function("map_async_unordered", fn))
        return self._via(MapAsyncUnordered(parallelism, calls, loop, retry, breaker, timeout))

    def map_async_partitioned_unordered(
        self,
        parallelism: int,
        key: Callable[[Out], K],
        fn: Callable[[Out], Awaitable[U]] | Callable[[Out], U],
        per_partition: int = 1,
        *,
        loop: AbstractEventLoop | None = None,
        retry: RestartSettings | None = None,
        breaker: CircuitBreaker | None = None,
        timeout: Duration | None = None,
    ) -> ContextOps[U, Ctx, Mat]:
        """As `map_async_partitioned`; each result leaves as soon as its call has ended.

        Example:
            a -3-1-2|
            a.with_context(str).map_async_partitioned_unordered(3, lambda x: x % 2, wait).as_source()
        """
        from streamactors.stages.asynchronous.partitioned import MapAsyncPartitionedUnordered

        key_of = _first_of(plain_function("map_async_partitioned_unordered: key", key))
        calls = _async_on_element(function("map_async_partitioned_unordered", fn))
        return self._via(
            MapAsyncPartitionedUnordered(parallelism, key_of, calls, per_partition, loop, retry, breaker, timeout)
        )

    def ask(self, actor: ActorAddress, timeout: Duration = "5s", parallelism: int = 2) -> ContextOps[Any, Ctx, Mat]:
        """Send each element, without its context, to an actor, and emit the answers with the contexts; `timeout` in
        seconds, or as a timedelta or a string. As `Source.ask`.

        Example:
            a -1--------2|
            a.with_context(str).ask(tens).as_source()
        """
        from streamactors.stages.asynchronous.asking import Ask

        return self._via(Ask(actor, timeout, parallelism, pairs=True))

    def ask_with_status(
        self, actor: ActorAddress, timeout: Duration = "5s", parallelism: int = 2
    ) -> ContextOps[Any, Ctx, Mat]:
        """As `ask`, for an actor that answers with StatusReply; `timeout` in seconds, or as a timedelta or a string.
        As `Source.ask_with_status`.

        Example:
            a -1--------0|
            a.with_context(str).ask_with_status(checked).as_source()
        """
        from streamactors.stages.asynchronous.asking import AskWithStatus

        return self._via(AskWithStatus(actor, timeout, parallelism, pairs=True))

    def map_context(self, fn: Callable[[Ctx], V]) -> ContextOps[Out, V, Mat]:
        """Apply `fn` to each context; the element stays.

        Example:
            a -1---------2|
            a.with_context(str).map_context(lambda at: f'at {at}').as_source()
        """
        from streamactors.stages.transform.mapping import Map

        checked = plain_function("map_context", fn)
        return self._via(Map(lambda pair: (pair[0], checked(pair[1]))))

    # ── fewer, or more ────────────────────────────────────────────────────────────────────────────────────────────

    def filter(self, predicate: Callable[[Out], Any] | None) -> ContextOps[Out, Ctx, Mat]:
        """Pass the elements for which `predicate` is true, with their contexts; with None, those that are true themselves.

        Example:
            a -1-----2|
            a.with_context(str).filter(lambda x: x > 1).as_source()
        """
        from streamactors.stages.transform.mapping import Filter

        return self._via(Filter(_first_of(predicate if predicate is None else plain_function("filter", predicate))))

    def filter_not(self, predicate: Callable[[Out], Any] | None) -> ContextOps[Out, Ctx, Mat]:
        """Pass the elements for which `predicate` is false, with their contexts; with None, those that are false themselves.

        Example:
            a -1-----2|
            a.with_context(str).filter_not(lambda x: x > 1).as_source()
        """
        from streamactors.stages.transform.mapping import FilterNot

        return self._via(
            FilterNot(_first_of(predicate if predicate is None else plain_function("filter_not", predicate)))
        )

    def collect(
        self, fn: Callable[[Out], U | None], when: type | tuple[type, ...] | Callable[[Out], Any] | None = None
    ) -> ContextOps[U, Ctx, Mat]:
        """Apply a partial function: where it returns None the element is left out, with its context. `when` as in `Source.collect`.

        Example:
            a -1-2|
            a.with_context(str).collect(lambda x: x * 10 if x > 1 else None).as_source()
        """
        from streamactors.stages.transform.mapping import Filter, Map

        checked = plain_function("collect", fn)
        if when is not None:
            chosen = (lambda element: isinstance(element, when)) if isinstance(when, (type, tuple)) else when
            kept = self._via(Filter(_first_of(plain_function("collect: when", chosen))))
            return kept._via(Map(_on_element(checked)))
        return self._via(Map(_on_element(checked)))._via(Filter(lambda pair: pair[0] is not None))

    def throttle(
        self,
        n: int,
        per: Duration = "1s",
        burst: int | None = None,
        cost: Callable[[Out], float] | None = None,
        mode: str = "shaping",
    ) -> ContextOps[Out, Ctx, Mat]:
        """Pass `n` elements, or elements of a cost of `n`, per `per` (seconds, a timedelta or a string). As `Source.throttle`.

        Example:
            a 12|
            a.with_context(str).throttle(1, '20ms', burst=1).as_source()
        """
        from streamactors.stages.rate.throttle import Throttle

        of_element = None if cost is None else _first_of(plain_function("throttle: cost", cost))
        return self._via(Throttle(n, per, burst, of_element, mode))

    def log(
        self,
        name: str,
        extract: Callable[[Out], Any] | None = None,
        level: int = DEBUG,
        logger: Logger | None = None,
    ) -> ContextOps[Out, Ctx, Mat]:
        """Log elements, without their contexts, and the end. As `Source.log`.

        Example:
            a -1--2|
            a.with_context(str).log('numbers').as_source()
        """
        from streamactors.stages.watching.observing import Log

        text = None if extract is None else plain_function("log", extract)
        return self._via(Log(name, _first_of(text), level, logger))

    def map_concat(self, fn: Callable[[Out], Iterable[U]]) -> ContextOps[U, Ctx, Mat]:
        """Emit each element of the iterables that `fn` returns; all of one iterable have the context of its element.

        Example:
            a -1--2|
            a.with_context(str).map_concat(lambda x: range(x)).as_source()
        """
        from streamactors.stages.transform.expanding import MapConcat

        checked = plain_function("map_concat", fn)
        return self._via(MapConcat(lambda pair: ((element, pair[1]) for element in checked(pair[0]))))

    def grouped(self, n: int) -> ContextOps[list[Out], list[Ctx], Mat]:
        """Emit lists of n elements, with the list of their contexts. As `Source.grouped`.

        Example:
            a -1-2|
            a.with_context(str).grouped(2).as_source()
        """
        from streamactors.stages.fold.grouping import Grouped
        from streamactors.stages.transform.mapping import Map

        return self._via(Grouped(n))._via(Map(_unzipped))

    def sliding(self, n: int, step: int = 1) -> ContextOps[list[Out], list[Ctx], Mat]:
        """Emit windows of n elements, each `step` further, with the list of their contexts. As `Source.sliding`.

        Example:
            a -1-2-3|
            a.with_context(str).sliding(2).as_source()
        """
        from streamactors.stages.fold.grouping import Sliding
        from streamactors.stages.transform.mapping import Map

        return self._via(Sliding(n, step))._via(Map(_unzipped))

    # ── errors and other parts ────────────────────────────────────────────────────────────────────────────────────

    def map_error(self, fn: Callable[[BaseException], BaseException]) -> ContextOps[Out, Ctx, Mat]:
        """Replace the error of a failing stream. As `Source.map_error`.

        Example:
            a -1-#
            a.with_context(str).map_error(lambda error: ValueError('other')).as_source()
        """
        from streamactors.stages.errors.recovering import MapError

        return self._via(MapError(fn))

    def also_to(self, *sinks: Sink[tuple[Out, Ctx], Any]) -> ContextOps[Out, Ctx, Mat]:
        """Send every pair (element, context) to all `sinks` as well. As `Source.also_to`.

        Example:
            a -1--2|
            a.with_context(str).also_to(Sink.foreach(seen.append)).as_source()
        """
        from streamactors.stages.junctions.sides_first import AlsoTo

        return self._fan_out(AlsoTo(len(sinks)), *(module_of("also_to", sink, (1, 0)) for sink in sinks))

    def also_to_context(self, sink: Sink[Ctx, Any]) -> ContextOps[Out, Ctx, Mat]:
        """Send every context, without its element, to `sink` as well. As `Source.also_to`.

        Example:
            a -1--2|
            a.with_context(str).also_to_context(Sink.foreach(seen.append)).as_source()
        """
        from streamactors.stages.junctions.sides_first import AlsoTo

        return self._fan_out(AlsoTo(1), _second_into("also_to_context", sink))

    def wire_tap(self, sink: Sink[tuple[Out, Ctx], Any]) -> ContextOps[Out, Ctx, Mat]:
        """Send pairs (element, context) to `sink` as far as it has demand; it never slows the stream. As `Source.wire_tap`.

        Example:
            a -1--2|
            a.with_context(str).wire_tap(Sink.foreach(seen.append)).as_source()
        """
        from streamactors.stages.junctions.fan_out import WireTap

        return self._fan_out(WireTap(), module_of("wire_tap", sink, (1, 0)))

    def wire_tap_context(self, sink: Sink[Ctx, Any]) -> ContextOps[Out, Ctx, Mat]:
        """Send contexts, without their elements, to `sink` as far as it has demand. As `Source.wire_tap`.

        Example:
            a -1--2|
            a.with_context(str).wire_tap_context(Sink.foreach(seen.append)).as_source()
        """
        from streamactors.stages.junctions.fan_out import WireTap

        return self._fan_out(WireTap(), _second_into("wire_tap_context", sink))

    def divert_to(self, sink: Sink[tuple[Out, Ctx], Any], when: Callable[[Out], Any]) -> ContextOps[Out, Ctx, Mat]:
        """Send the pairs for whose element `when` is true to `sink` instead of downstream. As `Source.divert_to`.

        Example:
            a -1--2|
            a.with_context(str).divert_to(Sink.foreach(seen.append), when=lambda x: x > 1).as_source()
        """
        from streamactors.stages.junctions.sides_first import DivertTo

        chosen = _first_of(plain_function("divert_to", when))
        return self._fan_out(DivertTo(chosen), module_of("divert_to", sink, (1, 0)))

    def unsafe_data_via(self, flow: Flow[Out, U, Any]) -> ContextOps[U, Ctx, Mat]:
        """Run the elements, without their contexts, through a plain flow.

        The flow must emit exactly one result for each element, in order: results are joined with the contexts by counting. A flow that
        drops, adds or reorders elements gives them wrong contexts.

        Example:
            a -1--2|
            a.with_context(str).unsafe_data_via(Flow.map(lambda x: x * 10)).as_source()
        """
        return self._with(joined(self.module, _beside_contexts("unsafe_data_via", flow)))

    def unsafe_optional_data_via(self, flow: Flow[Any, U, Any]) -> ContextOps[U | None, Ctx, Mat]:
        """As `unsafe_data_via`; elements that are None pass beside the flow, with their contexts. The order between the two ways is not
        kept.

        Example:
            a -1--2|
            numbers = a.map(lambda x: (x if x > 1 else None, str(x))).via(FlowWithContext.identity().as_flow())
            numbers.with_context(lambda pair: pair[1]).map(lambda pair: pair[0]).unsafe_optional_data_via(Flow.map(lambda x: x * 10)).as_source()
        """
        from streamactors.stages.junctions.fan_in import Merge
        from streamactors.stages.junctions.fan_out import Partition

        ways = Wired(
            (
                StageModule(Partition(2, lambda pair: 0 if pair[0] is None else 1)),
                _beside_contexts("unsafe_optional_data_via", flow),
                StageModule(Merge(2)),
            ),
            (((0, 0), (2, 0)), ((0, 1), (1, 0)), ((1, 0), (2, 1))),
            ((0, 0),),
            ((2, 0),),
            lambda _: NOT_USED,
        )
        return self._with(joined(self.module, ways))

    def via_mat(
        self, flow: FlowWithContext[Out, Ctx, U, V, M2], combine: Callable[[Mat, M2], M3]
    ) -> ContextOps[U, V, M3]:
        """As `via`; the materialized value is `combine(this part's, the flow's)`.

        Example:
            a -1--2|
            watched = FlowWithContext.from_pairs(Flow.identity().watch_termination())
            a.with_context(str).via_mat(watched, Keep.right).to(Sink.foreach(seen.append)).run()
        """
        module = module_of("via_mat", flow, (1, 1))
        return self._with(joined(self.module, module, checked_combine("via_mat", combine)))

    def map_materialized_value(self, fn: Callable[[Mat], M2]) -> ContextOps[Out, Ctx, M2]:
        """Return this part with `fn(materialized value)` as its materialized value.

        Example:
            a -1--2|
            a.with_context(str).map_materialized_value(lambda value: seen.append('run')).as_source()
        """
        return self._with(MatMapped(self.module, plain_function("map_materialized_value", fn)))

    def via(self, flow: FlowWithContext[Out, Ctx, U, V, Any]) -> ContextOps[U, V, Mat]:
        """Append a flow with context.

        Example:
            a -1--2|
            a.with_context(str).via(FlowWithContext.identity().map(lambda x: x * 10)).as_source()
        """
        return self._with(joined(self.module, module_of("via", flow, (1, 1))))

    def async_boundary(self, buffer: int | None = None, *, process: bool = False) -> ContextOps[Out, Ctx, Mat]:
        """Run the following stages in another actor. As `Source.async_boundary`.

        Example:
            a -1--2|
            a.with_context(str).async_boundary().map(lambda x: x * 10).as_source()
        """
        if buffer is not None:
            positive("async_boundary", "buffer", buffer)
        return self._via(AsyncBoundary(buffer, process))


def _beside_contexts(operator: str, flow: Any) -> Module:
    """Return a flow of pairs that runs the elements through `flow` and the contexts beside it."""
    from streamactors.stages.junctions.zipping import Unzip, ZipN

    return Wired(
        (StageModule(Unzip()), module_of(operator, flow, (1, 1)), StageModule(ZipN(2))),
        (((0, 0), (1, 0)), ((0, 1), (2, 1)), ((1, 0), (2, 0))),
        ((0, 0),),
        ((2, 0),),
        lambda _: NOT_USED,
    )


def _second_into(operator: str, sink: Any) -> Module:
    from streamactors.stages.transform.mapping import Map

    return joined(StageModule(Map(lambda pair: pair[1])), module_of(operator, sink, (1, 0)))


def _unzipped(pairs: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [element for element, _ in pairs], [context for _, context in pairs]


def _on_element(fn: Callable[[Any], Any]) -> Callable[[tuple[Any, Any]], tuple[Any, Any]]:
    """Return the function that applies `fn` to the element and keeps the context."""
    return lambda pair: (fn(pair[0]), pair[1])


def _first_of(fn: Callable[[Any], Any] | None) -> Callable[[tuple[Any, Any]], Any]:
    """Return the function that applies `fn` to the element alone; without one, that returns the element."""
    if fn is None:
        return lambda pair: pair[0]
    return lambda pair: fn(pair[0])


def _async_on_element(fn: Callable[[Any], Any]) -> Callable[[tuple[Any, Any]], Any]:
    """As `_on_element`, for coroutine functions, and for plain functions that may return an awaitable."""
    if is_coroutine_function(fn):

        async def awaited(pair: tuple[Any, Any]) -> tuple[Any, Any]:
            return await fn(pair[0]), pair[1]

        return awaited

    def called(pair: tuple[Any, Any]) -> Any:
        value = fn(pair[0])
        return _beside(value, pair[1]) if can_be_awaited(value) else (value, pair[1])

    return called


async def _beside(awaitable: Any, context: Any) -> tuple[Any, Any]:
    if isinstance(awaitable, concurrent.futures.Future):
        awaitable = asyncio.wrap_future(awaitable)
    return await awaitable, context
