"""What each sink does with elements, when it is done, and when its marks are done."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import ActorSystem, Balance, Keep, Sink, Source
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.supervision import restarting, resuming
from streamactors.errors import AbruptTermination, NoSuchElement
from streamactors.testing import TestSource, assert_all_stages_stopped
from tests.actors.eventually import eventually

CHUNKS = st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=5), max_size=5)


@pytest.fixture(scope="module")
def system():
    with ActorSystem("sinks") as system:
        yield system


def flat(chunks):
    return [x for chunk in chunks for x in chunk]


def feed(system, sink, chunks, max_chunk=None):
    """Give `sink` exactly these chunks."""
    if max_chunk:
        sink = sink.max_chunk(max_chunk)
    source, value = TestSource.probe().to_mat(sink, Keep.both).run(system)
    for chunk in chunks:
        source.send_next(*chunk)
    source.send_complete()
    return value


MODELS = {
    "ignore": (Sink.ignore(), lambda xs: None),
    "to_list": (Sink.to_list(), list),
    "count": (Sink.count(), len),
    "fold": (Sink.fold(7, lambda total, x: total * 2 + x), lambda xs: _fold(7, xs)),
    "head_option": (Sink.head_option(), lambda xs: xs[0] if xs else None),
    "last_option": (Sink.last_option(), lambda xs: xs[-1] if xs else None),
    "foreach": (Sink.foreach(lambda x: x), lambda xs: None),
    "on_complete": (Sink.on_complete(lambda error: None), lambda xs: None),
}


def _fold(total, xs):
    for x in xs:
        total = total * 2 + x
    return total


@pytest.mark.parametrize("name", MODELS)
@given(chunks=CHUNKS, max_chunk=st.sampled_from([None, 1, 2]))
def test_any_chunking_gives_what_the_model_gives(system, name, chunks, max_chunk):
    sink, model = MODELS[name]
    if name == "head_option":
        assert Source.from_iterable(flat(chunks)).run_with(sink, system).result(30) == model(flat(chunks))
    else:
        assert feed(system, sink, chunks, max_chunk).result(30) == model(flat(chunks))


@given(chunks=CHUNKS.filter(bool), max_chunk=st.sampled_from([None, 1, 2]))
def test_reduce_last_and_head_of_something(system, chunks, max_chunk):
    xs = flat(chunks)
    assert feed(system, Sink.reduce(lambda a, b: a * 2 + b), chunks, max_chunk).result(30) == _fold(xs[0], xs[1:])
    assert feed(system, Sink.last(), chunks, max_chunk).result(30) == xs[-1]
    assert Source.from_iterable(xs).run_with(Sink.head(), system).result(30) == xs[0]


@pytest.mark.parametrize("sink", [Sink.head(), Sink.last(), Sink.reduce(max)], ids=["head", "last", "reduce"])
def test_of_an_empty_stream_there_is_no_such_element(system, sink):
    with pytest.raises(NoSuchElement, match="of an empty stream"):
        Source.empty().run_with(sink, system).result(30)


@pytest.mark.parametrize("name", MODELS)
def test_a_failed_stream_fails_the_future(system, name):
    if name == "head_option":
        return
    source, future = TestSource.probe().to_mat(MODELS[name][0], Keep.both).run(system)
    source.send_next(1)
    error = ValueError("upstream")
    source.send_error(error)
    assert future.exception(30) is error


def test_head_asks_for_one_and_cancels(system):
    source, future = TestSource.probe().to_mat(Sink.head(), Keep.both).run(system)
    assert source.expect_request() == 1
    source.send_next("x")
    assert future.result(30) == "x"
    assert isinstance(source.expect_cancellation_with_cause(), NonFailureCancellation)


def test_a_fold_into_a_list_starts_afresh_in_every_run(system):
    sink = Sink.fold([], lambda xs, x: xs.append(x) or xs)
    assert [Source.range(3).run_with(sink, system).result(30) for _ in range(2)] == [[0, 1, 2]] * 2
    held = threading.Lock()  # cannot be copied: the runs share it
    assert Source.range(3).run_with(Sink.fold(held, lambda lock, _: lock), system).result(30) is held


@pytest.mark.parametrize("error", [ValueError("bad"), StopIteration("bad")])
def test_a_function_that_raises_fails_the_stream_and_says_where(system, error):
    def explode(*arguments):
        if arguments[-1] == 3:
            raise error

    for sink in (Sink.foreach(explode), Sink.fold(0, explode), Sink.reduce(explode)):
        source, future = TestSource.probe().to_mat(sink, Keep.both).run(system)
        source.send_next(1, 2, 3, 4)
        assert future.exception(30) is error
        assert source.expect_cancellation_with_cause() is error
        assert "element 3" in error.__notes__[0]
        assert "test_sinks.py" in error.__notes__[0]


@pytest.mark.expects_log("skipped: ")
def test_supervision_of_foreach_fold_and_reduce(system):
    seen = []

    def see(x):
        if x == 2:
            raise ValueError
        seen.append(x)

    Source.range(5).run_with(Sink.foreach(see).with_attributes(decider=resuming), system).result(30)
    assert seen == [0, 1, 3, 4]

    def add(total, x):
        if x == 2:
            raise ValueError
        return total + x

    for decider, folded, reduced in ((resuming, 108, 8), (restarting, 107, 7)):
        fold, reduce = Sink.fold(100, add), Sink.reduce(add)
        assert Source.range(5).run_with(fold.with_attributes(decider=decider), system).result(30) == folded
        assert Source.range(5).run_with(reduce.with_attributes(decider=decider), system).result(30) == reduced


def test_a_slow_function_is_not_sent_more_than_it_can_do_soon(actor_system):
    release, sent = threading.Event(), []

    def source():
        for i in range(100_000):
            sent.append(i)
            yield i

    done = Source.from_iterable(source()).run_with(Sink.foreach(lambda _: release.wait(20)), actor_system)
    eventually(lambda: sent)
    assert len(sent) <= 32
    release.set()
    actor_system.shutdown()
    with pytest.raises(AbruptTermination):
        done.result(30)


def test_cancelled_never_and_on_complete(system):
    source, future = TestSource.probe().to_mat(Sink.cancelled(), Keep.both).run(system)
    source.expect_cancellation()
    assert future.result(30) is None
    source, future = TestSource.probe().to_mat(Sink.never(), Keep.both).run(system)
    source.expect_no_message("20ms").send_complete()
    assert future.result(30) is None
    told = []
    sink = Sink.on_complete(told.append)
    Source.range(3).run_with(sink, system).result(30)
    error = KeyError("k")
    assert Source.failed(error).run_with(sink, system).exception(30) is error
    assert told == [None, error]


def test_on_complete_may_fail_and_hears_of_the_end_of_the_system():
    told = []
    with ActorSystem() as system:
        done = Source.range(3).run_with(Sink.on_complete(lambda _: 1 // 0), system)
        with pytest.raises(ZeroDivisionError):
            done.result(30)
        Source.never().run_with(Sink.on_complete(told.append), system)
    eventually(lambda: told)
    assert isinstance(told[0], AbruptTermination)


def test_combine_feeds_several_sinks(system):
    first, second = [], []
    both = [Sink.foreach(first.append), Sink.foreach(second.append)]
    with assert_all_stages_stopped(system):
        Source.range(5).run_with(Sink.combine(both), system)
    assert first == second == [0, 1, 2, 3, 4]
    with assert_all_stages_stopped(system):
        Source.range(5, 10).run_with(Sink.combine(both, Balance), system)
    assert sorted(first[5:] + second[5:]) == [5, 6, 7, 8, 9]


# ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def replay(n, positions, **options):
    return Source.range(n).with_replay(on_done=positions.append, **options)


def test_K_10_foreach_is_done_with_what_its_function_returned_from(system):
    positions, begun, go_on = [], [], threading.Semaphore(0)

    def each(x):
        begun.append(x)
        assert all(position <= x for position in positions), "done before the function returned"
        go_on.acquire()

    done = replay(6, positions).max_chunk(2).run_with(Sink.foreach(each), system)
    for n in range(1, 7):
        eventually(lambda n=n: len(begun) == n)
        go_on.release()
    done.result(30)
    assert positions == sorted(positions)
    assert positions[-1] == 6


@pytest.mark.parametrize(
    "sink",
    [Sink.to_list(), Sink.count(), Sink.last(), Sink.fold(0, max), Sink.reduce(max), Sink.on_complete(lambda _: None)],
    ids=["to_list", "count", "last", "fold", "reduce", "on_complete"],
)
def test_K_10_what_is_known_only_at_the_end_is_done_at_the_end_and_not_when_it_fails(system, sink):
    positions = []
    source, future = (
        replay(10, positions).concat(TestSource.probe(), mat=Keep.right).to_mat(sink, Keep.both).run(system)
    )  # fmt: skip
    source.expect_request()
    assert positions == []
    source.send_complete()
    future.result(30)
    assert positions == [10]
    positions.clear()
    with pytest.raises(ZeroDivisionError):
        replay(10, positions).map(lambda x: x // (x - 9)).run_with(sink, system).result(30)
    assert positions == []


def test_K_10_ignore_is_done_as_elements_arrive_and_the_slowest_sink_counts(system):
    positions = []
    replay(5000, positions, marks_at=[17]).run_with(Sink.ignore(), system).result(30)
    assert positions == sorted(positions)
    assert positions[-1] == 5000
    assert 17 in positions


def test_K_10_a_sink_that_ended_well_counts_no_more(system):
    positions = []
    with assert_all_stages_stopped(system):
        replay(100, positions).run_with(Sink.combine([Sink.head(), Sink.ignore()]), system)
    assert positions[-1] == 100


def test_K_10_a_sink_that_failed_blocks_for_ever(system):
    positions = []

    def explode(x):
        if x == 50:
            raise ValueError("sink")

    done = replay(100, positions).max_chunk(10).run_with(Sink.foreach(explode), system)
    with pytest.raises(ValueError, match="sink"):
        done.result(30)
    assert positions == [] or max(positions) <= 50


def test_a_run_started_at_a_mark_gives_what_came_after_it(system):
    positions = []
    first = replay(1000, positions).map(str).run_with(Sink.to_list(), system).result(30)
    for start in (0, 1, 500, 999, 1000, 2000):
        rest = Source.range(1000).with_replay(start).map(str).run_with(Sink.to_list(), system).result(30)
        assert rest == first[start:]


# ── foreach_async ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_foreach_async_calls_plain_and_coroutine_functions_in_parallel(system):
    together, seen = threading.Barrier(4), []

    def plain(x):
        together.wait(10)  # passes only when four calls run at once
        seen.append(x)

    Source.range(8).run_with(Sink.foreach_async(4, plain), system).result(10)
    assert sorted(seen) == list(range(8))

    async def coroutine(x):
        seen.append(x)

    seen.clear()
    Source.range(100).run_with(Sink.foreach_async(3, coroutine), system).result(10)
    assert sorted(seen) == list(range(100))


def test_foreach_async_fails_and_cancels_with_a_call(system):
    def explode(x):
        if x == 2:
            raise ValueError("two")

    source, done = TestSource.probe().to_mat(Sink.foreach_async(2, explode), Keep.both).run(system)
    source.send_next(1, 2)
    with pytest.raises(ValueError, match="two"):
        done.result(30)
    source.expect_cancellation_with_cause(ValueError)


def test_K_10_foreach_async_is_done_when_the_calls_before_a_mark_have_ended(system):
    positions, go_on, begun = [], {x: threading.Event() for x in range(4)}, []

    def each(x):
        begun.append(x)
        go_on[x].wait(10)

    done = replay(4, positions, marks_at=range(5)).run_with(Sink.foreach_async(4, each), system)
    eventually(lambda: len(begun) == 4)
    go_on[1].set()
    go_on[2].set()
    assert positions == []
    go_on[0].set()
    eventually(lambda: positions and positions[-1] == 3)
    go_on[3].set()
    done.result(30)
    assert positions[-1] == 4
