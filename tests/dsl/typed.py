"""Not run: checked by mypy (test_typing.py)."""

from __future__ import annotations

from typing import Any, assert_type

from streamactors import (
    ActorSystem,
    Flow,
    FlowWithContext,
    Keep,
    NotUsed,
    RestartSettings,
    RestartSource,
    RunnableGraph,
    Sink,
    Source,
    SourceWithContext,
    StreamFuture,
)
from streamactors.stages.sources.tick import Cancellable


def length(text: str) -> int:
    return len(text)


numbers = Source.range(0, 10)
assert_type(numbers, Source[int, NotUsed])
assert_type(numbers.map(str), Source[str, NotUsed])
assert_type(numbers.map(lambda n: n + 0.5), Source[float, NotUsed])
assert_type(numbers.filter(lambda n: n > 3), Source[int, NotUsed])
assert_type(numbers.filter(None).map(str).filter_not(str.isdigit), Source[str, NotUsed])
assert_type(numbers.async_boundary(), Source[int, NotUsed])
assert_type(numbers.named("numbers").max_chunk(1), Source[int, NotUsed])

assert_type(Flow.map(length), Flow[str, int, NotUsed])
assert_type(Flow.map(length).map(str), Flow[str, str, NotUsed])
assert_type(Flow.of(int).map(lambda n: [n]), Flow[int, list[int], NotUsed])
assert_type(Flow.of(str).via(Flow.map(length)), Flow[str, int, NotUsed])
assert_type(numbers.map(str).via(Flow.map(length)), Source[int, NotUsed])
assert_type(numbers.via(Flow.map(lambda n: n * 2)), Source[int, NotUsed])

ticks = Source.tick("1s", "1s", "tick")
assert_type(ticks, Source[str, Cancellable])
assert_type(ticks.to(Sink.ignore()), RunnableGraph[Cancellable])
assert_type(ticks.to_mat(Sink.to_list(), Keep.both), RunnableGraph[tuple[Cancellable, StreamFuture[list[str]]]])
assert_type(ticks.to_mat(Sink.to_list(), Keep.right).run(), StreamFuture[list[str]])
assert_type(ticks.map_materialized_value(lambda handle: handle.is_cancelled), Source[str, bool])
assert_type(ticks.to_mat(Sink.ignore(), Keep.none).run(), NotUsed)

assert_type(numbers.run_with(Sink.fold("", lambda text, n: text + str(n))), StreamFuture[str])
assert_type(numbers.run_with(Sink.head()).result(), int)
assert_type(numbers.run_with(Sink.head_option()).result(), int | None)
assert_type(numbers.run_with(Sink.count(), ActorSystem()), StreamFuture[int])
assert_type(numbers.run(), StreamFuture[None])
assert_type(next(numbers.run_iter()), int)
assert_type(Flow.map(length).to(Sink.ignore()), Sink[str, NotUsed])
assert_type(Flow.map(length).to_mat(Sink.to_list(), Keep.right), Sink[str, StreamFuture[list[int]]])


async def awaited() -> None:
    assert_type(await numbers.run_with(Sink.to_list()), list[int])
    async for number in numbers.run_async_iter():
        assert_type(number, int)


def any_source(source: Source[object, Any]) -> None: ...


any_source(numbers)  # a source of ints is a source of objects


with_offsets = numbers.with_context(lambda n: str(n))
assert_type(with_offsets, SourceWithContext[int, str, NotUsed])
assert_type(with_offsets.map(float).filter(None), SourceWithContext[float, str, NotUsed])
assert_type(with_offsets.grouped(3), SourceWithContext[list[int], list[str], NotUsed])
assert_type(with_offsets.map_context(len).as_source(), Source[tuple[int, int], NotUsed])
assert_type(FlowWithContext.of(int, str).map(str), FlowWithContext[int, str, str, str, NotUsed])
assert_type(with_offsets.via(FlowWithContext.of(int, str).map(float)), SourceWithContext[float, str, NotUsed])
assert_type(ticks.pre_materialize(), tuple[Cancellable, Source[str, NotUsed]])
assert_type(RestartSource.with_backoff(RestartSettings("1s", "2s"), lambda: Source.single("x")), Source[str, NotUsed])
