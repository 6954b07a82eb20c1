"""map_parallel: one function in several worker processes."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import Sink, Source
from streamactors.actors.system import ActorSystem
from streamactors.codec import CodecError
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.marks.replay import Replay
from streamactors.engine.materializing.materializer import materialize
from streamactors.engine.supervision import resuming
from streamactors.errors import BuildError, WorkerDied
from streamactors.stages.asynchronous.map_parallel import MapParallel
from streamactors.stages.sources.iterables import Range
from tests.engine.graphs import Collect, chain


@pytest.fixture(scope="module")
def system():
    with ActorSystem("parallel") as system:
        yield system


def square(x):
    return x * x


def test_the_results_come_in_the_elements_order_from_several_processes(system):
    result = Source.range(0, 5_000).map_parallel(lambda x: (x * x, os.getpid()), processes=2)
    pairs = result.run_with(Sink.to_list(), system).result(60)
    assert [x for x, _ in pairs] == [x * x for x in range(5_000)]
    assert len({pid for _, pid in pairs} - {os.getpid()}) == 2


def test_without_order_every_result_comes_once(system):
    result = Source.range(0, 5_000).map_parallel(square, processes=2, ordered=False)
    assert sorted(result.run_with(Sink.to_list(), system).result(60)) == [x * x for x in range(5_000)]


def test_an_error_fails_the_stream_behind_the_results_before_it(system):
    seen = []
    source = Source.range(0, 1_000).map_parallel(lambda x: 1 / (x - 500), processes=2)
    with pytest.raises(ZeroDivisionError) as raised:
        source.run_with(Sink.foreach(seen.append), system).result(60)
    assert len(seen) == 500
    assert any("in stage map_parallel, element 500" in note for note in raised.value.__notes__)


@pytest.mark.expects_log("skipped: ")
def test_the_decider_drops_elements_in_the_worker(system):
    source = Source.range(0, 100).map_parallel(lambda x: x // (x % 10), processes=2).with_attributes(decider=resuming)
    assert source.run_with(Sink.to_list(), system).result(60) == [x // (x % 10) for x in range(100) if x % 10]


def test_a_process_that_dies_fails_a_stream_without_marks(system):
    source = Source.range(0, 100).map_parallel(lambda x: os.kill(os.getpid(), signal.SIGKILL), processes=2)
    with pytest.raises(WorkerDied, match=r"of stage 'map_parallel' was killed by signal 9 \(SIGKILL\)"):
        source.run_with(Sink.ignore(), system).result(60)


def test_with_marks_another_process_repeats_the_task(system, tmp_path):
    def dies_once(x):
        if x in (7, 300, 999):
            try:
                os.close(os.open(f"{tmp_path}/{x}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return x
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    for ordered in (True, False):
        done = []
        source = StageModule(Range(0, 1_000), Attributes(replay=Replay(on_done=done.append)))
        got = materialize(chain(source, MapParallel(dies_once, 2, ordered), Collect()), system).result(60)
        assert (got if ordered else sorted(got)) == list(range(1_000))
        assert done == sorted(done)
        assert done[-1] == 1_000
        for file in tmp_path.iterdir():
            file.unlink()


def test_elements_and_results_of_other_types_are_refused_by_name(system):
    seen = []
    elements = Source.from_iterable([1, 2, {3}]).map_parallel(square, processes=1)
    with pytest.raises(CodecError, match=r"elements of stage 'from_iterable' cannot enter.*builtins.set"):
        elements.run_with(Sink.foreach(seen.append), system).result(60)
    assert seen == [1, 4]
    results = Source.range(0, 10).map_parallel(lambda x: {x}, processes=1)
    with pytest.raises(CodecError, match=r"results of stage 'map_parallel' cannot leave.*builtins.set"):
        results.run_with(Sink.ignore(), system).result(60)


@pytest.mark.parametrize("take", [0, 1, 10])
def test_it_ends_when_downstream_has_enough(system, take):
    source = Source.iterate(0, lambda x: x + 1).map_parallel(square, processes=2).take(take)
    assert source.run_with(Sink.to_list(), system).result(60) == [x * x for x in range(take)]


def test_bad_arguments_are_refused():
    with pytest.raises(BuildError, match="processes must be at least 1"):
        Source.empty().map_parallel(square, processes=0)

    async def call(x):
        return x

    with pytest.raises(BuildError, match="use map_async for coroutine functions"):
        Source.empty().map_parallel(call)


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sizes=st.lists(st.integers(1, 400), max_size=6), ordered=st.booleans(), most=st.sampled_from([None, 1, 7]))
def test_chunks_never_change_the_results(system, sizes, ordered, most):
    source = Source.from_iterable(range(sum(sizes))).map_parallel(square, processes=2, ordered=ordered)
    if most is not None:
        source = source.max_chunk(most)
    got = source.run_with(Sink.to_list(), system).result(60)
    assert (got if ordered else sorted(got)) == [x * x for x in range(sum(sizes))]
