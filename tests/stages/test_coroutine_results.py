"""A function that returns coroutine objects is refused with its first element: `lambda x: store(x)` with `async def store` does nothing."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import Flow, Sink, Source


async def asks(*_: Any) -> bool:
    return False


def returns_coroutine(*arguments: Any) -> Any:
    return asks(*arguments)


# A coroutine object is always true: filter passed every element, forall said True, take_while never ended.
@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("filter", "map_async"),
        ("filter_not", "map_async"),
        ("take_while", "map_async"),
        ("take_until", "map_async"),
        ("drop_while", "map_async"),
        ("drop_repeated", "map_async"),
        ("reduce", "map_async"),
    ],
)
def test_a_flow_refuses_coroutine_objects(name: str, way_out: str, detached: bool) -> None:
    source: Any = Source.range(0, 5).detach() if detached else Source.range(0, 5)
    with pytest.raises(TypeError, match=rf"{name}: the function returned a coroutine object \(asks\).*{way_out}"):
        getattr(source, name)(returns_coroutine).run_with(Sink.to_list()).result(10)


@pytest.mark.parametrize("name", ["scan", "fold"])
def test_a_flow_with_a_state_refuses_coroutine_objects(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}: the function returned a coroutine object.*use {name}_async"):
        getattr(Source.range(0, 5), name)(0, returns_coroutine).run_with(Sink.to_list()).result(10)


@pytest.mark.parametrize(
    ("name", "sink", "way_out"),
    [
        ("foreach", Sink.foreach(returns_coroutine), "use foreach_async"),
        ("fold", Sink.fold(0, returns_coroutine), "use fold_async"),
        ("reduce", Sink.reduce(returns_coroutine), "map_async"),
        ("exists", Sink.exists(returns_coroutine), "map_async"),
        ("for_all", Sink.for_all(returns_coroutine), "map_async"),
        ("none", Sink.none(returns_coroutine), "map_async"),
    ],
)
def test_a_sink_refuses_coroutine_objects(name: str, sink: Any, way_out: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}: the function returned a coroutine object.*{way_out}"):
        Source.range(0, 5).run_with(sink).result(10)


def test_distinct_refuses_coroutine_objects_as_keys() -> None:
    with pytest.raises(TypeError, match="distinct: the function returned a coroutine object"):
        Source.range(0, 5).distinct(10, key=returns_coroutine).run_with(Sink.to_list()).result(10)


def test_divert_to_refuses_coroutine_objects() -> None:
    with pytest.raises(TypeError, match="divert_to: the function returned a coroutine object"):
        Source.range(0, 5).divert_to(Sink.ignore(), returns_coroutine).run_with(Sink.to_list()).result(10)


def test_the_function_itself_is_called_when_the_first_elements_were_right() -> None:
    for stage in (Flow.filter(bool), Flow.take_while(bool)):
        graph = Source.range(1, 100).max_chunk(3).via(stage)
        for _ in range(2):
            assert graph.run_with(Sink.to_list()).result(10) == list(range(1, 100))
