"""A failed stream is never silent: its failure is read from a future, or it is logged once. Cancelling a future stops the stream."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import logging
import threading

import pytest

from streamactors import ActorSystem, BuildError, Flow, Keep, Sink, Source


@pytest.fixture
def system():
    with ActorSystem("failures") as system:
        yield system


@pytest.fixture
def errors(caplog):
    caplog.set_level(logging.ERROR, "streamactors")
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def boom(x):
    if x == 3:
        raise ValueError("no threes")
    return x


def ended(graph, system):
    """Run a graph and wait until every stage has stopped; return its materialized value."""
    over = threading.Event()
    value = graph.map_materialized_value(lambda value: value).run(system)
    from streamactors.engine.island.run import runs_of

    for run in list(runs_of(system)):
        run.when_ended(over.set)
        assert not run.islands or over.wait(10)
    return value


def test_a_run_without_a_materialized_future_logs_its_failure_at_once(system, errors):
    ended(Source.range(10).map(boom).to(Sink.foreach(lambda x: x)), system)
    (text,) = errors()
    assert "ValueError: no threes" in text
    assert "in stage map, element 3" in text
    assert "range+map -> foreach" in text


def test_a_failure_that_nobody_reads_is_logged_once_when_its_future_is_collected(system, errors):
    future = ended(Source.range(10).map(boom).to_mat(Sink.ignore(), Keep.right), system)
    concurrent.futures.wait([future], 10)
    assert errors() == []
    del future
    gc.collect()
    assert len(errors()) == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda future: future.exception(10),
        lambda future: future.add_done_callback(lambda _: None),
        lambda future: asyncio.run(awaited(future)),
    ],
)
def test_a_failure_that_was_read_is_not_logged(read, system, errors):
    read(ended(Source.range(10).map(boom).to_mat(Sink.ignore(), Keep.right), system))
    gc.collect()
    assert errors() == []


async def awaited(future):
    try:
        return await future
    except ValueError as error:
        return error


def test_reading_one_future_of_a_run_is_enough(system, errors):
    side = Flow.map(boom).to(Sink.ignore())
    future = ended(Source.range(10).also_to(side).to_mat(Sink.to_list(), Keep.right), system)
    with pytest.raises(ValueError, match="no threes"):
        future.result(10)
    del future
    gc.collect()
    assert errors() == []


def test_shutting_a_system_down_logs_no_failure(errors):
    with ActorSystem("ends") as system:
        Source.never().run_with(Sink.ignore(), system)
    gc.collect()
    assert errors() == []


def test_cancelling_the_future_stops_the_stream(system):
    stopped = threading.Event()
    future = (
        Source.repeat(1)
        .watch_termination(Keep.right)
        .map_materialized_value(lambda end: end.add_done_callback(lambda _: stopped.set()))
        .run_with(Sink.ignore(), system)
    )
    assert future.cancel()
    assert stopped.wait(10)
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(1)
    assert Source.single(1).run_with(Sink.head(), system).result(10) == 1


def test_the_future_of_a_stream_that_has_ended_cannot_be_cancelled(system):
    future = Source.range(3).run_with(Sink.to_list(), system)
    assert future.result(10) == [0, 1, 2]
    assert not future.cancel()


def test_cancelling_the_task_that_awaits_a_stream_stops_the_stream(system):
    stopped = threading.Event()

    async def main():
        end, future = Source.repeat(1).watch_termination(Keep.right).to_mat(Sink.ignore(), Keep.both).run(system)
        end.add_done_callback(lambda _: stopped.set())
        task = asyncio.create_task(awaited(future))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert stopped.wait(10)


def test_a_tick_without_delay_never_loses_its_first_tick(system):
    for _ in range(100):
        assert Source.tick("0s", "1h", "tick").run_with(Sink.head(), system).result(10) == "tick"


# ── mistakes that would be silent ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, "streamactors")
    return lambda: [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_the_second_run_of_a_generator_is_warned(system, warnings):
    source = Source.from_iterable(x for x in range(3))
    assert source.run_with(Sink.to_list(), system).result(10) == [0, 1, 2]
    assert warnings() == []
    assert source.run_with(Sink.to_list(), system).result(10) == []
    (text,) = warnings()
    assert "an earlier run has read this generator" in text


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_coroutine_objects_that_flow_on_are_warned_once(detached, system, warnings):
    async def store(x):
        return x

    source = Source.range(10).max_chunk(2)
    coroutines = (source.detach() if detached else source).map(lambda x: store(x))
    for coroutine in coroutines.run_with(Sink.to_list(), system).result(10):
        coroutine.close()
    (text,) = warnings()
    assert "map emits coroutine objects" in text
    assert "use map_async" in text


def test_a_coroutine_that_blocks_the_loop_is_warned_once(system, warnings):
    async def blocks(x):
        threading.Event().wait(0.6)  # as time.sleep in a coroutine does
        return x

    assert Source.range(2).map_async(1, blocks).run_with(Sink.to_list(), system).result(10) == [0, 1]
    assert Source.range(2).map_async(1, awaited_itself).run_with(Sink.to_list(), system).result(10) == [0, 1]
    (text,) = warnings()
    assert "a coroutine blocked the asyncio loop of the stream for 0." in text


async def awaited_itself(x):
    return x


class DataFrame:
    columns = ("a",)

    def __iter__(self):
        return iter(self.columns)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: Source([1, 2]), r"Source cannot be made of list \[1, 2\]; use Source.from_iterable"),
        (
            lambda: Sink(print),
            "Sink cannot be made of builtin_function_or_method .*; use a constructor such as Sink.foreach",
        ),
        (
            lambda: Source.range(3).to(Sink.ignore()).run().result(),
            r"'NotUsed' object has no attribute 'result': .* run_with",
        ),
        (lambda: Source.range(3).to(Sink.ignore()).result(), r"no attribute 'result': a graph has not run; .*run_with"),
        (lambda: Source.from_iterable(DataFrame()), "got a DataFrame, .*itertuples"),
    ],
)
def test_a_mistake_names_the_way_out(mistake, message):
    with pytest.raises((BuildError, AttributeError), match=message):
        mistake()
