"""A worker process that is killed in mid-stream: with marks another continues, and nothing is lost or passed twice."""

from __future__ import annotations

import ctypes
import os
import signal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.engine.attributes import NONE, Attributes
from streamactors.engine.blueprint.modules import AsyncBoundary, Attributed, Module, StageModule
from streamactors.engine.marks.replay import Replay
from streamactors.engine.materializing.materializer import materialize
from streamactors.errors import WorkerDied
from streamactors.stages.asynchronous.map_async import MapAsync, MapAsyncUnordered
from streamactors.stages.fold.grouping import Grouped
from streamactors.stages.sources.iterables import Range
from streamactors.stages.transform.expanding import MapConcat
from streamactors.stages.transform.mapping import Filter, Map
from tests.engine.graphs import Collect, chain

pytestmark = pytest.mark.expects_log("another continues after the last mark")


N = 3_000


def kill_once_at(elements, folder):
    """Return a function that kills its process the first time that it gets one of the elements."""

    def fn(x):
        if x in elements:
            try:
                os.close(os.open(f"{folder}/{x}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return x
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    return fn


def run(system, *stages, on_done=None, chunk=None, n=N) -> list[int]:
    replay = Attributes(replay=Replay(on_done=on_done)) if on_done is not None else NONE
    module: Module = chain(
        StageModule(Range(0, n), replay), AsyncBoundary(None, process=True), *stages, AsyncBoundary(), Collect()
    )
    if chunk is not None:
        module = Attributed(module, Attributes(max_chunk=chunk))
    return materialize(module, system).result(60)


@pytest.mark.parametrize(
    ("stages", "model"),
    [
        ([Map(lambda x: x)], lambda x: [x]),
        ([Filter(lambda x: x % 3 == 0)], lambda x: [x] if x % 3 == 0 else []),
        ([MapConcat(lambda x: [x] * (x % 4))], lambda x: [x] * (x % 4)),
        ([MapAsync(8, lambda x: x)], lambda x: [x]),
    ],
    ids=["map", "filter", "map_concat", "map_async"],
)
def test_another_process_continues_and_each_result_passes_once(system, tmp_path, stages, model):
    done = []
    killer = Map(kill_once_at({0, 700, 701, N - 1}, tmp_path))
    got = run(system, killer, *stages, on_done=done.append)
    assert len(list(tmp_path.iterdir())) == 4, "the process was killed four times"
    assert got == [y for x in range(N) for y in model(x)]
    assert done == sorted(done)
    assert done[-1] == N


def test_a_mark_that_is_done_covers_only_what_has_arrived(system, tmp_path):
    seen: list[int] = []
    wrong: list[int] = []

    def on_done(position):
        if len(seen) < position:
            wrong.append(position)

    graph = chain(
        StageModule(Range(0, N), Attributes(replay=Replay(on_done=on_done))),
        AsyncBoundary(None, process=True),
        Map(kill_once_at({100, 1_500}, tmp_path)),
        AsyncBoundary(),
        Collect(seen),
    )
    materialize(graph, system).result(60)
    assert not wrong
    assert seen == list(range(N))


def test_results_in_any_order_are_passed_again_rather_than_lost(system, tmp_path):
    killer = Map(kill_once_at({500, 1_700}, tmp_path))
    got = run(system, killer, MapAsyncUnordered(16, lambda x: x), on_done=lambda _: None)
    assert set(got) == set(range(N))


def test_a_stage_with_a_memory_is_not_started_again(system, tmp_path):
    killer = Map(kill_once_at({500}, tmp_path))
    with pytest.raises(WorkerDied, match="not started again, because stage 'grouped' remembers earlier elements"):
        run(system, killer, Grouped(10), on_done=lambda _: None)


@pytest.mark.expects_crash
def test_elements_that_always_kill_their_process_fail_the_stream(system, monkeypatch):
    monkeypatch.setattr("streamactors.engine.workers.remote_island._BACKOFF_MS", 1.0)
    poison = Map(lambda x: x if x != 1_000 else ctypes.string_at(0))
    with pytest.raises(WorkerDied, match=r"signal 11 \(SIGSEGV\); it died 6 times in a row at the same elements"):
        run(system, poison, on_done=lambda _: None, n=2_000)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    kills=st.sets(st.integers(0, 299), min_size=1, max_size=3),
    chunk=st.sampled_from([None, 1, 7]),
    repeat=st.integers(0, 3),
)
def test_kills_at_any_elements_under_any_chunking(system, tmp_path_factory, kills, chunk, repeat):
    check_kills(system, tmp_path_factory.mktemp("kills"), kills, chunk, repeat)


@pytest.mark.slow
@pytest.mark.timeout(1_200)  # it starts about 500 processes
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    kills=st.sets(st.integers(0, 299), min_size=1, max_size=4),
    chunk=st.sampled_from([None, 1, 2, 7, 50]),
    repeat=st.integers(0, 3),
)
def test_many_kills_at_any_elements_under_any_chunking(system, tmp_path_factory, kills, chunk, repeat):
    check_kills(system, tmp_path_factory.mktemp("kills"), kills, chunk, repeat)


def check_kills(system, folder, kills, chunk, repeat):
    done: list[int] = []
    stages = (MapConcat(lambda x: [x] * repeat), Map(kill_once_at(kills, folder)), Filter(lambda x: x % 5))
    got = run(system, *stages, on_done=done.append, chunk=chunk, n=300)
    assert got == [x for x in range(300) if x % 5 for _ in range(repeat)]
    assert done[-1] == 300
