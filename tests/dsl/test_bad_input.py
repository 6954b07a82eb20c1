"""Mistakes are errors at the line that makes them, and say what was expected."""

from __future__ import annotations

import pytest

from streamactors import Broadcast, ChunkLogic, Flow, Keep, Merge, Sink, Source, Stage
from streamactors.errors import BuildError


async def coroutine_function(x):
    return x


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda: Source.range(3).via(Sink.ignore()), "via expects a Flow, got a Sink: ignore"),
        (lambda: Source.range(3).via(Source.range(3)), "via expects a Flow, got a Source: range"),
        (lambda: Source.range(3).to(Flow.map(str)), "to expects a Sink, got a Flow: map"),
        (lambda: Source.range(3).run_with(Flow), "run_with expects a Sink, got type .*; a class was given: use a constructor"),
        (lambda: Source.range(3).run_with(print), "run_with expects a Sink, got builtin_function_or_method"),
        (lambda: Source.range(3).to_mat(Sink.ignore(), 5), "to_mat expects a function of two materialized values, got 5"),
        (lambda: Flow.map(str).to_mat(Source.empty(), Keep.left), "to_mat expects a Sink, got a Source"),
        (lambda: Source.range(3).map(5), "map expects a function, got int 5"),
        (lambda: Source.range(3).map(coroutine_function), "map expects a plain function.*coroutine_function; use map_async"),
        (lambda: Source.range(3).named(""), "named expects a string that is not empty"),
        (lambda: Source.range(3).take(-1), "take: n must be at least 0, got -1"),
        (lambda: Source.range(3).drop(-1), "drop: n must be at least 0, got -1"),
        (lambda: Source.range(3).max_chunk(0), "max_chunk must be at least 1, got 0"),
        (lambda: Source.range(3).with_attributes(buffer=True), "buffer must be an integer, got bool True"),
        (lambda: Source.range(3).with_attributes(decider=3), "decider must be a function"),
        (lambda: Source.range(3).async_boundary(0), "buffer must be at least 1, got 0"),
        (lambda: Source.range(1.5), r"range\(1.5, None, 1\)"),
        (lambda: Source.range(0, 3, 0), "must not be zero"),
        (lambda: Source.from_iterable(5), "from_iterable expects an iterable, got int"),
        (lambda: Source.from_iterable(lambda: [1]), "got function; call it"),
        (lambda: Source.from_async_iterable([1]), "from_async_iterable expects an async iterable, got list"),
        (lambda: Source.failed("boom"), "failed expects an exception, got str 'boom'"),
        (lambda: Source.cycle(iter([1])), "cycle expects an iterable that can be iterated again"),
        (lambda: Source.cycle(3), "cycle expects an iterable, got int 3"),
        (lambda: Source.tick("soon", "1ms", 0), "tick: initial_delay: not a duration"),
        (lambda: Source.tick(0, 0, 0), "tick: interval must be more than 0, got 0"),
        (lambda: Source.tick(0, -5, 0), "tick: interval must be more than 0, got -5"),
        (lambda: Source.unfold(0, None), "unfold expects a function, got NoneType"),
        (lambda: Source.unfold(0, coroutine_function), "use unfold_async"),
        (lambda: Source.unfold_resource(open, 3, print), "unfold_resource: read expects a function"),
        (lambda: Source.future(3), "future expects a future or another awaitable, got int 3"),
        (lambda: Source.future_source([1]), "future_source expects a future"),
        (lambda: Source.lazy_source(Source.empty()), "lazy_source expects a function"),
        (lambda: Source.queue(0), "queue: size must be at least 1, got 0"),
        (lambda: Source.queue_with_backpressure(1, 0), "max_concurrent_offers must be at least 1"),
        (lambda: Source.queue(3, "explode"), "queue: overflow must be one of backpressure.*got 'explode'"),
        (lambda: Source.actor_ref(3, "explode"), "overflow must be one of drop_head.*got 'explode'"),
        (lambda: Source.from_lines(3), "from_lines expects a path, got int 3"),
        (lambda: Source.from_lines("x", "klingon"), "from_lines: unknown encoding: klingon"),
        (lambda: Source.from_stage(Broadcast(2)), "Source.from_stage expects a Source, got a part with 1 inlets and 2 outlets"),
        (lambda: Source.combine([]), "at least one source"),
        (lambda: Source.combine([Source.empty()] * 2, Broadcast), "must give a junction of 2 inlets and 1 outlet"),
        (lambda: Sink.combine([Sink.ignore()], lambda n: Merge(2)), "junction of 1 inlet"),
        (lambda: Sink.foreach(coroutine_function), "use foreach_async for coroutine functions"),
        (lambda: Sink.fold(0, 0), "fold expects a function, got int 0"),
        (lambda: Sink.to_queue(0), "buffer must be at least 1"),
        (lambda: Sink.actor_ref_with_backpressure("me"), "expects the ActorRef of an actor, got str 'me'"),
        (lambda: Source.range(3) >> 5, ">> expects a Flow, a Sink or a port of the graph, got int 5"),
        (lambda: Source.range(5).with_replay(-1), "start must be at least 0, got -1"),
        (lambda: Source.range(5).with_replay(marks_at=5), "marks_at must be positions, got 5"),
        (lambda: Source.from_iterable(iter([1])).with_replay(), "with_replay needs one source that can be read again.*none here"),
        (lambda: Source.combine([Source.range(1), Source.range(2)]).with_replay(), "found range and range"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_at_its_line(operation, message):
    with pytest.raises(BuildError, match=message):
        operation()


SOURCES_THAT_FAIL = pytest.mark.parametrize(
    "source",
    [
        Source.range(3).map(lambda n: 1 // n),
        Source.range(3).scan(0, lambda _, n: 1 // n),
        Source.range(3).map_async(2, lambda n: 1 // n),
        Source.range(3).zip_with(Source.range(3), lambda n, _: 1 // n),
        Source.range(3).flat_map_concat(lambda n: Source.single(1 // n)),
    ],
)


@SOURCES_THAT_FAIL
def test_a_decider_that_raises_is_named_with_what_it_was_asked_about(source):
    # the error was the KeyError alone: it named neither the decider nor the error of the element
    def decide(error):
        raise KeyError(type(error).__name__)

    error = source.with_attributes(decider=decide).run_with(Sink.to_list()).exception(30)
    assert isinstance(error, KeyError)
    (told,) = [note for note in error.__notes__ if "decider" in note]
    assert told.startswith("raised by the decider, which was asked about ZeroDivisionError: integer division")


@SOURCES_THAT_FAIL
@pytest.mark.parametrize("answer", [None, "resume"])
def test_a_decider_that_does_not_answer_drops_nothing(source, answer):
    result = source.with_attributes(decider=lambda error: answer).run_with(Sink.to_list())
    with pytest.raises(TypeError, match=f"the decider returned {answer!r} for ZeroDivisionError; give Directive.STOP"):
        result.result(30)


class OfOneFunction(Stage):
    """A stage whose logic is what a user has written by mistake, or meant."""

    def __init__(self, make):
        self._make = make

    def logic(self):
        return self._make()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: ChunkLogic(lambda chunk: None),
            TypeError,
            r"of_one_function: on_chunk must return a list of results, \[\] for none, got NoneType None",
        ),
        (
            lambda: ChunkLogic(lambda chunk: (x for x in chunk)),
            TypeError,
            "on_chunk must return a list of results.*got generator",
        ),
        (
            lambda: ChunkLogic(list, on_end=lambda: None),
            TypeError,
            "on_end must return a list of results.*got NoneType None",
        ),
        (
            lambda: lambda chunk: chunk,
            BuildError,
            r"OfOneFunction.logic\(\) must return a GraphStageLogic or a ChunkLogic, got function .*; ChunkLogic\(function\)",
        ),
        (lambda: None, BuildError, r"OfOneFunction.logic\(\) must return .*, got NoneType None\n"),
    ],
)
def test_a_stage_of_ones_own_must_return_results_and_a_logic(make, error, message):
    with pytest.raises(error, match=message):
        Source.range(3).via(OfOneFunction(make)).run_with(Sink.to_list()).result(timeout=20)


def test_a_stage_may_have_no_results_for_a_chunk():
    none = OfOneFunction(lambda: ChunkLogic(lambda chunk: [], on_end=lambda: ("end",)))
    assert Source.range(3).via(none).run_with(Sink.to_list()).result(timeout=20) == ["end"]
